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
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "compat.h"

#define STASH_SCHEMA	"peekstash"
#define BATCH_TABLE		"batch"

/* A statement, prepared once in a session. */
typedef struct StashStatement
{
	const char *text;
	int			num_args;
	Oid			types[6];
	SPIPlanPtr	plan;			/* kept until the session ends */
} StashStatement;

static StashStatement write_batch = {
	"INSERT INTO peekstash.batch"
	" (handle, worker, first_row, num_rows, answer_bytes, payload)"
	" VALUES ($1, $2, $3, $4, $5, $6)",
	6, {UUIDOID, INT4OID, INT8OID, INT8OID, INT8OID, BYTEAOID}, NULL
};

static StashStatement delete_batches = {
	"DELETE FROM peekstash.batch"
	" WHERE handle OPERATOR(pg_catalog.=) $1",
	1, {UUIDOID}, NULL
};

/* The batch table, or InvalidOid where the extension is not installed. */
Oid
stash_batch_table(void)
{
	Oid			schema = get_namespace_oid(STASH_SCHEMA, true);

	return OidIsValid(schema) ?
		get_relname_relid(BATCH_TABLE, schema) : InvalidOid;
}

/*
 * May this transaction write to the stash?  A no is no error for a direct
 * peek: its answer is spooled then.
 */
bool
stash_is_writable(void)
{
	return !XactReadOnly && !RecoveryInProgress() && !IsInParallelMode() &&
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

/* Who owns the stash, and so may write to it. */
static Oid
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

/* Execute a statement as the owner of the stash; returns the rows it hit. */
static int64
stash_execute(StashStatement *statement, Datum *values, int expected)
{
	Oid			owner = stash_owner();
	Oid			save_user;
	int			save_context;
	int			result;
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
	result = SPI_execute_plan(statement->plan, values, NULL, false, 0);
	processed = SPI_processed;

	SetUserIdAndSecContext(save_user, save_context);
	SPI_finish();

	if (result != expected)
		elog(ERROR, "could not execute \"%s\": %s", statement->text,
			 SPI_result_code_string(result));
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
	if (stash_execute(&write_batch, values, SPI_OK_INSERT) != 1)
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
	deleted = stash_execute(&delete_batches, &value, SPI_OK_DELETE);
	XactReadOnly = read_only;
	return deleted;
}
