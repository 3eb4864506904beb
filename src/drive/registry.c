/*-------------------------------------------------------------------------
 *
 * registry.c
 *	  Submitted peeks in flight.
 *
 * A slot in shared memory says of a submitted peek what other sessions cannot
 * see in the tables yet: that it runs, how far it is, and whether somebody
 * wants it to stop.  It is taken when the walk begins and given back when the
 * transaction ends, because only then does MVCC decide what became of it.
 * With no slot free, or without shared_preload_libraries, a walk goes on
 * without one: it cannot be watched or cancelled by its handle, that is all.
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

#include "access/xact.h"
#include "drive/registry.h"
#include "knobs.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/atomics.h"
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
	int			pid;
	TimestampTz submitted_at;

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
	ConditionVariable ended;	/* broadcast when a slot is given back */
	PeekSlot	slots[FLEXIBLE_ARRAY_MEMBER];
} RegistryShared;

#define REGISTRY_TRANCHE	"PeekstashRegistry"

static RegistryShared *shared = NULL;	/* NULL = not preloaded */

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static Size
registry_size(void)
{
	return add_size(offsetof(RegistryShared, slots),
					mul_size(knobs_slots(), sizeof(PeekSlot)));
}

static void
registry_shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(registry_size());
	RequestNamedLWLockTranche(REGISTRY_TRANCHE, 1);
}

static void
registry_shmem_startup(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("peekstash registry", registry_size(), &found);
	if (!found)
	{
		memset(shared, 0, registry_size());
		shared->lock = &GetNamedLWLockTranche(REGISTRY_TRANCHE)->lock;
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
	LWLockRelease(AddinShmemInitLock);
}

void
registry_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = registry_shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = registry_shmem_startup;
}

bool
registry_is_shared(void)
{
	return shared != NULL;
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

/* Say how far the walk is. */
void
registry_progress(int number, PeekPhase phase, int64 positions, int64 num_rows,
				  int64 answer_bytes, int64 stored_bytes)
{
	PeekSlot   *slot;

	if (number < 0)
		return;
	slot = &shared->slots[number];
	pg_atomic_write_u32(&slot->phase, phase);
	pg_atomic_write_u64(&slot->positions, positions);
	pg_atomic_write_u64(&slot->num_rows, num_rows);
	pg_atomic_write_u64(&slot->answer_bytes, answer_bytes);
	pg_atomic_write_u64(&slot->stored_bytes, stored_bytes);
}

bool
registry_cancel_requested(int number)
{
	return number >= 0 &&
		pg_atomic_read_u32(&shared->slots[number].cancel) != 0;
}

/* Give a slot back.  Called at the end of transactions: it cannot throw. */
void
registry_end(int number)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	Assert(shared->slots[number].in_use &&
		   shared->slots[number].pid == MyProcPid);
	shared->slots[number].in_use = false;
	LWLockRelease(shared->lock);
	ConditionVariableBroadcast(&shared->ended);
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
	peek->state = PEEK_RUNNING;
	peek->phase = pg_atomic_read_u32(&slot->phase);
	peek->positions = pg_atomic_read_u64(&slot->positions);
	peek->num_rows = pg_atomic_read_u64(&slot->num_rows);
	peek->answer_bytes = pg_atomic_read_u64(&slot->answer_bytes);
	peek->stored_bytes = pg_atomic_read_u64(&slot->stored_bytes);
}

/* All peeks of this database that are in flight. */
PeekInFlight *
registry_list(int *count)
{
	PeekInFlight *peeks;

	*count = 0;
	if (shared == NULL)
		return NULL;
	peeks = palloc(Max(shared->num_slots, 1) * sizeof(PeekInFlight));
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < shared->num_slots; i++)
	{
		if (shared->slots[i].in_use &&
			shared->slots[i].database == MyDatabaseId)
			slot_copy(i, &peeks[(*count)++]);
	}
	LWLockRelease(shared->lock);
	return peeks;
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
		pg_atomic_write_u32(&slot->cancel, 1);
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
