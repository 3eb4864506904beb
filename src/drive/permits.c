/*-------------------------------------------------------------------------
 *
 * permits.c
 *	  The right of an offloaded walk to run.
 *
 * No more workers walk at once than there are permits.  The others wait, first
 * come, first served:
 *
 *		FREE --arrives, draws a number--> WAITING --its turn--> HELD
 *		  ^                                  |                   |
 *		  `------- cancelled, ended ---------+--- walk is over --'
 *
 * A worker's place is that of its slot and number in the registry, so there is
 * one for each worker that can be.  Each worker sees for itself whether its
 * turn has come: there are more permits than are in use and smaller numbers
 * waiting.  The setting is read at each look, so it can be changed while walks
 * run: lowering it interrupts nobody, raising it admits whoever waits.
 *
 * Whoever gives a permit back, or leaves the queue, wakes those who wait.  A
 * process gives back what it has before it leaves shared memory, however it
 * ends; after a crash all is made anew.
 *
 * The lock is a leaf: nothing is acquired, allocated or thrown under it.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/permits.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "drive/permits.h"
#include "knobs.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "shared.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/wait_event.h"

#include "compat.h"

typedef enum PermitState
{
	PERMIT_FREE,
	PERMIT_WAITING,
	PERMIT_HELD
} PermitState;

typedef struct PermitPlace
{
	PermitState state;
	uint64		number;			/* drawn on arrival */
	Latch	   *latch;			/* of who waits */
} PermitPlace;

typedef struct PermitsShared
{
	LWLock	   *lock;			/* constant after init; protects the rest */
	int			num_places;		/* constant after init */
	int			in_use;
	int			waiting;
	uint64		last_number;
	PermitPlace places[FLEXIBLE_ARRAY_MEMBER];
} PermitsShared;

/* Wakes could be missed only by a defect; look again now and then. */
#define PERMIT_WAIT_MS	1000

static PermitsShared *shared = NULL;	/* NULL = not preloaded */


static Size
permits_size(void)
{
	return add_size(offsetof(PermitsShared, places),
					mul_size(mul_size(knobs_slots(), MAX_WALK_WORKERS),
							 sizeof(PermitPlace)));
}

static void
permits_attach(void *place, bool found, LWLock *lock)
{
	shared = place;
	if (found)
		return;
	shared->lock = lock;
	shared->num_places = knobs_slots() * MAX_WALK_WORKERS;
}

void
permits_init(void)
{
	static const SharedArea area = {
		"peekstash permits", "PeekstashPermits", permits_size, NULL,
		permits_attach
	};

	shared_area_register(&area);
}

/* Let those who wait look whether it is their turn. */
static void
permits_wake(void)
{
	Assert(LWLockHeldByMeInMode(shared->lock, LW_EXCLUSIVE));
	if (shared->waiting == 0)
		return;
	for (int i = 0; i < shared->num_places; i++)
	{
		if (shared->places[i].state == PERMIT_WAITING)
			SetLatch(shared->places[i].latch);
	}
}

/* Take a permit if it is this place's turn. */
static bool
permit_take(PermitPlace *place)
{
	int			before = 0;

	Assert(LWLockHeldByMeInMode(shared->lock, LW_EXCLUSIVE));
	if (shared->in_use >= knobs_permits())
		return false;
	for (int i = 0; i < shared->num_places && before < shared->waiting; i++)
	{
		if (shared->places[i].state == PERMIT_WAITING &&
			shared->places[i].number < place->number)
			before++;
	}
	if (shared->in_use + before >= knobs_permits())
		return false;

	place->state = PERMIT_HELD;
	shared->waiting--;
	shared->in_use++;
	return true;
}

/*
 * Wait for a permit, and take it.  The caller sees to it that permit_release()
 * is called also if this throws or the process ends.
 */
void
permit_acquire(int number, PermitWaitCallback callback, void *arg)
{
	PermitPlace *place = &shared->places[number];
	bool		taken;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	Assert(place->state == PERMIT_FREE);
	place->state = PERMIT_WAITING;
	place->number = ++shared->last_number;
	place->latch = MyLatch;
	shared->waiting++;
	taken = permit_take(place);
	LWLockRelease(shared->lock);

	while (!taken)
	{
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 PERMIT_WAIT_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		callback(arg);

		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		taken = permit_take(place);
		LWLockRelease(shared->lock);
	}
}

/* Give a permit back, or leave the queue.  Cannot throw. */
void
permit_release(int number)
{
	PermitPlace *place = &shared->places[number];

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (place->state == PERMIT_HELD)
		shared->in_use--;
	else if (place->state == PERMIT_WAITING)
		shared->waiting--;
	place->state = PERMIT_FREE;
	permits_wake();
	LWLockRelease(shared->lock);
}

int
permits_in_use(void)
{
	int			result;

	if (shared == NULL)
		return 0;
	LWLockAcquire(shared->lock, LW_SHARED);
	result = shared->in_use;
	LWLockRelease(shared->lock);
	return result;
}

int
permits_queue_depth(void)
{
	int			result;

	if (shared == NULL)
		return 0;
	LWLockAcquire(shared->lock, LW_SHARED);
	result = shared->waiting;
	LWLockRelease(shared->lock);
	return result;
}
