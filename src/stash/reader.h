/*-------------------------------------------------------------------------
 *
 * reader.h
 *	  A stored answer, back into entries.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/stash/reader.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_READER_H
#define PEEKSTASH_READER_H

#include "peekstash.h"

#include "stash/handle.h"
#include "utils/uuid.h"

typedef struct StashReader StashReader;

/* What is known of a batch without decoding it. */
typedef struct BatchInfo
{
	int			number;			/* from 0; -1 = the tail */
	int			worker;
	int64		first_row;		/* in the whole answer */
	int64		num_rows;
	int64		answer_bytes;
	int64		stored_bytes;
} BatchInfo;

typedef void (*BatchInfoCallback) (const BatchInfo *batch, void *arg);

extern StashReader *stash_reader_open(const pg_uuid_t *handle,
									  const pg_uuid_t *stash,
									  bool is_stored, int worker,
									  int num_columns, int64 num_rows,
									  int64 read_bytes);
extern void stash_reader_seek(StashReader *reader, int64 row);
extern bool stash_reader_next(StashReader *reader, int64 max_rows,
							  const char **data, Size *size);
extern void reader_list_batches(const StoredPeek *peek,
								BatchInfoCallback callback, void *arg,
								BatchInfo *tail);
extern int64 stash_reader_batches(const StashReader *reader);
extern void stash_reader_close(StashReader *reader);

#endif							/* PEEKSTASH_READER_H */
