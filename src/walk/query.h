/*-------------------------------------------------------------------------
 *
 * query.h
 *	  The executor as a source of rows.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/walk/query.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_QUERY_H
#define PEEKSTASH_QUERY_H

#include "peekstash.h"

#include "nodes/params.h"
#include "nodes/plannodes.h"
#include "utils/snapshot.h"
#include "walk/collection.h"
#include "walk/scan.h"

/*
 * A query, planned.  Plain data: node trees and parameters that PostgreSQL
 * can carry to another process.
 */
typedef struct PeekQuery
{
	const char *text;			/* as the user wrote it */
	PlannedStmt *plan;
	ParamListInfo params;		/* or NULL */
	RowDescription *description;	/* of the answer */
} PeekQuery;

typedef struct PeekQueryRun PeekQueryRun;

extern bool query_wants_new_snapshot(const PeekQuery *query);
extern PeekQueryRun *query_begin(const PeekQuery *query, Snapshot snapshot);
extern PeekScanResult query_step(PeekQueryRun *run,
								 PeekCollection *collection, int64 fuel);
extern void query_end(PeekQueryRun *run);

#endif							/* PEEKSTASH_QUERY_H */
