/*-------------------------------------------------------------------------
 *
 * stash.h
 *	  The stash tables: writing and deleting.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/stash/stash.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_STASH_H
#define PEEKSTASH_STASH_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tupdesc.h"
#include "utils/uuid.h"

#include "compat.h"

/* The columns of peekstash.batch. */
#define BATCH_HANDLE		1
#define BATCH_WORKER		2
#define BATCH_FIRST_ROW		3
#define BATCH_NUM_ROWS		4
#define BATCH_ANSWER_BYTES	5
#define BATCH_PAYLOAD		6

/* A statement on the stash tables, prepared once in a session. */
#define STASH_MAX_ARGS	24

typedef struct StashStatement
{
	const char *text;
	int			num_args;
	Oid			types[STASH_MAX_ARGS];
	void	   *plan;			/* kept until the session ends */
	bool		latest;			/* runs under the latest snapshot everywhere */
} StashStatement;

/* Is given each row that a statement returns, while SPI is connected. */
typedef void (*StashRowCallback) (HeapTuple row, TupleDesc desc, void *arg);

extern Oid	stash_table(const char *name);
extern Oid	stash_batch_table(void);
extern int64 stash_execute(StashStatement *statement, Datum *values,
						   const char *nulls, int expected,
						   StashRowCallback callback, void *arg);
extern Oid	stash_owner(void);
extern bool stash_is_writable(void);
extern void stash_new_handle(pg_uuid_t *handle);
extern char *stash_handle_text(const pg_uuid_t *handle);
pg_noreturn extern void error_handle_taken(const pg_uuid_t *handle);
pg_noreturn extern void error_no_such_peek(const pg_uuid_t *handle);
extern void stash_write_batch(const pg_uuid_t *handle, int worker,
							  int64 first_row, int64 num_rows,
							  int64 answer_bytes, bytea *payload);
extern int64 stash_delete_batches(const pg_uuid_t *handle);

#endif							/* PEEKSTASH_STASH_H */
