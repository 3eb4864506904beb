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

/* Moving a walk to another process, and sharing it. */
extern void peek_scan_make_movable(PeekScan *scan);
extern void peek_scan_stay(PeekScan *scan);
extern bool peek_scan_is_one_seek(const PeekScan *scan);
extern int64 peek_scan_estimate(const PeekScan *scan);
extern Size peek_scan_export_size(const PeekScan *scan, Snapshot snapshot);
extern void peek_scan_export(const PeekScan *scan, Snapshot snapshot,
							 void *target);
extern void peek_scan_import(PeekScan *scan, void *source,
							 PeekSharedTotals *shared);
extern void peek_scan_set_max_positions(PeekScan *scan, int64 max_positions);

#endif							/* PEEKSTASH_SCAN_H */
