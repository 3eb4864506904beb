/*-------------------------------------------------------------------------
 *
 * handle.c
 *	  Handles and outcomes: the rows that say what an answer is.
 *
 * A handle row is written when a peek is submitted, an outcome row when it has
 * ended, by whoever walked.  An answer can be read when both are visible:
 * MVCC does the publishing.
 *
 * Rows are read as batches are (reader.c): through the primary key, without
 * SPI, under the latest snapshot.  They are written and deleted through
 * stash_execute(), as the owner of the tables.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/stash/handle.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/catversion.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "libpq/libpq-be.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "row.h"
#include "stash/handle.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/inet.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "compat.h"

/* The columns of peekstash.handle, in the order of the install script. */
enum
{
	HANDLE_HANDLE = 1,
	HANDLE_OWNER,
	HANDLE_CHARGED_TO,
	HANDLE_GRANTED,
	HANDLE_LABEL,
	HANDLE_SOURCE,
	HANDLE_ARRANGEMENT,
	HANDLE_REQUEST,
	HANDLE_DIGEST,
	HANDLE_COLUMN_NAMES,
	HANDLE_COLUMN_TYPES,
	HANDLE_COLUMN_TYPMODS,
	HANDLE_COLUMN_COLLATIONS,
	HANDLE_FINGERPRINT,
	HANDLE_PID,
	HANDLE_APPLICATION_NAME,
	HANDLE_CLIENT_ADDR,
	HANDLE_SUBMITTED_AT,
	HANDLE_SERVER_START,
	HANDLE_DATABASE,
	HANDLE_CATALOG_VERSION,
	HANDLE_NATTS = HANDLE_CATALOG_VERSION
};

/* The columns of peekstash.outcome. */
enum
{
	OUTCOME_HANDLE = 1,
	OUTCOME_STASH,
	OUTCOME_STATE,
	OUTCOME_KIND,
	OUTCOME_NUM_ROWS,
	OUTCOME_ANSWER_BYTES,
	OUTCOME_STORED_BYTES,
	OUTCOME_BATCHES,
	OUTCOME_POSITIONS,
	OUTCOME_SHARE_ROWS,
	OUTCOME_TAIL_NUM_ROWS,
	OUTCOME_TAIL_ROWS,
	OUTCOME_STASH_REASON,
	OUTCOME_WORKERS,
	OUTCOME_INLINE_REASON,
	OUTCOME_ESTIMATED_POSITIONS,
	OUTCOME_FINISHED_AT,
	OUTCOME_EXPIRES_AT,
	OUTCOME_SQLSTATE,
	OUTCOME_ERROR,
	OUTCOME_DETAIL,
	OUTCOME_NATTS = OUTCOME_DETAIL
};

StaticAssertDecl((int) HANDLE_NATTS <= STASH_MAX_ARGS &&
				 (int) OUTCOME_NATTS <= STASH_MAX_ARGS,
				 "a row of the stash has more columns than a statement arguments");

static StashStatement insert_handle = {
	"INSERT INTO peekstash.handle"
	" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,"
	" $15, $16, $17, $18, $19, $20, $21)"
	" ON CONFLICT DO NOTHING",
	HANDLE_NATTS,
	{UUIDOID, OIDOID, OIDOID, OIDARRAYOID, TEXTOID, TEXTOID, OIDOID, JSONBOID,
		BYTEAOID, TEXTARRAYOID, OIDARRAYOID, INT4ARRAYOID, OIDARRAYOID, INT8OID,
	INT4OID, TEXTOID, INETOID, TIMESTAMPTZOID, TIMESTAMPTZOID, OIDOID, INT4OID},
	NULL, false
};

#define OUTCOME_TYPES \
	{UUIDOID, UUIDOID, TEXTOID, TEXTOID, INT8OID, INT8OID, INT8OID, INT8OID, \
		INT8OID, INT8ARRAYOID, INT8OID, BYTEAOID, TEXTOID, INT4OID, TEXTOID, \
		INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID, TEXTOID, TEXTOID, TEXTOID}

static StashStatement insert_outcome = {
	"WITH h AS (SELECT FROM peekstash.handle"
	" WHERE handle OPERATOR(pg_catalog.=) $1 FOR KEY SHARE)"
	" INSERT INTO peekstash.outcome"
	" SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,"
	" $15, $16, $17, $18, $19, $20, $21 FROM h",
	OUTCOME_NATTS, OUTCOME_TYPES, NULL, false
};

/* A worker does not see the handle row before its submitter has committed. */
static StashStatement insert_workers_outcome = {
	"INSERT INTO peekstash.outcome"
	" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,"
	" $15, $16, $17, $18, $19, $20, $21)",
	OUTCOME_NATTS, OUTCOME_TYPES, NULL, false
};

/*
 * Deletes answers whole.  What is deleted is chosen by the CTE "victim"; the
 * handle row is locked first, so that of two deleters one gets it.  What has
 * no outcome yet is counted by its batches.
 */
#define DELETE_VICTIMS \
	", gone AS (DELETE FROM peekstash.handle h USING victim v" \
	" WHERE h.handle OPERATOR(pg_catalog.=) v.handle" \
	" RETURNING h.handle, h.charged_to)" \
	", outcomes AS (DELETE FROM peekstash.outcome o USING victim v" \
	" WHERE o.handle OPERATOR(pg_catalog.=) v.handle" \
	" RETURNING o.handle, o.stored_bytes)" \
	", batches AS (DELETE FROM peekstash.batch b USING victim v" \
	" WHERE b.handle OPERATOR(pg_catalog.=) v.handle" \
	" RETURNING b.handle, pg_catalog.octet_length(b.payload) AS bytes)" \
	" SELECT g.charged_to, coalesce(o.stored_bytes," \
	" (SELECT pg_catalog.sum(b.bytes OPERATOR(pg_catalog.+) 4)" \
	" ::pg_catalog.int8 FROM batches b" \
	" WHERE b.handle OPERATOR(pg_catalog.=) g.handle)), 1::pg_catalog.int8" \
	" FROM gone g LEFT JOIN outcomes o" \
	" ON o.handle OPERATOR(pg_catalog.=) g.handle"

static StashStatement delete_handle = {
	"WITH victim AS (SELECT h.handle FROM peekstash.handle h"
	" WHERE h.handle OPERATOR(pg_catalog.=) $1 FOR UPDATE)"
	DELETE_VICTIMS,
	1, {UUIDOID}, NULL, true
};

static StashStatement sweep_expired = {
	"WITH victim AS MATERIALIZED (SELECT h.handle FROM peekstash.outcome o"
	" JOIN peekstash.handle h ON h.handle OPERATOR(pg_catalog.=) o.handle"
	" WHERE o.expires_at OPERATOR(pg_catalog.<=) $1"
	" AND ($3 OPERATOR(pg_catalog.=) 0 OR h.owner OPERATOR(pg_catalog.=) $3)"
	" ORDER BY o.expires_at LIMIT $2"
	" FOR UPDATE SKIP LOCKED)"
	DELETE_VICTIMS,
	3, {TIMESTAMPTZOID, INT8OID, OIDOID}, NULL, false
};

/*
 * Answers that cannot be read any more: they came with a copy of the database
 * or from before an upgrade, or their walk ended with a server that is gone:
 * while orphans may be swept, no worker walks.
 */
static StashStatement sweep_orphans = {
	"WITH victim AS MATERIALIZED (SELECT h.handle FROM peekstash.handle h"
	" WHERE h.database OPERATOR(pg_catalog.<>) $1"
	" OR h.catalog_version OPERATOR(pg_catalog.<>) $2"
	" OR NOT EXISTS (SELECT FROM peekstash.outcome o"
	" WHERE o.handle OPERATOR(pg_catalog.=) h.handle)"
	" FOR UPDATE SKIP LOCKED)"
	DELETE_VICTIMS,
	2, {OIDOID, INT4OID}, NULL, false
};

/* Batches and outcomes that no handle row leads to. */
static StashStatement sweep_stray_batches = {
	"DELETE FROM peekstash.batch b WHERE NOT EXISTS"
	" (SELECT FROM peekstash.handle h"
	" WHERE h.handle OPERATOR(pg_catalog.=) b.handle)",
	0, {0}, NULL, false
};

static StashStatement sweep_stray_outcomes = {
	"DELETE FROM peekstash.outcome o WHERE NOT EXISTS"
	" (SELECT FROM peekstash.handle h"
	" WHERE h.handle OPERATOR(pg_catalog.=) o.handle)",
	0, {0}, NULL, false
};

/* What workers have committed under a handle that has come to nothing. */
static StashStatement reclaim_rows = {
	"WITH o AS (DELETE FROM peekstash.outcome"
	" WHERE handle OPERATOR(pg_catalog.=) $1"
	" RETURNING coalesce(pg_catalog.octet_length(tail_rows)"
	" OPERATOR(pg_catalog.+) 4, 0) AS bytes),"
	" b AS (DELETE FROM peekstash.batch"
	" WHERE handle OPERATOR(pg_catalog.=) $1"
	" RETURNING pg_catalog.octet_length(payload)"
	" OPERATOR(pg_catalog.+) 4 AS bytes)"
	" SELECT pg_catalog.count(b.bytes), (coalesce(pg_catalog.sum(b.bytes), 0)"
	" OPERATOR(pg_catalog.+) coalesce((SELECT bytes FROM o), 0))"
	"::pg_catalog.int8 FROM b",
	1, {UUIDOID}, NULL, true
};

static StashStatement touch_outcome = {
	"UPDATE peekstash.outcome SET expires_at = $2"
	" WHERE handle OPERATOR(pg_catalog.=) $1",
	2, {UUIDOID, TIMESTAMPTZOID}, NULL, false
};

static StashStatement grant_handle = {
	"UPDATE peekstash.handle"
	" SET granted = pg_catalog.array_append(granted, $2)"
	" WHERE handle OPERATOR(pg_catalog.=) $1"
	" AND $2 OPERATOR(pg_catalog.<>) ALL (granted)",
	2, {UUIDOID, OIDOID}, NULL, false
};

static StashStatement sum_usage = {
	"SELECT h.charged_to, pg_catalog.sum(o.stored_bytes)::pg_catalog.int8,"
	" pg_catalog.count(*)"
	" FROM peekstash.handle h LEFT JOIN peekstash.outcome o"
	" ON o.handle OPERATOR(pg_catalog.=) h.handle GROUP BY h.charged_to",
	0, {0}, NULL, false
};

static Datum
text_or_null(const char *string, char *null)
{
	*null = string == NULL ? 'n' : ' ';
	return string == NULL ? (Datum) 0 : CStringGetTextDatum(string);
}

static Datum
oid_array(const Oid *oids, int count)
{
	Datum	   *values = palloc(Max(count, 1) * sizeof(Datum));

	for (int i = 0; i < count; i++)
		values[i] = ObjectIdGetDatum(oids[i]);
	return PointerGetDatum(construct_array(values, count, OIDOID, sizeof(Oid),
										   true, TYPALIGN_INT));
}

/* The address of the client, as pg_stat_activity shows it; NULL if local. */
static Datum
client_address(char *null)
{
	Datum		address;
	char		host[NI_MAXHOST];

	*null = 'n';
	if (MyProcPort == NULL ||
		(MyProcPort->raddr.addr.ss_family != AF_INET &&
		 MyProcPort->raddr.addr.ss_family != AF_INET6))
		return (Datum) 0;
	if (getnameinfo((struct sockaddr *) &MyProcPort->raddr.addr,
					MyProcPort->raddr.salen, host, sizeof(host), NULL, 0,
					NI_NUMERICHOST) != 0)
		return (Datum) 0;
	clean_ipv6_addr(MyProcPort->raddr.addr.ss_family, host);
	address = DirectFunctionCall1(inet_in, CStringGetDatum(host));
	*null = ' ';
	return address;
}

/*
 * Write a handle row; false if there is one with this uuid already, maybe one
 * that has been committed while we waited for it.
 */
bool
handle_insert(const HandleRow *row)
{
	TupleDesc	desc = row->description->desc;
	Datum		values[HANDLE_NATTS];
	char		nulls[HANDLE_NATTS + 1];
	Datum	   *names = palloc(Max(desc->natts, 1) * sizeof(Datum));
	Datum	   *typmods = palloc(Max(desc->natts, 1) * sizeof(Datum));
	Oid		   *types = palloc(Max(desc->natts, 1) * sizeof(Oid));
	Oid		   *collations = palloc(Max(desc->natts, 1) * sizeof(Oid));

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		names[i] = CStringGetTextDatum(NameStr(att->attname));
		types[i] = att->atttypid;
		typmods[i] = Int32GetDatum(att->atttypmod);
		collations[i] = att->attcollation;
	}

	memset(nulls, ' ', HANDLE_NATTS);
	nulls[HANDLE_NATTS] = '\0';
	values[HANDLE_HANDLE - 1] = UUIDPGetDatum(&row->handle);
	values[HANDLE_OWNER - 1] = ObjectIdGetDatum(row->owner);
	values[HANDLE_CHARGED_TO - 1] = ObjectIdGetDatum(row->charged_to);
	values[HANDLE_GRANTED - 1] = oid_array(NULL, 0);
	values[HANDLE_LABEL - 1] = text_or_null(row->label,
											&nulls[HANDLE_LABEL - 1]);
	values[HANDLE_SOURCE - 1] = CStringGetTextDatum(row->source);
	values[HANDLE_ARRANGEMENT - 1] = ObjectIdGetDatum(row->arrangement);
	if (!OidIsValid(row->arrangement))
		nulls[HANDLE_ARRANGEMENT - 1] = 'n';
	values[HANDLE_REQUEST - 1] = JsonbPGetDatum(row->request);
	values[HANDLE_DIGEST - 1] = PointerGetDatum(row->digest);
	values[HANDLE_COLUMN_NAMES - 1] =
		PointerGetDatum(construct_array(names, desc->natts, TEXTOID, -1, false,
										TYPALIGN_INT));
	values[HANDLE_COLUMN_TYPES - 1] = oid_array(types, desc->natts);
	values[HANDLE_COLUMN_TYPMODS - 1] =
		PointerGetDatum(construct_array(typmods, desc->natts, INT4OID,
										sizeof(int32), true, TYPALIGN_INT));
	values[HANDLE_COLUMN_COLLATIONS - 1] = oid_array(collations, desc->natts);
	values[HANDLE_FINGERPRINT - 1] =
		Int64GetDatum((int64) row_description_fingerprint(row->description));
	values[HANDLE_PID - 1] = Int32GetDatum(MyProcPid);
	values[HANDLE_APPLICATION_NAME - 1] =
		text_or_null(application_name, &nulls[HANDLE_APPLICATION_NAME - 1]);
	values[HANDLE_CLIENT_ADDR - 1] =
		client_address(&nulls[HANDLE_CLIENT_ADDR - 1]);
	values[HANDLE_SUBMITTED_AT - 1] =
		TimestampTzGetDatum(GetCurrentStatementStartTimestamp());
	values[HANDLE_SERVER_START - 1] = TimestampTzGetDatum(PgStartTime);
	values[HANDLE_DATABASE - 1] = ObjectIdGetDatum(MyDatabaseId);
	values[HANDLE_CATALOG_VERSION - 1] = Int32GetDatum(CATALOG_VERSION_NO);
	return stash_execute(&insert_handle, values, nulls, SPI_OK_INSERT,
						 NULL, NULL) == 1;
}

/* A walk ends now: its answer lives for so many seconds. */
void
outcome_row_finish(OutcomeRow *row, int ttl)
{
	row->finished_at = GetCurrentTimestamp();
	row->expires_at = TimestampTzPlusMilliseconds(row->finished_at,
												  (int64) ttl * 1000);
}

/* The outcome of a walk that ends now without an answer, in this state. */
void
outcome_row_failed(OutcomeRow *row, const pg_uuid_t *handle,
				   const pg_uuid_t *stash, const char *state, int ttl)
{
	memset(row, 0, sizeof(*row));
	row->handle = *handle;
	row->stash = *stash;
	row->state = state;
	row->estimated_positions = -1;
	outcome_row_finish(row, ttl);
}

/*
 * Write an outcome row: as the submitter, in the transaction that has written
 * the handle row (or later, under a lock of it that keeps others from releasing
 * it until the end of the transaction), or as a worker.  False: the handle has
 * been released; a worker does not look.
 */
bool
outcome_insert(const OutcomeRow *row, bool by_submitter)
{
	Datum		values[OUTCOME_NATTS];
	char		nulls[OUTCOME_NATTS + 1];
	Datum	   *rows = palloc(Max(row->num_shares, 1) * sizeof(Datum));

	for (int i = 0; i < row->num_shares; i++)
		rows[i] = Int64GetDatum(row->share_rows[i]);

	memset(nulls, ' ', OUTCOME_NATTS);
	nulls[OUTCOME_NATTS] = '\0';
	values[OUTCOME_HANDLE - 1] = UUIDPGetDatum(&row->handle);
	values[OUTCOME_STASH - 1] = UUIDPGetDatum(&row->stash);
	values[OUTCOME_STATE - 1] = CStringGetTextDatum(row->state);
	values[OUTCOME_KIND - 1] =
		text_or_null(row->kind, &nulls[OUTCOME_KIND - 1]);
	values[OUTCOME_NUM_ROWS - 1] = Int64GetDatum(row->num_rows);
	values[OUTCOME_ANSWER_BYTES - 1] = Int64GetDatum(row->answer_bytes);
	values[OUTCOME_STORED_BYTES - 1] = Int64GetDatum(row->stored_bytes);
	values[OUTCOME_BATCHES - 1] = Int64GetDatum(row->num_batches);
	values[OUTCOME_POSITIONS - 1] = Int64GetDatum(row->positions);
	if (row->positions < 0)
		nulls[OUTCOME_POSITIONS - 1] = 'n';
	values[OUTCOME_SHARE_ROWS - 1] =
		PointerGetDatum(construct_array(rows, row->num_shares, INT8OID,
										sizeof(int64), FLOAT8PASSBYVAL,
										TYPALIGN_DOUBLE));
	values[OUTCOME_TAIL_NUM_ROWS - 1] = Int64GetDatum(row->tail_num_rows);
	values[OUTCOME_TAIL_ROWS - 1] = PointerGetDatum(row->tail);
	if (row->tail == NULL)
		nulls[OUTCOME_TAIL_ROWS - 1] = 'n';
	values[OUTCOME_STASH_REASON - 1] =
		text_or_null(row->stash_reason, &nulls[OUTCOME_STASH_REASON - 1]);
	values[OUTCOME_WORKERS - 1] = Int32GetDatum(row->num_workers);
	values[OUTCOME_INLINE_REASON - 1] =
		text_or_null(row->inline_reason, &nulls[OUTCOME_INLINE_REASON - 1]);
	values[OUTCOME_ESTIMATED_POSITIONS - 1] =
		Int64GetDatum(row->estimated_positions);
	if (row->estimated_positions < 0)
		nulls[OUTCOME_ESTIMATED_POSITIONS - 1] = 'n';
	values[OUTCOME_FINISHED_AT - 1] = TimestampTzGetDatum(row->finished_at);
	values[OUTCOME_EXPIRES_AT - 1] = TimestampTzGetDatum(row->expires_at);
	values[OUTCOME_SQLSTATE - 1] =
		text_or_null(row->sqlstate, &nulls[OUTCOME_SQLSTATE - 1]);
	values[OUTCOME_ERROR - 1] =
		text_or_null(row->error, &nulls[OUTCOME_ERROR - 1]);
	values[OUTCOME_DETAIL - 1] =
		text_or_null(row->detail, &nulls[OUTCOME_DETAIL - 1]);
	return stash_execute(by_submitter ? &insert_outcome :
						 &insert_workers_outcome,
						 values, nulls, SPI_OK_INSERT, NULL, NULL) == 1;
}

/*
 * Put the row of a table that its primary key, a handle, leads to into a new
 * slot; NULL if there is none.  The slot holds no pin: its row is a copy.
 */
static TupleTableSlot *
load_row(const char *table_name, const pg_uuid_t *handle, Snapshot snapshot)
{
	Oid			table_oid = stash_table(table_name);
	Relation	table;
	Relation	index;
	IndexScanDesc scan;
	ScanKeyData key;
	TupleTableSlot *slot;
	TupleTableSlot *result = NULL;

	if (!OidIsValid(table_oid))
		return NULL;
	table = table_open(table_oid, AccessShareLock);
	index = index_open(RelationGetPrimaryKeyIndex(table, false),
					   AccessShareLock);
	slot = table_slot_create(table, NULL);
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_UUID_EQ,
				UUIDPGetDatum(handle));
	scan = index_beginscan(table, index, snapshot, NULL, 1, 0);
	index_rescan(scan, &key, 1, NULL, 0);
	if (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		TupleDesc	desc = CreateTupleDescCopy(RelationGetDescr(table));

		result = MakeSingleTupleTableSlot(desc, &TTSOpsHeapTuple);
		ExecCopySlot(result, slot);
		slot_getallattrs(result);
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);

	/* the row is a copy: who waits for a peek must not keep others waiting */
	index_close(index, AccessShareLock);
	table_close(table, AccessShareLock);
	return result;
}

static char *
slot_text(TupleTableSlot *slot, int attno)
{
	return slot->tts_isnull[attno - 1] ? NULL :
		TextDatumGetCString(slot->tts_values[attno - 1]);
}

/* The elements of an array of fixed-length values, none NULL. */
static Datum *
slot_array(TupleTableSlot *slot, int attno, Oid type, int *count)
{
	Datum	   *values;
	bool	   *isnull;
	int16		typlen;
	bool		typbyval;
	char		typalign;

	get_typlenbyvalalign(type, &typlen, &typbyval, &typalign);
	deconstruct_array(DatumGetArrayTypeP(slot->tts_values[attno - 1]), type,
					  typlen, typbyval, typalign, &values, &isnull, count);
	return values;
}

static void
load_handle(TupleTableSlot *slot, HandleRow *row)
{
	Datum	   *values;
	Datum	   *datums = slot->tts_values;

	row->owner = DatumGetObjectId(datums[HANDLE_OWNER - 1]);
	row->charged_to = DatumGetObjectId(datums[HANDLE_CHARGED_TO - 1]);
	values = slot_array(slot, HANDLE_GRANTED, OIDOID, &row->num_granted);
	row->granted = palloc(Max(row->num_granted, 1) * sizeof(Oid));
	for (int i = 0; i < row->num_granted; i++)
		row->granted[i] = DatumGetObjectId(values[i]);
	row->label = slot_text(slot, HANDLE_LABEL);
	row->source = slot_text(slot, HANDLE_SOURCE);
	row->arrangement = slot->tts_isnull[HANDLE_ARRANGEMENT - 1] ? InvalidOid :
		DatumGetObjectId(datums[HANDLE_ARRANGEMENT - 1]);
	row->request = DatumGetJsonbPCopy(datums[HANDLE_REQUEST - 1]);
	row->digest = DatumGetByteaPCopy(datums[HANDLE_DIGEST - 1]);
	row->pid = DatumGetInt32(datums[HANDLE_PID - 1]);
	row->application_name = slot_text(slot, HANDLE_APPLICATION_NAME);
	row->client_addr = slot->tts_isnull[HANDLE_CLIENT_ADDR - 1] ? NULL :
		(inet *) PG_DETOAST_DATUM_COPY(datums[HANDLE_CLIENT_ADDR - 1]);

	values = slot_array(slot, HANDLE_COLUMN_NAMES, TEXTOID, &row->num_columns);
	row->names = palloc(Max(row->num_columns, 1) * sizeof(char *));
	row->types = palloc(Max(row->num_columns, 1) * sizeof(Oid));
	row->typmods = palloc(Max(row->num_columns, 1) * sizeof(int32));
	row->collations = palloc(Max(row->num_columns, 1) * sizeof(Oid));
	for (int i = 0; i < row->num_columns; i++)
		row->names[i] = TextDatumGetCString(values[i]);
	values = slot_array(slot, HANDLE_COLUMN_TYPES, OIDOID, &row->num_columns);
	for (int i = 0; i < row->num_columns; i++)
		row->types[i] = DatumGetObjectId(values[i]);
	values = slot_array(slot, HANDLE_COLUMN_TYPMODS, INT4OID,
						&row->num_columns);
	for (int i = 0; i < row->num_columns; i++)
		row->typmods[i] = DatumGetInt32(values[i]);
	values = slot_array(slot, HANDLE_COLUMN_COLLATIONS, OIDOID,
						&row->num_columns);
	for (int i = 0; i < row->num_columns; i++)
		row->collations[i] = DatumGetObjectId(values[i]);

	row->fingerprint = (uint64) DatumGetInt64(datums[HANDLE_FINGERPRINT - 1]);
	row->submitted_at = DatumGetTimestampTz(datums[HANDLE_SUBMITTED_AT - 1]);
	row->server_start = DatumGetTimestampTz(datums[HANDLE_SERVER_START - 1]);
	row->database = DatumGetObjectId(datums[HANDLE_DATABASE - 1]);
	row->catalog_version = DatumGetInt32(datums[HANDLE_CATALOG_VERSION - 1]);
}

static void
load_outcome(TupleTableSlot *slot, OutcomeRow *row, int64 end_row)
{
	Datum	   *values;
	Datum	   *datums = slot->tts_values;

	row->stash = *DatumGetUUIDP(datums[OUTCOME_STASH - 1]);
	row->state = slot_text(slot, OUTCOME_STATE);
	row->kind = slot_text(slot, OUTCOME_KIND);
	row->num_rows = DatumGetInt64(datums[OUTCOME_NUM_ROWS - 1]);
	row->answer_bytes = DatumGetInt64(datums[OUTCOME_ANSWER_BYTES - 1]);
	row->stored_bytes = DatumGetInt64(datums[OUTCOME_STORED_BYTES - 1]);
	row->num_batches = DatumGetInt64(datums[OUTCOME_BATCHES - 1]);
	row->positions = slot->tts_isnull[OUTCOME_POSITIONS - 1] ? -1 :
		DatumGetInt64(datums[OUTCOME_POSITIONS - 1]);
	values = slot_array(slot, OUTCOME_SHARE_ROWS, INT8OID, &row->num_shares);
	row->share_rows = palloc(Max(row->num_shares, 1) * sizeof(int64));
	for (int i = 0; i < row->num_shares; i++)
		row->share_rows[i] = DatumGetInt64(values[i]);
	row->tail_num_rows = DatumGetInt64(datums[OUTCOME_TAIL_NUM_ROWS - 1]);
	row->tail = end_row <= row->num_rows - row->tail_num_rows ||
		slot->tts_isnull[OUTCOME_TAIL_ROWS - 1] ? NULL :
		DatumGetByteaPCopy(datums[OUTCOME_TAIL_ROWS - 1]);
	row->stash_reason = slot_text(slot, OUTCOME_STASH_REASON);
	row->num_workers = DatumGetInt32(datums[OUTCOME_WORKERS - 1]);
	row->inline_reason = slot_text(slot, OUTCOME_INLINE_REASON);
	row->estimated_positions =
		slot->tts_isnull[OUTCOME_ESTIMATED_POSITIONS - 1] ? -1 :
		DatumGetInt64(datums[OUTCOME_ESTIMATED_POSITIONS - 1]);
	row->finished_at = DatumGetTimestampTz(datums[OUTCOME_FINISHED_AT - 1]);
	row->expires_at = DatumGetTimestampTz(datums[OUTCOME_EXPIRES_AT - 1]);
	row->sqlstate = slot_text(slot, OUTCOME_SQLSTATE);
	row->error = slot_text(slot, OUTCOME_ERROR);
	row->detail = slot_text(slot, OUTCOME_DETAIL);
}

/*
 * Load what is stored under a handle into the current context; false if there
 * is nothing that may be seen.  The check comes before anything large is read,
 * so that a foreign handle takes no longer than an unknown one.
 */
bool
handle_load(const pg_uuid_t *handle, StoredPeek *peek, HandleCheck may_see,
			int64 end_row)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TupleTableSlot *slot;
	bool		found = false;

	memset(peek, 0, sizeof(*peek));
	peek->handle.handle = *handle;
	peek->outcome.handle = *handle;
	slot = load_row("handle", handle, snapshot);
	if (slot != NULL)
	{
		load_handle(slot, &peek->handle);
		ExecDropSingleTupleTableSlot(slot);
		found = may_see(&peek->handle);
	}
	if (found)
	{
		slot = load_row("outcome", handle, snapshot);
		if (slot != NULL)
		{
			peek->has_outcome = true;
			load_outcome(slot, &peek->outcome, end_row);
			ExecDropSingleTupleTableSlot(slot);
		}
	}
	UnregisterSnapshot(snapshot);
	return found;
}

/* Is there a handle row? */
bool
handle_exists(const pg_uuid_t *handle)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TupleTableSlot *slot = load_row("handle", handle, snapshot);

	UnregisterSnapshot(snapshot);
	if (slot == NULL)
		return false;
	ExecDropSingleTupleTableSlot(slot);
	return true;
}

/* Is the answer of this uuid still what is stored under the handle? */
bool
handle_has_stash(const pg_uuid_t *handle, const pg_uuid_t *stash)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TupleTableSlot *slot = load_row("outcome", handle, snapshot);
	bool		found;

	UnregisterSnapshot(snapshot);
	if (slot == NULL)
		return false;
	found = memcmp(DatumGetUUIDP(slot->tts_values[OUTCOME_STASH - 1]), stash,
				   sizeof(pg_uuid_t)) == 0;
	ExecDropSingleTupleTableSlot(slot);
	return found;
}

/* Was it stored by this database, in a layout that this server reads? */
bool
handle_is_current(const HandleRow *row)
{
	return row->database == MyDatabaseId &&
		row->catalog_version == CATALOG_VERSION_NO;
}

/*
 * The columns of a stored answer; NULL if a type is not what it was, and the
 * stored bytes cannot be read as rows of it.  missing is set to the number of
 * a column whose type is gone, or to -1.
 */
static RowDescription *
try_description(const HandleRow *row, int *missing)
{
	TupleDesc	desc = CreateTemplateTupleDesc(row->num_columns);
	RowDescription *description;

	*missing = -1;
	for (int i = 0; i < row->num_columns; i++)
	{
		if (!SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(row->types[i])))
		{
			*missing = i;
			return NULL;
		}
		TupleDescInitEntry(desc, i + 1, row->names[i], row->types[i],
						   row->typmods[i], 0);
		TupleDescInitEntryCollation(desc, i + 1, row->collations[i]);
	}
	description = row_description_create(desc);
	return row_description_fingerprint(description) == row->fingerprint ?
		description : NULL;
}

/* Can the rows of a stored answer still be read as what they were? */
bool
handle_types_hold(const HandleRow *row)
{
	int			missing;

	return try_description(row, &missing) != NULL;
}

/* The columns of a stored answer.  Throws if their types do not hold. */
RowDescription *
handle_description(const HandleRow *row)
{
	int			missing;
	RowDescription *description = try_description(row, &missing);

	if (missing >= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("type of column \"%s\" of peek \"%s\" does not exist any more",
						row->names[missing], stash_handle_text(&row->handle)),
				 errhint("Submit the peek again.")));
	if (description == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a column type of peek \"%s\" has changed since it was submitted",
						stash_handle_text(&row->handle)),
				 errhint("Submit the peek again.")));
	return description;
}

/* Whom to tell what. */
typedef struct UsageReport
{
	StashUsageCallback callback;
	void	   *arg;
} UsageReport;

/* Reports a row of: session user, bytes, number of peeks. */
static void
report_usage(HeapTuple row, TupleDesc desc, void *arg)
{
	UsageReport *report = arg;
	bool		isnull;
	Oid			role = DatumGetObjectId(SPI_getbinval(row, desc, 1, &isnull));
	int64		peeks = DatumGetInt64(SPI_getbinval(row, desc, 3, &isnull));
	int64		bytes = DatumGetInt64(SPI_getbinval(row, desc, 2, &isnull));

	report->callback(role, peeks, isnull ? 0 : bytes, report->arg);
}

/* Delete all that is stored under a handle; false if there is nothing. */
bool
handle_delete(const pg_uuid_t *handle, StashUsageCallback freed)
{
	UsageReport report = {freed, NULL};
	Datum		value = UUIDPGetDatum(handle);

	return stash_execute(&delete_handle, &value, NULL, SPI_OK_SELECT,
						 report_usage, &report) > 0;
}

/*
 * Delete at most limit answers that have expired, of one owner or (InvalidOid)
 * of all; returns their number.
 */
int64
handle_sweep_expired(int limit, Oid owner, StashUsageCallback freed)
{
	UsageReport report = {freed, NULL};
	Datum		values[3];

	values[0] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[1] = Int64GetDatum(limit);
	values[2] = ObjectIdGetDatum(owner);
	return stash_execute(&sweep_expired, values, NULL, SPI_OK_SELECT,
						 report_usage, &report);
}

/* Delete what nobody can read any more; returns the number of handles. */
int64
handle_sweep_orphans(StashUsageCallback freed)
{
	UsageReport report = {freed, NULL};
	Datum		values[2];
	int64		swept;

	values[0] = ObjectIdGetDatum(MyDatabaseId);
	values[1] = Int32GetDatum(CATALOG_VERSION_NO);
	swept = stash_execute(&sweep_orphans, values, NULL, SPI_OK_SELECT,
						  report_usage, &report);
	(void) stash_execute(&sweep_stray_outcomes, NULL, NULL, SPI_OK_DELETE,
						 NULL, NULL);
	(void) stash_execute(&sweep_stray_batches, NULL, NULL, SPI_OK_DELETE,
						 NULL, NULL);
	return swept;
}

/* Let an answer live until then; false if there is none. */
bool
outcome_touch(const pg_uuid_t *handle, TimestampTz expires_at)
{
	Datum		values[2];

	values[0] = UUIDPGetDatum(handle);
	values[1] = TimestampTzGetDatum(expires_at);
	return stash_execute(&touch_outcome, values, NULL, SPI_OK_UPDATE,
						 NULL, NULL) > 0;
}

/* Let a role read an answer; false if it already may, or there is none. */
bool
handle_grant(const pg_uuid_t *handle, Oid role)
{
	Datum		values[2];

	values[0] = UUIDPGetDatum(handle);
	values[1] = ObjectIdGetDatum(role);
	return stash_execute(&grant_handle, values, NULL, SPI_OK_UPDATE,
						 NULL, NULL) > 0;
}

/* Report what is stored, per session user. */
void
handle_sum_usage(StashUsageCallback used, void *arg)
{
	UsageReport report = {used, arg};

	(void) stash_execute(&sum_usage, NULL, NULL, SPI_OK_SELECT, report_usage,
						 &report);
}

/* Keeps the two numbers that reclaim_rows returns. */
static void
keep_reclaimed(HeapTuple row, TupleDesc desc, void *arg)
{
	int64	   *numbers = arg;
	bool		isnull;

	numbers[0] = DatumGetInt64(SPI_getbinval(row, desc, 1, &isnull));
	numbers[1] = DatumGetInt64(SPI_getbinval(row, desc, 2, &isnull));
}

/*
 * Delete the outcome and the batches of a handle, not its own row; returns
 * the number of batches, and the bytes of all in *bytes.
 */
int64
handle_reclaim(const pg_uuid_t *handle, int64 *bytes)
{
	Datum		value = UUIDPGetDatum(handle);
	int64		numbers[2] = {0, 0};

	(void) stash_execute(&reclaim_rows, &value, NULL, SPI_OK_SELECT,
						 keep_reclaimed, numbers);
	*bytes = numbers[1];
	return numbers[0];
}
