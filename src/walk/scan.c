/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  PeekScan: the one walk.
 *
 * The scan goes from index tuple to index tuple and offers the rows they lead
 * to to a collection.  It knows no SQL function, no SPI and no worker, and
 * never calls up: whoever drives it steps it, a budget of fuel at a time, and
 * finds it where the last step left it.
 *
 *		NOT_STARTED --step--> WALKING --no more entries, or enough rows-->
 *			ENDING --everything taken--> FINISHED
 *
 * Not started differs from exhausted: the index is first touched by the first
 * step that has fuel, and a peek that wants no rows never touches it.
 *
 * A position is one index tuple that btree returned.  Each costs one unit of
 * fuel and counts against the row iteration limit, whether its row is visible,
 * wanted, or neither.  A key of a list that leads to nothing costs one unit of
 * fuel, too, but is no position: a budget must end somewhere in a million
 * absent keys, while the limit is about entries looked at.
 *
 * A walk can move to another process, or be shared by several.  Then btree
 * walks by a parallel-scan descriptor, which says which leaf page comes next,
 * and the walk is left only where a leaf page has been read to its end: from
 * there the descriptor says it all, without a descent or a key, whatever the
 * types and whatever happens to the index meanwhile.  Where a walk cannot
 * move, the index is scanned the plain way.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/walk/scan.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "catalog/pg_attribute.h"
#include "errors.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "stop.h"
#include "utils/memutils.h"

#include "walk/bounds.h"
#include "walk/estimate.h"
#include "walk/scan.h"

#include "compat.h"

typedef enum PeekScanPhase
{
	PHASE_NOT_STARTED,
	PHASE_WALKING,
	PHASE_ENDING,				/* no further row comes from the index */
	PHASE_FINISHED
} PeekScanPhase;

struct PeekScan
{
	Arrangement *arrangement;
	const PeekRequest *request;
	PeekScanState *state;		/* the driver's */
	int64		max_positions;	/* 0 = no limit */
	PeekScanPhase phase;

	WalkBounds *bounds;
	Snapshot	snapshot;
	IndexScanDesc desc;			/* NULL unless WALKING */
	ScanDirection direction;

	bool		movable;		/* suspend for fuel only between leaf pages */
	ParallelIndexScanDesc place;	/* of a walk that moves, or has moved */
	PeekSharedTotals *shared;	/* NULL = nobody else walks */

	EState	   *estate;			/* for expressions; holds all of them */
	ExprContext *econtext;		/* reset with each position */
	ExprState  *filter;			/* what the bounds left over, or NULL */
	TupleTableSlot *heap_slot;

	/* what is offered: the row as the collection shall see it */
	TupleTableSlot *row_slot;	/* heap_slot if nothing has to be moved */
	AttrNumber *columns;		/* the table's attribute of each column */
	AttrNumber	max_attno;
	int			num_columns;
	int			num_computed;	/* sort keys that are no column, behind them */
	ExprState **computed;
	OrderOptions *order;
};

static void
scan_set_phase(PeekScan *scan, PeekScanPhase phase)
{
	Assert(phase > scan->phase);
	scan->phase = phase;
}

/*
 * Lay out the offered row: the answer's columns, then the sort keys that are
 * not among them.
 */
static void
scan_prepare_row(PeekScan *scan)
{
	const PeekRequest *request = scan->request;
	TupleDesc	answer = request->description->desc;
	int			num_keys = request->num_sort_keys;
	OrderOptions *order = NULL;
	List	   *computed = NIL;
	TupleDesc	desc;

	scan->num_columns = answer->natts;
	scan->columns = request->columns;
	for (int i = 0; i < answer->natts; i++)
		scan->max_attno = Max(scan->max_attno, scan->columns[i]);

	if (num_keys > 0)
	{
		order = palloc0(sizeof(OrderOptions));
		order->num_keys = num_keys;
		order->attnos = palloc(num_keys * sizeof(AttrNumber));
		order->types = palloc(num_keys * sizeof(Oid));
		order->operators = palloc(num_keys * sizeof(Oid));
		order->collations = palloc(num_keys * sizeof(Oid));
		order->nulls_first = palloc(num_keys * sizeof(bool));
		order->max_rows = -1;
	}

	for (int i = 0; i < num_keys; i++)
	{
		PeekSortKey *key = &request->sort_keys[i];
		AttrNumber	attno = 0;

		if (IsA(key->expr, Var))
		{
			for (int j = 0; j < answer->natts && attno == 0; j++)
			{
				if (scan->columns[j] == ((Var *) key->expr)->varattno)
					attno = j + 1;
			}
		}
		if (attno == 0)
		{
			computed = lappend(computed, key->expr);
			attno = answer->natts + list_length(computed);
		}
		order->attnos[i] = attno;
		order->types[i] = exprType(key->expr);
		order->operators[i] = key->sort_operator;
		order->collations[i] = key->collation;
		order->nulls_first[i] = key->nulls_first;
	}
	scan->order = order;

	if (request->whole_row && computed == NIL)
	{
		scan->row_slot = scan->heap_slot;
		return;
	}

	desc = CreateTemplateTupleDesc(answer->natts + list_length(computed));
	for (int i = 0; i < answer->natts; i++)
		TupleDescCopyEntry(desc, i + 1, answer, i + 1);

	scan->num_computed = list_length(computed);
	scan->computed = palloc(Max(scan->num_computed, 1) * sizeof(ExprState *));
	for (int i = 0; i < scan->num_computed; i++)
	{
		Node	   *expr = (Node *) list_nth(computed, i);

		TupleDescInitEntry(desc, answer->natts + i + 1, NULL,
						   exprType(expr), exprTypmod(expr), 0);
		scan->computed[i] = ExecPrepareExpr((Expr *) expr, scan->estate);
	}
	scan->row_slot = ExecInitExtraTupleSlot(scan->estate, desc,
											&TTSOpsVirtual);
}

/*
 * The caller must be allowed to execute every function of the filter, and the
 * expressions of the key columns that it gives values for.  Preparing an
 * expression checks that; what bounds the walk is never prepared otherwise.
 */
static void
check_execute_rights(PeekScan *scan)
{
	const PeekRequest *request = scan->request;
	int			width = request->keys.width +
		Max(request->lower.width, request->upper.width);

	(void) ExecPrepareQual(request->quals, scan->estate);
	for (int i = 0; i < width; i++)
	{
		if (scan->arrangement->columns[i].expr != NULL)
			(void) ExecPrepareExpr((Expr *) scan->arrangement->columns[i].expr,
								   scan->estate);
	}
}

/*
 * Prepare a walk.  The snapshot must be registered by the caller and stay so
 * until peek_scan_end(), as must the arrangement stay open.  Computes what the
 * filter compares with, so this may run the caller's functions and throw; it
 * does not touch the index.  The result lives in the current context.
 */
PeekScan *
peek_scan_begin(Arrangement *arrangement, const PeekRequest *request,
				Snapshot snapshot, int64 max_positions, PeekScanState *state)
{
	PeekScan   *scan = palloc0(sizeof(PeekScan));

	scan->arrangement = arrangement;
	scan->request = request;
	scan->state = state;
	scan->max_positions = max_positions;
	scan->phase = PHASE_NOT_STARTED;
	scan->snapshot = snapshot;
	scan->direction = request->backward ?
		BackwardScanDirection : ForwardScanDirection;

	scan->estate = CreateExecutorState();
	scan->econtext = GetPerTupleExprContext(scan->estate);
	scan->heap_slot = table_slot_create(arrangement->heap,
										&scan->estate->es_tupleTable);
	check_execute_rights(scan);
	scan->bounds = walk_bounds_create(arrangement, request, scan->estate);
	scan->filter = ExecPrepareQual(scan->bounds->residual, scan->estate);
	scan_prepare_row(scan);
	return scan;
}

/* The sort that the request asks for, by columns of the offered row. */
OrderOptions *
peek_scan_order(const PeekScan *scan)
{
	return scan->order;
}

/* Does an offered slot hold the answer's columns and nothing else? */
bool
peek_scan_slot_is_row(const PeekScan *scan)
{
	return scan->row_slot == scan->heap_slot;
}

static void
scan_start(PeekScan *scan)
{
	Relation	heap = scan->arrangement->heap;
	Relation	index = scan->arrangement->index;
	int			num_keys = scan->bounds->num_scan_keys;

	PEEK_STOP("scan-start");
	scan_set_phase(scan, PHASE_WALKING);
	if (scan->movable)
	{
		scan->place = palloc(index_parallelscan_estimate(index, num_keys, 0,
														 scan->snapshot));
		index_parallelscan_initialize(heap, index, scan->snapshot,
									  scan->place);
	}
	if (scan->place != NULL)
		scan->desc = index_beginscan_parallel(heap, index, NULL, num_keys, 0,
											  scan->place);
	else
		scan->desc = index_beginscan(heap, index, scan->snapshot, NULL,
									 num_keys, 0);
	/* the index tuples are wanted only if something is tested on them */
	scan->desc->xs_want_itup = scan->bounds->num_tests > 0;

	/* go on in the midst of a seek that has begun elsewhere */
	if (scan->state->in_seek)
	{
		walk_bounds_seek(scan->bounds, scan->state->next_key - 1);
		index_rescan(scan->desc, scan->bounds->scan_keys, num_keys, NULL, 0);
	}
}

static void
scan_stop(PeekScan *scan)
{
	if (scan->desc != NULL)
		index_endscan(scan->desc);
	scan->desc = NULL;
	ExecClearTuple(scan->heap_slot);
	scan_set_phase(scan, PHASE_ENDING);
}

/*
 * Step to the next index tuple: its TID, or NULL at the end of the current
 * seek.
 */
static ItemPointer
scan_next_position(PeekScan *scan)
{
	ItemPointer tid;

	if (!scan->state->in_seek)
	{
		/* a list of keys is never shared: nobody else is in this seek */
		if (scan->place != NULL)
			index_parallelrescan(scan->desc);
		walk_bounds_seek(scan->bounds, scan->state->next_key++);
		index_rescan(scan->desc, scan->bounds->scan_keys,
					 scan->bounds->num_scan_keys, NULL, 0);
		scan->state->in_seek = true;
		scan->state->seek_found = false;
	}

	tid = index_getnext_tid(scan->desc, scan->direction);
	if (tid == NULL)
		scan->state->in_seek = false;
	else
		scan->state->seek_found = true;
	return tid;
}

/*
 * May the walk be left here?  One that may move must be left between two leaf
 * pages: where btree has returned the last item that it took from a page.  No
 * function of the access method tells that, but these fields do, in all
 * versions.
 */
static bool
scan_may_pause(const PeekScan *scan)
{
	BTScanOpaque btree;

	if (!scan->movable || !scan->state->in_seek)
		return true;
	btree = (BTScanOpaque) scan->desc->opaque;
	if (!BTScanPosIsValid(btree->currPos))
		return true;
	return ScanDirectionIsForward(scan->direction) ?
		btree->currPos.itemIndex >= btree->currPos.lastItem :
		btree->currPos.itemIndex <= btree->currPos.firstItem;
}

/* One more position: count it, and compare with the limit. */
static void
scan_count_position(PeekScan *scan)
{
	int64		positions = ++scan->state->positions;

	scan->state->fuel_spent++;
	if (scan->shared != NULL)
		positions = pg_atomic_add_fetch_u64(&scan->shared->positions, 1);
	if (scan->max_positions > 0 && positions > scan->max_positions)
		error_too_many_positions(scan->max_positions);
}

/*
 * The row that the current index tuple leads to, in heap_slot; false if there
 * is none that the snapshot sees and the filter wants.
 */
static bool
scan_fetch_row(PeekScan *scan)
{
	MemoryContext old;
	bool		passed = true;

	if (scan->bounds->num_tests > 0)
	{
		/* comparison functions may leave memory behind */
		old = MemoryContextSwitchTo(scan->econtext->ecxt_per_tuple_memory);
		passed = walk_bounds_test(scan->bounds, scan->desc->xs_itup,
								  scan->desc->xs_itupdesc);
		MemoryContextSwitchTo(old);
		if (!passed)
			return false;
	}

	if (!index_fetch_heap(scan->desc, scan->heap_slot))
		return false;

	/*
	 * With an MVCC snapshot at most one tuple of a HOT chain is visible, and
	 * btree is never lossy: there is nothing to recheck.
	 */
	Assert(!scan->desc->xs_heap_continue && !scan->desc->xs_recheck);

	scan->econtext->ecxt_scantuple = scan->heap_slot;
	return ExecQual(scan->filter, scan->econtext);
}

/* Arrange the row in heap_slot as the collection shall see it. */
static TupleTableSlot *
scan_arrange_row(PeekScan *scan)
{
	TupleTableSlot *slot = scan->row_slot;

	if (slot == scan->heap_slot)
		return slot;

	ExecClearTuple(slot);
	slot_getsomeattrs(scan->heap_slot, scan->max_attno);
	for (int i = 0; i < scan->num_columns; i++)
	{
		slot->tts_values[i] = scan->heap_slot->tts_values[scan->columns[i] - 1];
		slot->tts_isnull[i] = scan->heap_slot->tts_isnull[scan->columns[i] - 1];
	}
	for (int i = 0; i < scan->num_computed; i++)
	{
		int			column = scan->num_columns + i;

		slot->tts_values[column] =
			ExecEvalExprSwitchContext(scan->computed[i], scan->econtext,
									  &slot->tts_isnull[column]);
	}
	return ExecStoreVirtualTuple(slot);
}

/*
 * Walk on until the fuel is spent, a batch is full, or the walk has ended.
 * Errors are thrown; a scan that has thrown must not be stepped again.
 */
PeekScanResult
peek_scan_step(PeekScan *scan, PeekCollection *collection, int64 fuel)
{
	PeekScanState *state = scan->state;

	/* defects of the driver: never repeat rows, never spend anything */
	if (scan->phase == PHASE_FINISHED)
		elog(ERROR, "peek scan stepped after its end");
	if (collection_batch_waits(collection))
		elog(ERROR, "peek scan stepped with a batch not taken");

	if (scan->phase == PHASE_NOT_STARTED)
	{
		if (collection_is_done(collection) || scan->bounds->matches_nothing)
			scan_stop(scan);
		else if (fuel > 0)
			scan_start(scan);
	}

	while (scan->phase == PHASE_WALKING)
	{
		CollectionVerdict verdict;

		if (collection_is_done(collection))
		{
			scan_stop(scan);
			break;
		}
		if (fuel <= 0 && scan_may_pause(scan))
			return PEEK_SCAN_SUSPENDED_FUEL;

		if (scan_next_position(scan) == NULL)
		{
			/* only an absent key of a list costs anything */
			if (!state->seek_found && scan->bounds->num_seeks > 1)
			{
				fuel--;
				state->fuel_spent++;
			}
			if (state->next_key >= scan->bounds->num_seeks)
				scan_stop(scan);
			continue;
		}

		fuel--;
		scan_count_position(scan);

		ResetExprContext(scan->econtext);
		if (!scan_fetch_row(scan))
			continue;

		{
			MemoryContext old;

			old = MemoryContextSwitchTo(scan->econtext->ecxt_per_tuple_memory);
			verdict = collection_offer(collection, scan_arrange_row(scan));
			MemoryContextSwitchTo(old);
		}
		if (verdict == COLLECTION_BATCH)
			return PEEK_SCAN_SUSPENDED_BATCH;
	}

	if (fuel <= 0 && scan->phase == PHASE_NOT_STARTED)
		return PEEK_SCAN_SUSPENDED_FUEL;

	Assert(scan->phase == PHASE_ENDING);
	if (collection_finish(collection) == COLLECTION_BATCH)
		return PEEK_SCAN_SUSPENDED_BATCH;

	scan_set_phase(scan, PHASE_FINISHED);
	return PEEK_SCAN_FINISHED;
}

/*
 * Give back what the walk holds.  After an error this is not needed: the
 * transaction's resource owner and the memory contexts do it.
 */
void
peek_scan_end(PeekScan *scan)
{
	if (scan->desc != NULL)
		index_endscan(scan->desc);
	ExecResetTupleTable(scan->estate->es_tupleTable, false);
	scan->estate->es_tupleTable = NIL;
	FreeExecutorState(scan->estate);
}

/*
 * The walk may have to move: suspend it for fuel only where it can.  To be
 * called before the first step.
 */
void
peek_scan_make_movable(PeekScan *scan)
{
	Assert(scan->phase == PHASE_NOT_STARTED);
	scan->movable = true;
}

/* The walk stays in this process after all. */
void
peek_scan_stay(PeekScan *scan)
{
	scan->movable = false;
}

/*
 * Is it one walk from a beginning to an end?  Only such a one can be shared;
 * a list of keys cannot.
 */
bool
peek_scan_is_one_seek(const PeekScan *scan)
{
	return scan->bounds->num_seeks == 1 && !scan->bounds->matches_nothing;
}

/* About how many positions the whole walk has. */
int64
peek_scan_estimate(const PeekScan *scan)
{
	return estimate_positions(scan->arrangement, scan->request,
							  scan->bounds->residual);
}

/* The size of what peek_scan_export() writes. */
Size
peek_scan_export_size(const PeekScan *scan, Snapshot snapshot)
{
	return index_parallelscan_estimate(scan->arrangement->index,
									   scan->bounds->num_scan_keys, 0,
									   snapshot);
}

/*
 * Write where the walk stands, under another snapshot that sees the same
 * rows.  The scan must have suspended for fuel, or not have been stepped; it
 * must not be stepped any more.  Its state goes beside it, and says that it is
 * in a seek if the place is to be used.
 */
void
peek_scan_export(const PeekScan *scan, Snapshot snapshot, void *target)
{
	ParallelIndexScanDesc place = target;
	Relation	index = scan->arrangement->index;

	Assert(scan_may_pause(scan));
	index_parallelscan_initialize(scan->arrangement->heap, index, snapshot,
								  place);
	if (scan->phase == PHASE_NOT_STARTED)
	{
		/* one walk begins with the descriptor, a list with its first key */
		if (scan->bounds->num_seeks == 1)
		{
			scan->state->in_seek = true;
			scan->state->next_key = 1;
		}
	}
	else if (scan->state->in_seek)
	{
		/*
		 * What btree keeps in it can be moved as it is while nobody waits for
		 * it: it holds block numbers and no pointers.
		 */
		Size		size = index_parallelscan_estimate(index,
													   scan->bounds->num_scan_keys,
													   0, scan->snapshot) -
			scan->place->ps_offset_am;

		Assert(place->ps_offset_am != 0 && scan->place->ps_offset_am != 0);
		memcpy(OffsetToPointer(place, place->ps_offset_am),
			   OffsetToPointer(scan->place, scan->place->ps_offset_am), size);
	}
}

/*
 * Go on where another process has been.  To be called before the first step,
 * with the state that goes beside the place.
 */
void
peek_scan_import(PeekScan *scan, void *source, PeekSharedTotals *shared)
{
	Assert(scan->phase == PHASE_NOT_STARTED);
	scan->place = source;
	scan->shared = shared;
}

/* The limit has been changed. */
void
peek_scan_set_max_positions(PeekScan *scan, int64 max_positions)
{
	scan->max_positions = max_positions;
}
