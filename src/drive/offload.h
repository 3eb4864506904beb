/*-------------------------------------------------------------------------
 *
 * offload.h
 *	  Handing a walk or a query over to background workers.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/offload.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_OFFLOAD_H
#define PEEKSTASH_OFFLOAD_H

#include "peekstash.h"

#include "drive/answer.h"
#include "drive/driver.h"
#include "knobs.h"
#include "utils/snapshot.h"
#include "walk/arrangement.h"
#include "walk/query.h"
#include "walk/scan.h"

/*
 * Why a walk stays with its submitter.  Named in inline_reason, see
 * offload.c.
 */
typedef enum OffloadGate
{
	GATE_OPEN,
	GATE_NOT_PRELOADED,
	GATE_SLOT,
	GATE_TRANSACTION_ID,
	GATE_TABLE_LOCK,
	GATE_SERIALIZABLE,
	GATE_NEW_RELATION,
	GATE_TEMPORARY,
	GATE_FOREIGN,
	GATE_PARALLEL_UNSAFE,
	GATE_SUBTRANSACTIONS,
	GATE_ORPHANS,
	GATE_HANDLE,
	GATE_KEYS,
	GATE_SORT,
	GATE_QUERY,
	GATE_WORKER_SLOT,
	GATE_LOCK,
	GATE_WORKER
} OffloadGate;

extern const char *offload_gate_name(OffloadGate gate);
pg_noreturn extern void error_no_background(OffloadGate gate);
extern bool offload_is_parallel_safe(Node *node);

/* What goes to workers: a walk, maybe one that has begun, or a query. */
typedef struct OffloadSource
{
	const PeekQuery *query;		/* NULL = a walk */
	Arrangement *arrangement;	/* of a walk, and so on */
	const PeekRequest *request;
	PeekScan   *scan;
	PeekCollection *collection;

	PeekScanState *state;
	Snapshot	snapshot;		/* registered */
	double		walk_seconds;	/* so far, without writing */
} OffloadSource;

extern OffloadGate offload_walk(PeekAnswer *answer, OffloadSource *source,
								const PeekKnobs *knobs,
								const PeekSubmit *submit);
extern OffloadGate offload_query(PeekAnswer *answer, OffloadSource *source,
								 const PeekKnobs *knobs,
								 const PeekSubmit *submit);

#endif							/* PEEKSTASH_OFFLOAD_H */
