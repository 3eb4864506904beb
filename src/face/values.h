/*-------------------------------------------------------------------------
 *
 * values.h
 *	  Key values that callers give, as values that the index compares.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/values.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_VALUES_H
#define PEEKSTASH_VALUES_H

#include "peekstash.h"

#include "fmgr.h"
#include "nodes/execnodes.h"
#include "walk/arrangement.h"

/* The argument key, lower or upper, converted. */
typedef struct ArgumentRow
{
	bool		given;
	bool		has_null;		/* nothing can match */
	int			width;
	Oid		   *types;
	Datum	   *values;
} ArgumentRow;

extern void values_from_row(FunctionCallInfo fcinfo, int argno,
							const char *argname,
							const Arrangement *arrangement, int first_column,
							EState *estate, ArgumentRow *row);
extern bool values_from_rows(FunctionCallInfo fcinfo, int argno,
							 const Arrangement *arrangement,
							 EState *estate, PeekKeySet *keys);

#endif							/* PEEKSTASH_VALUES_H */
