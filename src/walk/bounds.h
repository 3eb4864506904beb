/*-------------------------------------------------------------------------
 *
 * bounds.h
 *	  What bounds a walk: which conditions btree gets, and which wait.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/walk/bounds.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_BOUNDS_H
#define PEEKSTASH_BOUNDS_H

#include "peekstash.h"

#include "access/itup.h"
#include "access/skey.h"
#include "nodes/execnodes.h"
#include "walk/arrangement.h"

typedef struct IndexTest IndexTest;

typedef struct WalkBounds
{
	bool		matches_nothing;	/* contradictory, or a value is NULL */
	int			num_scan_keys;
	ScanKey		scan_keys;		/* for btree */
	int64		num_seeks;		/* how often btree starts; 1 without a list */
	int			seek_width;		/* the first scan keys of each seek vary */
	int			seek_first;		/* number of the first one that varies */
	Datum	   *seek_values;	/* num_seeks * seek_width, in walk order */
	int			num_tests;
	IndexTest  *tests;			/* on index tuples, before the heap is read */
	List	   *residual;		/* quals for the table's row */
} WalkBounds;

extern WalkBounds *walk_bounds_create(const Arrangement *arrangement,
									  const PeekRequest *request,
									  EState *estate);
extern void walk_bounds_seek(WalkBounds *bounds, int64 seek);
extern bool walk_bounds_test(const WalkBounds *bounds, IndexTuple tuple,
							 TupleDesc desc);

#endif							/* PEEKSTASH_BOUNDS_H */
