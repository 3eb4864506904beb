/*-------------------------------------------------------------------------
 *
 * stat.c
 *	  Counters of peeks.
 *
 * With shared_preload_libraries the counters are those of the whole cluster,
 * in a fixed struct in shared memory; without, those of the session.  A peek
 * adds to them once, when it ends, so that a walk pays nothing per row.
 *
 * Locking: one spinlock over the whole struct, held for a dozen additions or
 * one copy.  It is a leaf: nothing else is ever acquired under it, and nothing
 * under it can throw.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/stat.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "shared.h"
#include "stat.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/float.h"
#include "utils/timestamp.h"

#include "compat.h"

typedef struct StatShared
{
	slock_t		mutex;			/* protects all below */
	PeekCounts	counts;
	PhaseHistogram phases[NUM_STAT_PHASES];
	TimestampTz reset_time;
} StatShared;

static StatShared *shared = NULL;	/* NULL = not preloaded */
static StatShared local;		/* used then; its mutex is not */

static int	walks_under_way = 0;


static Size
stat_size(void)
{
	return sizeof(StatShared);
}

static void
stat_attach(void *place, bool found, LWLock *lock)
{
	shared = place;
	if (found)
		return;
	SpinLockInit(&shared->mutex);
	shared->reset_time = GetCurrentTimestamp();
}

void
stat_init(void)
{
	static const SharedArea area = {
		"peekstash stat", NULL, stat_size, NULL, stat_attach
	};

	local.reset_time = GetCurrentTimestamp();
	shared_area_register(&area);
}

static void
stat_lock(void)
{
	if (shared)
		SpinLockAcquire(&shared->mutex);
}

static void
stat_unlock(void)
{
	if (shared)
		SpinLockRelease(&shared->mutex);
}

static StatShared *
stat_target(void)
{
	return shared ? shared : &local;
}

/* The upper bound of a bucket, in seconds; that of the last is infinite. */
double
stat_bucket_bound(int bucket)
{
	double		bound = 0.001;

	if (bucket == NUM_STAT_BUCKETS - 1)
		return get_float8_infinity();
	for (int i = 0; i < bucket; i++)
		bound *= 10;
	return bound;
}

static int
stat_bucket(double seconds)
{
	int			bucket = 0;

	while (bucket < NUM_STAT_BUCKETS - 1 && seconds > stat_bucket_bound(bucket))
		bucket++;
	return bucket;
}

void
stat_count(const PeekCounts *counts)
{
	PeekCounts *total = &stat_target()->counts;
	double		seconds[NUM_STAT_PHASES] = {
		[PHASE_QUEUE] = counts->queue_seconds,
		[PHASE_WALK] = counts->walk_seconds,
		[PHASE_WRITE] = counts->write_seconds,
		[PHASE_READ] = counts->read_seconds
	};
	int			buckets[NUM_STAT_PHASES];

	for (int i = 0; i < NUM_STAT_PHASES; i++)
		buckets[i] = stat_bucket(seconds[i]);

	stat_lock();
	total->walks_inline += counts->walks_inline;
	total->walks_offloaded += counts->walks_offloaded;
	total->answers_memory += counts->answers_memory;
	total->answers_stashed += counts->answers_stashed;
	total->answers_failed += counts->answers_failed;
	total->answers_cancelled += counts->answers_cancelled;
	total->positions += counts->positions;
	total->rows += counts->rows;
	total->answer_bytes += counts->answer_bytes;
	total->stored_bytes += counts->stored_bytes;
	total->batches_written += counts->batches_written;
	total->batches_read += counts->batches_read;
	total->swept_answers += counts->swept_answers;
	total->reclaimed_batches += counts->reclaimed_batches;
	total->reclaim_failures += counts->reclaim_failures;
	total->queue_seconds += counts->queue_seconds;
	total->walk_seconds += counts->walk_seconds;
	total->write_seconds += counts->write_seconds;
	total->read_seconds += counts->read_seconds;
	for (int i = 0; i < NUM_STAT_PHASES; i++)
	{
		PhaseHistogram *phase = &stat_target()->phases[i];

		if ((counts->observed & STAT_OBSERVED(i)) == 0)
			continue;
		phase->counts[buckets[i]]++;
		phase->seconds += seconds[i];
	}
	stat_unlock();
}

/*
 * An error is seen by whoever steps the walk.  The end of the process is not:
 * FATAL unwinds nothing.  So it is counted here, before shared memory goes.
 */
static void
stat_before_exit(int code, Datum arg)
{
	PeekCounts	counts = {0};

	counts.answers_cancelled = walks_under_way;
	walks_under_way = 0;
	if (counts.answers_cancelled > 0)
		stat_count(&counts);
}

void
stat_walk_begin(void)
{
	static bool registered = false;

	if (!registered)
	{
		before_shmem_exit(stat_before_exit, (Datum) 0);
		registered = true;
	}
	walks_under_way++;
}

void
stat_walk_end(void)
{
	Assert(walks_under_way > 0);
	walks_under_way--;
}

/* Are the counters those of the cluster? */
bool
stat_is_shared(void)
{
	return shared != NULL;
}

/* A copy of the counters, and since when they count. */
void
stat_read(PeekCounts *counts, TimestampTz *reset_time)
{
	stat_lock();
	*counts = stat_target()->counts;
	*reset_time = stat_target()->reset_time;
	stat_unlock();
}

/* A copy of the histograms, one for each phase. */
void
stat_read_phases(PhaseHistogram *phases)
{
	stat_lock();
	memcpy(phases, stat_target()->phases, sizeof(stat_target()->phases));
	stat_unlock();
}

/* Set all counters to zero. */
void
stat_reset(void)
{
	TimestampTz now = GetCurrentTimestamp();

	stat_lock();
	memset(&stat_target()->counts, 0, sizeof(PeekCounts));
	memset(stat_target()->phases, 0, sizeof(stat_target()->phases));
	stat_target()->reset_time = now;
	stat_unlock();
}
