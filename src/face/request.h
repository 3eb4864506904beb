/*-------------------------------------------------------------------------
 *
 * request.h
 *	  The arguments of a peek, as a PeekRequest.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/request.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_REQUEST_H
#define PEEKSTASH_REQUEST_H

#include "peekstash.h"

#include "fmgr.h"
#include "utils/array.h"
#include "walk/arrangement.h"

/* The arguments that all peek functions share, counted from the first. */
typedef enum RequestArgument
{
	REQUEST_KEY,
	REQUEST_KEYS,
	REQUEST_LOWER,
	REQUEST_UPPER,
	REQUEST_BOUNDS,
	REQUEST_FILTER,
	REQUEST_ARGS,
	REQUEST_ORDER_BY,
	REQUEST_ROW_LIMIT,
	REQUEST_ROW_OFFSET,
	REQUEST_BACKWARD
} RequestArgument;

/* The common arguments begin at number 2 in every function that has them. */
#define REQUEST_ARG(name)	(2 + REQUEST_##name)

extern int64 count_argument(FunctionCallInfo fcinfo, int argno,
							int64 not_given, int sqlstate,
							const char *argname);
extern Arrangement *request_arrangement(FunctionCallInfo fcinfo, int argno,
										Oid rowtype);
extern PeekRequest *request_from_rowtype(FunctionCallInfo fcinfo,
										 const Arrangement *arrangement,
										 TupleDesc rowtype);
extern PeekRequest *request_from_columns(FunctionCallInfo fcinfo,
										 const Arrangement *arrangement,
										 ArrayType *columns);

#endif							/* PEEKSTASH_REQUEST_H */
