/*-------------------------------------------------------------------------
 *
 * status.c
 *	  What is known of a handle: status, columns, batches.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/status.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "face/access.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "row.h"
#include "stash/reader.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/inet.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "compat.h"

PG_FUNCTION_INFO_V1(peek_status);
PG_FUNCTION_INFO_V1(peek_columns);
PG_FUNCTION_INFO_V1(peek_batches);

/* The columns of peek_status(), in the order of the install script. */
enum
{
	PEEK_STATUS_HANDLE,
	PEEK_STATUS_OWNER,
	PEEK_STATUS_CHARGED_TO,
	PEEK_STATUS_LABEL,
	PEEK_STATUS_ARRANGEMENT,
	PEEK_STATUS_REQUEST,
	PEEK_STATUS_STATE,
	PEEK_STATUS_KIND,
	PEEK_STATUS_PHASE,
	PEEK_STATUS_DRIVER,
	PEEK_STATUS_WORKERS,
	PEEK_STATUS_POSITIONS,
	PEEK_STATUS_ESTIMATED_POSITIONS,
	PEEK_STATUS_NUM_ROWS,
	PEEK_STATUS_ANSWER_BYTES,
	PEEK_STATUS_STORED_BYTES,
	PEEK_STATUS_BATCHES,
	PEEK_STATUS_STASH_REASON,
	PEEK_STATUS_INLINE_REASON,
	PEEK_STATUS_PID,
	PEEK_STATUS_APPLICATION_NAME,
	PEEK_STATUS_CLIENT_ADDR,
	PEEK_STATUS_SUBMITTED_AT,
	PEEK_STATUS_FINISHED_AT,
	PEEK_STATUS_EXPIRES_AT,
	PEEK_STATUS_SQLSTATE,
	PEEK_STATUS_ERROR,
	PEEK_STATUS_COLUMN_DEFINITIONS,
	PEEK_STATUS_NATTS
};

/* A row of peek_status(): everything not set is NULL. */
typedef struct StatusRow
{
	Datum		values[PEEK_STATUS_NATTS];
	bool		isnull[PEEK_STATUS_NATTS];
} StatusRow;

static void
status_set(StatusRow *row, int column, Datum value)
{
	row->values[column] = value;
	row->isnull[column] = false;
}

static void
status_set_text(StatusRow *row, int column, const char *string)
{
	if (string != NULL)
		status_set(row, column, CStringGetTextDatum(string));
}

static void
status_set_role(StatusRow *row, int column, Oid role)
{
	char	   *name = GetUserNameFromId(role, true);
	Name		value = palloc0(sizeof(NameData));

	/* as pg_get_userbyid() */
	namestrcpy(value, name ? name : psprintf("unknown (OID=%u)", role));
	status_set(row, column, NameGetDatum(value));
}

/* A column as a column definition list wants it. */
static char *
column_definition(Form_pg_attribute att)
{
	return psprintf("%s %s", quote_identifier(NameStr(att->attname)),
					format_type_with_typemod(att->atttypid, att->atttypmod));
}

static char *
column_definitions(TupleDesc desc)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < desc->natts; i++)
		appendStringInfo(&list, "%s%s", i > 0 ? ", " : "",
						 column_definition(TupleDescAttr(desc, i)));
	return list.data;
}

/* Who walks, and how far that is estimated to be. */
static void
status_set_driver(StatusRow *row, int num_workers, int64 estimated_positions)
{
	status_set_text(row, PEEK_STATUS_DRIVER,
					num_workers > 0 ? "offloaded" : "inline");
	status_set(row, PEEK_STATUS_WORKERS, Int32GetDatum(num_workers));
	if (estimated_positions >= 0)
		status_set(row, PEEK_STATUS_ESTIMATED_POSITIONS,
				   Int64GetDatum(estimated_positions));
}

static void
status_of_stored(StatusRow *row, const StoredPeek *peek)
{
	const HandleRow *handle = &peek->handle;
	const OutcomeRow *outcome = &peek->outcome;

	status_set_role(row, PEEK_STATUS_OWNER, handle->owner);
	status_set_role(row, PEEK_STATUS_CHARGED_TO, handle->charged_to);
	status_set_text(row, PEEK_STATUS_LABEL, handle->label);
	if (OidIsValid(handle->arrangement))
		status_set(row, PEEK_STATUS_ARRANGEMENT,
				   ObjectIdGetDatum(handle->arrangement));
	status_set(row, PEEK_STATUS_REQUEST, JsonbPGetDatum(handle->request));
	status_set_text(row, PEEK_STATUS_STATE, outcome->state);
	status_set_text(row, PEEK_STATUS_KIND, outcome->kind);
	if (outcome->positions >= 0)
		status_set(row, PEEK_STATUS_POSITIONS, Int64GetDatum(outcome->positions));
	status_set(row, PEEK_STATUS_NUM_ROWS, Int64GetDatum(outcome->num_rows));
	status_set(row, PEEK_STATUS_ANSWER_BYTES, Int64GetDatum(outcome->answer_bytes));
	status_set(row, PEEK_STATUS_STORED_BYTES, Int64GetDatum(outcome->stored_bytes));
	status_set(row, PEEK_STATUS_BATCHES, Int64GetDatum(outcome->num_batches));
	status_set_text(row, PEEK_STATUS_STASH_REASON, outcome->stash_reason);
	status_set_driver(row, outcome->num_workers,
					  outcome->estimated_positions);
	status_set_text(row, PEEK_STATUS_INLINE_REASON, outcome->inline_reason);
	status_set(row, PEEK_STATUS_PID, Int32GetDatum(handle->pid));
	status_set_text(row, PEEK_STATUS_APPLICATION_NAME, handle->application_name);
	if (handle->client_addr != NULL)
		status_set(row, PEEK_STATUS_CLIENT_ADDR, InetPGetDatum(handle->client_addr));
	status_set(row, PEEK_STATUS_SUBMITTED_AT,
			   TimestampTzGetDatum(handle->submitted_at));
	status_set(row, PEEK_STATUS_FINISHED_AT,
			   TimestampTzGetDatum(outcome->finished_at));
	status_set(row, PEEK_STATUS_EXPIRES_AT,
			   TimestampTzGetDatum(outcome->expires_at));
	status_set_text(row, PEEK_STATUS_SQLSTATE, outcome->sqlstate);
	status_set_text(row, PEEK_STATUS_ERROR, outcome->error);

	/* where the rows can be fetched, also say as what */
	if (strcmp(outcome->state, peek_state_name(PEEK_DONE)) == 0 &&
		!has_expired(peek) && may_read(handle) && handle_types_hold(handle))
		status_set_text(row, PEEK_STATUS_COLUMN_DEFINITIONS,
						column_definitions(handle_description(handle)->desc));
}

static void
status_of_running(StatusRow *row, const PeekInFlight *peek)
{
	status_set_role(row, PEEK_STATUS_OWNER, peek->owner);
	status_set_role(row, PEEK_STATUS_CHARGED_TO, peek->charged_to);
	status_set_text(row, PEEK_STATUS_STATE, peek_state_name(peek->state));
	status_set_text(row, PEEK_STATUS_PHASE, peek_phase_name(peek->phase));
	if (peek->positions >= 0)
		status_set(row, PEEK_STATUS_POSITIONS, Int64GetDatum(peek->positions));
	status_set_driver(row, peek->num_workers, peek->estimated_positions);
	status_set(row, PEEK_STATUS_NUM_ROWS, Int64GetDatum(peek->num_rows));
	status_set(row, PEEK_STATUS_ANSWER_BYTES, Int64GetDatum(peek->answer_bytes));
	status_set(row, PEEK_STATUS_STORED_BYTES, Int64GetDatum(peek->stored_bytes));
	status_set(row, PEEK_STATUS_PID, Int32GetDatum(peek->pid));
	status_set(row, PEEK_STATUS_SUBMITTED_AT,
			   TimestampTzGetDatum(peek->submitted_at));
}

/* May the current role see that peeks of this owner run? */
static bool
may_see_running(Oid owner)
{
	return may_own(owner) ||
		has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

/*
 * peek_status(handle) returns what is known of a peek, in flight or ended; of
 * one that has expired, as long as it has not been swept.
 */
Datum
peek_status(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *handle = handle_argument(fcinfo, 0);
	TupleDesc	desc;
	StatusRow	row;
	StoredPeek	peek;
	PeekInFlight in_flight;
	bool		flying;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE ||
		desc->natts != PEEK_STATUS_NATTS)
		elog(ERROR, "unexpected result type of peek_status");
	memset(row.values, 0, sizeof(row.values));
	memset(row.isnull, true, sizeof(row.isnull));
	status_set(&row, PEEK_STATUS_HANDLE, UUIDPGetDatum(handle));

	check_stash_readable();
	flying = find_in_flight(handle, may_see_running, &in_flight);
	if (handle_load(handle, &peek, may_see_status, WITHOUT_TAIL) &&
		handle_is_current(&peek.handle) && peek.has_outcome)
		status_of_stored(&row, &peek);
	else if (flying)
		status_of_running(&row, &in_flight);
	else
		error_no_such_peek(handle);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  row.values,
													  row.isnull)));
}

/*
 * peek_columns(handle) returns the columns of a stored answer.
 */
Datum
peek_columns(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	StoredPeek *peek = load_readable(handle_argument(fcinfo, 0), WITHOUT_TAIL);
	TupleDesc	desc = handle_description(&peek->handle)->desc;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Datum		values[6];
		bool		isnull[6] = {0};

		values[0] = Int32GetDatum(i + 1);
		values[1] = CStringGetTextDatum(NameStr(att->attname));
		values[2] = ObjectIdGetDatum(att->atttypid);
		values[3] = Int32GetDatum(att->atttypmod);
		values[4] = ObjectIdGetDatum(att->attcollation);
		isnull[4] = !OidIsValid(att->attcollation);
		values[5] = CStringGetTextDatum(column_definition(att));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values,
							 isnull);
	}
	return (Datum) 0;
}

/* Puts one batch into the result of peek_batches(). */
static void
put_batch(const BatchInfo *batch, void *arg)
{
	ReturnSetInfo *rsinfo = arg;
	Datum		values[6];
	bool		isnull[6] = {0};

	values[0] = Int32GetDatum(batch->number);
	isnull[0] = batch->number < 0;
	values[1] = Int32GetDatum(batch->worker);
	isnull[1] = batch->number < 0;
	values[2] = Int64GetDatum(batch->first_row);
	values[3] = Int64GetDatum(batch->num_rows);
	values[4] = Int64GetDatum(batch->answer_bytes);
	values[5] = Int64GetDatum(batch->stored_bytes);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, isnull);
}

/*
 * peek_batches(handle) returns how a stored answer is stored: its batches, and
 * its tail as a last line.
 */
Datum
peek_batches(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	StoredPeek *peek = load_readable(handle_argument(fcinfo, 0), WITH_TAIL);
	BatchInfo	tail = {0};

	InitMaterializedSRF(fcinfo, 0);
	reader_list_batches(peek, put_batch, rsinfo, &tail);
	put_batch(&tail, rsinfo);
	return (Datum) 0;
}
