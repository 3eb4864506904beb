/*-------------------------------------------------------------------------
 *
 * handles.h
 *	  What the functions that submit have in common.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/handles.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_HANDLES_H
#define PEEKSTASH_HANDLES_H

#include "peekstash.h"

#include "drive/driver.h"
#include "face/rows.h"
#include "fmgr.h"
#include "knobs.h"
#include "stash/handle.h"

/* Rows of a stored answer being returned one by one. */
typedef struct FetchRows FetchRows;

/* A first page being returned. */
typedef struct FirstPage
{
	PeekAnswer *answer;			/* everything, or NULL: then it is kept */
	FetchRows  *rows;
	RowFormer	former;
	TupleDesc	desc;			/* of the result */
	pg_uuid_t	handle;
	int64		num_rows;
	int64		pos;
	const Entry *entry;			/* of answer */
	int64		copies_left;
} FirstPage;

extern bool is_repetition(const pg_uuid_t *handle, const bytea *digest,
						  bool *replaced);
extern HandleRow *submit_begin(FunctionCallInfo fcinfo, int options_arg,
							   bytea *digest, PeekKnobs *knobs,
							   pg_uuid_t *handle, PeekSubmit *submit);
extern void page_submit(PeekSubmit *submit, const char *function,
						const char *instead, int64 page_rows);
extern int64 page_rows_argument(FunctionCallInfo fcinfo, int argno);
extern FirstPage *first_page_create(FunctionCallInfo fcinfo);
extern void first_page_open(FunctionCallInfo fcinfo, FirstPage *page,
							int64 page_rows, TupleDesc row_desc,
							TupleDesc answer_desc, const char *wanted_by);
extern bool first_page_next(FirstPage *page, Datum *row);
extern Datum first_page_form(FirstPage *page, Datum row);
extern Datum row_as_jsonb(Datum row);
extern void check_names_differ(TupleDesc desc, const char *hint);

#endif							/* PEEKSTASH_HANDLES_H */
