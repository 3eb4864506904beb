/*-------------------------------------------------------------------------
 *
 * row.c
 *	  Rows of an answer: their description, and how one becomes an entry.
 *
 * A row enters an entry flattened: values stored out of line are fetched,
 * expanded objects are written out, because an answer outlives the snapshot
 * and the memory that its rows came from.  Values compressed in line stay as
 * they are.  Composite values inside a row hold no pointers out of line:
 * PostgreSQL flattens them when it forms them.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/row.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/heaptoast.h"
#include "access/tupmacs.h"
#include "common/hashfn.h"
#include "errors.h"
#include "miscadmin.h"
#include "row.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "compat.h"

/* Bits of a row's header that say how to read it; the rest is dropped. */
#define ROW_INFOMASK	(HEAP_HASNULL | HEAP_HASVARWIDTH | HEAP_HASEXTERNAL)

/* Where the part of a row begins that equal rows share byte by byte. */
#define ROW_IMAGE_OFFSET	MINIMAL_TUPLE_DATA_OFFSET

#define ENTRY_BUFFER_START	8192

static uint64 fingerprint_type(Oid typid, uint64 hash);

static uint64
fingerprint_add(uint64 hash, uint64 value)
{
	return hash_combine64(hash, hash_bytes_extended((unsigned char *) &value,
													sizeof(value), 0));
}

/* Add the columns of a row or composite type, dropped ones included. */
static uint64
fingerprint_columns(TupleDesc desc, uint64 hash)
{
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped)
		{
			/* a dropped column still takes its place in stored values */
			hash = fingerprint_add(hash, 0);
			hash = fingerprint_add(hash, att->attlen);
			continue;
		}
		hash = fingerprint_type(att->atttypid, hash);
		hash = fingerprint_add(hash, (uint32) att->atttypmod);
		hash = fingerprint_add(hash, att->attcollation);
	}
	return hash;
}

/*
 * Add what decides how a stored value of a type is read.  Labels of an enum
 * and checks of a domain do not: their values stay readable when they change.
 */
static uint64
fingerprint_type(Oid typid, uint64 hash)
{
	TypeCacheEntry *type;
	Oid			element;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();

	typid = getBaseType(typid);
	hash = fingerprint_add(hash, typid);

	element = get_element_type(typid);
	if (OidIsValid(element))
		return fingerprint_type(element, hash);

	type = lookup_type_cache(typid, TYPECACHE_TUPDESC | TYPECACHE_RANGE_INFO |
							 TYPECACHE_MULTIRANGE_INFO);
	hash = fingerprint_add(hash, (uint64) (uint16) type->typlen << 16 |
						   (uint64) (uint8) type->typalign << 8 |
						   (uint64) type->typbyval);
	if (type->tupDesc != NULL)
		hash = fingerprint_columns(type->tupDesc, hash);
	else if (type->rngelemtype != NULL)
		hash = fingerprint_type(type->rngelemtype->type_id, hash);
	else if (type->rngtype != NULL)
		hash = fingerprint_type(type->rngtype->type_id, hash);
	return hash;
}

/*
 * Describe an answer that has the columns of desc, which must have no dropped
 * ones.  The result refers to desc and lives in the current context.
 */
RowDescription *
row_description_create(TupleDesc desc)
{
	RowDescription *description = palloc0(sizeof(RowDescription));

	description->desc = desc;
	return description;
}

/*
 * The fingerprint of an answer's columns.  It is computed when it is first
 * wanted: an answer from memory has no use for it.
 */
uint64
row_description_fingerprint(RowDescription *description)
{
	if (!description->has_fingerprint)
	{
		TupleDesc	desc = description->desc;

		description->fingerprint = fingerprint_columns(desc, desc->natts);
		description->has_fingerprint = true;
	}
	return description->fingerprint;
}

void
entry_buffer_init(EntryBuffer *buffer, MemoryContext context)
{
	buffer->data = NULL;
	buffer->used = 0;
	buffer->allocated = 0;
	buffer->context = context;
}

void
entry_buffer_free(EntryBuffer *buffer)
{
	if (buffer->data != NULL)
		pfree(buffer->data);
	entry_buffer_init(buffer, buffer->context);
}

/* Make sure that size more bytes fit behind the used ones. */
void
entry_buffer_reserve(EntryBuffer *buffer, Size size)
{
	Size		needed = buffer->used + size;
	Size		allocated = Max(buffer->allocated, ENTRY_BUFFER_START);

	if (needed <= buffer->allocated)
		return;

	/* double while small; a giant row is not worth twice its size */
	while (allocated < needed && allocated < 64 * 1024 * 1024)
		allocated *= 2;
	if (allocated < needed)
		allocated = MAXALIGN(needed + needed / 8);

	if (buffer->data == NULL)
		buffer->data = MemoryContextAllocHuge(buffer->context, allocated);
	else
		buffer->data = repalloc_huge(buffer->data, allocated);
	buffer->allocated = allocated;
}

/* Append an entry of one copy for a row of row_len bytes, yet unwritten. */
static Entry *
entry_buffer_append(EntryBuffer *buffer, Size row_len)
{
	Size		size = MAXALIGN(ENTRY_ROW_OFFSET + row_len);
	Entry	   *entry;

	entry_buffer_reserve(buffer, size);
	entry = (Entry *) (buffer->data + buffer->used);
	buffer->used += size;

	entry->copies = 1;
	entry->row.t_len = row_len;
	memset(entry->row.mt_padding, 0, sizeof(entry->row.mt_padding));
	return entry;
}

/* Keep of a copied header only what rows of the same values share. */
static void
entry_clean_header(Entry *entry)
{
	entry->row.t_infomask2 &= HEAP_NATTS_MASK;
	entry->row.t_infomask &= ROW_INFOMASK;
}

Entry *
entry_buffer_append_row(EntryBuffer *buffer, const MinimalTupleData *row)
{
	Entry	   *entry = entry_buffer_append(buffer, row->t_len);

	memcpy((char *) &entry->row + ROW_IMAGE_OFFSET,
		   (const char *) row + ROW_IMAGE_OFFSET,
		   row->t_len - ROW_IMAGE_OFFSET);
	entry_clean_header(entry);
	return entry;
}

/*
 * Add up, before anything is fetched or formed, what the values will take at
 * least.  A row over the limit of one value, or over max_bytes (negative =
 * none), fails here: of a row of two halves of a gigabyte not even the first
 * is fetched.
 */
static void
check_row_size(TupleDesc desc, Datum *values, bool *isnull, int64 max_bytes)
{
	int64		size = 0;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!isnull[i] && att->attlen == -1)
		{
			struct varlena *value;

			value = (struct varlena *) DatumGetPointer(values[i]);

			/*
			 * Only values that are long for certain count: short ones may
			 * lose their header to packing.
			 */
			if (VARATT_IS_EXTERNAL_ONDISK(value) ||
				!VARATT_CAN_MAKE_SHORT(value))
				size += toast_datum_size(values[i]);
		}
	}
	if (size > (int64) MAX_ROW_SIZE)
		error_row_too_large(size);
	if (max_bytes >= 0 && size > max_bytes)
		error_result_too_large(max_bytes);
}

/*
 * Append the row in slot as an entry of one copy.  desc are the answer's
 * columns, the first ones of the slot.  slot_is_row promises that they are
 * exactly the slot's own columns, none dropped: then a heap tuple that is
 * complete and has nothing out of line is taken as it stands, without being
 * taken apart.
 *
 * Scratch memory comes from the current context, which the caller resets.
 */
Entry *
entry_buffer_append_slot(EntryBuffer *buffer, TupleDesc desc,
						 TupleTableSlot *slot, bool slot_is_row,
						 int64 max_bytes)
{
	Datum	   *values;
	bool	   *isnull;
	MinimalTuple row;

	if (slot_is_row && TTS_IS_BUFFERTUPLE(slot))
	{
		HeapTuple	tuple = ((HeapTupleTableSlot *) slot)->tuple;

		if (tuple != NULL && !HeapTupleHasExternal(tuple) &&
			HeapTupleHeaderGetNatts(tuple->t_data) == desc->natts)
		{
			Size		len = tuple->t_len - MINIMAL_TUPLE_OFFSET;
			Entry	   *entry = entry_buffer_append(buffer, len);

			/* as heap tuples become minimal ones, but in place */
			memcpy((char *) &entry->row + ROW_IMAGE_OFFSET,
				   (char *) tuple->t_data + MINIMAL_TUPLE_OFFSET +
				   ROW_IMAGE_OFFSET, len - ROW_IMAGE_OFFSET);
			entry_clean_header(entry);
			return entry;
		}
	}

	slot_getsomeattrs(slot, desc->natts);
	check_row_size(desc, slot->tts_values, slot->tts_isnull, max_bytes);

	values = palloc(desc->natts * sizeof(Datum) + 1);
	isnull = slot->tts_isnull;
	for (int i = 0; i < desc->natts; i++)
	{
		struct varlena *value;

		values[i] = slot->tts_values[i];
		if (isnull[i] || TupleDescAttr(desc, i)->attlen != -1)
			continue;
		value = (struct varlena *) DatumGetPointer(values[i]);
		if (VARATT_IS_EXTERNAL(value))
			values[i] = PointerGetDatum(detoast_external_attr(value));
	}

	/* fetching has made it known; forming must not run into palloc's limit */
	{
		Size		len = heap_compute_data_size(desc, values, isnull);

		if (len > MAX_ROW_SIZE)
			error_row_too_large(len);
	}
	row = heap_form_minimal_tuple(desc, values, isnull, 0);
	return entry_buffer_append_row(buffer, row);
}

/* Equal is: the same bytes. */
bool
entry_rows_equal(const Entry *a, const Entry *b)
{
	return a->row.t_len == b->row.t_len &&
		memcmp((const char *) &a->row + ROW_IMAGE_OFFSET,
			   (const char *) &b->row + ROW_IMAGE_OFFSET,
			   a->row.t_len - ROW_IMAGE_OFFSET) == 0;
}
