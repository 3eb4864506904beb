/*-------------------------------------------------------------------------
 *
 * rows.h
 *	  Rows of an answer as composite values.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/rows.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_ROWS_H
#define PEEKSTASH_ROWS_H

#include "peekstash.h"

#include "executor/tuptable.h"
#include "fmgr.h"

/* Makes composite values of one type. */
typedef struct RowFormer
{
	TupleDesc	desc;			/* of the values */
	bool		has_dropped;	/* desc has dropped attributes to fill in */
	TupleTableSlot *slot;		/* for taking rows apart, then */
} RowFormer;

extern void check_set_context(FunctionCallInfo fcinfo);
extern TupleDesc record_definition(FunctionCallInfo fcinfo);
extern Oid	rowtype_argument(FunctionCallInfo fcinfo, int argno,
							 const char *record_function);
extern void check_columns(TupleDesc wanted, TupleDesc answer,
						  const char *wanted_by);
extern void row_former_init(RowFormer *former, TupleDesc desc,
							TupleDesc answer);
extern Datum row_former_form(RowFormer *former, const Entry *entry);

#endif							/* PEEKSTASH_ROWS_H */
