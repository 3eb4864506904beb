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
 * What is held, and what happens if the process dies or throws:
 *
 *		relation locks		to the end of the transaction, as a query's
 *		index scan, pins	resource owner of the calling statement
 *		snapshot			registered there, too
 *		entries, sort		memory under the caller's context
 *		spool, sort files	temporary files of the resource owner
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

#include "drive/driver.h"
#include "drive/spool.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "row.h"
#include "stat.h"
#include "stop.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "walk/scan.h"

#include "compat.h"

struct PeekAnswer
{
	PeekOutcome outcome;
	PeekSpool  *spool;			/* the batches, or NULL if there were none */

	/* reading: the run of entries at hand, and what comes after it */
	const char *next;
	const char *end;
	bool		in_tail;
};

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

	options.description = request->description;
	options.slot_is_row = peek_scan_slot_is_row(scan);
	options.max_result_bytes = knobs_max_result_bytes(knobs);
	options.first_cut_bytes = knobs->stash_threshold;
	options.cut_bytes = knobs->stash_batch_size;
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
				if (answer->spool == NULL)
					answer->spool = spool_create();
				spool_push(answer->spool, &batch);
				break;
			case PEEK_SCAN_FINISHED:
				break;
		}
	} while (result != PEEK_SCAN_FINISHED);

	PEEK_STOP("walk-end");
	peek_scan_end(scan);

	answer->outcome.kind = PEEK_OUTCOME_MEMORY;
	answer->outcome.description = request->description;
	answer->outcome.num_rows = state->num_rows;
	answer->outcome.answer_bytes = state->answer_bytes;
	answer->outcome.positions = state->positions;
	collection_tail(collection, &answer->outcome.tail);
}

/*
 * Run a peek in the calling backend, under the active snapshot.  The answer
 * lives in the current context, which must outlive its reading; end it with
 * driver_answer_end().  The arrangement is not needed any more afterwards.
 */
PeekAnswer *
driver_run_inline(Arrangement *arrangement, const PeekRequest *request,
				  const PeekKnobs *knobs)
{
	PeekAnswer *answer = palloc0(sizeof(PeekAnswer));
	PeekScanState *state = palloc0(sizeof(PeekScanState));
	Snapshot	snapshot;
	instr_time	start;
	instr_time	duration;
	PeekCounts	counts = {0};

	state->limit_left = request->row_limit;
	state->offset_left = request->row_offset;

	INSTR_TIME_SET_CURRENT(start);
	stat_walk_begin();
	snapshot = RegisterSnapshot(GetActiveSnapshot());
	PG_TRY();
	{
		drive_walk(answer, arrangement, request, knobs, snapshot, state);
	}
	PG_CATCH();
	{
		PeekCounts	failed = {0};

		stat_walk_end();
		if (geterrcode() == ERRCODE_QUERY_CANCELED)
			failed.answers_cancelled = 1;
		else
			failed.walks_inline = failed.answers_failed = 1;
		failed.positions = state->positions;
		stat_count(&failed);
		PG_RE_THROW();
	}
	PG_END_TRY();
	UnregisterSnapshot(snapshot);
	stat_walk_end();
	INSTR_TIME_SET_CURRENT(duration);
	INSTR_TIME_SUBTRACT(duration, start);

	counts.walks_inline = 1;
	counts.answers_memory = 1;
	counts.positions = answer->outcome.positions;
	counts.rows = answer->outcome.num_rows;
	counts.answer_bytes = answer->outcome.answer_bytes;
	counts.walk_seconds = INSTR_TIME_GET_DOUBLE(duration);
	stat_count(&counts);
	return answer;
}

const PeekOutcome *
driver_answer_outcome(const PeekAnswer *answer)
{
	return &answer->outcome;
}

/*
 * The next entry of the answer, valid until the next call; NULL at the end.
 */
const Entry *
driver_answer_next(PeekAnswer *answer)
{
	const Entry *entry;

	while (answer->next == answer->end)
	{
		Size		size;

		if (answer->in_tail)
			return NULL;
		if (answer->spool != NULL &&
			spool_next(answer->spool, &answer->next, &size))
		{
			answer->end = answer->next + size;
			continue;
		}
		answer->in_tail = true;
		answer->next = answer->outcome.tail.data;
		answer->end = answer->next + answer->outcome.tail.size;
	}

	entry = (const Entry *) answer->next;
	answer->next += entry_size(entry);
	return entry;
}

/* Give back what the answer holds beyond memory, read to the end or not. */
void
driver_answer_end(PeekAnswer *answer)
{
	if (answer->spool != NULL)
		spool_end(answer->spool);
	answer->spool = NULL;
}
