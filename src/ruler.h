/*-------------------------------------------------------------------------
 *
 * ruler.h
 *	  The only measure of answer size.
 *
 * An entry measures the packed user data of its row (no header, no null
 * bitmap) plus 8 for the row and 8 for the number of copies.  The charge of
 * 16 keeps zero-column rows from being free, and makes the measure the same
 * whatever the rows are later wrapped in: memory, spool, batch, worker.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/ruler.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_RULER_H
#define PEEKSTASH_RULER_H

#include "peekstash.h"

#define ENTRY_OVERHEAD	(8 + 8)

/* Bytes of packed user data of a row. */
static inline int64
row_data_len(const MinimalTupleData *row)
{
	/* t_hoff counts from where a full tuple's header would begin */
	return (int64) row->t_len + MINIMAL_TUPLE_OFFSET - row->t_hoff;
}

static inline int64
entry_byte_len(const MinimalTupleData *row)
{
	return row_data_len(row) + ENTRY_OVERHEAD;
}

#endif							/* PEEKSTASH_RULER_H */
