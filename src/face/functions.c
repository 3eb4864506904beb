/*-------------------------------------------------------------------------
 *
 * functions.c
 *	  SQL-callable functions: arguments in, rows out, nothing else.
 *
 * The peek functions return one value per call.  The whole walk happens in
 * the first call; what follows only reads the answer.  In a select list that
 * streams; in FROM, PostgreSQL puts the rows of any function into a tuplestore
 * of its own.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/functions.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "drive/driver.h"
#include "face/request.h"
#include "face/rows.h"
#include "fmgr.h"
#include "funcapi.h"
#include "knobs.h"
#include "utils/typcache.h"
#include "walk/arrangement.h"

#include "compat.h"

PG_FUNCTION_INFO_V1(peek);
PG_FUNCTION_INFO_V1(peek_record);

#define OPTIONS_ARG			13

/* An answer being returned row by row. */
typedef struct PeekRows
{
	PeekAnswer *answer;
	ExprContext *econtext;		/* whose end ends the reading */
	RowFormer	former;
	const Entry *entry;			/* the row being returned */
	int64		copies_left;
} PeekRows;

/* The caller reads no further, though not everything has been read. */
static void
peek_rows_shutdown(Datum arg)
{
	PeekRows   *rows = (PeekRows *) DatumGetPointer(arg);

	driver_answer_end(rows->answer, false);
}

/* Run the peek, and prepare to return rows as desc describes them. */
static PeekRows *
peek_rows_begin(FunctionCallInfo fcinfo, Arrangement *arrangement,
				const PeekRequest *request, TupleDesc desc)
{
	PeekRows   *rows = palloc0(sizeof(PeekRows));
	PeekKnobs	knobs;

	knobs_resolve(&knobs, PG_ARGISNULL(OPTIONS_ARG) ? NULL :
				  PG_GETARG_JSONB_P(OPTIONS_ARG), NULL);
	row_former_init(&rows->former, desc, request->description->desc);

	rows->answer = driver_run_inline(arrangement, request, &knobs);
	arrangement_close(arrangement);

	rows->econtext = ((ReturnSetInfo *) fcinfo->resultinfo)->econtext;
	RegisterExprContextCallback(rows->econtext, peek_rows_shutdown,
								PointerGetDatum(rows));
	return rows;
}

/* The next row; false at the end. */
static bool
peek_rows_next(PeekRows *rows, Datum *row)
{
	if (rows->copies_left == 0)
	{
		rows->entry = driver_answer_next(rows->answer);
		if (rows->entry == NULL)
		{
			UnregisterExprContextCallback(rows->econtext, peek_rows_shutdown,
										  PointerGetDatum(rows));
			driver_answer_end(rows->answer, true);
			return false;
		}
		rows->copies_left = rows->entry->copies;
	}
	rows->copies_left--;
	*row = row_former_form(&rows->former, rows->entry);
	return true;
}

/*
 * peek(rowtype, arrangement, <request>, options) returns the rows of one walk
 * as values of the row type.
 */
Datum
peek(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	Datum		row;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;
		Arrangement *arrangement;
		TupleDesc	desc;
		Oid			rowtype;

		check_set_context(fcinfo);
		funcctx = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
		rowtype = rowtype_argument(fcinfo, 0, "peek_record");
		arrangement = request_arrangement(fcinfo, 1, rowtype);
		desc = lookup_rowtype_tupdesc_copy(rowtype, -1);
		funcctx->user_fctx =
			peek_rows_begin(fcinfo, arrangement,
							request_from_rowtype(fcinfo, arrangement, desc),
							desc);
		MemoryContextSwitchTo(old);
	}

	funcctx = SRF_PERCALL_SETUP();
	if (!peek_rows_next(funcctx->user_fctx, &row))
		SRF_RETURN_DONE(funcctx);
	SRF_RETURN_NEXT(funcctx, row);
}

/*
 * peek_record(arrangement, columns, <request>, options) returns the rows of
 * one walk as records; the call has a column definition list.
 */
Datum
peek_record(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	Datum		row;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;
		Arrangement *arrangement;
		PeekRequest *request;
		TupleDesc	desc;

		check_set_context(fcinfo);
		funcctx = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
		desc = record_definition(fcinfo);
		arrangement = request_arrangement(fcinfo, 0, InvalidOid);
		request = request_from_columns(fcinfo, arrangement,
									   PG_ARGISNULL(1) ? NULL :
									   PG_GETARG_ARRAYTYPE_P(1));
		check_columns(desc, request->description->desc,
					  "column definition list");
		funcctx->user_fctx = peek_rows_begin(fcinfo, arrangement, request,
											 desc);
		MemoryContextSwitchTo(old);
	}

	funcctx = SRF_PERCALL_SETUP();
	if (!peek_rows_next(funcctx->user_fctx, &row))
		SRF_RETURN_DONE(funcctx);
	SRF_RETURN_NEXT(funcctx, row);
}
