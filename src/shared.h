/*-------------------------------------------------------------------------
 *
 * shared.h
 *	  Areas of shared memory.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/shared.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_SHARED_H
#define PEEKSTASH_SHARED_H

#include "postgres.h"

#include "storage/lwlock.h"

/* An area that a file asks for while the library is preloaded. */
typedef struct SharedArea
{
	const char *name;
	const char *tranche;		/* of the one LWLock it wants; NULL = none */
	Size		(*size) (void);
	Size		(*extra) (void);	/* for a table beside it; NULL = none */

	/*
	 * Attach a process.  place is zeroed when the server starts (found is
	 * false then), and the caller holds the lock that keeps others away.
	 */
	void		(*attach) (void *place, bool found, LWLock *lock);
} SharedArea;

extern void shared_area_register(const SharedArea *area);

#endif							/* PEEKSTASH_SHARED_H */
