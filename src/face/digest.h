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

#include "fmgr.h"
#include "utils/jsonb.h"
#include "walk/arrangement.h"

extern bytea *request_digest(FunctionCallInfo fcinfo,
							 const Arrangement *arrangement,
							 const PeekRequest *request);
extern Jsonb *request_to_json(FunctionCallInfo fcinfo,
							  const Arrangement *arrangement,
							  const PeekRequest *request);

#endif							/* PEEKSTASH_DIGEST_H */
