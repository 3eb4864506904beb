/*-------------------------------------------------------------------------
 *
 * permits.h
 *	  The right of an offloaded walk to run.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/permits.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_PERMITS_H
#define PEEKSTASH_PERMITS_H

#include "postgres.h"

/* Is called while a worker waits; throws if it shall not wait any longer. */
typedef void (*PermitWaitCallback) (void *arg);

extern void permits_init(void);
extern void permit_acquire(int place, PermitWaitCallback callback, void *arg);
extern void permit_release(int place);
extern int	permits_in_use(void);
extern int	permits_queue_depth(void);

#endif							/* PEEKSTASH_PERMITS_H */
