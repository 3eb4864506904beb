/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  A stored answer, back into entries.
 *
 * The batches are read through the table's primary key directly, without SPI
 * and without a portal: a portal would die with CLOSE ALL or with the
 * savepoint it was opened in, while its reader lives on.  Between two calls
 * the reader holds nothing but memory: no snapshot, no pin, no open relation.
 * So it does not matter what happens to the transaction meanwhile; what is
 * gone is noticed, because every batch has to begin where the last one ended.
 *
 * The snapshot of each look is the latest one.  The calling statement's may be
 * older than the batches, and a REPEATABLE READ transaction's always is.
 *
 * Rows of the stash belong to the extension, not to the caller, so no
 * privileges are checked here: who may read an answer is decided before.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/stash/reader.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/relscan.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/tableam.h"
#include "errors.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "stash/batch.h"
#include "stash/handle.h"
#include "stash/reader.h"
#include "stash/stash.h"
#include "stop.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"

struct StashReader
{
	pg_uuid_t	handle;			/* what the batches are found by */
	pg_uuid_t	stash;			/* what they are known by */
	int			worker;
	int			num_columns;
	int64		num_rows;		/* rows that all batches must have together */
	int64		read_bytes;		/* how much is decoded at once */

	MemoryContext context;		/* the buffer's */
	MemoryContext batch_context;	/* of the batch at hand; reset with it */
	int64		next_row;		/* where the next batch begins */
	int64		num_batches;	/* read so far */
	bool		in_batch;
	bool		is_stored;		/* under a handle that others may release */
	BatchDecoder decoder;
	EntryBuffer buffer;
	bool		keep_buffer;	/* it holds the beginning of the next run */
};

/*
 * Open a reader in the current context, for the num_rows rows that a worker
 * has written under a handle.  is_stored says whether there is a handle row.
 */
StashReader *
stash_reader_open(const pg_uuid_t *handle, const pg_uuid_t *stash,
				  bool is_stored, int worker, int num_columns, int64 num_rows,
				  int64 read_bytes)
{
	StashReader *reader = palloc0(sizeof(StashReader));

	reader->handle = *handle;
	reader->stash = *stash;
	reader->is_stored = is_stored;
	reader->worker = worker;
	reader->num_columns = num_columns;
	reader->num_rows = num_rows;
	reader->read_bytes = read_bytes;
	reader->context = CurrentMemoryContext;
	reader->batch_context = AllocSetContextCreate(CurrentMemoryContext,
												  "peekstash batch",
												  ALLOCSET_DEFAULT_SIZES);
	entry_buffer_init(&reader->buffer, reader->context);
	return reader;
}

/*
 * The batch at hand is not what it should be.  If the answer that was opened
 * is not stored any more, nothing is damaged: it was released, and its handle
 * maybe used again.
 */
static void
reader_damaged(const StashReader *reader, const char *what)
{
	if (reader->is_stored && !handle_has_stash(&reader->handle, &reader->stash))
		error_no_such_peek(&reader->handle);
	error_answer_damaged(stash_handle_text(&reader->handle),
						 psprintf("The batch at row " INT64_FORMAT " %s.",
								  reader->next_row, what));
}

/*
 * Fetch the last batch that begins at row or before it, into batch_context;
 * returns NULL if there is none.
 */
static bytea *
reader_fetch(StashReader *reader, int64 row, int64 *first_row,
			 int64 *num_rows)
{
	Oid			table_oid = stash_batch_table();
	bytea	   *payload = NULL;
	bool		isnull;
	Relation	table;
	Relation	index;
	Snapshot	snapshot;
	IndexScanDesc scan;
	ScanKeyData keys[3];
	TupleTableSlot *slot;
	MemoryContext old;

	PEEK_STOP("reader-fetch");
	if (!OidIsValid(table_oid))
		return NULL;

	old = MemoryContextSwitchTo(reader->batch_context);
	table = table_open(table_oid, AccessShareLock);
	index = index_open(RelationGetPrimaryKeyIndex(table, false),
					   AccessShareLock);
	slot = table_slot_create(table, NULL);

	ScanKeyInit(&keys[0], BATCH_HANDLE, BTEqualStrategyNumber, F_UUID_EQ,
				UUIDPGetDatum(&reader->handle));
	ScanKeyInit(&keys[1], BATCH_WORKER, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(reader->worker));
	ScanKeyInit(&keys[2], BATCH_FIRST_ROW, BTLessEqualStrategyNumber,
				F_INT8LE, Int64GetDatum(row));

	snapshot = RegisterSnapshot(GetLatestSnapshot());
	scan = index_beginscan(table, index, snapshot, NULL, lengthof(keys), 0);
	index_rescan(scan, keys, lengthof(keys), NULL, 0);
	if (index_getnext_slot(scan, BackwardScanDirection, slot))
	{
		*first_row = DatumGetInt64(slot_getattr(slot, BATCH_FIRST_ROW,
												&isnull));
		*num_rows = DatumGetInt64(slot_getattr(slot, BATCH_NUM_ROWS, &isnull));
		payload = DatumGetByteaPCopy(slot_getattr(slot, BATCH_PAYLOAD,
												  &isnull));
	}
	index_endscan(scan);
	UnregisterSnapshot(snapshot);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, AccessShareLock);
	table_close(table, AccessShareLock);
	MemoryContextSwitchTo(old);
	return payload;
}

/*
 * Open the batch that row is in.  Reading on, that is the first row of a
 * batch: between two batches there is no gap.
 */
static void
reader_open_batch(StashReader *reader, int64 row, bool at_start)
{
	int64		first_row = 0;
	int64		num_rows = 0;
	bytea	   *payload;
	const char *wrong;
	BatchPlace	place;
	MemoryContext old;

	reader->next_row = row;
	payload = reader_fetch(reader, row, &first_row, &num_rows);
	if (payload == NULL || row - first_row >= num_rows ||
		(at_start && row != first_row))
		reader_damaged(reader, "is missing");
	reader->next_row = first_row;

	old = MemoryContextSwitchTo(reader->batch_context);
	wrong = batch_decoder_open(&reader->decoder, payload, reader->num_columns);
	MemoryContextSwitchTo(old);

	batch_place_set(&place, &reader->stash, reader->worker, first_row);
	if (wrong == NULL && !batch_decoder_is_at(&reader->decoder, &place))
		wrong = "belongs elsewhere";
	if (wrong == NULL && reader->decoder.header.num_rows != num_rows)
		wrong = "has wrong counts";
	if (wrong == NULL && num_rows > reader->num_rows - first_row)
		wrong = "has more rows than the answer";
	if (wrong != NULL)
		reader_damaged(reader, wrong);
	reader->in_batch = true;
	reader->num_batches++;
}

static void
reader_close_batch(StashReader *reader)
{
	reader->next_row += reader->decoder.header.num_rows;
	reader->in_batch = false;
	MemoryContextReset(reader->batch_context);
}

/* Decode the next entry of the open batch; NULL at its end. */
static Entry *
reader_decode(StashReader *reader)
{
	Entry	   *entry;
	const char *wrong = batch_decoder_next(&reader->decoder, &reader->buffer,
										   &entry);

	if (wrong != NULL)
		reader_damaged(reader, wrong);
	return entry;
}

/*
 * Let the next run begin with this row (from 0), which must be one of the
 * rows that the reader was opened for.
 */
void
stash_reader_seek(StashReader *reader, int64 row)
{
	int64		skip;

	Assert(!reader->in_batch && row < reader->num_rows);
	reader_open_batch(reader, row, false);
	skip = row - reader->next_row;

	reader->buffer.used = 0;
	while (skip > 0)
	{
		Entry	   *entry;

		reader->buffer.used = 0;
		entry = reader_decode(reader);
		if (entry == NULL)
			reader_damaged(reader, "has wrong counts");
		if (entry->copies > skip)
		{
			/* the first run begins with what is left of this one */
			entry->copies -= skip;
			reader->keep_buffer = true;
			return;
		}
		skip -= entry->copies;
	}
	reader->buffer.used = 0;
}

/*
 * The next run of entries, valid until the next call; false at the end.  It
 * holds at most read_bytes, or a single entry, and goes no further than is
 * needed for max_rows rows.
 */
bool
stash_reader_next(StashReader *reader, int64 max_rows, const char **data,
				  Size *size)
{
	EntryBuffer *buffer = &reader->buffer;
	int64		rows = 0;

	if (reader->keep_buffer)
	{
		rows = ((Entry *) buffer->data)->copies;
		reader->keep_buffer = false;
	}
	else
		buffer->used = 0;

	while (buffer->used == 0 ||
		   (buffer->used < (Size) reader->read_bytes && rows < max_rows))
	{
		Entry	   *entry;

		if (!reader->in_batch)
		{
			CHECK_FOR_INTERRUPTS();
			if (reader->next_row == reader->num_rows)
				break;
			reader_open_batch(reader, reader->next_row, true);
		}

		entry = reader_decode(reader);
		if (entry == NULL)
			reader_close_batch(reader);
		else
			rows += entry->copies;
	}
	*data = buffer->data;
	*size = buffer->used;
	return buffer->used > 0;
}

/*
 * Tell of each batch of a stored answer, in the order of its rows, without
 * reading payloads, and describe its tail.
 */
void
reader_list_batches(const StoredPeek *peek, BatchInfoCallback callback,
					void *arg, BatchInfo *tail)
{
	const OutcomeRow *outcome = &peek->outcome;
	Relation	table = table_open(stash_batch_table(), AccessShareLock);
	Relation	index = index_open(RelationGetPrimaryKeyIndex(table, false),
								   AccessShareLock);
	TupleTableSlot *slot = table_slot_create(table, NULL);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	IndexScanDesc scan;
	ScanKeyData key;
	BatchInfo	batch = {0};
	int64		batch_bytes = 0;

	ScanKeyInit(&key, BATCH_HANDLE, BTEqualStrategyNumber, F_UUID_EQ,
				UUIDPGetDatum(&outcome->handle));
	scan = index_beginscan(table, index, snapshot, NULL, 1, 0);
	index_rescan(scan, &key, 1, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		bool		isnull;

		CHECK_FOR_INTERRUPTS();
		batch.worker = DatumGetInt32(slot_getattr(slot, BATCH_WORKER, &isnull));
		batch.num_rows = DatumGetInt64(slot_getattr(slot, BATCH_NUM_ROWS,
													&isnull));
		batch.answer_bytes = DatumGetInt64(slot_getattr(slot,
														BATCH_ANSWER_BYTES,
														&isnull));
		batch.stored_bytes =
			toast_raw_datum_size(slot_getattr(slot, BATCH_PAYLOAD, &isnull));
		callback(&batch, arg);
		batch.number++;
		batch.first_row += batch.num_rows;
		batch_bytes += batch.answer_bytes;
	}
	index_endscan(scan);
	UnregisterSnapshot(snapshot);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, AccessShareLock);
	table_close(table, AccessShareLock);

	if (batch.number != outcome->num_batches ||
		batch.first_row + outcome->tail_num_rows != outcome->num_rows)
		error_answer_damaged(stash_handle_text(&outcome->handle),
							 "Its batches do not add up to its rows.");

	tail->number = -1;
	tail->first_row = batch.first_row;
	tail->num_rows = outcome->tail_num_rows;
	tail->answer_bytes = outcome->answer_bytes - batch_bytes;
	tail->stored_bytes = outcome->tail == NULL ? 0 : VARSIZE_ANY(outcome->tail);
}

/* How many batches have been read. */
int64
stash_reader_batches(const StashReader *reader)
{
	return reader->num_batches;
}

void
stash_reader_close(StashReader *reader)
{
	MemoryContextDelete(reader->batch_context);
	if (reader->buffer.data != NULL)
		pfree(reader->buffer.data);
	pfree(reader);
}
