/*-------------------------------------------------------------------------
 *
 * registry.c
 *	  Submitted peeks in flight.
 *
 * A slot in shared memory says of a submitted peek what other sessions cannot
 * see in the tables yet: that it runs, how far it is, and whether somebody
 * wants it to stop.  It is taken when the walk begins and given back when the
 * transaction ends, because only then does MVCC decide what became of it.
 * With no slot free, or without shared_preload_libraries, a walk stays inline
 * and goes on without one: it cannot be watched or cancelled by its handle.
 *
 * An offloaded walk has more than one end: that of the submitter's
 * transaction, and that of each worker.  The slot stays until all have come,
 * and then says what is to be done:
 *
 *		submitter	workers				then
 *		committed	outcome written		the slot is free
 *		committed	died without one	reclaim writes that it failed
 *		aborted		committed nothing	the slot is free
 *		aborted		committed			reclaim deletes that
 *		released	-					as aborted
 *
 * A transaction that releases the peek holds the slot until it ends: only then
 * is it known whether what the workers commit meanwhile is wanted.
 *
 * So what abandoned peeks leave is bounded by the slots, and while a slot
 * stands for a handle, nobody else can submit under it.
 *
 * Lock order, for all of peekstash.  Each is held for a few instructions, or a
 * loop over the slots, and nothing under it can throw or wait:
 *
 *		heavyweight locks (tables of the stash)
 *			registry lock (LWLock)
 *			quota lock (LWLock)
 *				stat mutex (spinlock)
 *
 * No two of the last three are ever held together, and none of them while a
 * heavyweight lock is being acquired, SPI runs, or memory is allocated.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/registry.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "drive/registry.h"
#include "knobs.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "shared.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/wait_event.h"

#include "compat.h"

typedef struct PeekSlot
{
	/* the registry lock protects these */
	bool		in_use;
	uint64		generation;		/* how often it has been taken */
	pg_uuid_t	handle;
	Oid			database;
	Oid			owner;
	Oid			charged_to;
	int			pid;			/* of the submitter */
	TimestampTz submitted_at;
	bool		submitter_open; /* its transaction has not ended */
	bool		offloaded;
	volatile bool doomed;		/* nobody will read the answer; read unlocked */
	bool		has_outcome;	/* a worker has committed an outcome row */
	bool		left_rows;		/* a worker has begun to commit rows */
	int			num_workers;
	int			num_active;		/* workers that are attached */
	int			num_holds;		/* open transactions that have released it */
	int			worker_pids[MAX_WALK_WORKERS];	/* 0 = not attached */
	int64		estimated_positions;
	PeekState	state;
	char		sqlstate[6];
	char		error[REGISTRY_ERROR];

	/* written by the walk without a lock, read by anybody */
	pg_atomic_uint32 phase;		/* a PeekPhase */
	pg_atomic_uint64 positions;
	pg_atomic_uint64 num_rows;
	pg_atomic_uint64 answer_bytes;
	pg_atomic_uint64 stored_bytes;

	/* written by who cancels, read by the walk */
	pg_atomic_uint32 cancel;
} PeekSlot;

typedef struct RegistryShared
{
	LWLock	   *lock;			/* constant after init */
	int			num_slots;		/* constant after init */
	ConditionVariable ended;	/* broadcast when a peek or a slot ends */
	Latch	   *launcher;		/* to be woken for reclaim; NULL = none */
	PeekSlot	slots[FLEXIBLE_ARRAY_MEMBER];
} RegistryShared;

static RegistryShared *shared = NULL;	/* NULL = not preloaded */


static Size
registry_size(void)
{
	return add_size(offsetof(RegistryShared, slots),
					mul_size(knobs_slots(), sizeof(PeekSlot)));
}

static void
registry_attach_process(void *place, bool found, LWLock *lock)
{
	shared = place;
	if (found)
		return;
	shared->lock = lock;
	shared->num_slots = knobs_slots();
	ConditionVariableInit(&shared->ended);
	for (int i = 0; i < shared->num_slots; i++)
	{
		PeekSlot   *slot = &shared->slots[i];

		pg_atomic_init_u32(&slot->phase, 0);
		pg_atomic_init_u64(&slot->positions, 0);
		pg_atomic_init_u64(&slot->num_rows, 0);
		pg_atomic_init_u64(&slot->answer_bytes, 0);
		pg_atomic_init_u64(&slot->stored_bytes, 0);
		pg_atomic_init_u32(&slot->cancel, 0);
	}
}

void
registry_init(void)
{
	static const SharedArea area = {
		"peekstash registry", "PeekstashRegistry", registry_size, NULL,
		registry_attach_process
	};

	shared_area_register(&area);
}

bool
registry_is_shared(void)
{
	return shared != NULL;
}

/* Is the peek over in this state? */
bool
peek_state_is_end(PeekState state)
{
	return state == PEEK_DONE || state == PEEK_FAILED ||
		state == PEEK_CANCELLED;
}

const char *
peek_state_name(PeekState state)
{
	switch (state)
	{
		case PEEK_QUEUED:
			return "queued";
		case PEEK_RUNNING:
			return "running";
		case PEEK_DONE:
			return "done";
		case PEEK_FAILED:
			return "failed";
		case PEEK_CANCELLED:
			return "cancelled";
	}
	elog(ERROR, "unrecognized peek state: %d", (int) state);
	return NULL;				/* keep compiler quiet */
}

const char *
peek_phase_name(PeekPhase phase)
{
	switch (phase)
	{
		case PEEK_WALKING:
			return "walking";
		case PEEK_STASHING:
			return "stashing";
		case PEEK_FINISHING:
			return "finishing";
	}
	elog(ERROR, "unrecognized peek phase: %d", (int) phase);
	return NULL;				/* keep compiler quiet */
}

/*
 * Take a slot; -1 if there is none.  The caller sees to it that it is given
 * back when the (sub)transaction ends.
 */
int
registry_begin(const pg_uuid_t *handle, Oid owner, Oid charged_to)
{
	TimestampTz now = GetCurrentStatementStartTimestamp();
	int			result = -1;

	if (shared == NULL)
		return -1;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->num_slots && result < 0; i++)
	{
		PeekSlot   *slot = &shared->slots[i];

		if (slot->in_use)
			continue;
		slot->in_use = true;
		slot->generation++;
		slot->handle = *handle;
		slot->database = MyDatabaseId;
		slot->owner = owner;
		slot->charged_to = charged_to;
		slot->pid = MyProcPid;
		slot->submitted_at = now;
		slot->submitter_open = true;
		slot->offloaded = slot->doomed = false;
		slot->has_outcome = slot->left_rows = false;
		slot->num_workers = slot->num_active = slot->num_holds = 0;
		memset(slot->worker_pids, 0, sizeof(slot->worker_pids));
		slot->estimated_positions = -1;
		slot->state = PEEK_RUNNING;
		slot->sqlstate[0] = slot->error[0] = '\0';
		pg_atomic_write_u32(&slot->phase, PEEK_WALKING);
		pg_atomic_write_u64(&slot->positions, 0);
		pg_atomic_write_u64(&slot->num_rows, 0);
		pg_atomic_write_u64(&slot->answer_bytes, 0);
		pg_atomic_write_u64(&slot->stored_bytes, 0);
		pg_atomic_write_u32(&slot->cancel, 0);
		result = i;
	}
	LWLockRelease(shared->lock);
	return result;
}

/* Which use of the slot is this?  For the process that holds it. */
uint64
registry_generation(int number)
{
	return shared->slots[number].generation;
}

/*
 * Say how much further the walk is.  Several workers may do so; the phase goes
 * forward only.
 */
void
registry_progress(int number, PeekPhase phase, int64 positions, int64 num_rows,
				  int64 answer_bytes, int64 stored_bytes)
{
	PeekSlot   *slot;

	if (number < 0)
		return;
	slot = &shared->slots[number];
	if (pg_atomic_read_u32(&slot->phase) < (uint32) phase)
		pg_atomic_write_u32(&slot->phase, phase);
	pg_atomic_fetch_add_u64(&slot->positions, positions);
	pg_atomic_fetch_add_u64(&slot->num_rows, num_rows);
	pg_atomic_fetch_add_u64(&slot->answer_bytes, answer_bytes);
	pg_atomic_fetch_add_u64(&slot->stored_bytes, stored_bytes);
}

bool
registry_cancel_requested(int number)
{
	return number >= 0 &&
		pg_atomic_read_u32(&shared->slots[number].cancel) != 0;
}

/*
 * The one place where a slot goes from one state to another.  An end stays: who
 * comes too late with another one has nothing to say.
 */
static void
slot_set_state(PeekSlot *slot, PeekState state)
{
	Assert(LWLockHeldByMeInMode(shared->lock, LW_EXCLUSIVE));
	if (peek_state_is_end(slot->state))
		return;

	/* the first of several workers has it run, the others find it so */
	Assert(slot->state == state || slot->offloaded);
	Assert(state != PEEK_DONE || slot->state == PEEK_RUNNING);
	slot->state = state;
}

static bool
slot_wants_reclaim(const PeekSlot *slot)
{
	if (!slot->in_use || slot->submitter_open || slot->num_active > 0 ||
		slot->num_holds > 0 || !slot->offloaded)
		return false;
	return slot->doomed ? slot->left_rows : !slot->has_outcome;
}

/*
 * Something has ended: free the slot if that was all, and see to it that what
 * is left is reclaimed.
 */
static void
slot_settle(PeekSlot *slot)
{
	Assert(LWLockHeldByMeInMode(shared->lock, LW_EXCLUSIVE));
	if (slot->submitter_open || slot->num_active > 0 || slot->num_holds > 0)
		return;
	if (!slot_wants_reclaim(slot))
		slot->in_use = false;
	else if (shared->launcher != NULL)
		SetLatch(shared->launcher);
}

/* Interrupt the workers of a peek: they look why. */
static void
slot_interrupt(PeekSlot *slot)
{
	Assert(LWLockHeldByMe(shared->lock));
	for (int i = 0; i < MAX_WALK_WORKERS; i++)
	{
		/* a pid that stands here is alive: it leaves under the lock */
		if (slot->worker_pids[i] != 0)
			kill(slot->worker_pids[i], SIGINT);
	}
}

/*
 * The submitter's (sub)transaction has ended.  Called at the end of
 * transactions: it cannot throw.
 */
void
registry_end(int number, bool commit)
{
	PeekSlot   *slot = &shared->slots[number];

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	Assert(slot->in_use && slot->pid == MyProcPid && slot->submitter_open);
	slot->submitter_open = false;
	if (!commit)
		slot->doomed = true;
	if (slot->doomed)
		slot_interrupt(slot);
	slot_settle(slot);
	LWLockRelease(shared->lock);
	ConditionVariableBroadcast(&shared->ended);
}

/* The walk of a slot is about to be handed over to workers. */
void
registry_offload(int number, int num_workers, int64 estimated_positions)
{
	PeekSlot   *slot = &shared->slots[number];

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot->offloaded = true;
	slot->num_workers = num_workers;
	slot->estimated_positions = estimated_positions;
	LWLockRelease(shared->lock);
}

/* It stays inline after all; workers that are late find that out. */
void
registry_stay(int number)
{
	PeekSlot   *slot = &shared->slots[number];

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot_set_state(slot, PEEK_RUNNING);
	slot->offloaded = false;
	slot->num_workers = 0;
	slot_interrupt(slot);
	LWLockRelease(shared->lock);
}

/*
 * A worker has started.  False: what it was started for is over, or will be
 * of no use.
 */
bool
registry_attach(int number, uint64 generation, int worker)
{
	PeekSlot   *slot;
	bool		result = false;

	if (shared == NULL || number >= shared->num_slots)
		return false;
	slot = &shared->slots[number];
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (slot->in_use && slot->generation == generation && slot->offloaded &&
		!slot->doomed)
	{
		Assert(slot->worker_pids[worker] == 0);
		slot->worker_pids[worker] = MyProcPid;
		slot->num_active++;
		result = true;
	}
	LWLockRelease(shared->lock);
	return result;
}

/*
 * A worker ends.  sqlstate and error are those of an end that nobody could
 * write into the outcome, else NULL.
 */
void
registry_detach(int number, int worker, const char *sqlstate,
				const char *error)
{
	PeekSlot   *slot = &shared->slots[number];

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	Assert(slot->worker_pids[worker] == MyProcPid && slot->num_active > 0);
	slot->worker_pids[worker] = 0;
	slot->num_active--;
	if (sqlstate != NULL && slot->offloaded && !slot->has_outcome)
	{
		strcpy(slot->sqlstate, sqlstate);
		snprintf(slot->error, REGISTRY_ERROR, "%s", error);
		slot_set_state(slot, strcmp(sqlstate, "57014") == 0 ?
					   PEEK_CANCELLED : PEEK_FAILED);
	}
	slot_settle(slot);
	LWLockRelease(shared->lock);
	ConditionVariableBroadcast(&shared->ended);
}

/* An offloaded peek goes on to another state. */
void
registry_set_state(int number, PeekState state)
{
	PeekSlot   *slot = &shared->slots[number];

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot_set_state(slot, state);
	LWLockRelease(shared->lock);
	if (peek_state_is_end(state))
		ConditionVariableBroadcast(&shared->ended);
}

/* A worker, or reclaim, is about to commit rows. */
void
registry_committing(int number)
{
	PeekSlot   *slot = &shared->slots[number];

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot->left_rows = true;
	LWLockRelease(shared->lock);
}

/* A worker has committed an outcome row. */
void
registry_has_outcome(int number)
{
	PeekSlot   *slot = &shared->slots[number];

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot->has_outcome = true;
	LWLockRelease(shared->lock);
}

/* Asked at every look: one flag, whose change comes with an interrupt. */
bool
registry_is_doomed(int number)
{
	return shared->slots[number].doomed;
}

/* Interrupt the other workers of a peek. */
void
registry_interrupt_others(int number)
{
	PeekSlot   *slot = &shared->slots[number];

	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < MAX_WALK_WORKERS; i++)
	{
		if (slot->worker_pids[i] != 0 && slot->worker_pids[i] != MyProcPid)
			kill(slot->worker_pids[i], SIGINT);
	}
	LWLockRelease(shared->lock);
}

/*
 * A transaction is about to release an offloaded peek in flight.  False: it is
 * not in flight any more, so all of it can be seen.  Else the slot stays until
 * registry_unhold().
 */
bool
registry_hold(int number, uint64 generation)
{
	PeekSlot   *slot = &shared->slots[number];
	bool		result;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	result = slot->in_use && slot->generation == generation && slot->offloaded;
	if (result)
		slot->num_holds++;
	LWLockRelease(shared->lock);
	return result;
}

/*
 * That transaction has ended, or has not released it after all: doom says
 * whether the peek is released.  Called at the end of transactions: it cannot
 * throw.
 */
void
registry_unhold(int number, bool doom)
{
	PeekSlot   *slot = &shared->slots[number];

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	Assert(slot->in_use && slot->num_holds > 0);
	slot->num_holds--;
	if (doom)
	{
		slot->doomed = true;
		slot_interrupt(slot);
	}
	slot_settle(slot);
	LWLockRelease(shared->lock);
	ConditionVariableBroadcast(&shared->ended);
}

/*
 * Have workers walked, or do they, for a peek of this database that has not
 * been settled yet?
 */
bool
registry_has_offloaded(void)
{
	bool		result = false;

	if (shared == NULL)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < shared->num_slots && !result; i++)
	{
		PeekSlot   *slot = &shared->slots[i];

		result = slot->in_use && slot->offloaded &&
			slot->database == MyDatabaseId;
	}
	LWLockRelease(shared->lock);
	return result;
}

/* The launcher is this process, or has just been. */
void
registry_set_launcher(bool here)
{
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->launcher = here ? MyLatch : NULL;
	LWLockRelease(shared->lock);
}

/* Is there something to reclaim anywhere? */
bool
registry_wants_reclaim(void)
{
	bool		result = false;

	if (shared == NULL)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < shared->num_slots && !result; i++)
		result = slot_wants_reclaim(&shared->slots[i]);
	LWLockRelease(shared->lock);
	return result;
}

/* Is there still something to reclaim of this peek? */
bool
registry_is_reclaimable(const PeekInFlight *peek)
{
	PeekSlot   *slot = &shared->slots[peek->slot];
	bool		result;

	LWLockAcquire(shared->lock, LW_SHARED);
	result = slot->generation == peek->generation && slot_wants_reclaim(slot);
	LWLockRelease(shared->lock);
	return result;
}

/* What this peek has left is gone. */
void
registry_reclaimed(const PeekInFlight *peek)
{
	PeekSlot   *slot = &shared->slots[peek->slot];

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (slot->generation == peek->generation && slot_wants_reclaim(slot))
		slot->in_use = false;
	LWLockRelease(shared->lock);
	ConditionVariableBroadcast(&shared->ended);
}

/* A database has been dropped, and with it what was to be reclaimed there. */
void
registry_forget_database(Oid database)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->num_slots; i++)
	{
		PeekSlot   *slot = &shared->slots[i];

		if (slot->database == database && slot_wants_reclaim(slot))
			slot->in_use = false;
	}
	LWLockRelease(shared->lock);
}

/* The databases where something is to be reclaimed, in the current context. */
List *
registry_databases(void)
{
	List	   *databases = NIL;
	Oid		   *found;
	int			count = 0;

	if (shared == NULL)
		return NIL;
	found = palloc(shared->num_slots * sizeof(Oid));
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < shared->num_slots; i++)
	{
		if (slot_wants_reclaim(&shared->slots[i]))
			found[count++] = shared->slots[i].database;
	}
	LWLockRelease(shared->lock);
	for (int i = 0; i < count; i++)
		databases = list_append_unique_oid(databases, found[i]);
	pfree(found);
	return databases;
}

/*
 * Does no slot but mine stand for this handle any more?  Rows of an earlier
 * peek under it may be waiting for reclaim.  *own is set if it is one of this
 * session's that will not be before the transaction ends.
 */
bool
registry_handle_is_clear(const pg_uuid_t *handle, int mine, bool *own)
{
	bool		clear = true;

	*own = false;
	if (shared == NULL)
		return true;
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < shared->num_slots && clear; i++)
	{
		PeekSlot   *slot = &shared->slots[i];

		clear = i == mine || !slot->in_use || !slot->offloaded ||
			slot->database != MyDatabaseId ||
			memcmp(&slot->handle, handle, sizeof(pg_uuid_t)) != 0;
		*own = !clear && slot->pid == MyProcPid && slot->submitter_open;
	}
	LWLockRelease(shared->lock);
	return clear;
}

static void
slot_copy(int number, PeekInFlight *peek)
{
	PeekSlot   *slot = &shared->slots[number];

	Assert(LWLockHeldByMe(shared->lock));
	peek->slot = number;
	peek->generation = slot->generation;
	peek->handle = slot->handle;
	peek->database = slot->database;
	peek->owner = slot->owner;
	peek->charged_to = slot->charged_to;
	peek->pid = slot->pid;
	peek->submitted_at = slot->submitted_at;
	peek->offloaded = slot->offloaded;
	peek->has_outcome = slot->has_outcome;
	peek->doomed = slot->doomed;
	peek->num_workers = slot->num_workers;
	peek->estimated_positions = slot->estimated_positions;
	memcpy(peek->sqlstate, slot->sqlstate, sizeof(peek->sqlstate));
	memcpy(peek->error, slot->error, sizeof(peek->error));
	peek->state = slot->state;
	peek->phase = pg_atomic_read_u32(&slot->phase);
	peek->positions = pg_atomic_read_u64(&slot->positions);
	peek->num_rows = pg_atomic_read_u64(&slot->num_rows);
	peek->answer_bytes = pg_atomic_read_u64(&slot->answer_bytes);
	peek->stored_bytes = pg_atomic_read_u64(&slot->stored_bytes);
}

/* Slots of this database, in the current context. */
static PeekInFlight *
registry_copy(int *count, bool reclaimable)
{
	PeekInFlight *peeks;

	*count = 0;
	if (shared == NULL)
		return NULL;
	peeks = palloc(Max(shared->num_slots, 1) * sizeof(PeekInFlight));
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < shared->num_slots; i++)
	{
		PeekSlot   *slot = &shared->slots[i];

		if (!slot->in_use || slot->database != MyDatabaseId ||
			(reclaimable ? !slot_wants_reclaim(slot) : slot->doomed))
			continue;
		slot_copy(i, &peeks[(*count)++]);
	}
	LWLockRelease(shared->lock);
	return peeks;
}

/* All peeks of this database that are in flight. */
PeekInFlight *
registry_list(int *count)
{
	return registry_copy(count, false);
}

/* Those that have left something behind. */
PeekInFlight *
registry_reclaimable(int *count)
{
	return registry_copy(count, true);
}

int
registry_slots_in_use(void)
{
	int			count = 0;

	if (shared == NULL)
		return 0;
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < shared->num_slots; i++)
		count += shared->slots[i].in_use;
	LWLockRelease(shared->lock);
	return count;
}

/*
 * Ask a peek in flight to stop; false if it has ended meanwhile.  The walk
 * sees it when it yields next.
 */
bool
registry_request_cancel(const PeekInFlight *peek)
{
	PeekSlot   *slot = &shared->slots[peek->slot];
	bool		found;

	LWLockAcquire(shared->lock, LW_SHARED);
	found = slot->in_use && slot->generation == peek->generation;
	if (found)
	{
		pg_atomic_write_u32(&slot->cancel, 1);
		slot_interrupt(slot);
	}
	LWLockRelease(shared->lock);
	return found;
}

/* So many slots may one session have, lest it take all of them. */
int
registry_max_own_slots(void)
{
	return shared == NULL ? 0 : Max(shared->num_slots / 8, 1);
}

/*
 * Wait until some peek ends, or the time is over.  May return early.
 */
void
registry_wait(long timeout_ms)
{
	if (shared == NULL)
	{
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 timeout_ms, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		return;
	}
	ConditionVariablePrepareToSleep(&shared->ended);
	(void) ConditionVariableTimedSleep(&shared->ended, timeout_ms,
									   PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
}
