/*-------------------------------------------------------------------------
 *
 * stat.h
 *	  Counters of peeks.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/stat.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_STAT_H
#define PEEKSTASH_STAT_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* What one peek adds to the counters, all at once, when it ends. */
typedef struct PeekCounts
{
	int64		walks_inline;	/* walks that ended, also in an error */
	int64		answers_memory;
	int64		answers_stashed;
	int64		answers_failed;
	int64		answers_cancelled;
	int64		positions;
	int64		rows;			/* copies counted */
	int64		answer_bytes;
	int64		stored_bytes;	/* of payloads */
	int64		batches_written;
	int64		batches_read;
	int64		swept_answers;	/* that had expired */
	double		walk_seconds;	/* without writing */
	double		write_seconds;
	double		read_seconds;	/* reading back from the stash */
} PeekCounts;

extern void stat_init(void);
extern bool stat_is_shared(void);
extern void stat_read(PeekCounts *counts, TimestampTz *reset_time);
extern void stat_reset(void);
extern void stat_count(const PeekCounts *counts);

/*
 * A walk that is under way in this backend.  If the process ends before
 * stat_walk_end(), the walk counts as cancelled.
 */
extern void stat_walk_begin(void);
extern void stat_walk_end(void);

#endif							/* PEEKSTASH_STAT_H */
