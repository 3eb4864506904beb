/*-------------------------------------------------------------------------
 *
 * row.h
 *	  Rows of an answer: their description, and how one becomes an entry.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/row.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_ROW_H
#define PEEKSTASH_ROW_H

#include "peekstash.h"

#include "executor/tuptable.h"

/*
 * The longest row that an entry may hold.  What wraps it later (a composite
 * value's header, a batch) must still fit into one palloc'd value.
 */
#define MAX_ROW_SIZE	((Size) MaxAllocSize - 8192)

/* A growing piece of memory that holds entries. */
typedef struct EntryBuffer
{
	char	   *data;
	Size		used;
	Size		allocated;
	MemoryContext context;		/* where data lives */
} EntryBuffer;

extern RowDescription *row_description_create(TupleDesc desc);
extern uint64 row_description_fingerprint(RowDescription *description);

extern void entry_buffer_init(EntryBuffer *buffer, MemoryContext context);
extern void entry_buffer_free(EntryBuffer *buffer);
extern void entry_buffer_reserve(EntryBuffer *buffer, Size size);
extern Entry *entry_buffer_append_slot(EntryBuffer *buffer,
									   TupleDesc desc, TupleTableSlot *slot,
									   bool slot_is_row, int64 max_bytes);
extern Entry *entry_buffer_append_row(EntryBuffer *buffer,
									  const MinimalTupleData *row);
extern bool entry_rows_equal(const Entry *a, const Entry *b);

/* Walk over the entries of a batch. */
#define entry_next(entry) \
	((Entry *) ((char *) (entry) + entry_size(entry)))

#endif							/* PEEKSTASH_ROW_H */
