/*-------------------------------------------------------------------------
 *
 * scan.h
 *	  PeekScan: the one walk.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/walk/scan.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_SCAN_H
#define PEEKSTASH_SCAN_H

#include "peekstash.h"

#include "utils/snapshot.h"
#include "walk/arrangement.h"
#include "walk/collection.h"

typedef struct PeekScan PeekScan;

typedef enum PeekScanResult
{
	PEEK_SCAN_SUSPENDED_FUEL,	/* step again */
	PEEK_SCAN_SUSPENDED_BATCH,	/* take the batch, then step again */
	PEEK_SCAN_FINISHED			/* complete, or satisfied */
} PeekScanResult;

extern PeekScan *peek_scan_begin(Arrangement *arrangement,
								 const PeekRequest *request,
								 Snapshot snapshot, int64 max_positions,
								 PeekScanState *state);
extern OrderOptions *peek_scan_order(const PeekScan *scan);
extern bool peek_scan_slot_is_row(const PeekScan *scan);
extern PeekScanResult peek_scan_step(PeekScan *scan,
									 PeekCollection *collection, int64 fuel);
extern void peek_scan_end(PeekScan *scan);

#endif							/* PEEKSTASH_SCAN_H */
