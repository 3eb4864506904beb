/*-------------------------------------------------------------------------
 *
 * errors.h
 *	  Errors that more than one place raises, each defined once.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/errors.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_ERRORS_H
#define PEEKSTASH_ERRORS_H

#include "postgres.h"

#include "compat.h"

pg_noreturn extern void error_result_too_large(int64 max_bytes);
pg_noreturn extern void error_too_many_positions(int64 max_positions);
extern int64 error_last_limit(void);
pg_noreturn extern void error_row_too_large(int64 bytes);
pg_noreturn extern void error_row_type_mismatch(const char *detail);
pg_noreturn extern void error_no_such_arrangement(Oid relid);
pg_noreturn extern void error_answer_damaged(const char *handle,
											 const char *detail);
pg_noreturn extern void error_answer_rolled_back(void);
pg_noreturn extern void error_stash_disabled(int64 max_bytes);
pg_noreturn extern void error_stash_full(int64 limit, const char *knob);
pg_noreturn extern void error_stash_disk_full(int64 limit);
pg_noreturn extern void error_too_many_peeks(int limit);

#endif							/* PEEKSTASH_ERRORS_H */
