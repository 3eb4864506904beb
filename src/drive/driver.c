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
#include "drive/xact.h"
#include "miscadmin.h"
#include "stat.h"
#include "stop.h"
#include "utils/snapmgr.h"
#include "walk/scan.h"

#include "compat.h"

/* Walk to the end.  The outcome's tail stays in the collection's memory. */
static void
drive_walk(PeekAnswer *answer, Arrangement *arrangement,
		   const PeekRequest *request, const PeekKnobs *knobs,
		   Snapshot snapshot, PeekScanState *state)
{
	CollectionOptions options;
	PeekScan   *scan;
	PeekCollection *collection;
	PeekScanResult result;
	EntryBatch	batch;

	scan = peek_scan_begin(arrangement, request, snapshot,
						   knobs->row_iteration_limit, state);

	answer_collection_options(answer, knobs, &options);
	options.slot_is_row = peek_scan_slot_is_row(scan);
	options.order = peek_scan_order(scan);
	collection = collection_create(&options, state);

	do
	{
		CHECK_FOR_INTERRUPTS();
		result = peek_scan_step(scan, collection, knobs->yield_granularity);
		switch (result)
		{
			case PEEK_SCAN_SUSPENDED_FUEL:
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
}

/*
 * Run a peek in the calling backend, under the active snapshot.
 */
static PeekAnswer *
drive_inline(Arrangement *arrangement, const PeekRequest *request,
			 const PeekKnobs *knobs, HandleRow *keep, bool claim,
			 int64 page_rows)
{
	PeekAnswer *answer = answer_create(knobs, request->description, keep);
	PeekScanState *state = palloc0(sizeof(PeekScanState));
	Snapshot	snapshot;
	instr_time	start;

	state->limit_left = request->row_limit;
	state->offset_left = request->row_offset;

	if (keep != NULL)
	{
		/* before anything is walked: the handle may be taken */
		if (claim && !answer_claim(answer, knobs))
			return NULL;
		answer->slot = xact_slot_take(&keep->handle, keep->owner,
									  keep->charged_to);
	}

	INSTR_TIME_SET_CURRENT(start);
	snapshot = RegisterSnapshot(arrangement->wants_new_snapshot ?
								GetLatestSnapshot() : GetActiveSnapshot());
	stat_walk_begin();
	PG_TRY();
	{
		drive_walk(answer, arrangement, request, knobs, snapshot, state);
		if (keep == NULL)
			;					/* nothing is kept */
		else if (page_rows < 0 || state->num_rows > page_rows ||
				 answer->outcome.kind == PEEK_OUTCOME_STASHED)
			answer_store_outcome(answer, knobs);
		else
			answer_unclaim(answer);
	}
	PG_CATCH();
	{
		stat_walk_end();
		answer_count_error(state, seconds_since(start));
		PG_RE_THROW();
	}
	PG_END_TRY();
	UnregisterSnapshot(snapshot);
	stat_walk_end();
	if (answer->slot >= 0 && !answer->kept)
		xact_slot_give_back(answer->slot);
	answer_count(answer, seconds_since(start));
	return answer;
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
	return drive_inline(arrangement, request, knobs, NULL, false, 0);
}

/*
 * Run a peek whose answer is kept under a handle.  With page_rows >= 0 it is
 * kept only if it has more rows than that, or has been stashed;
 * driver_answer_is_kept() tells.
 *
 * claim says that the handle is the client's, and may be taken: NULL is
 * returned if another session has been first with it; nothing has been walked
 * then.
 */
PeekAnswer *
driver_run_submitted(Arrangement *arrangement, const PeekRequest *request,
					 const PeekKnobs *knobs, HandleRow *handle, bool claim,
					 int64 page_rows)
{
	return drive_inline(arrangement, request, knobs, handle,
						claim || page_rows < 0, page_rows);
}
