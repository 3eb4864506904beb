/*-------------------------------------------------------------------------
 *
 * order.c
 *	  The sort of an answer with order_by.
 *
 * Entries are kept in an array up to work_mem, because an array can be handed
 * over to another process and a tuplesort cannot.  With a limit of N rows the
 * array is thinned to the best N whenever it holds more than twice as many,
 * and from then on rows that the worst of these beats are not even copied.  An
 * array that outgrows work_mem goes over to a tuplesort, bounded if there is a
 * limit.
 *
 * The last sort key is the row itself, byte by byte, so that the order is
 * total: which of two equal sort keys makes it into a top N depends on the
 * rows alone.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/walk/order.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "errors.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "row.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/sortsupport.h"
#include "utils/tuplesort.h"

#include "walk/order.h"

#include "compat.h"

/* bytea < bytea, which compares as order_compare_rows() does */
#define BYTEA_LESS_OPERATOR 1957

typedef struct OrderItem
{
	Entry	   *entry;
	Datum	   *keys;
	bool	   *isnull;
} OrderItem;

struct PeekOrder
{
	OrderOptions options;
	MemoryContext context;		/* of the array and its items */
	SortSupport sort_keys;
	int16	   *typlen;			/* of the sort keys */
	bool	   *typbyval;

	/* up to work_mem: an array */
	OrderItem  *items;
	int64		num_items;
	int64		max_items;
	Size		item_bytes;
	bool		thinned;		/* then items[cutoff] is the worst wanted */
	int64		cutoff;

	TupleDesc	sort_desc;		/* keys, row, copies */

	/* beyond it: a sort */
	Tuplesortstate *tuplesort;
	TupleTableSlot *sort_slot;
	EntryBuffer last;			/* newest entry, held back: copies may come */
	Datum	   *last_keys;
	bool	   *last_isnull;
	MemoryContext last_context;
	bool		have_last;

	int64		next;			/* reading the array */
	EntryBuffer out;			/* reading the sort */
};

/*
 * Create a sort in the current context.
 */
PeekOrder *
order_create(const OrderOptions *options)
{
	PeekOrder  *order = palloc0(sizeof(PeekOrder));

	order->options = *options;
	order->context = AllocSetContextCreate(CurrentMemoryContext,
										   "peekstash order",
										   ALLOCSET_DEFAULT_SIZES);
	order->sort_keys = palloc0(options->num_keys * sizeof(SortSupportData));
	order->typlen = palloc(options->num_keys * sizeof(int16));
	order->typbyval = palloc(options->num_keys * sizeof(bool));
	for (int i = 0; i < options->num_keys; i++)
	{
		SortSupport key = &order->sort_keys[i];

		key->ssup_cxt = CurrentMemoryContext;
		key->ssup_collation = options->collations[i];
		key->ssup_nulls_first = options->nulls_first[i];
		key->ssup_attno = i + 1;
		PrepareSortSupportFromOrderingOp(options->operators[i], key);
		get_typlenbyval(options->types[i], &order->typlen[i],
						&order->typbyval[i]);
	}
	return order;
}

static int
order_compare_keys(PeekOrder *order, const Datum *keys, const bool *isnull,
				   const OrderItem *item)
{
	for (int i = 0; i < order->options.num_keys; i++)
	{
		int			cmp = ApplySortComparator(keys[i], isnull[i],
											  item->keys[i], item->isnull[i],
											  &order->sort_keys[i]);

		if (cmp != 0)
			return cmp;
	}
	return 0;
}

/* An item as a tuple: its keys, its row, and the number of copies. */
static TupleDesc
order_desc(PeekOrder *order)
{
	int			num_keys = order->options.num_keys;
	TupleDesc	desc;
	MemoryContext old;

	if (order->sort_desc != NULL)
		return order->sort_desc;
	old = MemoryContextSwitchTo(order->context);
	desc = CreateTemplateTupleDesc(num_keys + 2);
	for (int i = 0; i < num_keys; i++)
		TupleDescInitEntry(desc, i + 1, NULL, order->options.types[i], -1, 0);
	TupleDescInitEntry(desc, num_keys + 1, NULL, BYTEAOID, -1, 0);
	TupleDescInitEntry(desc, num_keys + 2, NULL, INT8OID, -1, 0);
	order->sort_desc = desc;
	MemoryContextSwitchTo(old);
	return desc;
}

/* The part of a row that is its identity. */
static char *
order_row_image(const MinimalTupleData *row, Size *len)
{
	*len = row->t_len - MINIMAL_TUPLE_DATA_OFFSET;
	return (char *) row + MINIMAL_TUPLE_DATA_OFFSET;
}

static int
order_compare_rows(const MinimalTupleData *a, const MinimalTupleData *b)
{
	Size		alen;
	Size		blen;
	char	   *adata = order_row_image(a, &alen);
	char	   *bdata = order_row_image(b, &blen);
	int			cmp = memcmp(adata, bdata, Min(alen, blen));

	if (cmp != 0)
		return cmp;
	return alen == blen ? 0 : (alen < blen ? -1 : 1);
}

static int
order_compare_items(const void *a, const void *b, void *arg)
{
	const OrderItem *left = a;
	const OrderItem *right = b;
	int			cmp;

	CHECK_FOR_INTERRUPTS();
	cmp = order_compare_keys(arg, left->keys, left->isnull, right);
	return cmp != 0 ? cmp :
		order_compare_rows(&left->entry->row, &right->entry->row);
}

/*
 * Can a row with these keys still be among those wanted?  Ties with the worst
 * one must be put: their rows decide.
 */
bool
order_wants(PeekOrder *order, const Datum *keys, const bool *isnull)
{
	return !order->thinned || order->tuplesort != NULL ||
		order_compare_keys(order, keys, isnull,
						   &order->items[order->cutoff]) <= 0;
}

static void
order_free_item(PeekOrder *order, OrderItem *item)
{
	for (int i = 0; i < order->options.num_keys; i++)
	{
		if (!order->typbyval[i] && !item->isnull[i])
			pfree(DatumGetPointer(item->keys[i]));
	}
	pfree(item->keys);
	pfree(item->entry);
}

static Size
order_item_size(PeekOrder *order, const OrderItem *item)
{
	Size		size = sizeof(OrderItem) + GetMemoryChunkSpace(item->entry) +
		GetMemoryChunkSpace(item->keys);

	for (int i = 0; i < order->options.num_keys; i++)
	{
		if (!order->typbyval[i] && !item->isnull[i])
			size += GetMemoryChunkSpace(DatumGetPointer(item->keys[i]));
	}
	return size;
}

/* Copy keys, flattened; must be called in the context they shall live in. */
static void
order_copy_keys(PeekOrder *order, const Datum *keys, const bool *isnull,
				Datum *to_keys, bool *to_isnull)
{
	for (int i = 0; i < order->options.num_keys; i++)
	{
		to_isnull[i] = isnull[i];
		if (isnull[i])
			to_keys[i] = (Datum) 0;
		else if (order->typlen[i] == -1)
			to_keys[i] = PointerGetDatum(PG_DETOAST_DATUM_COPY(keys[i]));
		else
			to_keys[i] = datumCopy(keys[i], order->typbyval[i],
								   order->typlen[i]);
	}
}

/* Sort the array and drop what is not among the first max_rows. */
static void
order_thin(PeekOrder *order)
{
	int64		rows = 0;
	int64		kept = 0;

	qsort_arg(order->items, order->num_items, sizeof(OrderItem),
			  order_compare_items, order);
	while (kept < order->num_items && rows < order->options.max_rows)
		rows += order->items[kept++].entry->copies;
	for (int64 i = kept; i < order->num_items; i++)
	{
		order->item_bytes -= order_item_size(order, &order->items[i]);
		order_free_item(order, &order->items[i]);
	}
	order->num_items = kept;

	/* new items come behind the sorted ones: the cutoff stays where it is */
	order->thinned = rows >= order->options.max_rows;
	order->cutoff = kept - 1;
}

/* A row and its sort keys go into one tuple: add up before it is formed. */
static void
check_sorted_row_size(const PeekOrder *order, Size row_len, const Datum *keys,
					  const bool *isnull)
{
	Size		size = row_len;

	for (int i = 0; i < order->options.num_keys; i++)
	{
		if (order->typlen[i] == -1 && !isnull[i])
			size += VARSIZE_ANY(DatumGetPointer(keys[i]));
	}
	if (size > MAX_ROW_SIZE)
		error_row_too_large(size);
}

/*
 * The values of an item's tuple.  The row's image is copied into the current
 * context.
 */
static void
order_form_values(PeekOrder *order, const Entry *entry, const Datum *keys,
				  const bool *isnull, Datum *values, bool *nulls)
{
	int			num_keys = order->options.num_keys;
	Size		len;
	char	   *data = order_row_image(&entry->row, &len);
	bytea	   *image;

	check_sorted_row_size(order, len, keys, isnull);
	image = palloc(VARHDRSZ + len);
	SET_VARSIZE(image, VARHDRSZ + len);
	memcpy(VARDATA(image), data, len);

	memcpy(values, keys, num_keys * sizeof(Datum));
	memcpy(nulls, isnull, num_keys * sizeof(bool));
	values[num_keys] = PointerGetDatum(image);
	values[num_keys + 1] = Int64GetDatum(entry->copies);
	nulls[num_keys] = nulls[num_keys + 1] = false;
}

/* The entry that such values are of, in a buffer. */
static Entry *
order_form_entry(EntryBuffer *buffer, Datum row_image, int64 copies)
{
	bytea	   *image = DatumGetByteaPP(row_image);
	Size		len = VARSIZE_ANY_EXHDR(image) + MINIMAL_TUPLE_DATA_OFFSET;
	Entry	   *entry;

	buffer->used = 0;
	entry_buffer_reserve(buffer, MAXALIGN(ENTRY_ROW_OFFSET + len));
	entry = (Entry *) buffer->data;
	entry->copies = copies;
	entry->row.t_len = len;
	memcpy((char *) &entry->row + MINIMAL_TUPLE_DATA_OFFSET,
		   VARDATA_ANY(image), VARSIZE_ANY_EXHDR(image));
	return entry;
}

/* Put what was held back into the tuplesort. */
static void
order_flush_last(PeekOrder *order)
{
	TupleTableSlot *slot = order->sort_slot;
	MemoryContext old;

	if (!order->have_last)
		return;
	ExecClearTuple(slot);
	old = MemoryContextSwitchTo(order->last_context);
	order_form_values(order, (Entry *) order->last.data, order->last_keys,
					  order->last_isnull, slot->tts_values, slot->tts_isnull);
	MemoryContextSwitchTo(old);
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(order->tuplesort, slot);

	ExecClearTuple(slot);
	MemoryContextReset(order->last_context);
	order->last.used = 0;
	order->have_last = false;
}

static void
order_put_tuplesort(PeekOrder *order, const Entry *entry, const Datum *keys,
					const bool *isnull)
{
	MemoryContext old;

	order_flush_last(order);
	old = MemoryContextSwitchTo(order->last_context);
	order_copy_keys(order, keys, isnull, order->last_keys, order->last_isnull);
	MemoryContextSwitchTo(old);
	entry_buffer_append_row(&order->last, &entry->row)->copies = entry->copies;
	order->have_last = true;
}

/* The array has outgrown work_mem: move it over. */
static void
order_start_tuplesort(PeekOrder *order)
{
	int			num_keys = order->options.num_keys;
	AttrNumber *attnos = palloc((num_keys + 1) * sizeof(AttrNumber));
	Oid		   *operators = palloc((num_keys + 1) * sizeof(Oid));
	Oid		   *collations = palloc((num_keys + 1) * sizeof(Oid));
	bool	   *nulls_first = palloc((num_keys + 1) * sizeof(bool));
	bool		bounded = order->options.max_rows >= 0;

	for (int i = 0; i < num_keys; i++)
	{
		attnos[i] = i + 1;
		operators[i] = order->options.operators[i];
		collations[i] = order->options.collations[i];
		nulls_first[i] = order->options.nulls_first[i];
	}
	attnos[num_keys] = num_keys + 1;
	operators[num_keys] = BYTEA_LESS_OPERATOR;
	collations[num_keys] = InvalidOid;
	nulls_first[num_keys] = false;

	order->sort_slot = MakeSingleTupleTableSlot(order_desc(order),
												&TTSOpsVirtual);
	order->last_context = AllocSetContextCreate(order->context,
												"peekstash order row",
												ALLOCSET_SMALL_SIZES);
	order->last_keys = palloc(num_keys * sizeof(Datum));
	order->last_isnull = palloc(num_keys * sizeof(bool));
	entry_buffer_init(&order->last, order->context);
	entry_buffer_init(&order->out, order->context);

	order->tuplesort = tuplesort_begin_heap(order->sort_desc, num_keys + 1,
											attnos, operators, collations,
											nulls_first, work_mem, NULL,
											bounded ? TUPLESORT_ALLOWBOUNDED :
											TUPLESORT_NONE);
	if (bounded)
		tuplesort_set_bound(order->tuplesort, order->options.max_rows);

	for (int64 i = 0; i < order->num_items; i++)
	{
		OrderItem  *item = &order->items[i];

		CHECK_FOR_INTERRUPTS();
		order_put_tuplesort(order, item->entry, item->keys, item->isnull);
		order_free_item(order, item);
	}
	pfree(order->items);
	order->items = NULL;
	order->num_items = 0;
}

/*
 * Put an entry with its sort keys.  All of it is copied.
 */
void
order_put(PeekOrder *order, const Entry *entry, const Datum *keys,
		  const bool *isnull)
{
	MemoryContext old = MemoryContextSwitchTo(order->context);
	int			num_keys = order->options.num_keys;
	Size		size = ENTRY_ROW_OFFSET + entry->row.t_len;
	OrderItem  *item;

	if (order->tuplesort != NULL)
	{
		order_put_tuplesort(order, entry, keys, isnull);
		MemoryContextSwitchTo(old);
		return;
	}

	if (order->num_items == order->max_items)
	{
		order->max_items = Max(order->max_items * 2, 64);
		if (order->items == NULL)
			order->items = palloc(order->max_items * sizeof(OrderItem));
		else
			order->items = repalloc_huge(order->items,
										 order->max_items * sizeof(OrderItem));
	}
	item = &order->items[order->num_items];
	item->entry = palloc(size);
	memcpy(item->entry, entry, size);
	item->keys = palloc(num_keys * (sizeof(Datum) + sizeof(bool)));
	item->isnull = (bool *) (item->keys + num_keys);
	order_copy_keys(order, keys, isnull, item->keys, item->isnull);
	order->num_items++;
	order->item_bytes += order_item_size(order, item);

	/* written so that twice the largest limit does not overflow */
	if (order->options.max_rows >= 0 &&
		order->num_items / 2 >= order->options.max_rows &&
		order->num_items > 2 * order->options.max_rows)
		order_thin(order);
	if (order->item_bytes > (Size) work_mem * 1024)
	{
		if (order->options.max_rows >= 0)
			order_thin(order);

		/* half of it, lest every few rows thin the array again */
		if (order->item_bytes > (Size) work_mem * 1024 / 2)
			order_start_tuplesort(order);
	}
	MemoryContextSwitchTo(old);
}

/*
 * If the newest entry has this very row and these sort keys, it gets one more
 * copy; else false.  The keys must be looked at, because they may come from
 * columns that are not in the row.
 */
bool
order_add_copy(PeekOrder *order, const Entry *entry, const Datum *keys,
			   const bool *isnull)
{
	OrderItem	newest = {0};

	if (order->tuplesort != NULL)
	{
		if (order->have_last)
		{
			newest.entry = (Entry *) order->last.data;
			newest.keys = order->last_keys;
			newest.isnull = order->last_isnull;
		}
	}
	else if (order->num_items > 0)
		newest = order->items[order->num_items - 1];

	if (newest.entry == NULL || !entry_rows_equal(newest.entry, entry) ||
		order_compare_keys(order, keys, isnull, &newest) != 0)
		return false;
	newest.entry->copies += entry->copies;
	return true;
}

/* Nothing more will be put. */
void
order_sort(PeekOrder *order)
{
	if (order->tuplesort != NULL)
	{
		order_flush_last(order);
		tuplesort_performsort(order->tuplesort);
		ExecDropSingleTupleTableSlot(order->sort_slot);
		order->sort_slot = MakeSingleTupleTableSlot(order->sort_desc,
													&TTSOpsMinimalTuple);
	}
	else if (order->num_items > 0)
		qsort_arg(order->items, order->num_items, sizeof(OrderItem),
				  order_compare_items, order);
}

/*
 * The next entry in order, valid until the next call; NULL at the end.  With a
 * limit, more entries than wanted may come.
 */
const Entry *
order_next(PeekOrder *order)
{
	if (order->tuplesort == NULL)
		return order->next < order->num_items ?
			order->items[order->next++].entry : NULL;
	else
	{
		int			num_keys = order->options.num_keys;
		Datum		image;
		Datum		copies;
		bool		isnull;

		if (!tuplesort_gettupleslot(order->tuplesort, true, false,
									order->sort_slot, NULL))
			return NULL;
		image = slot_getattr(order->sort_slot, num_keys + 1, &isnull);
		copies = slot_getattr(order->sort_slot, num_keys + 2, &isnull);
		return order_form_entry(&order->out, image, DatumGetInt64(copies));
	}
}

/*
 * Give back what the sort holds, temporary files above all.  After an error
 * the transaction does it.
 */
void
order_end(PeekOrder *order)
{
	if (order->tuplesort != NULL)
	{
		ExecDropSingleTupleTableSlot(order->sort_slot);
		tuplesort_end(order->tuplesort);
	}
	MemoryContextDelete(order->context);
}

/* Can what was put be moved?  Not once it has become a tuplesort. */
bool
order_can_move(const PeekOrder *order)
{
	return order->tuplesort == NULL;
}

/*
 * Append all items to a buffer, each as an entry whose row has the returned
 * number of columns, for order_import().
 */
int
order_export(PeekOrder *order, EntryBuffer *buffer)
{
	int			natts = order->options.num_keys + 2;
	Datum	   *values = palloc(natts * sizeof(Datum));
	bool	   *nulls = palloc(natts * sizeof(bool));
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "peekstash order export",
												  ALLOCSET_DEFAULT_SIZES);

	Assert(order_can_move(order));
	for (int64 i = 0; i < order->num_items; i++)
	{
		OrderItem  *item = &order->items[i];
		MemoryContext old = MemoryContextSwitchTo(context);
		MinimalTuple tuple;

		CHECK_FOR_INTERRUPTS();
		order_form_values(order, item->entry, item->keys, item->isnull,
						  values, nulls);
		tuple = heap_form_minimal_tuple(order_desc(order), values, nulls, 0);
		MemoryContextSwitchTo(old);
		entry_buffer_append_row(buffer, tuple);
		MemoryContextReset(context);
	}
	MemoryContextDelete(context);
	return natts;
}

/* Put an item that another process has exported. */
void
order_import(PeekOrder *order, const Entry *entry)
{
	int			natts = order->options.num_keys + 2;
	Datum	   *values = palloc(natts * sizeof(Datum));
	bool	   *nulls = palloc(natts * sizeof(bool));
	HeapTupleData tuple;
	EntryBuffer buffer;

	/* a heap tuple that ends where the minimal tuple does */
	tuple.t_len = entry->row.t_len + MINIMAL_TUPLE_OFFSET;
	tuple.t_data = (HeapTupleHeader) ((char *) &entry->row -
									  MINIMAL_TUPLE_OFFSET);
	heap_deform_tuple(&tuple, order_desc(order), values, nulls);

	entry_buffer_init(&buffer, CurrentMemoryContext);
	order_put(order, order_form_entry(&buffer, values[natts - 2],
									  DatumGetInt64(values[natts - 1])),
			  values, nulls);
	entry_buffer_free(&buffer);
	pfree(values);
	pfree(nulls);
}
