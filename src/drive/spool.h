/*-------------------------------------------------------------------------
 *
 * spool.h
 *	  A tuplestore holding an answer that may not be stashed.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/spool.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_SPOOL_H
#define PEEKSTASH_SPOOL_H

#include "peekstash.h"

typedef struct PeekSpool PeekSpool;

extern PeekSpool *spool_create(void);
extern void spool_push(PeekSpool *spool, const EntryBatch *batch);
extern bool spool_next(PeekSpool *spool, const char **data, Size *size);
extern void spool_end(PeekSpool *spool);

#endif							/* PEEKSTASH_SPOOL_H */
