/*-------------------------------------------------------------------------
 *
 * collection.h
 *	  What the rows of a walk become.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/walk/collection.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_COLLECTION_H
#define PEEKSTASH_COLLECTION_H

#include "peekstash.h"

#include "executor/tuptable.h"
#include "walk/order.h"

typedef struct PeekCollection PeekCollection;

typedef enum CollectionVerdict
{
	COLLECTION_NEXT,			/* offer the next row */
	COLLECTION_BATCH,			/* a batch waits to be taken */
	COLLECTION_DONE				/* no further row is wanted */
} CollectionVerdict;

typedef struct CollectionOptions
{
	const RowDescription *description;
	bool		slot_is_row;	/* offered slots have just these columns */
	int64		max_result_bytes;	/* cap, -1 = none */
	int64		first_cut_bytes;	/* before the first batch */
	int64		cut_bytes;		/* after it */
	const OrderOptions *order;	/* NULL = the order of the walk */
	PeekSharedTotals *shared;	/* with other collections; NULL = none */
} CollectionOptions;

extern PeekCollection *collection_create(const CollectionOptions *options,
										 PeekScanState *state);
extern CollectionVerdict collection_offer(PeekCollection *collection,
										  TupleTableSlot *slot);
extern CollectionVerdict collection_finish(PeekCollection *collection);
extern bool collection_is_done(const PeekCollection *collection);
extern bool collection_batch_waits(const PeekCollection *collection);
extern bool collection_take(PeekCollection *collection, EntryBatch *batch);
extern void collection_tail(const PeekCollection *collection,
							EntryBatch *batch);
extern void collection_set_cap(PeekCollection *collection, int64 max_bytes);

/* Moving what is held to another process. */
extern bool collection_can_move(const PeekCollection *collection);
extern void collection_export(PeekCollection *collection, EntryBatch *held,
							  int *num_columns);
extern void collection_export_end(PeekCollection *collection);
extern void collection_import(PeekCollection *collection, const Entry *entry);

#endif							/* PEEKSTASH_COLLECTION_H */
