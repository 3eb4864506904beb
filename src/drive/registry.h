/*-------------------------------------------------------------------------
 *
 * registry.h
 *	  Submitted peeks in flight.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/registry.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_REGISTRY_H
#define PEEKSTASH_REGISTRY_H

#include "postgres.h"

#include "utils/timestamp.h"
#include "utils/uuid.h"

/*
 * The life of a submitted peek:
 *
 *		QUEUED --> RUNNING --> DONE
 *			|		  |------> FAILED
 *			`---------+------> CANCELLED
 *
 * A walk in the submitter's own backend starts as RUNNING.
 */
typedef enum PeekState
{
	PEEK_QUEUED,
	PEEK_RUNNING,
	PEEK_DONE,
	PEEK_FAILED,
	PEEK_CANCELLED
} PeekState;

/* What a running peek is at. */
typedef enum PeekPhase
{
	PEEK_WALKING,				/* nothing has been stashed yet */
	PEEK_STASHING,
	PEEK_FINISHING				/* the walk is over; the outcome is written */
} PeekPhase;

/* A copy of what a slot says. */
typedef struct PeekInFlight
{
	int			slot;
	uint64		generation;		/* of the slot */
	pg_uuid_t	handle;
	Oid			database;
	Oid			owner;
	Oid			charged_to;
	int			pid;
	TimestampTz submitted_at;
	PeekState	state;
	PeekPhase	phase;
	int64		positions;
	int64		num_rows;
	int64		answer_bytes;
	int64		stored_bytes;
} PeekInFlight;

extern void registry_init(void);
extern bool registry_is_shared(void);
extern int	registry_begin(const pg_uuid_t *handle, Oid owner, Oid charged_to);
extern void registry_progress(int slot, PeekPhase phase, int64 positions,
							  int64 num_rows, int64 answer_bytes,
							  int64 stored_bytes);
extern bool registry_cancel_requested(int slot);
extern void registry_end(int slot);
extern PeekInFlight *registry_list(int *count);
extern int	registry_slots_in_use(void);
extern bool registry_request_cancel(const PeekInFlight *peek);
extern int	registry_max_own_slots(void);
extern void registry_wait(long timeout_ms);
extern const char *peek_state_name(PeekState state);
extern const char *peek_phase_name(PeekPhase phase);

#endif							/* PEEKSTASH_REGISTRY_H */
