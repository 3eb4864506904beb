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

#include "utils/uuid.h"

typedef struct StashReader StashReader;

extern StashReader *stash_reader_open(const pg_uuid_t *handle, int worker,
									  int num_columns, int64 num_rows,
									  int64 read_bytes);
extern bool stash_reader_next(StashReader *reader, const char **data,
							  Size *size);
extern int64 stash_reader_batches(const StashReader *reader);
extern void stash_reader_close(StashReader *reader);

#endif							/* PEEKSTASH_READER_H */
