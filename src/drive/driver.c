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
 * Where a batch goes is decided with the first one, once for the walk:
 *
 *		no batch			the answer stays in memory
 *		stash writable		an upload is opened; the answer is stashed
 *		otherwise			it is spooled to a temporary file
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
#include "drive/xact.h"
#include "errors.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "row.h"
#include "stash/reader.h"
#include "stash/stash.h"
#include "stash/upload.h"
#include "stat.h"
#include "stop.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "walk/scan.h"

#include "compat.h"

struct PeekAnswer
{
	PeekOutcome outcome;
	int64		read_bytes;		/* how much the reader may hold */

	/* the batches: in the stash, in a spool, or nowhere */
	StashUpload *upload;		/* while walking */
	pg_uuid_t	handle;			/* if outcome.kind is stashed */
	UploadTotals totals;
	PeekSpool  *spool;

	/* reading: the run of entries at hand, and what comes after it */
	StashReader *reader;
	const char *next;
	const char *end;
	bool		in_tail;

	PeekCounts	counts;			/* what this answer adds to the statistics */
};

static double
seconds_since(instr_time start)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	return INSTR_TIME_GET_DOUBLE(now);
}

/* Put a batch where the batches of this answer go. */
static void
drive_batch(PeekAnswer *answer, const EntryBatch *batch,
			const PeekRequest *request, const PeekKnobs *knobs)
{
	instr_time	start;

	if (answer->upload == NULL && answer->spool == NULL)
	{
		if (knobs->enable_stash && stash_is_writable())
		{
			stash_new_handle(&answer->handle);
			xact_stash_opened(&answer->handle);
			answer->upload = stash_upload_open(&answer->handle, 0,
											   request->description->desc->natts,
											   knobs->stash_batch_size,
											   knobs->stash_compression == STASH_COMPRESSION_LZ4 ?
											   BATCH_CODEC_LZ4 : BATCH_CODEC_NONE);
			answer->outcome.kind = PEEK_OUTCOME_STASHED;
		}
		else
			answer->spool = spool_create();
	}

	INSTR_TIME_SET_CURRENT(start);
	if (answer->upload != NULL)
		stash_upload_push(answer->upload, batch);
	else
		spool_push(answer->spool, batch);
	answer->counts.write_seconds += seconds_since(start);
}

/*
 * The walk is over: what is left is the tail.  Of a stashed answer it travels
 * in the outcome if it is small, else it becomes a last batch.
 */
static void
drive_finish(PeekAnswer *answer, const EntryBatch *tail,
			 const PeekRequest *request, const PeekKnobs *knobs)
{
	answer->outcome.tail = *tail;
	if (answer->upload == NULL)
		return;

	if (tail->answer_bytes > Min(knobs->stash_threshold,
								 knobs->read_batch_size))
	{
		drive_batch(answer, tail, request, knobs);
		memset(&answer->outcome.tail, 0, sizeof(EntryBatch));
	}
	stash_upload_finish(answer->upload, &answer->totals);
	answer->upload = NULL;
}

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
				drive_batch(answer, &batch, request, knobs);
				break;
			case PEEK_SCAN_FINISHED:
				break;
		}
	} while (result != PEEK_SCAN_FINISHED);

	PEEK_STOP("walk-end");
	peek_scan_end(scan);

	collection_tail(collection, &batch);
	drive_finish(answer, &batch, request, knobs);
	answer->outcome.description = request->description;
	answer->outcome.num_rows = state->num_rows;
	answer->outcome.answer_bytes = state->answer_bytes;
	answer->outcome.positions = state->positions;
	Assert(answer->outcome.kind == PEEK_OUTCOME_MEMORY ||
		   answer->totals.num_rows + answer->outcome.tail.num_rows ==
		   state->num_rows);
}

/* The walk has ended with an answer: count it. */
static void
drive_count(PeekAnswer *answer, double seconds)
{
	PeekCounts *counts = &answer->counts;

	counts->walks_inline = 1;
	if (answer->outcome.kind == PEEK_OUTCOME_STASHED)
		counts->answers_stashed = 1;
	else
		counts->answers_memory = 1;
	counts->positions = answer->outcome.positions;
	counts->rows = answer->outcome.num_rows;
	counts->answer_bytes = answer->outcome.answer_bytes;
	counts->stored_bytes = answer->totals.stored_bytes;
	counts->batches_written = answer->totals.num_batches;
	counts->walk_seconds = seconds - counts->write_seconds;
	stat_count(counts);
	memset(counts, 0, sizeof(*counts));
}

/* The walk has thrown: count that, before the error goes on. */
static void
drive_count_error(const PeekScanState *state, double seconds)
{
	PeekCounts	counts = {0};

	if (geterrcode() == ERRCODE_QUERY_CANCELED)
		counts.answers_cancelled = 1;
	else
		counts.walks_inline = counts.answers_failed = 1;
	counts.positions = state->positions;
	counts.walk_seconds = seconds;
	stat_count(&counts);
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

	answer->outcome.kind = PEEK_OUTCOME_MEMORY;
	answer->read_bytes = knobs->read_batch_size;
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
		stat_walk_end();
		drive_count_error(state, seconds_since(start));
		PG_RE_THROW();
	}
	PG_END_TRY();
	UnregisterSnapshot(snapshot);
	stat_walk_end();
	drive_count(answer, seconds_since(start));
	return answer;
}

const PeekOutcome *
driver_answer_outcome(const PeekAnswer *answer)
{
	return &answer->outcome;
}

/* The next run of entries of a stashed answer; false after the last batch. */
static bool
answer_read_stash(PeekAnswer *answer, Size *size)
{
	instr_time	start;
	bool		more;

	/* a rolled back savepoint may have taken the batches away */
	if (!xact_stash_exists(&answer->handle))
		error_answer_rolled_back();

	INSTR_TIME_SET_CURRENT(start);
	if (answer->reader == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(answer));

		answer->reader = stash_reader_open(&answer->handle, 0,
										   answer->outcome.description->desc->natts,
										   answer->totals.num_rows,
										   answer->read_bytes);
		MemoryContextSwitchTo(old);
	}
	more = stash_reader_next(answer->reader, &answer->next, size);
	answer->counts.read_seconds += seconds_since(start);
	return more;
}

/* The next run of entries from where the batches are. */
static bool
answer_read_batches(PeekAnswer *answer, Size *size)
{
	if (answer->outcome.kind == PEEK_OUTCOME_STASHED)
		return answer_read_stash(answer, size);
	return answer->spool != NULL &&
		spool_next(answer->spool, &answer->next, size);
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
		if (answer_read_batches(answer, &size))
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

/*
 * The answer has been read, or will be read no further.  In the latter case
 * the caller may be anywhere, even outside of a statement, so stashed batches
 * stay for the end of the transaction to delete.
 */
void
driver_answer_end(PeekAnswer *answer, bool complete)
{
	if (answer->spool != NULL)
		spool_end(answer->spool);
	answer->spool = NULL;

	if (answer->reader != NULL)
	{
		answer->counts.batches_read = stash_reader_batches(answer->reader);
		stash_reader_close(answer->reader);
		answer->reader = NULL;
		stat_count(&answer->counts);
	}
	if (complete && answer->outcome.kind == PEEK_OUTCOME_STASHED)
		xact_stash_delete(&answer->handle);
}
