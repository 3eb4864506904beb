/*-------------------------------------------------------------------------
 *
 * query.c
 *	  The executor as a source of rows.
 *
 * A planned query is stepped as a scan is: rows go from the executor straight
 * into a collection, and when a batch waits, or the fuel is spent, the step
 * ends.  The executor stops because its receiver asks it to, which is how
 * FETCH stops it: the plan stays where it is and goes on with the next step.
 * So the batch is written while the executor is not running, and nothing of
 * it but the plan's own state (a sort, a hash table) is held meanwhile.
 *
 * A plan that is stopped on the way cannot be a parallel one: its workers
 * would have to end with each step.  Nor could anything be written while it
 * runs.  Who plans the query must not allow that.
 *
 * Fuel is rows here: how many index entries or pages a plan reads, nobody
 * outside of it knows.
 *
 * Writing a batch moves the command counter on.  The plan does not see that:
 * its snapshot is a copy that was registered before.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/walk/query.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "stop.h"
#include "tcop/dest.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "walk/arrangement.h"
#include "walk/query.h"

#include "compat.h"

struct PeekQueryRun
{
	DestReceiver receiver;		/* must be first */
	QueryDesc  *desc;
	MemoryContext row_context;	/* scratch, reset with each row */
	bool		ended;			/* the plan has no further row */
	bool		finished;		/* nor has the collection */

	/* of the step under way */
	PeekCollection *collection;
	int64		fuel;
	bool		stopped;		/* the receiver has asked the plan to stop */
};

/*
 * Was a table of the query rewritten after the active snapshot was taken?
 * See table_check_rewritten(), which throws where that cannot be helped.
 */
bool
query_wants_new_snapshot(const PeekQuery *query)
{
	bool		wants = false;
	ListCell   *lc;

	foreach(lc, query->plan->relationOids)
	{
		Oid			relid = lfirst_oid(lc);
		char		relkind = get_rel_relkind(relid);
		Relation	relation;

		if (relkind != RELKIND_RELATION && relkind != RELKIND_MATVIEW)
			continue;

		/* parser and planner have locked it */
		relation = relation_open(relid, NoLock);
		wants |= table_check_rewritten(relation);
		relation_close(relation, NoLock);
	}
	return wants;
}

/* The executor has a row.  False asks it to stop behind this one. */
static bool
query_receive(TupleTableSlot *slot, DestReceiver *receiver)
{
	PeekQueryRun *run = (PeekQueryRun *) receiver;
	CollectionVerdict verdict;
	MemoryContext old;

	CHECK_FOR_INTERRUPTS();
	MemoryContextReset(run->row_context);
	old = MemoryContextSwitchTo(run->row_context);
	verdict = collection_offer(run->collection, slot);
	MemoryContextSwitchTo(old);

	run->stopped = verdict != COLLECTION_NEXT || --run->fuel <= 0;
	return !run->stopped;
}

static void
query_receiver_startup(DestReceiver *receiver, int operation, TupleDesc desc)
{
}

static void
query_receiver_shutdown(DestReceiver *receiver)
{
}

static void
query_receiver_destroy(DestReceiver *receiver)
{
}

/*
 * Start the executor, which checks the current role's rights.  The snapshot
 * must be registered by the caller and stay so until query_end(); it is the
 * active one until then, for functions that look for it.  The result lives in
 * the current context.
 */
PeekQueryRun *
query_begin(const PeekQuery *query, Snapshot snapshot)
{
	PeekQueryRun *run = palloc0(sizeof(PeekQueryRun));

	run->receiver.receiveSlot = query_receive;
	run->receiver.rStartup = query_receiver_startup;
	run->receiver.rShutdown = query_receiver_shutdown;
	run->receiver.rDestroy = query_receiver_destroy;
	run->receiver.mydest = DestNone;
	run->row_context = AllocSetContextCreate(CurrentMemoryContext,
											 "peekstash query row",
											 ALLOCSET_DEFAULT_SIZES);

	PEEK_STOP("query-start");
	PushActiveSnapshot(snapshot);
	run->desc = CreateQueryDesc(query->plan, query->text, snapshot,
								InvalidSnapshot, &run->receiver,
								query->params, NULL, 0);
	ExecutorStart(run->desc, 0);
	return run;
}

/*
 * Go on until so many rows have come, a batch is full, or the query has ended.
 * As peek_scan_step().
 */
PeekScanResult
query_step(PeekQueryRun *run, PeekCollection *collection, int64 fuel)
{
	/* defects of the driver: never repeat rows, never lose any */
	if (run->finished)
		elog(ERROR, "query stepped after its end");
	if (collection_batch_waits(collection))
		elog(ERROR, "query stepped with a batch not taken");
	Assert(fuel > 0);

	if (!run->ended)
	{
		run->collection = collection;
		run->fuel = fuel;
		run->stopped = false;
		ExecutorRun(run->desc, ForwardScanDirection, 0);
		if (collection_batch_waits(collection))
			return PEEK_SCAN_SUSPENDED_BATCH;
		if (run->stopped && !collection_is_done(collection))
			return PEEK_SCAN_SUSPENDED_FUEL;
		run->ended = true;
	}

	if (collection_finish(collection) == COLLECTION_BATCH)
		return PEEK_SCAN_SUSPENDED_BATCH;
	run->finished = true;
	return PEEK_SCAN_FINISHED;
}

/*
 * Give back what the plan holds.  After an error this is not needed: the
 * transaction's resource owner and the memory contexts do it.
 */
void
query_end(PeekQueryRun *run)
{
	ExecutorFinish(run->desc);
	ExecutorEnd(run->desc);
	FreeQueryDesc(run->desc);
	PopActiveSnapshot();
	MemoryContextDelete(run->row_context);
}
