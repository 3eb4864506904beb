/*-------------------------------------------------------------------------
 *
 * handle.h
 *	  Handles and outcomes: the rows that say what an answer is.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/stash/handle.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_HANDLE_H
#define PEEKSTASH_HANDLE_H

#include "peekstash.h"

#include "stash/stash.h"
#include "utils/inet.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

/* What is known when a peek is submitted: the row of peekstash.handle. */
typedef struct HandleRow
{
	pg_uuid_t	handle;
	Oid			owner;			/* current role at submit */
	Oid			charged_to;		/* session user at submit */
	int			num_granted;
	Oid		   *granted;		/* roles that may read */
	const char *label;			/* or NULL */
	const char *source;			/* "index" or "query" */
	Oid			arrangement;	/* of an index, else InvalidOid */
	Jsonb	   *request;		/* for people */
	bytea	   *digest;			/* for comparing requests */
	RowDescription *description;	/* columns; not set by handle_load() */

	/* set by handle_load(): the stored columns */
	int			num_columns;
	char	  **names;
	Oid		   *types;
	int32	   *typmods;
	Oid		   *collations;
	uint64		fingerprint;
	int			pid;
	char	   *application_name;	/* or NULL */
	inet	   *client_addr;	/* or NULL */
	TimestampTz submitted_at;
	TimestampTz server_start;
	Oid			database;
	int32		catalog_version;
} HandleRow;

/* How it ended: the row of peekstash.outcome. */
typedef struct OutcomeRow
{
	pg_uuid_t	handle;
	pg_uuid_t	stash;			/* what batches and tail are known by */
	const char *state;			/* "done", "failed", "cancelled" */
	const char *kind;			/* "memory", "stashed", or NULL */
	int64		num_rows;
	int64		answer_bytes;
	int64		stored_bytes;	/* batches and tail */
	int64		num_batches;
	int64		positions;		/* -1 = not known */
	int			num_shares;		/* 0 is the submitter's, others of workers */
	int64	   *share_rows;		/* rows in the batches of each */
	int			num_workers;	/* 0 = walked by the submitter */
	const char *inline_reason;	/* why, if it should not, or NULL */
	int64		estimated_positions;	/* -1 = not known */
	int64		tail_num_rows;
	bytea	   *tail;			/* a payload, or NULL */
	const char *stash_reason;	/* why it was stashed, or NULL */
	TimestampTz finished_at;
	TimestampTz expires_at;
	const char *sqlstate;		/* of a failed one */
	const char *error;
	const char *detail;
} OutcomeRow;

/* Both, as a reader finds them. */
typedef struct StoredPeek
{
	HandleRow	handle;
	bool		has_outcome;
	OutcomeRow	outcome;
} StoredPeek;

/* Is told of peeks and bytes of a session user; must not allocate in place. */
typedef void (*StashUsageCallback) (Oid charged_to, int64 peeks, int64 bytes,
									void *arg);

/*
 * The tail is as large as a reader may hold, so it is loaded only for rows up
 * to an end that lies in it: for all rows, or for none.
 */
#define WITH_TAIL		PG_INT64_MAX
#define WITHOUT_TAIL	((int64) -1)

/* May the current role see what is stored under a handle? */
typedef bool (*HandleCheck) (const HandleRow *row);

extern bool handle_insert(const HandleRow *row);
extern void outcome_row_failed(OutcomeRow *row, const pg_uuid_t *handle,
							   const pg_uuid_t *stash, const char *state,
							   int ttl);
extern void outcome_row_finish(OutcomeRow *row, int ttl);
extern bool outcome_insert(const OutcomeRow *row, bool by_submitter);
extern bool handle_load(const pg_uuid_t *handle, StoredPeek *peek,
						HandleCheck may_see, int64 end_row);
extern bool handle_exists(const pg_uuid_t *handle);
extern bool handle_has_stash(const pg_uuid_t *handle,
							 const pg_uuid_t *stash);
extern bool handle_types_hold(const HandleRow *row);
extern bool handle_is_current(const HandleRow *row);
extern RowDescription *handle_description(const HandleRow *row);
extern bool handle_delete(const pg_uuid_t *handle, StashUsageCallback freed);
extern int64 handle_reclaim(const pg_uuid_t *handle, int64 *bytes);
extern bool handle_grant(const pg_uuid_t *handle, Oid role);
extern bool outcome_touch(const pg_uuid_t *handle, TimestampTz expires_at);
extern int64 handle_sweep_expired(int limit, Oid owner,
								  StashUsageCallback freed);
extern int64 handle_sweep_orphans(StashUsageCallback freed);
extern void handle_sum_usage(StashUsageCallback used, void *arg);

#endif							/* PEEKSTASH_HANDLE_H */
