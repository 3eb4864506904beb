/*-------------------------------------------------------------------------
 *
 * upload.c
 *	  StashUpload: the object that a driver feeds.
 *
 * An upload takes batches of entries, whatever source they come from, cuts
 * them into payloads, and writes these.  It is opened with the first full
 * batch and not before: an answer from memory pays nothing for it.
 *
 *		OPEN --push--> OPEN --finish--> FINISHED
 *
 * There is no call for discarding: everything an upload writes belongs to the
 * transaction that writes it, and is found by its handle.  An abort takes it
 * back; what was committed, stash_delete_batches() deletes.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/stash/upload.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "ruler.h"
#include "stash/stash.h"
#include "stash/upload.h"
#include "stop.h"
#include "utils/memutils.h"

#include "compat.h"

struct StashUpload
{
	pg_uuid_t	handle;			/* what the batches are found by */
	pg_uuid_t	stash;			/* what they are known by */
	int			worker;
	int			num_columns;
	int64		batch_bytes;	/* where payloads are cut, by the ruler */
	BatchCodec	codec;
	bool		finished;
	UploadTotals totals;
	BatchEncoder encoder;
	MemoryContext scratch;		/* reset with each payload */
};

/*
 * Open an upload in the current context.  Nothing is written yet.
 */
StashUpload *
stash_upload_open(const pg_uuid_t *handle, const pg_uuid_t *stash, int worker,
				  int num_columns, int64 batch_bytes, BatchCodec codec)
{
	StashUpload *upload = palloc0(sizeof(StashUpload));

	PEEK_STOP("upload-open");
	upload->handle = *handle;
	upload->stash = *stash;
	upload->worker = worker;
	upload->num_columns = num_columns;
	upload->batch_bytes = batch_bytes;
	upload->codec = codec;
	batch_encoder_init(&upload->encoder, CurrentMemoryContext);

	/* made before SPI_connect, so that SPI_finish does not take them away */
	upload->scratch = AllocSetContextCreate(CurrentMemoryContext,
											"peekstash payload",
											ALLOCSET_DEFAULT_SIZES);
	return upload;
}

/* Write what the encoder holds as one payload. */
static void
upload_write(StashUpload *upload)
{
	BatchHeader *header = &upload->encoder.header;
	UploadTotals *totals = &upload->totals;
	MemoryContext old = MemoryContextSwitchTo(upload->scratch);
	BatchPlace	place;
	bytea	   *payload;

	batch_place_set(&place, &upload->stash, upload->worker, totals->num_rows);
	payload = batch_encoder_finish(&upload->encoder, &place, upload->codec);
	stash_write_batch(&upload->handle, upload->worker, totals->num_rows,
					  header->num_rows, header->answer_bytes, payload);
	totals->num_batches++;
	totals->num_rows += header->num_rows;
	totals->answer_bytes += header->answer_bytes;
	totals->stored_bytes += VARSIZE(payload);

	MemoryContextSwitchTo(old);
	MemoryContextReset(upload->scratch);
}

/*
 * Write a batch.  It is cut into payloads of batch_bytes, at least one entry
 * each; what is left at its end becomes a payload of its own, so that the
 * entries need not be kept.
 */
void
stash_upload_push(StashUpload *upload, const EntryBatch *batch)
{
	BatchEncoder *encoder = &upload->encoder;
	const Entry *entry = (const Entry *) batch->data;

	Assert(!upload->finished);
	PEEK_STOP("upload-before-push");

	batch_encoder_start(encoder, upload->num_columns);
	for (int64 i = 0; i < batch->num_entries; i++)
	{
		if (encoder->header.num_entries > 0 &&
			encoder->header.answer_bytes + entry_byte_len(&entry->row) >
			upload->batch_bytes)
		{
			CHECK_FOR_INTERRUPTS();
			upload_write(upload);
			batch_encoder_start(encoder, upload->num_columns);
		}
		batch_encoder_add(encoder, entry);
		entry = entry_next(entry);
	}
	if (encoder->header.num_entries > 0)
		upload_write(upload);

	Assert((const char *) entry == batch->data + batch->size);
	PEEK_STOP("upload-after-push");
}

/* What has been written so far. */
const UploadTotals *
stash_upload_totals(const StashUpload *upload)
{
	return &upload->totals;
}

/* Nothing more will be pushed. */
void
stash_upload_finish(StashUpload *upload, UploadTotals *totals)
{
	Assert(!upload->finished);
	PEEK_STOP("upload-finish");
	upload->finished = true;
	*totals = upload->totals;
	if (upload->encoder.data != NULL)
		pfree(upload->encoder.data);
	MemoryContextDelete(upload->scratch);
}
