/*-------------------------------------------------------------------------
 *
 * reclaim.h
 *	  Deleting what nobody will read any more.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/reclaim.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_RECLAIM_H
#define PEEKSTASH_RECLAIM_H

#include "postgres.h"

extern void reclaim_init(void);
extern void reclaim_on_use(void);
extern int64 reclaim_all(Oid owner);

#endif							/* PEEKSTASH_RECLAIM_H */
