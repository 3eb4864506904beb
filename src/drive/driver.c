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

/* A walk that is driven. */
typedef struct Drive
{
	PeekAnswer *answer;
	OffloadSource source;		/* what is walked, and how far it is */
	const PeekKnobs *knobs;
	const PeekSubmit *submit;	/* NULL = a direct peek */
	instr_time	start;
	bool		may_leave;		/* for workers, once the budget is spent */
	int64		budget;			/* fuel */
} Drive;

/* Shall the walk leave this backend if it is long? */
static void
drive_set_budget(Drive *drive)
{
	if (drive->submit == NULL || !drive->submit->may_offload)
		return;
	drive->may_leave = drive->knobs->enable_offload ||
		drive->submit->background;
	drive->budget = drive->submit->background ? 0 :
		drive->knobs->inline_budget;
}

/* The budget is spent.  True: workers go on with the walk. */
static bool
drive_leave(Drive *drive)
{
	OffloadGate gate;

	drive->source.walk_seconds = seconds_since(drive->start) -
		drive->answer->counts.write_seconds;
	gate = offload_walk(drive->answer, &drive->source, drive->knobs,
						drive->submit);
	if (gate == GATE_OPEN)
		return true;
	if (drive->submit->background)
		error_no_background(gate);
	drive->answer->inline_reason = offload_gate_name(gate);
	drive->may_leave = false;
	peek_scan_stay(drive->source.scan);
	return false;
}

/* Step once. */
static PeekScanResult
drive_step(Drive *drive)
{
	OffloadSource *source = &drive->source;
	int64		fuel = drive->knobs->yield_granularity;
	PeekScanResult result;
	EntryBatch	batch;

	CHECK_FOR_INTERRUPTS();
	if (drive->may_leave)
		fuel = Min(fuel, Max(drive->budget - source->state->fuel_spent, 0));
	result = peek_scan_step(source->scan, source->collection, fuel);
	if (collection_take(source->collection, &batch))
		answer_batch(drive->answer, &batch, drive->knobs);
	else if (result == PEEK_SCAN_SUSPENDED_BATCH)
		elog(ERROR, "peek scan announced a batch that is not there");
	answer_report(drive->answer, source->state,
				  result == PEEK_SCAN_FINISHED);
	return result;
}

/*
 * Walk until the answer is complete: true.  Or hand the walk over: false.
 * The outcome's tail stays in the collection's memory.
 */
static bool
drive_walk(Drive *drive)
{
	OffloadSource *source = &drive->source;
	CollectionOptions options;
	bool		here = true;
	PeekScanResult result;

	source->scan = peek_scan_begin(source->arrangement, source->request,
								   source->snapshot,
								   drive->knobs->row_iteration_limit,
								   source->state);
	drive_set_budget(drive);
	if (drive->may_leave)
		peek_scan_make_movable(source->scan);

	answer_collection_options(drive->answer, drive->knobs, &options);
	options.slot_is_row = peek_scan_slot_is_row(source->scan);
	options.order = peek_scan_order(source->scan);
	source->collection = collection_create(&options, source->state);

	do
	{
		result = drive_step(drive);
		if (result == PEEK_SCAN_SUSPENDED_FUEL && drive->may_leave &&
			source->state->fuel_spent >= drive->budget)
			here = !drive_leave(drive);
	} while (here && result != PEEK_SCAN_FINISHED);

	if (here)
	{
		PEEK_STOP("walk-end");
		elog(DEBUG1, "peek held at most " INT64_FORMAT " bytes",
			 source->state->max_held_bytes);
	}
	peek_scan_end(source->scan);
	if (here)
		answer_complete(drive->answer, source->collection, source->state,
						drive->knobs);
	return here;
}

/*
 * Run a peek, under the active snapshot: direct (submit is NULL), or one that
 * is kept.
 */
static PeekAnswer *
drive_peek(Arrangement *arrangement, const PeekRequest *request,
		   const PeekKnobs *knobs, HandleRow *keep, const PeekSubmit *submit)
{
	Drive	   *drive = palloc0(sizeof(Drive));
	PeekAnswer *answer = answer_create(knobs, request->description, keep);
	PeekScanState *state = palloc0(sizeof(PeekScanState));
	volatile bool here = true;

	drive->answer = answer;
	drive->knobs = knobs;
	drive->submit = submit;
	drive->source.arrangement = arrangement;
	drive->source.request = request;
	drive->source.state = state;
	state->limit_left = request->row_limit;
	state->offset_left = request->row_offset;

	/* before anything is walked: the handle may be taken */
	if (submit != NULL && !answer_take_handle(answer, knobs, submit))
		return NULL;

	INSTR_TIME_SET_CURRENT(drive->start);
	drive->source.snapshot =
		RegisterSnapshot(arrangement->wants_new_snapshot ?
						 GetLatestSnapshot() : GetActiveSnapshot());
	stat_walk_begin();
	PG_TRY();
	{
		here = drive_walk(drive);
		if (submit != NULL && here)
			answer_keep_or_not(answer, knobs, submit);
	}
	PG_CATCH();
	{
		stat_walk_end();
		answer_count_error(state, seconds_since(drive->start));
		PG_RE_THROW();
	}
	PG_END_TRY();
	UnregisterSnapshot(drive->source.snapshot);
	stat_walk_end();
	if (here)
		answer_walked(answer, seconds_since(drive->start));
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
	return drive_peek(arrangement, request, knobs, NULL, NULL);
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
	return drive_peek(arrangement, request, knobs, handle, submit);
}
