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
/* What an error of exceeding a limit of the peek's own has named. */
typedef enum PeekLimitKind
{
	PEEK_LIMIT_NONE,
	PEEK_LIMIT_POSITIONS,
	PEEK_LIMIT_BYTES
} PeekLimitKind;

typedef struct PeekLimit
{
	PeekLimitKind kind;
	int64		value;
} PeekLimit;

extern PeekLimit error_last_limit(void);
extern bool peek_limit_is_first(const PeekLimit *limit,
								const PeekLimit *other);

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
