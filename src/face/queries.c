/*-------------------------------------------------------------------------
 *
 * queries.c
 *	  SQL-callable functions that run any query and keep its answer.
 *
 * They do with a query what peek_submit and peek_page do with the walk of an
 * index; what is kept is the same, and so is how it is fetched.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/queries.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "drive/query_driver.h"
#include "drive/reclaim.h"
#include "face/digest.h"
#include "face/handles.h"
#include "face/rows.h"
#include "face/statement.h"
#include "fmgr.h"
#include "funcapi.h"
#include "knobs.h"
#include "miscadmin.h"
#include "stash/stash.h"
#include "tcop/utility.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/uuid.h"

#include "compat.h"

PG_FUNCTION_INFO_V1(peek_query);
PG_FUNCTION_INFO_V1(peek_query_page);

#define QUERY_ARG			0
#define ARGS_ARG			1
#define QUERY_OPTIONS_ARG	2
#define PAGE_ROWS_ARG		2
#define PAGE_OPTIONS_ARG	3

static PeekStatement *
statement_argument(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(QUERY_ARG))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("\"%s\" must be given", "query")));
	return statement_parse(text_to_cstring(PG_GETARG_TEXT_PP(QUERY_ARG)));
}

/*
 * Run a query and keep its answer; with page_rows >= 0, of a page, only if it
 * has more rows than that or has been stashed.  Returns NULL if it is kept
 * under the handle already, because it is a repetition.
 */
static PeekAnswer *
submit_query(FunctionCallInfo fcinfo, const PeekStatement *statement,
			 int options_arg, pg_uuid_t *handle, int64 page_rows)
{
	ArrayType  *args = PG_ARGISNULL(ARGS_ARG) ? NULL :
		PG_GETARG_ARRAYTYPE_P(ARGS_ARG);
	PeekSubmit	submit = {0};
	PeekKnobs	knobs;
	PeekQuery  *query;
	PeekAnswer *answer;
	HandleRow  *row;

	row = submit_begin(fcinfo, options_arg, query_digest(statement, args),
					   &knobs, handle, &submit);
	if (page_rows >= 0)
		page_submit(&submit, "peek_query_page", "peek_query", page_rows);
	if (row == NULL)
		return NULL;

	/* not before, see peek_submit(); a small page works on a standby, too */
	if (!RecoveryInProgress())
		reclaim_on_use();
	query = statement_plan(statement, args);
	row->source = "query";
	row->arrangement = InvalidOid;
	row->request = query_to_json(query, args);
	row->description = query->description;

	answer = driver_run_query(query, &knobs, row, &submit);

	/* NULL: another session was first with this handle, see what it did */
	if (answer == NULL &&
		!is_repetition(handle, row->digest, &submit.replaced))
		error_handle_taken(handle);
	return answer;
}

/*
 * peek_query(query, args, options) runs a query, keeps the answer, and returns
 * its handle.
 */
Datum
peek_query(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *handle = palloc(sizeof(pg_uuid_t));
	PeekStatement *statement;

	PreventCommandIfReadOnly("peek_query()");
	PreventCommandIfParallelMode("peek_query()");
	statement = statement_argument(fcinfo);
	(void) submit_query(fcinfo, statement, QUERY_OPTIONS_ARG, handle, -1);
	PG_RETURN_UUID_P(handle);
}

static FirstPage *
query_page_begin(FunctionCallInfo fcinfo)
{
	FirstPage  *page = first_page_create(fcinfo);
	int64		page_rows = page_rows_argument(fcinfo, PAGE_ROWS_ARG);
	PeekStatement *statement = statement_argument(fcinfo);
	TupleDesc	desc = statement->description->desc;

	check_names_differ(desc, "Give them other names, or use peek_query and peek_fetch_record.");
	page->answer = submit_query(fcinfo, statement, PAGE_OPTIONS_ARG,
								&page->handle, page_rows);
	first_page_open(fcinfo, page, page_rows,
					BlessTupleDesc(CreateTupleDescCopy(desc)), desc,
					"query");
	return page;
}

/*
 * peek_query_page(query, args, page_rows, options) returns the first page of
 * the answer of a query, and the handle of the rest.
 */
Datum
peek_query_page(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	FirstPage  *page;
	Datum		row;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;

		check_set_context(fcinfo);
		funcctx = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
		funcctx->user_fctx = query_page_begin(fcinfo);
		MemoryContextSwitchTo(old);
	}

	funcctx = SRF_PERCALL_SETUP();
	page = funcctx->user_fctx;
	if (!first_page_next(page, &row))
		SRF_RETURN_DONE(funcctx);
	SRF_RETURN_NEXT(funcctx, first_page_form(page, row_as_jsonb(row)));
}
