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
	pg_uuid_t	handle;
	int			worker;
	int			num_columns;
	int64		num_rows;		/* rows that all batches must have together */
	int64		read_bytes;		/* how much is decoded at once */

	MemoryContext context;		/* the buffer's */
	MemoryContext batch_context;	/* of the batch at hand; reset with it */
	int64		next_row;		/* where the next batch begins */
	int64		num_batches;	/* read so far */
	bool		in_batch;
	BatchDecoder decoder;
	EntryBuffer buffer;
};

/*
 * Open a reader in the current context, for the num_rows rows that a worker
 * has written under a handle.
 */
StashReader *
stash_reader_open(const pg_uuid_t *handle, int worker, int num_columns,
				  int64 num_rows, int64 read_bytes)
{
	StashReader *reader = palloc0(sizeof(StashReader));

	reader->handle = *handle;
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

static void
reader_damaged(const StashReader *reader, const char *what)
{
	error_answer_damaged(stash_handle_text(&reader->handle),
						 psprintf("The batch at row " INT64_FORMAT " %s.",
								  reader->next_row, what));
}

/*
 * Fetch the batch that begins at next_row, into batch_context.
 */
static bytea *
reader_fetch(StashReader *reader, int64 *num_rows)
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
		reader_damaged(reader, "is missing");

	old = MemoryContextSwitchTo(reader->batch_context);
	table = table_open(table_oid, AccessShareLock);
	index = index_open(RelationGetPrimaryKeyIndex(table, false),
					   AccessShareLock);
	slot = table_slot_create(table, NULL);

	ScanKeyInit(&keys[0], BATCH_HANDLE, BTEqualStrategyNumber, F_UUID_EQ,
				UUIDPGetDatum(&reader->handle));
	ScanKeyInit(&keys[1], BATCH_WORKER, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(reader->worker));
	ScanKeyInit(&keys[2], BATCH_FIRST_ROW, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(reader->next_row));

	snapshot = RegisterSnapshot(GetLatestSnapshot());
	scan = index_beginscan(table, index, snapshot, NULL, lengthof(keys), 0);
	index_rescan(scan, keys, lengthof(keys), NULL, 0);
	if (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		*num_rows = DatumGetInt64(slot_getattr(slot, BATCH_NUM_ROWS, &isnull));
		payload = DatumGetByteaPCopy(slot_getattr(slot, BATCH_PAYLOAD,
												  &isnull));
	}
	index_endscan(scan);
	UnregisterSnapshot(snapshot);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(table, NoLock);
	MemoryContextSwitchTo(old);

	if (payload == NULL)
		reader_damaged(reader, "is missing");
	return payload;
}

/* Open the batch that begins at next_row. */
static void
reader_open_batch(StashReader *reader)
{
	int64		num_rows = 0;
	bytea	   *payload = reader_fetch(reader, &num_rows);
	const char *wrong;
	MemoryContext old = MemoryContextSwitchTo(reader->batch_context);

	wrong = batch_decoder_open(&reader->decoder, payload, reader->num_columns);
	MemoryContextSwitchTo(old);

	if (wrong == NULL && reader->decoder.header.num_rows != num_rows)
		wrong = "has wrong counts";
	if (wrong == NULL && num_rows > reader->num_rows - reader->next_row)
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

/*
 * The next run of entries, valid until the next call; false at the end.  At
 * most read_bytes of them are held at once, or a single one.
 */
bool
stash_reader_next(StashReader *reader, const char **data, Size *size)
{
	EntryBuffer *buffer = &reader->buffer;

	buffer->used = 0;
	while (buffer->used < (Size) reader->read_bytes || buffer->used == 0)
	{
		Entry	   *entry;
		const char *wrong;

		if (!reader->in_batch)
		{
			CHECK_FOR_INTERRUPTS();
			if (reader->next_row == reader->num_rows)
				break;
			reader_open_batch(reader);
		}

		wrong = batch_decoder_next(&reader->decoder, buffer, &entry);
		if (wrong != NULL)
			reader_damaged(reader, wrong);
		if (entry == NULL)
			reader_close_batch(reader);
	}
	*data = buffer->data;
	*size = buffer->used;
	return buffer->used > 0;
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
