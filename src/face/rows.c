/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  Rows of an answer as composite values.
 *
 * What the functions that return rows have in common: in which contexts they
 * can be called, which type their rows shall have, whether the columns of the
 * answer fit it, and how a row becomes a value of it.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/rows.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "errors.h"
#include "executor/executor.h"
#include "face/rows.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "compat.h"

/* Throw unless the caller takes one value per call. */
void
check_set_context(FunctionCallInfo fcinfo)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	if (rsinfo == NULL || !IsA(rsinfo, ReturnSetInfo) ||
		(rsinfo->allowedModes & SFRM_ValuePerCall) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("set-valued function called in context that cannot accept a set")));
}

/*
 * The column definition list of a call that returns records, as a type for
 * them.
 */
TupleDesc
record_definition(FunctionCallInfo fcinfo)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	if (rsinfo->expectedDesc == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("function returning record called in context that cannot accept type record"),
				 errhint("Call it in FROM with a column definition list.")));
	return BlessTupleDesc(CreateTupleDescCopy(rsinfo->expectedDesc));
}

/*
 * The composite type that the argument rowtype names.  Its attributes are to
 * be looked up when the table is locked.  record_function is what takes any.
 */
Oid
rowtype_argument(FunctionCallInfo fcinfo, int argno,
				 const char *record_function)
{
	Oid			typid = get_fn_expr_argtype(fcinfo->flinfo, argno);

	if (!OidIsValid(typid))
		ereport(ERROR,
				(errcode(ERRCODE_INDETERMINATE_DATATYPE),
				 errmsg("could not determine data type of argument \"%s\"",
						"rowtype")));
	if (get_typtype(typid) != TYPTYPE_COMPOSITE)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("\"rowtype\" must be of a composite type, not %s",
						format_type_be(typid)),
				 errhint("Write NULL::table_name, or use %s with a column definition list.",
						 record_function)));
	return typid;
}

/*
 * Throw unless the live attributes of a wanted type are those of the answer:
 * as many, of the same types, and of the same typmods where there is one.
 * Names are not compared.
 */
void
check_columns(TupleDesc wanted, TupleDesc answer, const char *wanted_by)
{
	int			column = 0;

	for (int i = 0; i < wanted->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(wanted, i);
		Form_pg_attribute found;

		if (att->attisdropped)
			continue;
		if (column++ >= answer->natts)
			continue;			/* counted below */
		found = TupleDescAttr(answer, column - 1);
		if (att->atttypid == found->atttypid &&
			(att->atttypmod == -1 || att->atttypmod == found->atttypmod))
			continue;
		error_row_type_mismatch(psprintf("Column %d (\"%s\") of the answer is of type %s, but of type %s in the %s.",
										 column, NameStr(found->attname),
										 format_type_with_typemod(found->atttypid,
																  found->atttypmod),
										 format_type_with_typemod(att->atttypid,
																  att->atttypmod),
										 wanted_by));
	}
	if (column != answer->natts)
		error_row_type_mismatch(psprintf("Columns of the answer: %d. Columns of the %s: %d.",
										 answer->natts, wanted_by, column));
}

/*
 * Prepare to make values of the type desc from rows with the columns of
 * answer, which fit it.  Both must stay.
 */
void
row_former_init(RowFormer *former, TupleDesc desc, TupleDesc answer)
{
	former->desc = desc;
	former->has_dropped = false;
	former->slot = NULL;
	for (int i = 0; i < desc->natts; i++)
		former->has_dropped |= TupleDescAttr(desc, i)->attisdropped;
	if (former->has_dropped)
		former->slot = MakeSingleTupleTableSlot(answer, &TTSOpsMinimalTuple);
}

/* A row as a value, in the current context. */
Datum
row_former_form(RowFormer *former, const Entry *entry)
{
	TupleDesc	desc = former->desc;
	HeapTupleData tuple;

	if (former->has_dropped)
	{
		Datum	   *values = palloc(desc->natts * sizeof(Datum));
		bool	   *isnull = palloc(desc->natts * sizeof(bool));
		int			column = 0;

		ExecStoreMinimalTuple(&unconstify(Entry *, entry)->row, former->slot,
							  false);
		slot_getallattrs(former->slot);
		for (int i = 0; i < desc->natts; i++)
		{
			if (TupleDescAttr(desc, i)->attisdropped)
			{
				values[i] = (Datum) 0;
				isnull[i] = true;
				continue;
			}
			values[i] = former->slot->tts_values[column];
			isnull[i] = former->slot->tts_isnull[column++];
		}
		ExecClearTuple(former->slot);
		return HeapTupleGetDatum(heap_form_tuple(desc, values, isnull));
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
	return heap_copy_tuple_as_datum(&tuple, desc);
}
