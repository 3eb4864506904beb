/*-------------------------------------------------------------------------
 *
 * knobs.h
 *	  Every setting, and the same settings as options of one call.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/knobs.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_KNOBS_H
#define PEEKSTASH_KNOBS_H

#include "postgres.h"

#include "utils/jsonb.h"
#include "utils/uuid.h"

typedef enum StashCompression
{
	STASH_COMPRESSION_NONE,
	STASH_COMPRESSION_LZ4
} StashCompression;

/* So many workers can share a walk at most. */
#define MAX_WALK_WORKERS	16

/*
 * The settings in force for one call: read once, at its start, so that a
 * function inside a filter cannot move the limits of the walk that calls it.
 */
typedef struct PeekKnobs
{
	bool		enable_stash;
	int			stash_threshold;	/* bytes */
	int			stash_batch_size;	/* bytes */
	int			stash_compression;	/* a StashCompression */
	int			read_batch_size;	/* bytes */
	int			max_result_size;	/* kB, -1 = none */
	int			row_iteration_limit;	/* positions, 0 = off */
	int			yield_granularity;	/* positions */
	bool		enable_offload;
	int			inline_budget;	/* positions */
	int			workers;		/* see knobs_workers() */
	int			max_workers;
	bool		notify;
	int			ttl;			/* seconds */
	int			max_ttl;		/* seconds */
	int			max_stash_size; /* kB */
	int			max_role_stash_size;	/* kB, 0 = none */
	int			max_role_peeks; /* 0 = none */
	uint64		given;			/* which ones the call's options have set */
} PeekKnobs;

/* What else the options of a submitting function may say. */
typedef struct SubmitOptions
{
	bool		has_handle;
	pg_uuid_t	handle;
	char	   *label;			/* or NULL */
	bool		background;
} SubmitOptions;

extern void knobs_define(void);
extern void knobs_resolve(PeekKnobs *knobs, Jsonb *options,
						  SubmitOptions *submit);
extern void knobs_check_ttl(const PeekKnobs *knobs, int64 seconds);
extern int	knobs_slots(void);
extern int	knobs_sweep_interval(void);
extern int	knobs_permits(void);
extern void knobs_follow(PeekKnobs *knobs);

/* The number of workers that may share a walk. */
static inline int
knobs_workers(const PeekKnobs *knobs)
{
	return Min(knobs->workers, knobs->max_workers);
}

/* The cap in bytes by the ruler; -1 = none. */
static inline int64
knobs_max_result_bytes(const PeekKnobs *knobs)
{
	return knobs->max_result_size < 0 ? -1 :
		(int64) knobs->max_result_size * 1024;
}

#endif							/* PEEKSTASH_KNOBS_H */
