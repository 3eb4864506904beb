/*-------------------------------------------------------------------------
 *
 * collection.c
 *	  What the rows of a walk become.
 *
 * A collection takes rows one by one and makes an answer of them: it passes
 * over the offset, folds equal neighbours into one entry, measures, caps,
 * cuts batches, and says when the limit is reached.  It knows a description of
 * the rows and nothing of where they come from.
 *
 * Entries lie in one buffer: closed ones, then the open one, which the next
 * row may still join.  The open entry is never part of a batch, so the size of
 * an answer does not depend on where batches are cut.
 *
 *		| closed | closed | ... | open |
 *		  <- a batch, when cut ->
 *
 * A batch is handed out as a view of the buffer.  It stays as it is until the
 * next call that may add to the collection.
 *
 * With order_by the rows go to a sort first (order.c).  What leaves the sort
 * then takes the same way.  With a limit or an offset, what leaves is measured:
 * rows that are dropped are no size.  Without either, everything that enters
 * also leaves, and it is measured as it enters, so that the cap fails before
 * the disk is full; each entry leaves as it entered.
 *
 * Several collections can make one answer, each of a part of the walk.  Then
 * the cap, the offset and the limit go by totals that they share: each row
 * draws a number, and the number decides.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/walk/collection.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "errors.h"
#include "miscadmin.h"
#include "row.h"
#include "ruler.h"
#include "utils/memutils.h"

#include "walk/collection.h"

/* A buffer that one giant row has made larger than this is given back. */
#define KEEP_BUFFER_BYTES	(8 * 1024 * 1024)

#define NO_ENTRY	((Size) -1)

struct PeekCollection
{
	CollectionOptions options;
	PeekScanState *state;		/* the driver's */
	MemoryContext context;		/* of entries that are held */

	EntryBuffer buffer;
	Size		open;			/* offset of the open entry, or NO_ENTRY */
	int64		held_bytes;		/* closed and open, by the ruler */
	int64		closed_bytes;	/* closed ones */
	int64		closed_entries;
	int64		closed_rows;	/* copies counted */
	bool		batch_waits;
	bool		taken;			/* the batch is out; to be removed */
	bool		walk_ended;		/* the open entry has closed for good */

	PeekOrder  *order;			/* NULL = the order of the walk */
	bool		measure_on_entry;	/* see the file's header */
	EntryBuffer last_entered;	/* the newest row that entered the sort */
	bool		sorted;
	EntryBuffer exported;		/* items of the sort, for another process */

	/* shared: rows that draw less are passed over, from here on not wanted */
	int64		first_wanted;
	int64		end_wanted;		/* -1 = no limit */
};

/*
 * Create a collection in the current context.  state holds the offset and the
 * limit, and keeps the counts.
 */
PeekCollection *
collection_create(const CollectionOptions *options, PeekScanState *state)
{
	PeekCollection *collection = palloc0(sizeof(PeekCollection));

	collection->options = *options;
	collection->state = state;
	collection->context = CurrentMemoryContext;
	entry_buffer_init(&collection->buffer, collection->context);
	entry_buffer_init(&collection->last_entered, collection->context);
	entry_buffer_init(&collection->exported, collection->context);
	collection->open = NO_ENTRY;
	Assert(options->shared == NULL || options->order == NULL);
	collection->first_wanted = state->offset_left;
	if (state->limit_left < 0 ||
		pg_add_s64_overflow(state->offset_left, state->limit_left,
							&collection->end_wanted))
		collection->end_wanted = -1;

	if (options->order != NULL)
	{
		OrderOptions order = *options->order;

		collection->measure_on_entry =
			state->limit_left < 0 && state->offset_left == 0;
		if (state->limit_left >= 0 &&
			pg_add_s64_overflow(state->limit_left, state->offset_left,
								&order.max_rows))
			order.max_rows = -1;	/* more than there can be */
		collection->order = order_create(&order);
	}
	return collection;
}

bool
collection_is_done(const PeekCollection *collection)
{
	/* while rows enter a sort, only LIMIT 0 can end the walk early */
	if (collection->order != NULL && !collection->sorted)
		return collection->state->limit_left == 0 &&
			collection->state->num_rows == 0;

	/* others may have drawn the last number that is wanted */
	if (collection->options.shared != NULL && collection->end_wanted >= 0 &&
		(int64) pg_atomic_read_u64(&collection->options.shared->rows) >=
		collection->end_wanted)
		return true;
	return collection->state->limit_left == 0;
}

bool
collection_batch_waits(const PeekCollection *collection)
{
	return collection->batch_waits;
}

static Entry *
entry_at(const EntryBuffer *buffer, Size offset)
{
	return (Entry *) (buffer->data + offset);
}

/* Measure a new entry of the answer, and compare with the cap. */
static void
collection_charge(PeekCollection *collection, int64 bytes)
{
	PeekSharedTotals *shared = collection->options.shared;
	int64		total;

	total = collection->state->answer_bytes += bytes;
	if (shared != NULL)
		total = pg_atomic_add_fetch_u64(&shared->answer_bytes, bytes);
	if (collection->options.max_result_bytes >= 0 &&
		total > collection->options.max_result_bytes)
		error_result_too_large(collection->options.max_result_bytes);
}

/* The open entry, if any, becomes a closed one. */
static void
collection_close_entry(PeekCollection *collection)
{
	Entry	   *entry;

	if (collection->open == NO_ENTRY)
		return;
	entry = entry_at(&collection->buffer, collection->open);
	collection->closed_entries++;
	collection->closed_rows += entry->copies;
	collection->closed_bytes += entry_byte_len(&entry->row);
	collection->open = NO_ENTRY;
}

/* Remove the batch that was taken, and move what follows to the front. */
static void
collection_forget_batch(PeekCollection *collection)
{
	EntryBuffer *buffer = &collection->buffer;
	Size		start;

	if (!collection->taken)
		return;
	collection->taken = false;

	start = collection->open == NO_ENTRY ? buffer->used : collection->open;
	memmove(buffer->data, buffer->data + start, buffer->used - start);
	buffer->used -= start;
	if (collection->open != NO_ENTRY)
		collection->open = 0;

	if (buffer->allocated > KEEP_BUFFER_BYTES &&
		buffer->used < KEEP_BUFFER_BYTES / 2)
	{
		buffer->data = repalloc(buffer->data, KEEP_BUFFER_BYTES);
		buffer->allocated = KEEP_BUFFER_BYTES;
	}
}

/* Is a batch full?  If so it waits from now on. */
static bool
collection_cut(PeekCollection *collection)
{
	int64		cut_bytes = collection->state->had_batch ?
		collection->options.cut_bytes : collection->options.first_cut_bytes;

	if (collection->held_bytes > cut_bytes && collection->closed_entries > 0)
		collection->batch_waits = true;
	return collection->batch_waits;
}

/*
 * Let the newest entry of the buffer, not yet accounted for, join the answer:
 * with the open entry, or as the new open one.  charge says whether it is
 * measured now, fold whether it may join.
 */
static void
collection_add(PeekCollection *collection, Entry *entry, bool fold,
			   bool charge)
{
	EntryBuffer *buffer = &collection->buffer;
	Size		offset = (char *) entry - buffer->data;
	PeekScanState *state = collection->state;
	int64		bytes;

	state->num_rows += entry->copies;
	if (state->limit_left > 0 && collection->options.shared == NULL)
		state->limit_left -= entry->copies;
	Assert(state->limit_left >= -1);

	if (fold && collection->open != NO_ENTRY)
	{
		Entry	   *open = entry_at(buffer, collection->open);

		if (entry_rows_equal(open, entry))
		{
			open->copies += entry->copies;
			buffer->used = offset;
			return;
		}
	}

	collection_close_entry(collection);
	collection->open = offset;
	bytes = entry_byte_len(&entry->row);
	collection->held_bytes += bytes;
	state->max_held_bytes = Max(state->max_held_bytes, collection->held_bytes);
	if (charge)
		collection_charge(collection, bytes);
}

/* A row enters the sort. */
static void
collection_enter_sort(PeekCollection *collection, TupleTableSlot *slot)
{
	const OrderOptions *order = collection->options.order;
	EntryBuffer *last = &collection->last_entered;
	Datum	   *keys = palloc(order->num_keys * sizeof(Datum));
	bool	   *isnull = palloc(order->num_keys * sizeof(bool));
	Entry	   *entry;

	for (int i = 0; i < order->num_keys; i++)
		keys[i] = slot_getattr(slot, order->attnos[i], &isnull[i]);

	/* with a limit, most rows of a long walk end here */
	if (!order_wants(collection->order, keys, isnull))
		return;

	last->used = 0;
	entry = entry_buffer_append_slot(last, collection->options.description->desc,
									 slot, collection->options.slot_is_row,
									 collection->measure_on_entry ?
									 collection->options.max_result_bytes : -1);
	if (order_add_copy(collection->order, entry, keys, isnull))
		return;
	if (collection->measure_on_entry)
		collection_charge(collection, entry_byte_len(&entry->row));
	order_put(collection->order, entry, keys, isnull);
}

/*
 * A row of a shared walk draws its number: true if it belongs to the answer.
 */
static bool
collection_draw(PeekCollection *collection)
{
	PeekScanState *state = collection->state;
	int64		number;

	if (collection->first_wanted == 0 && collection->end_wanted < 0)
		return true;
	number = pg_atomic_fetch_add_u64(&collection->options.shared->rows, 1);
	if (collection->end_wanted >= 0 && number >= collection->end_wanted - 1)
		state->limit_left = 0;	/* this is the last one, or too many */
	return number >= collection->first_wanted &&
		(collection->end_wanted < 0 || number < collection->end_wanted);
}

/*
 * Take the row in slot.  Scratch memory comes from the current context, which
 * the caller resets.
 *
 * COLLECTION_BATCH: a batch waits, and must be taken before the next offer.
 * COLLECTION_DONE: the limit is reached.  A row can do both; then the batch
 * comes first, and collection_is_done() tells the rest.
 */
CollectionVerdict
collection_offer(PeekCollection *collection, TupleTableSlot *slot)
{
	PeekScanState *state = collection->state;
	Entry	   *entry;

	Assert(!collection->batch_waits && !collection->walk_ended);
	collection_forget_batch(collection);

	if (collection->order != NULL)
	{
		collection_enter_sort(collection, slot);
		return COLLECTION_NEXT;
	}

	if (collection->options.shared != NULL)
	{
		if (!collection_draw(collection))
			return state->limit_left == 0 ? COLLECTION_DONE : COLLECTION_NEXT;
	}
	else if (state->offset_left > 0)
	{
		state->offset_left--;
		return COLLECTION_NEXT;
	}

	entry = entry_buffer_append_slot(&collection->buffer,
									 collection->options.description->desc,
									 slot, collection->options.slot_is_row,
									 collection->options.max_result_bytes);
	collection_add(collection, entry, true, true);

	if (collection_cut(collection))
		return COLLECTION_BATCH;
	if (state->limit_left == 0)
		return COLLECTION_DONE;
	return COLLECTION_NEXT;
}

/*
 * Pass on the entries that leave the sort, until a batch is full.
 */
static bool
collection_leave_sort(PeekCollection *collection)
{
	PeekScanState *state = collection->state;
	bool		fold = !collection->measure_on_entry;

	if (!collection->sorted)
	{
		order_sort(collection->order);
		collection->sorted = true;
	}

	while (!collection_is_done(collection))
	{
		const Entry *entry = order_next(collection->order);
		int64		copies;
		Entry	   *mine;

		CHECK_FOR_INTERRUPTS();
		if (entry == NULL)
			break;

		copies = entry->copies;
		if (state->offset_left > 0)
		{
			int64		skipped = Min(state->offset_left, copies);

			state->offset_left -= skipped;
			copies -= skipped;
			if (copies == 0)
				continue;
		}
		if (state->limit_left > 0)
			copies = Min(copies, state->limit_left);

		mine = entry_buffer_append_row(&collection->buffer, &entry->row);
		mine->copies = copies;
		collection_add(collection, mine, fold, !collection->measure_on_entry);
		if (collection_cut(collection))
			return true;
	}
	return false;
}

/*
 * The walk has no further row.  Returns COLLECTION_BATCH as long as batches
 * come out: take each, then call again.  At COLLECTION_DONE what is held is
 * the tail.
 */
CollectionVerdict
collection_finish(PeekCollection *collection)
{
	Assert(!collection->batch_waits);
	collection_forget_batch(collection);

	if (!collection->walk_ended)
	{
		if (collection->order != NULL)
		{
			if (collection_leave_sort(collection))
				return COLLECTION_BATCH;
			order_end(collection->order);
			entry_buffer_free(&collection->last_entered);
		}
		collection_close_entry(collection);
		collection->walk_ended = true;

		/* the entry that has just closed may fill a batch */
		if (collection_cut(collection))
			return COLLECTION_BATCH;
	}
	return COLLECTION_DONE;
}

static void
collection_view(const PeekCollection *collection, EntryBatch *batch)
{
	batch->data = collection->buffer.data;
	batch->size = collection->open == NO_ENTRY ?
		collection->buffer.used : collection->open;
	batch->num_entries = collection->closed_entries;
	batch->num_rows = collection->closed_rows;
	batch->answer_bytes = collection->closed_bytes;
}

/*
 * Take the batch that waits; false if none does.  It is a view that holds
 * until the next offer, finish or take.
 */
bool
collection_take(PeekCollection *collection, EntryBatch *batch)
{
	if (!collection->batch_waits)
		return false;

	collection_view(collection, batch);
	collection->held_bytes -= collection->closed_bytes;
	collection->closed_bytes = 0;
	collection->closed_entries = 0;
	collection->closed_rows = 0;
	collection->batch_waits = false;
	collection->state->had_batch = true;
	collection->taken = true;
	return true;
}

/* What is left after collection_finish() has returned COLLECTION_DONE. */
void
collection_tail(const PeekCollection *collection, EntryBatch *batch)
{
	Assert(collection->walk_ended && !collection->batch_waits &&
		   !collection->taken);
	collection_view(collection, batch);
}

/* The cap has been changed. */
void
collection_set_cap(PeekCollection *collection, int64 max_bytes)
{
	collection->options.max_result_bytes = max_bytes;
}

/* Can what is held be moved to another process?  A sort on disk cannot. */
bool
collection_can_move(const PeekCollection *collection)
{
	return collection->order == NULL || order_can_move(collection->order);
}

/*
 * All that is held, as entries of so many columns, for collection_import() in
 * a collection that is created with the same options and the same state.  The
 * view holds until collection_export_end(), after which the collection is as
 * it was.
 */
void
collection_export(PeekCollection *collection, EntryBatch *held,
				  int *num_columns)
{
	EntryBuffer *buffer = &collection->buffer;

	Assert(!collection->batch_waits && !collection->walk_ended);
	collection_forget_batch(collection);
	*num_columns = collection->options.description->desc->natts;
	if (collection->order != NULL)
	{
		buffer = &collection->exported;
		*num_columns = order_export(collection->order, buffer);
	}

	memset(held, 0, sizeof(*held));
	held->data = buffer->data;
	held->size = buffer->used;
	for (Size at = 0; at < buffer->used; at += entry_size(entry_at(buffer, at)))
	{
		held->num_entries++;
		held->num_rows += entry_at(buffer, at)->copies;
		held->answer_bytes += entry_byte_len(&entry_at(buffer, at)->row);
	}
}

void
collection_export_end(PeekCollection *collection)
{
	entry_buffer_free(&collection->exported);
}

/*
 * Take the next of the entries that another collection held.  They have been
 * measured and counted there; the last one stays open.
 */
void
collection_import(PeekCollection *collection, const Entry *entry)
{
	EntryBuffer *buffer = &collection->buffer;
	Entry	   *mine;

	if (collection->order != NULL)
	{
		order_import(collection->order, entry);
		return;
	}
	collection_close_entry(collection);
	mine = entry_buffer_append_row(buffer, &entry->row);
	mine->copies = entry->copies;
	collection->open = (char *) mine - buffer->data;
	collection->held_bytes += entry_byte_len(&mine->row);
}
