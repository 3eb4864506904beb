/*-------------------------------------------------------------------------
 *
 * stash.c
 *	  The stash tables: writing and deleting.
 *
 * This is the only place that writes to the stash, and the only place where
 * the user id is switched.  Callers have no rights on the tables, so each SPI
 * call runs as their owner; the switch goes around that one call and nothing
 * else, and the statements name everything with its schema, operators too:
 * no code of the caller's can run under the owner's id.
 *
 * An error inside leaves the switch to the abort of the (sub)transaction,
 * which restores the user id by itself.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/stash/stash.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "stash/stash.h"
#include "stop.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "compat.h"

#define STASH_SCHEMA	"peekstash"
#define BATCH_TABLE		"batch"

static StashStatement write_batch = {
	"INSERT INTO peekstash.batch"
	" (handle, worker, first_row, num_rows, answer_bytes, payload)"
	" VALUES ($1, $2, $3, $4, $5, $6)",
	6, {UUIDOID, INT4OID, INT8OID, INT8OID, INT8OID, BYTEAOID}, NULL, false
};

static StashStatement delete_batches = {
	"DELETE FROM peekstash.batch"
	" WHERE handle OPERATOR(pg_catalog.=) $1",
	1, {UUIDOID}, NULL, false
};

/* A table of the stash, or InvalidOid where the extension is not installed. */
Oid
stash_table(const char *name)
{
	Oid			schema = get_namespace_oid(STASH_SCHEMA, true);

	return OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;
}

Oid
stash_batch_table(void)
{
	return stash_table(BATCH_TABLE);
}

/*
 * May this transaction write to the stash?  A no is no error for a direct
 * peek: its answer is spooled then.  A SERIALIZABLE transaction that reads its
 * batches back and deletes them would lock pages of the stash's index, and
 * conflict with others that have nothing in common with it but the stash.  In
 * a security-restricted operation the answer would be charged to whoever
 * maintains somebody else's table.
 */
bool
stash_is_writable(void)
{
	return !XactReadOnly && !RecoveryInProgress() && !IsInParallelMode() &&
		!IsolationIsSerializable() && !InSecurityRestrictedOperation() &&
		OidIsValid(stash_batch_table());
}

/*
 * A new handle: a version 7 uuid (RFC 9562, 5.7), so that handles sort by the
 * time of their making, and the newest batches lie together in the index.
 */
void
stash_new_handle(pg_uuid_t *handle)
{
	int64		unix_ms = (GetCurrentTimestamp() +
						   (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) *
						   SECS_PER_DAY * USECS_PER_SEC) / 1000;
	uint64		head = pg_hton64((uint64) unix_ms << 16);

	if (!pg_strong_random(handle->data, UUID_LEN))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	memcpy(handle->data, &head, 6);
	handle->data[6] = (handle->data[6] & 0x0f) | 0x70;
	handle->data[8] = (handle->data[8] & 0x3f) | 0x80;
}

char *
stash_handle_text(const pg_uuid_t *handle)
{
	return DatumGetCString(DirectFunctionCall1(uuid_out,
											   UUIDPGetDatum(handle)));
}

/*
 * One text for handles that never were, are gone, or are somebody else's.  A
 * version 7 uuid tells when it was made, whoever made it.
 */
void
error_no_such_peek(const pg_uuid_t *handle)
{
	uint64		head;
	TimestampTz made;

	memcpy(&head, handle->data, sizeof(head));
	made = ((int64) (pg_ntoh64(head) >> 16)) * 1000 -
		(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY * USECS_PER_SEC;

	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("peek \"%s\" does not exist", stash_handle_text(handle)),
			 (handle->data[6] & 0xf0) == 0x70 && IS_VALID_TIMESTAMP(made) ?
			 errhint("The handle was made at %s. The answer may have expired, been released, or been lost in a crash.",
					 timestamptz_to_str(made)) :
			 errhint("The answer may have expired, been released, or been lost in a crash.")));
}

void
error_handle_taken(const pg_uuid_t *handle)
{
	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_OBJECT),
			 errmsg("peek \"%s\" exists already", stash_handle_text(handle)),
			 errhint("A handle names one request of one role; make a new uuid for another.")));
}

/* Who owns the stash, and so may write to it. */
Oid
stash_owner(void)
{
	Oid			table = stash_batch_table();
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the stash tables do not exist"),
				 errhint("Use CREATE EXTENSION peekstash in this database.")));
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

/*
 * Execute a statement as the owner of the stash; returns the rows it hit.
 * callback, if any, is given each row that it returns, as the caller.
 */
int64
stash_execute(StashStatement *statement, Datum *values, const char *nulls,
			  int expected, StashRowCallback callback, void *arg)
{
	Oid			owner = stash_owner();
	Oid			save_user;
	int			save_context;
	int			code;
	int64		processed;

	SPI_connect();
	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(owner, save_context |
						   SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_RESTRICTED_OPERATION |
						   SECURITY_NOFORCE_RLS);

	if (statement->plan == NULL)
	{
		SPIPlanPtr	plan = SPI_prepare_cursor(statement->text,
											  statement->num_args,
											  statement->types,
											  CURSOR_OPT_GENERIC_PLAN);

		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare \"%s\": %s", statement->text,
				 SPI_result_code_string(SPI_result));
		statement->plan = plan;
	}

	/*
	 * A worker may have written what an older snapshot does not see, though it
	 * sees the handle that leads to it.
	 */
	if (statement->latest && IsolationUsesXactSnapshot())
		code = SPI_execute_snapshot(statement->plan, values, nulls,
									GetLatestSnapshot(), InvalidSnapshot,
									false, true, 0);
	else
		code = SPI_execute_plan(statement->plan, values, nulls, false, 0);
	SetUserIdAndSecContext(save_user, save_context);

	processed = SPI_processed;
	if (callback != NULL && code == expected)
	{
		for (int64 i = 0; i < processed; i++)
			callback(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, arg);
	}
	SPI_finish();

	if (code != expected)
		elog(ERROR, "could not execute \"%s\": %s", statement->text,
			 SPI_result_code_string(code));
	return processed;
}

/* Write one batch.  The caller built payload, in memory of its own. */
void
stash_write_batch(const pg_uuid_t *handle, int worker, int64 first_row,
				  int64 num_rows, int64 answer_bytes, bytea *payload)
{
	Datum		values[6];

	values[BATCH_HANDLE - 1] = UUIDPGetDatum(handle);
	values[BATCH_WORKER - 1] = Int32GetDatum(worker);
	values[BATCH_FIRST_ROW - 1] = Int64GetDatum(first_row);
	values[BATCH_NUM_ROWS - 1] = Int64GetDatum(num_rows);
	values[BATCH_ANSWER_BYTES - 1] = Int64GetDatum(answer_bytes);
	values[BATCH_PAYLOAD - 1] = PointerGetDatum(payload);
	if (stash_execute(&write_batch, values, NULL, SPI_OK_INSERT, NULL,
					  NULL) != 1)
		elog(ERROR, "batch of peek %s was not written",
			 stash_handle_text(handle));
}

/*
 * Delete all batches of a handle; returns their number.  Needs an active
 * snapshot.
 */
int64
stash_delete_batches(const pg_uuid_t *handle)
{
	Datum		value = UUIDPGetDatum(handle);
	bool		read_only = XactReadOnly;
	int64		deleted;

	PEEK_STOP("stash-delete");

	/*
	 * A transaction can become read-only after it has written.  Its answers
	 * must not outlive it for that.  An error restores the setting with the
	 * (sub)transaction.
	 */
	XactReadOnly = false;
	deleted = stash_execute(&delete_batches, &value, NULL, SPI_OK_DELETE,
							NULL, NULL);
	XactReadOnly = read_only;
	return deleted;
}
