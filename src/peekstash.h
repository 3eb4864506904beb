/*-------------------------------------------------------------------------
 *
 * peekstash.h
 *	  Types that two or more rooms share.
 *
 * A row's way is request -> arrangement -> scan -> collection -> driver ->
 * reader of the answer.  What travels that way is declared here, once, so
 * that no room has to include another one only for a struct.  Everything is
 * plain data or node trees: an offloaded walk must be able to carry it to
 * another process.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/peekstash.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_H
#define PEEKSTASH_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "nodes/bitmapset.h"
#include "nodes/pg_list.h"
#include "port/atomics.h"

/*
 * The columns of an answer: the live ones in order, and a number that changes
 * when a type among them is no longer what it was when the answer was made.
 */
typedef struct RowDescription
{
	TupleDesc	desc;			/* names, types, typmods, collations */
	bool		has_fingerprint;
	uint64		fingerprint;	/* see row_description_fingerprint() */
} RowDescription;

/*
 * A row and its number of copies.  Entries lie one behind the other in a
 * buffer, each MAXALIGNed, so that a batch is one piece of memory.
 *
 * Of the row's header only natts and the null, varwidth and external bits
 * are kept: hint bits would make equal rows unequal.
 */
typedef struct Entry
{
	int64		copies;
	MinimalTupleData row;		/* variable length, must be last */
} Entry;

#define ENTRY_ROW_OFFSET	MAXALIGN(offsetof(Entry, row))
#define entry_size(entry)	MAXALIGN(ENTRY_ROW_OFFSET + (entry)->row.t_len)

StaticAssertDecl(offsetof(Entry, row) == MAXALIGN(offsetof(Entry, row)),
				 "the row of an entry must be MAXALIGNed");

/* Entries cut from a walk as one unit; a view of memory somebody else owns. */
typedef struct EntryBatch
{
	char	   *data;			/* entries, each entry_size() long */
	Size		size;			/* bytes of all of them */
	int64		num_entries;
	int64		num_rows;		/* copies counted */
	int64		answer_bytes;	/* by the ruler */
} EntryBatch;

/* Values for the leading columns of an index, as a list of rows. */
typedef struct PeekKeySet
{
	int			width;			/* columns of each row */
	int64		count;			/* rows */
	Oid		   *types;			/* per column: type of the values */
	Datum	   *values;			/* count * width of them, none NULL */
} PeekKeySet;

/* One end of the range. */
typedef struct PeekBound
{
	int			width;			/* columns compared; 0 = no bound */
	bool		inclusive;
	Oid		   *types;
	Datum	   *values;			/* none NULL */
} PeekBound;

/* One ORDER BY item. */
typedef struct PeekSortKey
{
	Node	   *expr;			/* over the table's columns, varno 1 */
	Oid			sort_operator;
	Oid			collation;
	bool		nulls_first;
} PeekSortKey;

/*
 * What to read.  Everything is checked and resolved: values have types that
 * the index compares, expressions are planned and hold no parameters.
 */
typedef struct PeekRequest
{
	PeekKeySet	keys;			/* key or keys; width 0 = not given */
	PeekBound	lower;			/* on the columns after those of keys */
	PeekBound	upper;
	bool		matches_nothing;	/* some value was NULL */
	List	   *quals;			/* the filter, implicitly ANDed, varno 1 */
	Bitmapset  *used_columns;	/* that must be selectable, offset as in
								 * permission checks */
	AttrNumber *columns;		/* per answer column: the table's attribute */
	RowDescription *description;	/* of the answer */
	bool		whole_row;		/* the columns are all of the table's */
	int			num_sort_keys;
	PeekSortKey *sort_keys;
	int64		row_limit;		/* -1 = none */
	int64		row_offset;
	bool		backward;
} PeekRequest;

/*
 * Where a walk stands, apart from pointers: what a hand-over to another
 * process must move, beside the held entries and the index position.
 */
typedef struct PeekScanState
{
	int64		positions;		/* index tuples looked at */
	int64		fuel_spent;		/* these, and absent keys of a list */
	int64		next_key;		/* number of the next seek */
	bool		in_seek;		/* is btree positioned on the one before? */
	bool		seek_found;		/* has that returned anything? */
	bool		had_batch;		/* the first batch has been cut */
	int64		offset_left;	/* rows still to be passed over */
	int64		limit_left;		/* rows still wanted; -1 = no limit */
	int64		num_rows;		/* of the answer so far, copies counted */
	int64		answer_bytes;	/* their size by the ruler */
	int64		max_held_bytes; /* most that was held at once, by the ruler */
} PeekScanState;

/*
 * What several walks that share one request have come to together, in shared
 * memory.  The limits are exact because each of these counts once.
 */
typedef struct PeekSharedTotals
{
	pg_atomic_uint64 positions;
	pg_atomic_uint64 answer_bytes;
	pg_atomic_uint64 rows;		/* offered; offset and limit go by it */
} PeekSharedTotals;

typedef enum PeekOutcomeKind
{
	PEEK_OUTCOME_MEMORY,		/* no upload was ever opened */
	PEEK_OUTCOME_STASHED
} PeekOutcomeKind;

/* How a peek ended. */
typedef struct PeekOutcome
{
	PeekOutcomeKind kind;
	RowDescription *description;
	int64		num_rows;		/* batches and tail, copies counted */
	int64		answer_bytes;
	int64		positions;
	EntryBatch	tail;			/* the rows after the last batch */
} PeekOutcome;

#endif							/* PEEKSTASH_H */
