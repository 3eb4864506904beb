/*-------------------------------------------------------------------------
 *
 * query_driver.c
 *	  Steps a query and makes an answer of its rows.
 *
 * As driver.c does with a walk, and with the same answer: batches, cap, quota,
 * handle and outcome are not the source's business.  What is held is the same,
 * too, with the executor's state instead of an index scan: it belongs to the
 * resource owner and the memory context of the calling statement, so that an
 * abort needs no help of ours.
 *
 * A walk yields every so many positions.  A query may sort or join for an
 * hour before it has its first row, so that the steps do not come by: a timer
 * looks whether somebody wants the peek to stop, and if so, does what a
 * cancelled statement has done to it.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/query_driver.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "drive/answer.h"
#include "drive/offload.h"
#include "drive/query_driver.h"
#include "drive/registry.h"
#include "drive/xact.h"
#include "miscadmin.h"
#include "stat.h"
#include "stop.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"

#include "compat.h"

/* How often the timer looks. */
#define WATCH_MS	500

/* The slot that the timer looks at, and the timer; -1 = none. */
static volatile int watched_slot = -1;
static int	watch_timer = -1;

/* Runs in a signal handler. */
static void
watch_slot(void)
{
	if (watched_slot >= 0 && registry_cancel_requested(watched_slot))
	{
		InterruptPending = true;
		QueryCancelPending = true;
	}
}

/*
 * Have a slot watched from now on, or none (-1); returns the one that was.
 * Queries that run queries come inside of each other.
 */
static int
watch_begin(int slot)
{
	int			outer = watched_slot;

	if (watch_timer < 0 && slot >= 0)
		watch_timer = RegisterTimeout(USER_TIMEOUT, watch_slot);
	watched_slot = slot;
	if (slot >= 0)
		enable_timeout_every(watch_timer,
							 TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
														 WATCH_MS),
							 WATCH_MS);
	return outer;
}

static void
watch_end(int outer)
{
	watched_slot = outer;
	if (outer < 0 && watch_timer >= 0)
		disable_timeout(watch_timer, false);
}

/* Run to the end.  The outcome's tail stays in the collection's memory. */
static void
drive_query(PeekAnswer *answer, const PeekQuery *query,
			const PeekKnobs *knobs, Snapshot snapshot, PeekScanState *state)
{
	CollectionOptions options;
	PeekQueryRun *run;
	PeekCollection *collection;
	PeekScanResult result;
	EntryBatch	batch;

	run = query_begin(query, snapshot);
	answer_collection_options(answer, knobs, &options);

	/* the executor's slots have the columns of the result and no other */
	options.slot_is_row = true;
	collection = collection_create(&options, state);

	do
	{
		CHECK_FOR_INTERRUPTS();
		result = query_step(run, collection, knobs->yield_granularity);
		if (collection_take(collection, &batch))
			answer_batch(answer, &batch, knobs);
		answer_report(answer, state, result == PEEK_SCAN_FINISHED);
	} while (result != PEEK_SCAN_FINISHED);

	PEEK_STOP("walk-end");
	elog(DEBUG1, "peek held at most " INT64_FORMAT " bytes",
		 state->max_held_bytes);
	query_end(run);

	answer_complete(answer, collection, state, knobs);
}

/*
 * Run a query in the calling backend, under the active snapshot, and keep its
 * answer under a handle.  As driver_run_submitted(), but a query cannot move
 * once it runs: in the background it runs there from its beginning.
 */
PeekAnswer *
driver_run_query(const PeekQuery *query, const PeekKnobs *knobs,
				 HandleRow *handle, const PeekSubmit *submit)
{
	PeekAnswer *answer = answer_create(knobs, query->description, handle);
	PeekScanState *state = palloc0(sizeof(PeekScanState));
	Snapshot	snapshot;
	instr_time	start;
	int			outer;

	state->limit_left = -1;
	state->positions = -1;		/* nobody knows them */

	if (knobs->enable_offload && submit->page_rows < 0)
		answer->inline_reason = offload_gate_name(GATE_QUERY);

	/*
	 * Before anything of ours is written: what the statement has done so far
	 * is seen, what it does now is not.
	 */
	snapshot = RegisterSnapshot(query_wants_new_snapshot(query) ?
								GetLatestSnapshot() : GetActiveSnapshot());

	/* before anything is run: the handle may be taken */
	if (!answer_take_handle(answer, knobs, submit))
	{
		UnregisterSnapshot(snapshot);
		return NULL;
	}

	INSTR_TIME_SET_CURRENT(start);
	if (submit->background)
	{
		OffloadSource source = {.query = query, .state = state,
		.snapshot = snapshot};
		OffloadGate gate = offload_query(answer, &source, knobs, submit);

		if (gate != GATE_OPEN)
			error_no_background(gate);
		UnregisterSnapshot(snapshot);
		return answer;
	}

	stat_walk_begin();
	outer = watch_begin(answer->slot);
	PG_TRY();
	{
		drive_query(answer, query, knobs, snapshot, state);
		answer_keep_or_not(answer, knobs, submit);
	}
	PG_CATCH();
	{
		watch_end(outer);
		stat_walk_end();
		answer_count_error(state, seconds_since(start));
		PG_RE_THROW();
	}
	PG_END_TRY();
	watch_end(outer);
	UnregisterSnapshot(snapshot);
	stat_walk_end();
	answer_walked(answer, seconds_since(start));
	return answer;
}
