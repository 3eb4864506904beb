/*-------------------------------------------------------------------------
 *
 * digest.h
 *	  What a request is: for comparing, and for people.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/digest.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_DIGEST_H
#define PEEKSTASH_DIGEST_H

#include "peekstash.h"

#include "face/statement.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/jsonb.h"
#include "walk/arrangement.h"

extern bytea *request_digest(FunctionCallInfo fcinfo,
							 const Arrangement *arrangement,
							 const PeekRequest *request);
extern Jsonb *request_to_json(FunctionCallInfo fcinfo,
							  const Arrangement *arrangement,
							  const PeekRequest *request);
extern bytea *query_digest(const PeekStatement *statement, ArrayType *args);
extern Jsonb *query_to_json(const PeekQuery *query, ArrayType *args);

#endif							/* PEEKSTASH_DIGEST_H */
