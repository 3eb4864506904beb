/*-------------------------------------------------------------------------
 *
 * driver.c
 *	  Steps a walk and makes an answer of what it collects.
 *
 * The inline driver is the calling backend: it steps the scan, looks for
 * cancellation between the steps, takes each batch as it is cut, and hands
 * back the outcome with a way to read it.  An answer is all or nothing: the
 * walk is over before the first row is read.
 *
 * Where batches go, answer.c decides.
 *
 * What is held, and what happens if the process dies or throws:
 *
 *		relation locks		to the end of the transaction, as a query's
 *		index scan, pins	resource owner of the calling statement
 *		snapshot			registered there, too
 *		entries, sort		memory under the caller's context
 *		spool, sort files	temporary files of the resource owner
 *		stashed batches		rows of the transaction, see xact.c
 *
 *		slot, quota			see xact.c, registry.c and quota.c
 *
 * So every abort leaves nothing without any help of ours.  PG_CATCH below
 * only counts; it cleans nothing and always throws on.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/driver.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "drive/answer.h"
#include "drive/driver.h"
#include "drive/offload.h"
#include "drive/registry.h"
#include "drive/xact.h"
#include "miscadmin.h"
#include "stat.h"
#include "stop.h"
#include "utils/snapmgr.h"
#include "walk/scan.h"

#include "compat.h"

/* May the walk be handed over, and when? */
typedef struct OffloadWish
{
	bool		wanted;
	bool		must;			/* or the submit fails */
	int64		budget;			/* fuel to spend here before */
	instr_time	start;
} OffloadWish;

/* The walk stays here, though it should have gone. */
static void
stay_inline(PeekAnswer *answer, OffloadWish *wish, OffloadGate gate)
{
	if (wish->must)
		error_no_background(gate);
	answer->inline_reason = offload_gate_name(gate);
	wish->wanted = false;
}

/*
 * Walk until the answer is complete: true.  Or hand the walk over: false.
 * The outcome's tail stays in the collection's memory.
 */
static bool
drive_walk(PeekAnswer *answer, Arrangement *arrangement,
		   const PeekRequest *request, const PeekKnobs *knobs,
		   Snapshot snapshot, PeekScanState *state, OffloadWish *wish)
{
	CollectionOptions options;
	PeekScan   *scan;
	PeekCollection *collection;
	PeekScanResult result;
	EntryBatch	batch;

	scan = peek_scan_begin(arrangement, request, snapshot,
						   knobs->row_iteration_limit, state);
	if (wish->wanted)
		peek_scan_make_movable(scan);

	answer_collection_options(answer, knobs, &options);
	options.slot_is_row = peek_scan_slot_is_row(scan);
	options.order = peek_scan_order(scan);
	collection = collection_create(&options, state);

	do
	{
		int64		fuel = knobs->yield_granularity;

		CHECK_FOR_INTERRUPTS();
		if (wish->wanted)
			fuel = Min(fuel, Max(wish->budget - state->fuel_spent, 0));
		result = peek_scan_step(scan, collection, fuel);
		switch (result)
		{
			case PEEK_SCAN_SUSPENDED_FUEL:
				if (wish->wanted && state->fuel_spent >= wish->budget)
				{
					OffloadGate gate = offload_walk(answer, arrangement,
													request, knobs, scan,
													collection, state,
													snapshot,
													seconds_since(wish->start));

					if (gate == GATE_OPEN)
					{
						peek_scan_end(scan);
						return false;
					}
					stay_inline(answer, wish, gate);
					peek_scan_stay(scan);
				}
				break;
			case PEEK_SCAN_SUSPENDED_BATCH:
				if (!collection_take(collection, &batch))
					elog(ERROR, "peek scan announced a batch that is not there");
				answer_batch(answer, &batch, knobs);
				break;
			case PEEK_SCAN_FINISHED:
				break;
		}
		answer_report(answer, state, result == PEEK_SCAN_FINISHED);
	} while (result != PEEK_SCAN_FINISHED);

	PEEK_STOP("walk-end");
	elog(DEBUG1, "peek held at most " INT64_FORMAT " bytes",
		 state->max_held_bytes);
	peek_scan_end(scan);

	answer_complete(answer, collection, state, knobs);
	return true;
}

/* Shall this walk leave the backend, and may it? */
static void
make_wish(OffloadWish *wish, PeekAnswer *answer, const Arrangement *arrangement,
		  const PeekRequest *request, const PeekKnobs *knobs,
		  const PeekSubmit *submit)
{
	OffloadGate gate;

	memset(wish, 0, sizeof(*wish));
	INSTR_TIME_SET_CURRENT(wish->start);
	if (submit == NULL || !submit->may_offload ||
		!(knobs->enable_offload || submit->background))
		return;
	wish->must = submit->background;
	wish->budget = submit->background ? 0 : knobs->inline_budget;
	wish->wanted = true;
	gate = offload_gate_of_walk(arrangement, request, answer->slot, submit);
	if (gate != GATE_OPEN)
		stay_inline(answer, wish, gate);
}

/*
 * Run a peek, under the active snapshot: direct (submit is NULL), or one that
 * is kept.
 */
static PeekAnswer *
drive(Arrangement *arrangement, const PeekRequest *request,
	  const PeekKnobs *knobs, HandleRow *keep, const PeekSubmit *submit)
{
	PeekAnswer *answer = answer_create(knobs, request->description, keep);
	PeekScanState *state = palloc0(sizeof(PeekScanState));
	Snapshot	snapshot;
	OffloadWish wish;
	volatile bool here = true;

	state->limit_left = request->row_limit;
	state->offset_left = request->row_offset;

	/* before anything is walked: the handle may be taken */
	if (keep != NULL && !answer_take_handle(answer, knobs, submit))
		return NULL;
	make_wish(&wish, answer, arrangement, request, knobs, submit);

	snapshot = RegisterSnapshot(arrangement->wants_new_snapshot ?
								GetLatestSnapshot() : GetActiveSnapshot());
	stat_walk_begin();
	PG_TRY();
	{
		here = drive_walk(answer, arrangement, request, knobs, snapshot, state,
						  &wish);
		if (keep != NULL && here)
			answer_keep_or_not(answer, knobs, submit);
	}
	PG_CATCH();
	{
		stat_walk_end();
		answer_count_error(state, seconds_since(wish.start));
		PG_RE_THROW();
	}
	PG_END_TRY();
	UnregisterSnapshot(snapshot);
	stat_walk_end();
	if (here)
		answer_walked(answer, seconds_since(wish.start));
	return answer;				/* or workers go on with it, and count it */
}

/*
 * Run a direct peek.  The answer lives in the current context, which must
 * outlive its reading; end it with driver_answer_end().  The arrangement is
 * not needed any more afterwards.
 */
PeekAnswer *
driver_run_inline(Arrangement *arrangement, const PeekRequest *request,
				  const PeekKnobs *knobs)
{
	return drive(arrangement, request, knobs, NULL, NULL);
}

/*
 * Run a peek whose answer is kept under a handle, here or (may_offload) by
 * workers that go on after this returns.  With page_rows >= 0 it is kept only
 * if it has more rows than that, or has been stashed; driver_answer_is_kept()
 * tells.
 *
 * claim says that the handle is the client's, and may be taken: NULL is
 * returned if another session has been first with it; nothing has been walked
 * then.
 */
PeekAnswer *
driver_run_submitted(Arrangement *arrangement, const PeekRequest *request,
					 const PeekKnobs *knobs, HandleRow *handle,
					 const PeekSubmit *submit)
{
	return drive(arrangement, request, knobs, handle, submit);
}
