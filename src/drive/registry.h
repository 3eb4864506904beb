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

#include "knobs.h"
#include "nodes/pg_list.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

/*
 * The life of a submitted peek:
 *
 *		QUEUED --> RUNNING --> DONE
 *			|		  |------> FAILED
 *			`---------+------> CANCELLED
 *
 * A walk in the submitter's own backend starts as RUNNING, and one that is
 * handed over may be QUEUED in the worker.
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
	PEEK_WALKING = 0,			/* nothing has been stashed yet */
	PEEK_STASHING,
	PEEK_FINISHING				/* the walk is over; the outcome is written */
} PeekPhase;

#define REGISTRY_ERROR	256

/* A copy of what a slot says. */
typedef struct PeekInFlight
{
	int			slot;
	uint64		generation;		/* of the slot */
	pg_uuid_t	handle;
	Oid			database;
	Oid			owner;
	Oid			charged_to;
	int			pid;			/* of the submitter */
	TimestampTz submitted_at;
	bool		offloaded;
	bool		has_outcome;	/* an outcome row has been committed */
	bool		doomed;			/* nobody will read it */
	int			num_workers;
	int64		estimated_positions;	/* -1 = not known */
	char		sqlstate[6];	/* of an end that has no outcome, or empty */
	char		error[REGISTRY_ERROR];
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
extern uint64 registry_generation(int slot);
extern void registry_progress(int slot, PeekPhase phase, int64 positions,
							  int64 num_rows, int64 answer_bytes,
							  int64 stored_bytes);
extern bool registry_cancel_requested(int slot);
extern void registry_end(int slot, bool commit);

/* Offloaded walks. */
extern void registry_offload(int slot, int num_workers,
							 int64 estimated_positions);
extern void registry_stay(int slot);
extern bool registry_attach(int slot, uint64 generation, int worker);
extern void registry_detach(int slot, int worker, const char *sqlstate,
							const char *error);
extern void registry_set_state(int slot, PeekState state);
extern void registry_committing(int slot);
extern void registry_has_outcome(int slot);
extern bool registry_is_doomed(int slot);
extern void registry_interrupt_others(int slot);
extern bool registry_hold(int slot, uint64 generation);
extern void registry_unhold(int slot, bool doom);
extern bool registry_has_offloaded(void);

/* What workers have left behind. */
extern void registry_set_launcher(bool here);
extern bool registry_wants_reclaim(void);
extern PeekInFlight *registry_reclaimable(int *count);
extern bool registry_is_reclaimable(const PeekInFlight *peek);
extern void registry_reclaimed(const PeekInFlight *peek);
extern void registry_forget_database(Oid database);
extern List *registry_databases(void);
extern bool registry_handle_is_clear(const pg_uuid_t *handle, int mine,
									 bool *own);
extern PeekInFlight *registry_list(int *count);
extern int	registry_slots_in_use(void);
extern bool registry_request_cancel(const PeekInFlight *peek);
extern int	registry_max_own_slots(void);
extern void registry_wait(long timeout_ms);
extern bool peek_state_is_end(PeekState state);
extern const char *peek_state_name(PeekState state);
extern const char *peek_phase_name(PeekPhase phase);

#endif							/* PEEKSTASH_REGISTRY_H */
