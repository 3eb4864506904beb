/*-------------------------------------------------------------------------
 *
 * spool.c
 *	  A tuplestore holding an answer that may not be stashed.
 *
 * The spool keeps entries, not rows: a row that comes a billion times takes
 * the disk once.  Its tuples are pieces of batches, runs of whole entries, so
 * that filling and reading it costs a call per piece and not per row.
 *
 * Up to work_mem the tuplestore stays in memory; beyond, it is a temporary
 * file that temp_file_limit counts and the end of the transaction removes.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/spool.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "drive/spool.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "row.h"
#include "stop.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

#include "compat.h"

/* A piece ends before it grows larger, but holds one entry at least. */
#define PIECE_BYTES	(64 * 1024)

struct PeekSpool
{
	MemoryContext context;
	Tuplestorestate *store;
	TupleDesc	desc;			/* one bytea */
	TupleTableSlot *slot;		/* for reading */
	EntryBuffer piece;			/* the piece being read, aligned */
};

/*
 * Create a spool in the current context.  Its file, if it gets one, belongs to
 * the current resource owner.
 */
PeekSpool *
spool_create(void)
{
	PeekSpool  *spool = palloc0(sizeof(PeekSpool));

	spool->context = CurrentMemoryContext;
	spool->desc = CreateTemplateTupleDesc(1);
	TupleDescInitEntry(spool->desc, 1, "entries", BYTEAOID, -1, 0);
	spool->store = tuplestore_begin_heap(false, false, work_mem);
	entry_buffer_init(&spool->piece, spool->context);
	return spool;
}

static void
spool_push_piece(PeekSpool *spool, const char *data, Size size)
{
	bytea	   *piece = palloc(VARHDRSZ + size);
	Datum		value = PointerGetDatum(piece);
	bool		isnull = false;

	SET_VARSIZE(piece, VARHDRSZ + size);
	memcpy(VARDATA(piece), data, size);
	tuplestore_putvalues(spool->store, spool->desc, &value, &isnull);
	pfree(piece);
}

/* Append a batch. */
void
spool_push(PeekSpool *spool, const EntryBatch *batch)
{
	char	   *start = batch->data;
	char	   *end = batch->data + batch->size;
	char	   *next = start;

	PEEK_STOP("spool-push");
	while (next < end)
	{
		Size		size = entry_size((Entry *) next);

		CHECK_FOR_INTERRUPTS();
		if (next > start && (Size) (next - start) + size > PIECE_BYTES)
		{
			spool_push_piece(spool, start, next - start);
			start = next;
		}
		next += size;
	}
	if (next > start)
		spool_push_piece(spool, start, next - start);
}

/*
 * The next run of entries, valid until the next call; false at the end.
 */
bool
spool_next(PeekSpool *spool, const char **data, Size *size)
{
	bytea	   *piece;
	bool		isnull;

	if (spool->slot == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(spool->context);

		spool->slot = MakeSingleTupleTableSlot(spool->desc,
											   &TTSOpsMinimalTuple);
		MemoryContextSwitchTo(old);
	}
	if (!tuplestore_gettupleslot(spool->store, true, false, spool->slot))
		return false;

	/* inside the tuple the entries are not aligned */
	piece = (bytea *) DatumGetPointer(slot_getattr(spool->slot, 1, &isnull));
	*size = VARSIZE_ANY_EXHDR(piece);
	spool->piece.used = 0;
	entry_buffer_reserve(&spool->piece, *size);
	memcpy(spool->piece.data, VARDATA_ANY(piece), *size);
	*data = spool->piece.data;
	ExecClearTuple(spool->slot);
	return true;
}

/* Give back memory and file. */
void
spool_end(PeekSpool *spool)
{
	if (spool->slot != NULL)
		ExecDropSingleTupleTableSlot(spool->slot);
	tuplestore_end(spool->store);
	if (spool->piece.data != NULL)
		pfree(spool->piece.data);
	pfree(spool);
}
