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
 *		slot, quota			see xact.c, registry.c and quota.c
 *
 * So every abort leaves nothing without any help of ours.  PG_CATCH below
 * only counts; it cleans nothing and always throws on.
 *
 * A submitted peek takes the same way, but is kept: its batches are not
 * deleted, and a handle and an outcome row are written with them, in the same
 * transaction.
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
#include "drive/quota.h"
#include "drive/registry.h"
#include "drive/spool.h"
#include "drive/xact.h"
#include "errors.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "row.h"
#include "stash/batch.h"
#include "stash/reader.h"
#include "stash/stash.h"
#include "stash/upload.h"
#include "stat.h"
#include "stop.h"
#include "tcop/utility.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "walk/scan.h"

#include "compat.h"

struct PeekAnswer
{
	PeekOutcome outcome;
	int64		read_bytes;		/* how much the reader may hold */

	/* the batches: in the stash, in a spool, or nowhere */
	StashUpload *upload;		/* while walking */
	pg_uuid_t	handle;			/* what batches are found by */
	pg_uuid_t	stash;			/* what they are known by */
	Oid			charged_to;		/* for quotas: the session user */
	UploadTotals totals;
	PeekSpool  *spool;

	/* of a submitted peek */
	HandleRow  *keep;			/* NULL = a direct peek */
	bool		kept;			/* the handle row has been written */
	int			slot;			/* of the registry, or -1 */
	const char *stash_reason;

	/* reading: the run of entries at hand, and what comes after it */
	StashReader *reader;
	const char *next;
	const char *end;
	bool		in_tail;

	PeekCounts	counts;			/* what it adds to the statistics */
};

/* What a submitted peek may hold if it may not be stashed. */
#define KEPT_IN_MEMORY	(1024 * 1024)

static BatchCodec
drive_codec(const PeekKnobs *knobs)
{
	return knobs->stash_compression == STASH_COMPRESSION_LZ4 ?
		BATCH_CODEC_LZ4 : BATCH_CODEC_NONE;
}

static double
seconds_since(instr_time start)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	return INSTR_TIME_GET_DOUBLE(now);
}

/*
 * The answer shall outlive the call: write its handle row, unless done.  False
 * if another session has been first with this handle.
 */
static bool
drive_claim(PeekAnswer *answer, const PeekKnobs *knobs)
{
	if (answer->kept)
		return true;
	PreventCommandIfReadOnly("a peek that stores its answer");
	PreventCommandIfParallelMode("a peek that stores its answer");

	/* it would be charged to whoever maintains somebody else's table */
	if (InSecurityRestrictedOperation())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot store a peek within security-restricted operation")));
	PEEK_STOP("handle-insert");
	quota_look(answer->charged_to);
	if (!handle_insert(answer->keep))
		return false;
	quota_add_peek(knobs, answer->charged_to);
	answer->kept = true;
	return true;
}

/* The answer is small enough not to be kept, though it was claimed. */
static void
drive_unclaim(PeekAnswer *answer)
{
	if (!answer->kept)
		return;
	(void) handle_delete(&answer->handle, quota_freed);
	answer->kept = false;
}

static void
drive_keep(PeekAnswer *answer, const PeekKnobs *knobs)
{
	if (!drive_claim(answer, knobs))
		error_handle_taken(&answer->handle);
}

/* The first batch is there: decide where the batches of this answer go. */
static void
drive_open(PeekAnswer *answer, const PeekRequest *request,
		   const PeekKnobs *knobs)
{
	if (answer->keep != NULL)
	{
		if (!knobs->enable_stash)
			error_stash_disabled(KEPT_IN_MEMORY);
		drive_keep(answer, knobs);
	}
	else if (!knobs->enable_stash || !stash_is_writable())
	{
		answer->spool = spool_create();
		return;
	}
	else
	{
		stash_new_handle(&answer->handle);
		answer->stash = answer->handle;
	}

	quota_check_room(knobs, answer->charged_to);
	if (answer->keep == NULL)
		xact_stash_opened(&answer->handle, answer->charged_to);
	answer->upload = stash_upload_open(&answer->handle, &answer->stash, 0,
									   request->description->desc->natts,
									   knobs->stash_batch_size,
									   drive_codec(knobs));
	answer->outcome.kind = PEEK_OUTCOME_STASHED;
}

/* Put a batch where the batches of this answer go. */
static void
drive_batch(PeekAnswer *answer, const EntryBatch *batch,
			const PeekRequest *request, const PeekKnobs *knobs)
{
	instr_time	start;
	int64		stored;

	INSTR_TIME_SET_CURRENT(start);
	if (answer->upload == NULL && answer->spool == NULL)
		drive_open(answer, request, knobs);

	if (answer->upload != NULL)
	{
		stored = stash_upload_totals(answer->upload)->stored_bytes;
		stash_upload_push(answer->upload, batch);
		stored = stash_upload_totals(answer->upload)->stored_bytes - stored;
		quota_add_bytes(knobs, answer->charged_to, stored);
		if (answer->keep == NULL)
			xact_stash_grew(&answer->handle, stored);
	}
	else
		spool_push(answer->spool, batch);
	answer->counts.write_seconds += seconds_since(start);
}

/*
 * The walk is over: what is left is the tail.  It travels in the outcome if it
 * is small; of a stored answer it becomes a last batch else.
 */
static void
drive_finish(PeekAnswer *answer, const EntryBatch *tail,
			 const PeekRequest *request, const PeekKnobs *knobs)
{
	int64		max_tail = Min(knobs->stash_threshold,
							   knobs->read_batch_size);

	if (answer->keep != NULL && !knobs->enable_stash)
		max_tail = KEPT_IN_MEMORY;

	answer->outcome.tail = *tail;
	if (answer->upload == NULL && answer->keep == NULL)
		return;

	if (tail->answer_bytes > max_tail)
	{
		if (answer->upload == NULL)
			answer->stash_reason = "read_batch_size";
		drive_batch(answer, tail, request, knobs);
		memset(&answer->outcome.tail, 0, sizeof(EntryBatch));
	}
	if (answer->upload != NULL)
		stash_upload_finish(answer->upload, &answer->totals);
	answer->upload = NULL;
}

/* Tell other sessions how far the walk is, and hear whether it shall stop. */
static void
drive_report(PeekAnswer *answer, const PeekScanState *state, bool ended)
{
	if (answer->slot < 0)
		return;
	registry_progress(answer->slot,
					  ended ? PEEK_FINISHING :
					  answer->upload != NULL ? PEEK_STASHING : PEEK_WALKING,
					  state->positions, state->num_rows, state->answer_bytes,
					  answer->upload == NULL ? answer->totals.stored_bytes :
					  stash_upload_totals(answer->upload)->stored_bytes);
	if (registry_cancel_requested(answer->slot))
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("canceling peek due to user request")));
}

/* The tail of a kept answer as a payload; NULL if there is none. */
static bytea *
drive_encode_tail(const PeekAnswer *answer, const PeekRequest *request,
				  const PeekKnobs *knobs)
{
	const EntryBatch *tail = &answer->outcome.tail;
	const Entry *entry = (const Entry *) tail->data;
	BatchEncoder encoder;
	BatchPlace	place;

	if (tail->num_entries == 0)
		return NULL;
	batch_encoder_init(&encoder, CurrentMemoryContext);
	batch_encoder_start(&encoder, request->description->desc->natts);
	for (int64 i = 0; i < tail->num_entries; i++)
	{
		batch_encoder_add(&encoder, entry);
		entry = entry_next(entry);
	}
	batch_place_set(&place, &answer->stash, TAIL_WORKER,
					answer->totals.num_rows);
	return batch_encoder_finish(&encoder, &place, drive_codec(knobs));
}

/* Write the outcome of a kept answer. */
static void
drive_outcome(PeekAnswer *answer, const PeekRequest *request,
			  const PeekKnobs *knobs)
{
	OutcomeRow	row = {0};
	bytea	   *tail = drive_encode_tail(answer, request, knobs);
	int64		tail_bytes = tail == NULL ? 0 : VARSIZE(tail);

	drive_keep(answer, knobs);
	PEEK_STOP("outcome-insert");
	row.handle = answer->handle;
	row.stash = answer->stash;
	row.state = peek_state_name(PEEK_DONE);
	row.kind = answer->outcome.kind == PEEK_OUTCOME_STASHED ?
		"stashed" : "memory";
	row.num_rows = answer->outcome.num_rows;
	row.answer_bytes = answer->outcome.answer_bytes;
	row.stored_bytes = answer->totals.stored_bytes + tail_bytes;
	row.num_batches = answer->totals.num_batches;
	row.positions = answer->outcome.positions;
	row.num_workers = 1;
	row.worker_rows = &answer->totals.num_rows;
	row.tail_num_rows = answer->outcome.tail.num_rows;
	row.tail = tail;
	if (answer->outcome.kind == PEEK_OUTCOME_STASHED)
		row.stash_reason = answer->stash_reason ?
			answer->stash_reason : "stash_threshold";
	row.finished_at = GetCurrentTimestamp();
	row.expires_at = TimestampTzPlusMilliseconds(row.finished_at,
												 (int64) knobs->ttl * 1000);
	quota_add_bytes(knobs, answer->charged_to, tail_bytes);
	outcome_insert(&row);
	answer->totals.stored_bytes += tail_bytes;
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
	options.first_cut_bytes = answer->keep != NULL && !knobs->enable_stash ?
		KEPT_IN_MEMORY : knobs->stash_threshold;
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
		drive_report(answer, state, result == PEEK_SCAN_FINISHED);
	} while (result != PEEK_SCAN_FINISHED);

	PEEK_STOP("walk-end");
	elog(DEBUG1, "peek held at most " INT64_FORMAT " bytes",
		 state->max_held_bytes);
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
 * Run a peek in the calling backend, under the active snapshot.
 */
static PeekAnswer *
drive_inline(Arrangement *arrangement, const PeekRequest *request,
			 const PeekKnobs *knobs, HandleRow *keep, bool claim,
			 int64 page_rows)
{
	PeekAnswer *answer = palloc0(sizeof(PeekAnswer));
	PeekScanState *state = palloc0(sizeof(PeekScanState));
	Snapshot	snapshot;
	instr_time	start;

	answer->outcome.kind = PEEK_OUTCOME_MEMORY;
	answer->read_bytes = knobs->read_batch_size;
	answer->charged_to = GetSessionUserId();
	answer->keep = keep;
	answer->slot = -1;
	state->limit_left = request->row_limit;
	state->offset_left = request->row_offset;

	if (keep != NULL)
	{
		/* the handle may be the client's, and be used again */
		answer->handle = keep->handle;
		stash_new_handle(&answer->stash);

		/* before anything is walked: the handle may be taken */
		if (claim && !drive_claim(answer, knobs))
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
			drive_outcome(answer, request, knobs);
		else
			drive_unclaim(answer);
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
	if (answer->slot >= 0 && !answer->kept)
		xact_slot_give_back(answer->slot);
	drive_count(answer, seconds_since(start));
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

bool
driver_answer_is_kept(const PeekAnswer *answer)
{
	return answer->kept;
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
	if (answer->keep == NULL && !xact_stash_exists(&answer->handle))
		error_answer_rolled_back();

	INSTR_TIME_SET_CURRENT(start);
	if (answer->reader == NULL)
	{
		MemoryContext context = GetMemoryChunkContext(answer);
		MemoryContext old = MemoryContextSwitchTo(context);

		answer->reader = stash_reader_open(&answer->handle,
										   &answer->stash, answer->kept, 0,
										   answer->outcome.description->desc->natts,
										   answer->totals.num_rows,
										   answer->read_bytes);
		MemoryContextSwitchTo(old);
	}
	more = stash_reader_next(answer->reader, PG_INT64_MAX, &answer->next,
							 size);
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
	if (complete && answer->keep == NULL &&
		answer->outcome.kind == PEEK_OUTCOME_STASHED)
		xact_stash_delete(&answer->handle);
}
