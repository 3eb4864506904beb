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

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "drive/driver.h"
#include "errors.h"
#include "executor/executor.h"
#include "face/request.h"
#include "fmgr.h"
#include "funcapi.h"
#include "knobs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"
#include "walk/arrangement.h"

#include "compat.h"

PG_FUNCTION_INFO_V1(peek);
PG_FUNCTION_INFO_V1(peek_record);

/* Where the common arguments of the peek functions begin, and the last. */
#define FIRST_REQUEST_ARG	2
#define OPTIONS_ARG			13

/* An answer being returned row by row. */
typedef struct PeekRows
{
	PeekAnswer *answer;
	ExprContext *econtext;		/* whose end ends the reading */
	TupleDesc	desc;			/* of the returned composite values */
	bool		has_dropped;	/* desc has dropped attributes to fill in */
	TupleTableSlot *slot;		/* for taking rows apart, then */
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

static void
check_call_context(FunctionCallInfo fcinfo)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	if (rsinfo == NULL || !IsA(rsinfo, ReturnSetInfo) ||
		(rsinfo->allowedModes & SFRM_ValuePerCall) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("set-valued function called in context that cannot accept a set")));
}

/* Run the peek, and prepare to return rows as desc describes them. */
static PeekRows *
peek_rows_begin(FunctionCallInfo fcinfo, Arrangement *arrangement,
				const PeekRequest *request, TupleDesc desc)
{
	PeekRows   *rows = palloc0(sizeof(PeekRows));
	PeekKnobs	knobs;

	knobs_resolve(&knobs, PG_ARGISNULL(OPTIONS_ARG) ? NULL :
				  PG_GETARG_JSONB_P(OPTIONS_ARG));

	rows->desc = desc;
	for (int i = 0; i < desc->natts; i++)
		rows->has_dropped |= TupleDescAttr(desc, i)->attisdropped;
	if (rows->has_dropped)
		rows->slot = MakeSingleTupleTableSlot(request->description->desc,
											  &TTSOpsMinimalTuple);

	rows->answer = driver_run_inline(arrangement, request, &knobs);
	arrangement_close(arrangement);

	rows->econtext = ((ReturnSetInfo *) fcinfo->resultinfo)->econtext;
	RegisterExprContextCallback(rows->econtext, peek_rows_shutdown,
								PointerGetDatum(rows));
	return rows;
}

/* A row of the answer as a composite value. */
static Datum
peek_rows_form(PeekRows *rows, const Entry *entry)
{
	HeapTupleData tuple;

	if (rows->has_dropped)
	{
		Datum	   *values = palloc(rows->desc->natts * sizeof(Datum));
		bool	   *isnull = palloc(rows->desc->natts * sizeof(bool));
		int			column = 0;

		ExecStoreMinimalTuple(&unconstify(Entry *, entry)->row,
							  rows->slot, false);
		slot_getallattrs(rows->slot);
		for (int i = 0; i < rows->desc->natts; i++)
		{
			if (TupleDescAttr(rows->desc, i)->attisdropped)
			{
				values[i] = (Datum) 0;
				isnull[i] = true;
				continue;
			}
			values[i] = rows->slot->tts_values[column];
			isnull[i] = rows->slot->tts_isnull[column++];
		}
		ExecClearTuple(rows->slot);
		return HeapTupleGetDatum(heap_form_tuple(rows->desc, values, isnull));
	}

	/*
	 * The row as a tuple, as a slot for minimal tuples makes one, but without
	 * a copy in between: heap_copy_tuple_as_datum() writes the header anew.
	 */
	tuple.t_len = entry->row.t_len + MINIMAL_TUPLE_OFFSET;
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = InvalidOid;
	tuple.t_data = (HeapTupleHeader) ((char *) &entry->row -
									  MINIMAL_TUPLE_OFFSET);
	return heap_copy_tuple_as_datum(&tuple, rows->desc);
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
	*row = peek_rows_form(rows, rows->entry);
	return true;
}

/* The composite type that the argument rowtype names. */
static TupleDesc
rowtype_argument(FunctionCallInfo fcinfo, int argno, Oid *typid)
{
	*typid = get_fn_expr_argtype(fcinfo->flinfo, argno);
	if (!OidIsValid(*typid))
		ereport(ERROR,
				(errcode(ERRCODE_INDETERMINATE_DATATYPE),
				 errmsg("could not determine data type of argument \"%s\"",
						"rowtype")));
	if (get_typtype(*typid) != TYPTYPE_COMPOSITE)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("\"rowtype\" must be of a composite type, not %s",
						format_type_be(*typid)),
				 errhint("Write NULL::table_name, or use peek_record with a column definition list.")));
	return lookup_rowtype_tupdesc_copy(*typid, -1);
}

/* The arrangement that an argument names; NULL means the rowtype's table. */
static Oid
arrangement_argument(FunctionCallInfo fcinfo, int argno, Oid rowtype)
{
	Oid			relid;

	if (!PG_ARGISNULL(argno))
		return PG_GETARG_OID(argno);

	relid = OidIsValid(rowtype) ? get_typ_typrelid(rowtype) : InvalidOid;
	if (!OidIsValid(relid) ||
		get_rel_relkind(relid) == RELKIND_COMPOSITE_TYPE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"arrangement\" must be given"),
				 errdetail("Only the row type of a table says which table to peek at.")));
	return relid;
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

		check_call_context(fcinfo);
		funcctx = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
		desc = rowtype_argument(fcinfo, 0, &rowtype);
		arrangement = arrangement_open(arrangement_argument(fcinfo, 1, rowtype));
		funcctx->user_fctx =
			peek_rows_begin(fcinfo, arrangement,
							request_from_rowtype(fcinfo, FIRST_REQUEST_ARG,
												 arrangement, desc), desc);
		MemoryContextSwitchTo(old);
	}

	funcctx = SRF_PERCALL_SETUP();
	if (!peek_rows_next(funcctx->user_fctx, &row))
		SRF_RETURN_DONE(funcctx);
	SRF_RETURN_NEXT(funcctx, row);
}

/* Throw unless a column definition list fits the columns of an answer. */
static void
check_definition_list(TupleDesc expected, TupleDesc answer)
{
	if (expected->natts != answer->natts)
		error_row_type_mismatch(psprintf("The answer has %d columns, the column definition list has %d.",
										 answer->natts, expected->natts));
	for (int i = 0; i < answer->natts; i++)
	{
		Form_pg_attribute wanted = TupleDescAttr(expected, i);
		Form_pg_attribute found = TupleDescAttr(answer, i);

		if (wanted->atttypid == found->atttypid &&
			(wanted->atttypmod == -1 || wanted->atttypmod == found->atttypmod))
			continue;
		error_row_type_mismatch(psprintf("Column %d (\"%s\") of the answer is of type %s, but of type %s in the column definition list.",
										 i + 1, NameStr(found->attname),
										 format_type_with_typemod(found->atttypid,
																  found->atttypmod),
										 format_type_with_typemod(wanted->atttypid,
																  wanted->atttypmod)));
	}
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
		ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
		MemoryContext old;
		Arrangement *arrangement;
		PeekRequest *request;

		check_call_context(fcinfo);
		if (rsinfo->expectedDesc == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("function returning record called in context that cannot accept type record"),
					 errhint("Call it in FROM with a column definition list.")));
		funcctx = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
		arrangement = arrangement_open(arrangement_argument(fcinfo, 0,
															InvalidOid));
		request = request_from_columns(fcinfo, FIRST_REQUEST_ARG, arrangement,
									   PG_ARGISNULL(1) ? NULL :
									   PG_GETARG_ARRAYTYPE_P(1));
		check_definition_list(rsinfo->expectedDesc, request->description->desc);
		funcctx->user_fctx =
			peek_rows_begin(fcinfo, arrangement, request,
							BlessTupleDesc(CreateTupleDescCopy(rsinfo->expectedDesc)));
		MemoryContextSwitchTo(old);
	}

	funcctx = SRF_PERCALL_SETUP();
	if (!peek_rows_next(funcctx->user_fctx, &row))
		SRF_RETURN_DONE(funcctx);
	SRF_RETURN_NEXT(funcctx, row);
}
