/*-------------------------------------------------------------------------
 *
 * statement.h
 *	  The argument query, parsed and planned.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/statement.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_STATEMENT_H
#define PEEKSTASH_STATEMENT_H

#include "peekstash.h"

#include "nodes/parsenodes.h"
#include "utils/array.h"
#include "walk/query.h"

/* A query, parsed: what it means, but not yet how it runs. */
typedef struct PeekStatement
{
	const char *text;			/* as the user wrote it */
	Query	   *query;			/* before views and policies are put in */
	int			num_params;
	Oid		   *param_types;
	RowDescription *description;	/* of its rows */
} PeekStatement;

extern PeekStatement *statement_parse(const char *text);
extern PeekQuery *statement_plan(const PeekStatement *statement,
								 ArrayType *args);

#endif							/* PEEKSTASH_STATEMENT_H */
