/*-------------------------------------------------------------------------
 *
 * upload.h
 *	  StashUpload: the object that a driver feeds.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/stash/upload.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_UPLOAD_H
#define PEEKSTASH_UPLOAD_H

#include "peekstash.h"

#include "stash/batch.h"
#include "utils/uuid.h"

typedef struct StashUpload StashUpload;

/* What has been written so far. */
typedef struct UploadTotals
{
	int64		num_batches;
	int64		num_rows;
	int64		answer_bytes;
	int64		stored_bytes;	/* of payloads */
} UploadTotals;

extern StashUpload *stash_upload_open(const pg_uuid_t *handle,
									  const pg_uuid_t *stash, int worker,
									  int num_columns, int64 batch_bytes,
									  BatchCodec codec);
extern void stash_upload_push(StashUpload *upload, const EntryBatch *batch);
extern const UploadTotals *stash_upload_totals(const StashUpload *upload);
extern void stash_upload_finish(StashUpload *upload, UploadTotals *totals);

#endif							/* PEEKSTASH_UPLOAD_H */
