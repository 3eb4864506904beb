/*-------------------------------------------------------------------------
 *
 * handles.c
 *	  SQL-callable functions on handles: submit now, fetch when you like.
 *
 * A submit walks, keeps the answer under a handle, and returns that; a fetch
 * returns rows of it, from a row number on.  Between the two nothing is held:
 * no cursor, no transaction, no snapshot.  Who may do what, access.c says.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/handles.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "common/int.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "drive/driver.h"
#include "drive/quota.h"
#include "drive/reclaim.h"
#include "drive/registry.h"
#include "drive/xact.h"
#include "errors.h"
#include "face/access.h"
#include "face/digest.h"
#include "face/handles.h"
#include "face/request.h"
#include "face/rows.h"
#include "fmgr.h"
#include "funcapi.h"
#include "knobs.h"
#include "miscadmin.h"
#include "row.h"
#include "stash/handle.h"
#include "stash/page.h"
#include "stash/reader.h"
#include "stash/stash.h"
#include "stat.h"
#include "stop.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/typcache.h"
#include "utils/uuid.h"

#include "compat.h"

PG_FUNCTION_INFO_V1(peek_submit);
PG_FUNCTION_INFO_V1(peek_page);
PG_FUNCTION_INFO_V1(peek_fetch);
PG_FUNCTION_INFO_V1(peek_fetch_record);
PG_FUNCTION_INFO_V1(peek_fetch_json);
PG_FUNCTION_INFO_V1(peek_wait);
PG_FUNCTION_INFO_V1(peek_cancel);
PG_FUNCTION_INFO_V1(peek_release);
PG_FUNCTION_INFO_V1(peek_touch);
PG_FUNCTION_INFO_V1(peek_grant);
PG_FUNCTION_INFO_V1(peek_sweep);

#define SUBMIT_OPTIONS_ARG	13
#define PAGE_ROWS_ARG		13
#define PAGE_OPTIONS_ARG	14

/* How long peek_wait() sleeps before it looks again, even if not woken. */
#define WAIT_MS	1000

/*
 * Has this very request been submitted under this handle already?  Throws if
 * the handle is used for anything else.
 */
bool
is_repetition(const pg_uuid_t *handle, const bytea *digest, bool *replaced)
{
	StoredPeek	peek;
	PeekInFlight in_flight;
	bool		flying = find_in_flight(handle, may_anybody_own, &in_flight);

	if (!handle_load(handle, &peek, may_anybody, WITHOUT_TAIL))
		return false;
	if (peek.handle.owner == GetUserId())
	{
		/*
		 * What nobody can read any more, its owner may replace; not what
		 * workers still walk for.
		 */
		if (!handle_is_current(&peek.handle) ||
			(peek.has_outcome ? has_expired(&peek) :
			 !flying || !in_flight.offloaded) ||
			!handle_types_hold(&peek.handle))
		{
			PreventCommandIfReadOnly("peek_submit()");
			quota_look(peek.handle.charged_to);
			*replaced |= handle_delete(handle, quota_freed);
			return false;
		}
		if (VARSIZE_ANY(peek.handle.digest) == VARSIZE_ANY(digest) &&
			memcmp(VARDATA_ANY(peek.handle.digest), VARDATA_ANY(digest),
				   VARSIZE_ANY_EXHDR(digest)) == 0)
			return true;
	}
	error_handle_taken(handle);
	return false;				/* keep compiler quiet */
}

/*
 * What all submitting functions begin with: the settings, and the row for the
 * handle, as far as it does not depend on what is submitted.  Returns NULL,
 * with *handle set, if the request is a repetition.
 */
HandleRow *
submit_begin(FunctionCallInfo fcinfo, int options_arg, bytea *digest,
			 PeekKnobs *knobs, pg_uuid_t *handle, PeekSubmit *submit)
{
	HandleRow  *row = palloc0(sizeof(HandleRow));
	SubmitOptions options;

	submit->page_rows = -1;

	knobs_resolve(knobs, PG_ARGISNULL(options_arg) ? NULL :
				  PG_GETARG_JSONB_P(options_arg), &options);

	if (InSecurityRestrictedOperation())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot submit a peek within security-restricted operation")));

	row->digest = digest;
	if (options.has_handle)
	{
		*handle = options.handle;
		check_stash_readable();
		if (is_repetition(handle, row->digest, &submit->replaced))
			return NULL;
	}
	else
		stash_new_handle(handle);

	row->handle = *handle;
	submit->claim = options.has_handle;
	submit->background = options.background;
	row->owner = GetUserId();
	row->charged_to = GetSessionUserId();
	row->label = options.label;
	return row;
}

/* The same for a request about an index, which completes the row. */
static HandleRow *
prepare_submit(FunctionCallInfo fcinfo, int options_arg,
			   const Arrangement *arrangement, const PeekRequest *request,
			   PeekKnobs *knobs, pg_uuid_t *handle, PeekSubmit *submit)
{
	HandleRow  *row = submit_begin(fcinfo, options_arg,
								   request_digest(fcinfo, arrangement,
												  request),
								   knobs, handle, submit);

	if (row == NULL)
		return NULL;
	row->source = "index";
	row->arrangement = RelationGetRelid(arrangement->index);
	row->request = request_to_json(fcinfo, arrangement, request);
	row->description = request->description;
	return row;
}

/*
 * peek_submit(arrangement, columns, <request>, options) walks, keeps the
 * answer, and returns its handle.
 */
Datum
peek_submit(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *handle = palloc(sizeof(pg_uuid_t));
	Arrangement *arrangement;
	PeekRequest *request;
	PeekSubmit	submit = {0};
	PeekKnobs	knobs;
	HandleRow  *row;

	PreventCommandIfReadOnly("peek_submit()");
	PreventCommandIfParallelMode("peek_submit()");
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("\"arrangement\" must be given")));
	arrangement = request_arrangement(fcinfo, 0, InvalidOid);
	request = request_from_columns(fcinfo, arrangement,
								   PG_ARGISNULL(1) ? NULL :
								   PG_GETARG_ARRAYTYPE_P(1));
	submit.may_offload = true;
	submit.wrote_before = TransactionIdIsValid(GetTopTransactionIdIfAny());
	row = prepare_submit(fcinfo, SUBMIT_OPTIONS_ARG, arrangement, request,
						 &knobs, handle, &submit);

	/*
	 * Not before: if an expired answer under the client's handle were swept,
	 * nobody would know that it is replaced, and a worker that writes under
	 * the handle would wait for us.
	 */
	reclaim_on_use();

	/* NULL: another session was first with this handle, see what it did */
	if (row != NULL &&
		driver_run_submitted(arrangement, request, &knobs, row,
							 &submit) == NULL &&
		!is_repetition(handle, row->digest, &submit.replaced))
		error_handle_taken(handle);
	arrangement_close(arrangement);
	PG_RETURN_UUID_P(handle);
}

static int64
fetch_argument(FunctionCallInfo fcinfo, int argno, int64 not_given,
			   const char *argname)
{
	return count_argument(fcinfo, argno, not_given,
						  ERRCODE_INVALID_PARAMETER_VALUE, argname);
}

/* Rows of a stored answer being returned one by one. */
struct FetchRows
{
	StoredPeek *peek;
	StashPage  *page;
	RowFormer	former;
	ExprContext *econtext;		/* whose end ends the reading */
};

/* The rows of the page have been read, or will not be. */
static void
fetch_rows_end(Datum arg)
{
	FetchRows  *rows = (FetchRows *) DatumGetPointer(arg);
	PeekCounts	counts = {0};

	counts.batches_read = stash_page_batches(rows->page);
	counts.read_seconds = stash_page_seconds(rows->page);
	counts.observed = STAT_OBSERVED(PHASE_READ);
	stat_count(&counts);
	stash_page_close(rows->page);
}

/* The row behind the last that a page may have; max_rows -1 = all. */
static int64
page_end(int64 from_row, int64 max_rows)
{
	int64		end;

	if (max_rows < 0 || pg_add_s64_overflow(from_row, max_rows, &end))
		return PG_INT64_MAX;
	return end;
}

static FetchRows *
fetch_rows_begin(FunctionCallInfo fcinfo, const pg_uuid_t *handle,
				 int64 from_row, int64 max_rows, int64 max_bytes,
				 TupleDesc desc, const char *wanted_by)
{
	FetchRows  *rows = palloc0(sizeof(FetchRows));
	RowDescription *description;
	PeekKnobs	knobs;

	knobs_resolve(&knobs, NULL, NULL);
	rows->peek = load_readable(handle, page_end(from_row, max_rows));
	description = handle_description(&rows->peek->handle);
	check_columns(desc, description->desc, wanted_by);
	row_former_init(&rows->former, desc, description->desc);
	rows->page = stash_page_open(rows->peek, from_row, max_rows, max_bytes,
								 knobs.read_batch_size);
	rows->econtext = ((ReturnSetInfo *) fcinfo->resultinfo)->econtext;
	RegisterExprContextCallback(rows->econtext, fetch_rows_end,
								PointerGetDatum(rows));
	return rows;
}

/* The next row; false at the end of the page. */
static bool
fetch_rows_next(FetchRows *rows, Datum *row)
{
	const Entry *entry = stash_page_next(rows->page);

	if (entry == NULL)
	{
		UnregisterExprContextCallback(rows->econtext, fetch_rows_end,
									  PointerGetDatum(rows));
		fetch_rows_end(PointerGetDatum(rows));
		return false;
	}
	*row = row_former_form(&rows->former, entry);
	return true;
}

/* The arguments of a fetch from argno on, and the rows they mean. */
static FetchRows *
fetch_from_arguments(FunctionCallInfo fcinfo, int argno, TupleDesc desc,
					 const char *wanted_by)
{
	return fetch_rows_begin(fcinfo, handle_argument(fcinfo, argno),
							fetch_argument(fcinfo, argno + 1, 0, "from_row"),
							fetch_argument(fcinfo, argno + 2, -1, "max_rows"),
							fetch_argument(fcinfo, argno + 3, -1, "max_bytes"),
							desc, wanted_by);
}

/*
 * peek_fetch(rowtype, handle, from_row, max_rows, max_bytes) returns rows of a
 * stored answer as values of the row type.
 */
Datum
peek_fetch(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	Datum		row;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;
		Oid			rowtype;

		check_set_context(fcinfo);
		funcctx = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
		rowtype = rowtype_argument(fcinfo, 0, "peek_fetch_record");
		funcctx->user_fctx =
			fetch_from_arguments(fcinfo, 1,
								 lookup_rowtype_tupdesc_copy(rowtype, -1),
								 "row type");
		MemoryContextSwitchTo(old);
	}

	funcctx = SRF_PERCALL_SETUP();
	if (!fetch_rows_next(funcctx->user_fctx, &row))
		SRF_RETURN_DONE(funcctx);
	SRF_RETURN_NEXT(funcctx, row);
}

/*
 * peek_fetch_record(handle, from_row, max_rows, max_bytes) returns rows of a
 * stored answer as records; the call has a column definition list.
 */
Datum
peek_fetch_record(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	Datum		row;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;

		check_set_context(fcinfo);
		funcctx = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
		funcctx->user_fctx = fetch_from_arguments(fcinfo, 0,
												  record_definition(fcinfo),
												  "column definition list");
		MemoryContextSwitchTo(old);
	}

	funcctx = SRF_PERCALL_SETUP();
	if (!fetch_rows_next(funcctx->user_fctx, &row))
		SRF_RETURN_DONE(funcctx);
	SRF_RETURN_NEXT(funcctx, row);
}

/* An object of jsonb keeps one of two members of the same name. */
void
check_names_differ(TupleDesc desc, const char *hint)
{
	for (int i = 0; i < desc->natts; i++)
	{
		for (int j = 0; j < i; j++)
		{
			char	   *name = NameStr(TupleDescAttr(desc, i)->attname);

			if (strcmp(name, NameStr(TupleDescAttr(desc, j)->attname)) == 0)
				ereport(ERROR,
						(errcode(ERRCODE_DUPLICATE_COLUMN),
						 errmsg("answer has two columns of the name \"%s\"",
								name),
						 errhint("%s", hint)));
		}
	}
}

/* A composite value as an object of jsonb. */
Datum
row_as_jsonb(Datum row)
{
	char	   *json = TextDatumGetCString(DirectFunctionCall1(row_to_json,
															   row));

	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json));
}

/*
 * peek_fetch_json(handle, from_row, max_rows) returns rows of a stored answer
 * as JSON: {"rows": [...], "from": n, "next": n or null, "total": n}.
 */
Datum
peek_fetch_json(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *handle = handle_argument(fcinfo, 0);
	int64		from_row = fetch_argument(fcinfo, 1, 0, "from_row");
	int64		max_rows = fetch_argument(fcinfo, 2, -1, "max_rows");
	StoredPeek *peek = load_readable(handle, page_end(from_row, max_rows));
	RowDescription *description = handle_description(&peek->handle);
	RowFormer	former;
	FetchRows	rows = {0};
	PeekKnobs	knobs;
	StringInfoData json;
	MemoryContext row_context;
	const Entry *entry;
	int64		count = 0;

	knobs_resolve(&knobs, NULL, NULL);
	check_names_differ(description->desc, "Use peek_fetch_record.");
	row_former_init(&former, BlessTupleDesc(description->desc),
					description->desc);
	rows.peek = peek;
	rows.page = stash_page_open(peek, from_row, max_rows, -1,
								knobs.read_batch_size);

	initStringInfo(&json);
	appendStringInfoString(&json, "{\"rows\": [");
	row_context = AllocSetContextCreate(CurrentMemoryContext,
										"peekstash JSON row",
										ALLOCSET_DEFAULT_SIZES);
	while ((entry = stash_page_next(rows.page)) != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(row_context);
		text	   *row_json;

		CHECK_FOR_INTERRUPTS();
		row_json = DatumGetTextPP(DirectFunctionCall1(row_to_json,
													  row_former_form(&former,
																	  entry)));
		MemoryContextSwitchTo(old);
		if (count++ > 0)
			appendStringInfoString(&json, ", ");
		appendBinaryStringInfo(&json, VARDATA_ANY(row_json),
							   VARSIZE_ANY_EXHDR(row_json));
		MemoryContextReset(row_context);
	}
	fetch_rows_end(PointerGetDatum(&rows));

	appendStringInfo(&json, "], \"from\": " INT64_FORMAT ", \"next\": ",
					 from_row);
	if (from_row + count < peek->outcome.num_rows)
		appendStringInfo(&json, INT64_FORMAT, from_row + count);
	else
		appendStringInfoString(&json, "null");
	appendStringInfo(&json, ", \"total\": " INT64_FORMAT "}",
					 peek->outcome.num_rows);
	PG_RETURN_DATUM(DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data)));
}

int64
page_rows_argument(FunctionCallInfo fcinfo, int argno)
{
	int64		page_rows = fetch_argument(fcinfo, argno, 100, "page_rows");

	if (page_rows == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"page_rows\" must be at least 1"),
				 errdetail("The handle comes with the rows of the first page.")));
	return page_rows;
}

/* How a peek is driven whose first page is returned at once. */
void
page_submit(PeekSubmit *submit, const char *function, const char *instead,
			int64 page_rows)
{
	if (submit->background)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s cannot walk in the background", function),
				 errdetail("It returns the first page of the answer."),
				 errhint("Use %s.", instead)));
	submit->page_rows = page_rows;
}

/* A first page of a function that returns (handle, num_rows, pos, r). */
FirstPage *
first_page_create(FunctionCallInfo fcinfo)
{
	FirstPage  *page = palloc0(sizeof(FirstPage));

	if (get_call_result_type(fcinfo, NULL, &page->desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "unexpected result type of a function that returns pages");
	page->desc = BlessTupleDesc(page->desc);
	return page;
}

/*
 * The answer is there, as page->answer or under page->handle: prepare to
 * return its rows as values of row_desc.
 */
void
first_page_open(FunctionCallInfo fcinfo, FirstPage *page, int64 page_rows,
				TupleDesc row_desc, TupleDesc answer_desc,
				const char *wanted_by)
{
	if (page->answer == NULL || driver_answer_is_kept(page->answer))
	{
		page->answer = NULL;
		page->rows = fetch_rows_begin(fcinfo, &page->handle, 0, page_rows, -1,
									  row_desc, wanted_by);
		page->num_rows = page->rows->peek->outcome.num_rows;
	}
	else
	{
		page->num_rows = driver_answer_outcome(page->answer)->num_rows;
		row_former_init(&page->former, row_desc, answer_desc);
	}
}

static FirstPage *
first_page_begin(FunctionCallInfo fcinfo)
{
	int64		page_rows = page_rows_argument(fcinfo, PAGE_ROWS_ARG);
	Oid			rowtype = rowtype_argument(fcinfo, 0, "peek_submit and peek_fetch_record");
	Arrangement *arrangement = request_arrangement(fcinfo, 1, rowtype);
	TupleDesc	row_desc = lookup_rowtype_tupdesc_copy(rowtype, -1);
	PeekRequest *request = request_from_rowtype(fcinfo, arrangement, row_desc);
	FirstPage  *page = first_page_create(fcinfo);
	HandleRow  *handle;
	PeekSubmit	submit = {0};
	PeekKnobs	knobs;

	/* small answers also work where nothing can be stored */
	if (!RecoveryInProgress())
		reclaim_on_use();
	handle = prepare_submit(fcinfo, PAGE_OPTIONS_ARG, arrangement, request,
							&knobs, &page->handle, &submit);
	page_submit(&submit, "peek_page", "peek_submit", page_rows);
	if (handle != NULL)
	{
		page->answer = driver_run_submitted(arrangement, request, &knobs,
											handle, &submit);

		/* NULL: another session was first with this handle, see what it did */
		if (page->answer == NULL &&
			!is_repetition(&page->handle, handle->digest, &submit.replaced))
			error_handle_taken(&page->handle);
	}
	arrangement_close(arrangement);
	first_page_open(fcinfo, page, page_rows, row_desc,
					request->description->desc, "row type");
	return page;
}

/* The next row; false at the end of the page. */
bool
first_page_next(FirstPage *page, Datum *row)
{
	if (page->rows != NULL)
		return fetch_rows_next(page->rows, row);

	if (page->copies_left == 0)
	{
		page->entry = driver_answer_next(page->answer);
		if (page->entry == NULL)
		{
			driver_answer_end(page->answer, true);
			return false;
		}
		page->copies_left = page->entry->copies;
	}
	page->copies_left--;
	*row = row_former_form(&page->former, page->entry);
	return true;
}

/* A line of the result. */
Datum
first_page_form(FirstPage *page, Datum row)
{
	Datum		values[4];
	bool		isnull[4] = {0};

	values[0] = UUIDPGetDatum(&page->handle);
	isnull[0] = page->rows == NULL;
	values[1] = Int64GetDatum(page->num_rows);
	values[2] = Int64GetDatum(page->pos++);
	values[3] = row;
	return HeapTupleGetDatum(heap_form_tuple(page->desc, values, isnull));
}

/*
 * peek_page(rowtype, arrangement, <request>, page_rows, options) returns the
 * first page of an answer, and the handle of the rest.
 */
Datum
peek_page(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	Datum		row;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;

		check_set_context(fcinfo);
		funcctx = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
		funcctx->user_fctx = first_page_begin(fcinfo);
		MemoryContextSwitchTo(old);
	}

	funcctx = SRF_PERCALL_SETUP();
	if (!first_page_next(funcctx->user_fctx, &row))
		SRF_RETURN_DONE(funcctx);
	SRF_RETURN_NEXT(funcctx, first_page_form(funcctx->user_fctx, row));
}

/* An interval in microseconds, as far as it fits. */
static int64
interval_us(const Interval *interval)
{
	double		us = ((double) interval->month * DAYS_PER_MONTH +
					  interval->day) * USECS_PER_DAY + interval->time;

	if (us >= (double) PG_INT64_MAX / 2)
		return PG_INT64_MAX / 2;
	return us <= 0 ? 0 : (int64) us;
}

/*
 * peek_wait(handle, timeout) waits for the end of a peek, and returns its
 * state.  It holds no lock while it waits.
 */
Datum
peek_wait(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *handle = handle_argument(fcinfo, 0);
	int64		timeout_us = PG_ARGISNULL(1) ? -1 :
		interval_us(PG_GETARG_INTERVAL_P(1));
	TimestampTz start = GetCurrentTimestamp();

	check_stash_readable();
	for (;;)
	{
		StoredPeek	peek;
		PeekInFlight in_flight;
		bool		flying = find_in_flight(handle, may_own, &in_flight);
		int64		left;

		if (handle_load(handle, &peek, may_read, WITHOUT_TAIL) &&
			handle_is_current(&peek.handle) && peek.has_outcome)
			PG_RETURN_TEXT_P(cstring_to_text(peek.outcome.state));
		if (!flying)
			error_no_such_peek(handle);

		/* a worker died, and nobody has written that down yet */
		if (in_flight.state == PEEK_FAILED ||
			in_flight.state == PEEK_CANCELLED)
			PG_RETURN_TEXT_P(cstring_to_text(peek_state_name(in_flight.state)));

		left = timeout_us < 0 ? (int64) WAIT_MS * 1000 :
			timeout_us - (GetCurrentTimestamp() - start);
		if (left <= 0)
			PG_RETURN_TEXT_P(cstring_to_text(peek_state_name(in_flight.state)));
		CHECK_FOR_INTERRUPTS();
		registry_wait(Min(left / 1000 + 1, WAIT_MS));
	}
}

/* As pg_cancel_backend(): superusers are for superusers to cancel. */
static bool
may_cancel(Oid owner)
{
	return may_own(owner) ||
		(has_privs_of_role(GetUserId(), ROLE_PG_SIGNAL_BACKEND) &&
		 !superuser_arg(owner));
}

/*
 * peek_cancel(handle) asks a peek in flight to stop; false if there is none,
 * or if its walk is over already.
 */
Datum
peek_cancel(PG_FUNCTION_ARGS)
{
	PeekInFlight in_flight;

	PG_RETURN_BOOL(find_in_flight(handle_argument(fcinfo, 0), may_cancel,
								  &in_flight) &&
				   in_flight.phase != PEEK_FINISHING &&
				   !peek_state_is_end(in_flight.state) &&
				   registry_request_cancel(&in_flight));
}

/*
 * peek_release(handle) deletes a stored answer; false if there is none.
 */
Datum
peek_release(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *handle = handle_argument(fcinfo, 0);
	StoredPeek	peek;
	PeekInFlight in_flight;
	bool		flying;

	PreventCommandIfReadOnly("peek_release()");
	check_stash_readable();
	flying = find_in_flight(handle, may_anybody_own, &in_flight);
	if (!handle_load(handle, &peek, may_release, WITHOUT_TAIL))
		PG_RETURN_BOOL(false);
	xact_register();
	quota_look(peek.handle.charged_to);

	/* workers may commit what the statement below does not see */
	flying = flying && in_flight.offloaded &&
		xact_release_in_flight(in_flight.slot, in_flight.generation);
	if (handle_delete(handle, quota_freed))
		PG_RETURN_BOOL(true);
	if (flying)
		xact_release_undo();
	check_snapshot_sees(handle);
	PG_RETURN_BOOL(false);
}

/*
 * peek_touch(handle, ttl) lets a stored answer live so long from now on, and
 * returns until when.
 */
Datum
peek_touch(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *handle = handle_argument(fcinfo, 0);
	StoredPeek *peek;
	PeekKnobs	knobs;
	int64		seconds;
	TimestampTz expires_at;

	PreventCommandIfReadOnly("peek_touch()");
	knobs_resolve(&knobs, NULL, NULL);
	peek = load_readable(handle, WITHOUT_TAIL);
	if (!may_own(peek->handle.owner))
		error_no_such_peek(handle);

	seconds = knobs.ttl;
	if (!PG_ARGISNULL(1))
	{
		seconds = interval_us(PG_GETARG_INTERVAL_P(1)) / USECS_PER_SEC;
	}
	knobs_check_ttl(&knobs, seconds);
	expires_at = GetCurrentTimestamp() + seconds * USECS_PER_SEC;
	if (!outcome_touch(handle, expires_at))
	{
		check_snapshot_sees(handle);
		error_no_such_peek(handle);
	}
	PG_RETURN_TIMESTAMPTZ(expires_at);
}

/*
 * peek_grant(handle, to_role) lets a role read a stored answer.
 */
Datum
peek_grant(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *handle = handle_argument(fcinfo, 0);
	StoredPeek *peek;

	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("\"to_role\" must not be NULL")));

	/* a role made later could get the number of one that is not there */
	if (!SearchSysCacheExists1(AUTHOID, PG_GETARG_DATUM(1)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("role with OID %u does not exist", PG_GETARG_OID(1))));
	PreventCommandIfReadOnly("peek_grant()");
	peek = load_readable(handle, WITHOUT_TAIL);
	if (!may_own(peek->handle.owner))
		error_no_such_peek(handle);
	if (!handle_grant(handle, PG_GETARG_OID(1)))
	{
		for (int i = 0; i < peek->handle.num_granted; i++)
		{
			if (peek->handle.granted[i] == PG_GETARG_OID(1))
				PG_RETURN_VOID();
		}
		check_snapshot_sees(handle);
		error_no_such_peek(handle);
	}
	PG_RETURN_VOID();
}

/*
 * peek_sweep() deletes the answers of this database that have expired or are
 * orphaned, and returns their number.  Of the owner of the database all, of
 * others their own: what a transaction has swept counts until it commits.
 */
Datum
peek_sweep(PG_FUNCTION_ARGS)
{
	PreventCommandIfReadOnly("peek_sweep()");
	check_stash_readable();
	PG_RETURN_INT64(reclaim_all(database_owned_by(MyDatabaseId, GetUserId()) ?
								InvalidOid : GetUserId()));
}
