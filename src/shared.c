/*-------------------------------------------------------------------------
 *
 * shared.c
 *	  Areas of shared memory.
 *
 * Shared memory has to be asked for while the server starts, so there is some
 * only with shared_preload_libraries.  Each file that wants some registers an
 * area then, and finds out by its attach function whether it has got it.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/shared.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "shared.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "compat.h"

#define MAX_AREAS	8

static const SharedArea *areas[MAX_AREAS];
static int	num_areas = 0;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
shared_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	for (int i = 0; i < num_areas; i++)
	{
		RequestAddinShmemSpace(areas[i]->size());
		if (areas[i]->extra != NULL)
			RequestAddinShmemSpace(areas[i]->extra());
		if (areas[i]->tranche != NULL)
			RequestNamedLWLockTranche(areas[i]->tranche, 1);
	}
}

static void
shared_startup(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < num_areas; i++)
	{
		const SharedArea *area = areas[i];
		bool		found;
		void	   *place = ShmemInitStruct(area->name, area->size(), &found);

		if (!found)
			memset(place, 0, area->size());
		area->attach(place, found, area->tranche == NULL ? NULL :
					 &GetNamedLWLockTranche(area->tranche)->lock);
	}
	LWLockRelease(AddinShmemInitLock);
}

/* Ask for an area.  Does nothing unless the library is being preloaded. */
void
shared_area_register(const SharedArea *area)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	if (num_areas == 0)
	{
		prev_shmem_request_hook = shmem_request_hook;
		shmem_request_hook = shared_request;
		prev_shmem_startup_hook = shmem_startup_hook;
		shmem_startup_hook = shared_startup;
	}
	Assert(num_areas < MAX_AREAS);
	areas[num_areas++] = area;
}
