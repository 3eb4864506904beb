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

extern OffloadGate offload_gate_of_walk(const Arrangement *arrangement,
										const PeekRequest *request, int slot,
										const PeekSubmit *submit);
extern OffloadGate offload_walk(PeekAnswer *answer, Arrangement *arrangement,
								const PeekRequest *request,
								const PeekKnobs *knobs, PeekScan *scan,
								PeekCollection *collection,
								PeekScanState *state, Snapshot snapshot,
								double seconds);
extern OffloadGate offload_gate_of_query(const PeekQuery *query, int slot,
										 const PeekSubmit *submit);
extern OffloadGate offload_query(PeekAnswer *answer, const PeekQuery *query,
								 const PeekKnobs *knobs,
								 const PeekScanState *state,
								 Snapshot snapshot);

#endif							/* PEEKSTASH_OFFLOAD_H */
