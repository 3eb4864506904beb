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
	int64		walks_offloaded;
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
	int64		reclaimed_batches;
	int64		reclaim_failures;
	double		queue_seconds;	/* waiting for a permit */
	double		walk_seconds;	/* without writing */
	double		write_seconds;
	double		read_seconds;	/* reading back from the stash */
	int			observed;		/* STAT_OBSERVED() of phases that are over */
} PeekCounts;

/* The phases of a peek, each with a histogram of how long it took. */
typedef enum StatPhase
{
	PHASE_QUEUE,
	PHASE_WALK,
	PHASE_WRITE,
	PHASE_READ
} StatPhase;

#define NUM_STAT_PHASES		4
#define STAT_OBSERVED(phase)	(1 << (phase))

/* From a millisecond to a thousand seconds, and longer. */
#define NUM_STAT_BUCKETS	8

typedef struct PhaseHistogram
{
	int64		counts[NUM_STAT_BUCKETS];
	double		seconds;
} PhaseHistogram;

extern void stat_init(void);
extern bool stat_is_shared(void);
extern void stat_read(PeekCounts *counts, TimestampTz *reset_time);
extern void stat_read_phases(PhaseHistogram *phases);
extern double stat_bucket_bound(int bucket);
extern void stat_reset(void);
extern void stat_count(const PeekCounts *counts);

/*
 * A walk that is under way in this backend.  If the process ends before
 * stat_walk_end(), the walk counts as cancelled.
 */
extern void stat_walk_begin(void);
extern void stat_walk_end(void);

#endif							/* PEEKSTASH_STAT_H */
