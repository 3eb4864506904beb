/*-------------------------------------------------------------------------
 *
 * answer.c
 *	  What a driver makes of the batches that a source of rows cuts.
 *
 * Where a batch goes is decided with the first one, once for the answer:
 *
 *		no batch			the answer stays in memory
 *		stash writable		an upload is opened; the answer is stashed
 *		otherwise			it is spooled to a temporary file
 *
 * A submitted peek is kept: its batches are not deleted, and a handle and an
 * outcome row are written with them.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/answer.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/async.h"
#include "drive/answer.h"
#include "drive/driver.h"
#include "drive/quota.h"
#include "drive/registry.h"
#include "drive/xact.h"
#include "errors.h"
#include "miscadmin.h"
#include "stash/batch.h"
#include "stash/stash.h"
#include "stop.h"
#include "tcop/utility.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "compat.h"

/* What a submitted peek may hold if it may not be stashed. */
#define KEPT_IN_MEMORY	(1024 * 1024)

/* How long a submit waits until what is left under its handle is reclaimed. */
#define CLEAR_WAIT_MS	10000

static BatchCodec
answer_codec(const PeekKnobs *knobs)
{
	return knobs->stash_compression == STASH_COMPRESSION_LZ4 ?
		BATCH_CODEC_LZ4 : BATCH_CODEC_NONE;
}

double
seconds_since(instr_time start)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	return INSTR_TIME_GET_DOUBLE(now);
}

/*
 * Begin an answer in the current context: of a direct peek, or (keep) of one
 * that is kept under a handle.
 */
PeekAnswer *
answer_create(const PeekKnobs *knobs, RowDescription *description,
			  HandleRow *keep)
{
	PeekAnswer *answer = palloc0(sizeof(PeekAnswer));

	answer->outcome.kind = PEEK_OUTCOME_MEMORY;
	answer->outcome.description = description;
	answer->read_bytes = knobs->read_batch_size;
	answer->charged_to = GetSessionUserId();
	answer->keep = keep;
	answer->slot = -1;
	answer->estimated_positions = -1;
	if (keep != NULL)
	{
		/* the handle may be the client's, and be used again */
		answer->handle = keep->handle;
		stash_new_handle(&answer->stash);
	}
	return answer;
}

/* The cuts that a collection for this answer makes, and the cap. */
void
answer_collection_options(const PeekAnswer *answer, const PeekKnobs *knobs,
						  CollectionOptions *options)
{
	memset(options, 0, sizeof(*options));
	options->description = answer->outcome.description;
	options->max_result_bytes = knobs_max_result_bytes(knobs);
	options->first_cut_bytes = answer->keep != NULL && !knobs->enable_stash ?
		KEPT_IN_MEMORY : knobs->stash_threshold;
	options->cut_bytes = knobs->stash_batch_size;
}

/*
 * The answer shall outlive the call: write its handle row, unless done.  False
 * if another session has been first with this handle.
 */
static bool
answer_claim(PeekAnswer *answer, const PeekKnobs *knobs)
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

/*
 * The handle is the client's, and our row is in place: rows of an earlier peek
 * under it, which a worker has committed and its submitter has not, may still
 * wait for reclaim.  They would be taken for ours.
 */
static void
answer_await_clear_handle(const PeekAnswer *answer)
{
	TimestampTz start = GetCurrentTimestamp();
	bool		own;

	while (!registry_handle_is_clear(&answer->handle, answer->slot, &own))
	{
		CHECK_FOR_INTERRUPTS();
		if (own)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("peek \"%s\" was released in this transaction while it was walked in the background",
							stash_handle_text(&answer->handle)),
					 errhint("Commit before you submit under the same handle again.")));
		if (TimestampDifferenceExceeds(start, GetCurrentTimestamp(),
									   CLEAR_WAIT_MS))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("what is left of an earlier peek \"%s\" has not been reclaimed yet",
							stash_handle_text(&answer->handle)),
					 errhint("Try again, or submit under another handle.")));
		registry_wait(100);
	}
}

/*
 * Begin a submitted peek: take the handle, where it is known that the answer
 * is kept or the handle may be taken, and a slot.  False: another session has
 * been first with the handle.
 */
bool
answer_take_handle(PeekAnswer *answer, const PeekKnobs *knobs,
				   const PeekSubmit *submit)
{
	if ((submit->claim || submit->page_rows < 0) &&
		!answer_claim(answer, knobs))
		return false;
	answer->slot = xact_slot_take(&answer->keep->handle, answer->keep->owner,
								  answer->keep->charged_to);
	if (submit->claim)
		answer_await_clear_handle(answer);
	return true;
}

/* The answer is small enough not to be kept, though it was claimed. */
static void
answer_unclaim(PeekAnswer *answer)
{
	if (!answer->kept)
		return;
	(void) handle_delete(&answer->handle, quota_freed);
	answer->kept = false;
}

static void
answer_keep(PeekAnswer *answer, const PeekKnobs *knobs)
{
	if (!answer_claim(answer, knobs))
		error_handle_taken(&answer->handle);
}

/* The first batch is there: decide where the batches of this answer go. */
static void
answer_open(PeekAnswer *answer, const PeekKnobs *knobs)
{
	if (answer->keep != NULL)
	{
		if (!knobs->enable_stash)
			error_stash_disabled(KEPT_IN_MEMORY);
		answer_keep(answer, knobs);
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
	answer->upload = stash_upload_open(&answer->handle, &answer->stash,
									   answer->worker,
									   answer->outcome.description->desc->natts,
									   knobs->stash_batch_size,
									   answer_codec(knobs));
	answer->outcome.kind = PEEK_OUTCOME_STASHED;
}

/* Put a batch where the batches of this answer go. */
void
answer_batch(PeekAnswer *answer, const EntryBatch *batch,
			 const PeekKnobs *knobs)
{
	instr_time	start;
	int64		stored;

	INSTR_TIME_SET_CURRENT(start);
	if (answer->upload == NULL && answer->spool == NULL)
		answer_open(answer, knobs);

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
answer_finish(PeekAnswer *answer, const EntryBatch *tail,
			  const PeekKnobs *knobs)
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
		/* the batches before may be those of another process */
		if (answer->outcome.kind != PEEK_OUTCOME_STASHED)
			answer->stash_reason = "read_batch_size";
		answer_batch(answer, tail, knobs);
		memset(&answer->outcome.tail, 0, sizeof(EntryBatch));
	}
	if (answer->upload != NULL)
		stash_upload_finish(answer->upload, &answer->totals);
	answer->upload = NULL;
}

/* The source of rows has ended: what is collected completes the answer. */
void
answer_complete(PeekAnswer *answer, PeekCollection *collection,
				const PeekScanState *state, const PeekKnobs *knobs)
{
	EntryBatch	batch;

	collection_tail(collection, &batch);
	answer_finish(answer, &batch, knobs);
	answer->outcome.num_rows = state->num_rows;
	answer->outcome.answer_bytes = state->answer_bytes;
	answer->outcome.positions = state->positions;
	Assert(answer->outcome.kind == PEEK_OUTCOME_MEMORY ||
		   answer->num_workers > 0 ||
		   answer->totals.num_rows + answer->outcome.tail.num_rows ==
		   state->num_rows);
}

/*
 * The walk has ended for this worker, but not for the answer: all that is held
 * goes to the stash.
 */
void
answer_complete_share(PeekAnswer *answer, PeekCollection *collection,
					  const PeekKnobs *knobs)
{
	EntryBatch	batch;

	collection_tail(collection, &batch);
	if (batch.num_entries > 0)
		answer_batch(answer, &batch, knobs);
	if (answer->upload != NULL)
		stash_upload_finish(answer->upload, &answer->totals);
	answer->upload = NULL;
}

/* Tell other sessions how far the walk is, and hear whether it shall stop. */
void
answer_report(PeekAnswer *answer, const PeekScanState *state, bool ended)
{
	int64		stored;

	if (answer->slot < 0)
		return;
	stored = answer->upload == NULL ? answer->totals.stored_bytes :
		stash_upload_totals(answer->upload)->stored_bytes;
	registry_progress(answer->slot,
					  ended ? PEEK_FINISHING :
					  answer->upload != NULL ? PEEK_STASHING : PEEK_WALKING,
					  state->positions - answer->reported.positions,
					  state->num_rows - answer->reported.num_rows,
					  state->answer_bytes - answer->reported.answer_bytes,
					  stored - answer->reported_bytes);
	answer->reported = *state;
	answer->reported_bytes = stored;
	if (registry_cancel_requested(answer->slot))
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg(PEEK_CANCELLED_BY_USER)));
}

/* The tail of a kept answer as a payload; NULL if there is none. */
static bytea *
answer_encode_tail(const PeekAnswer *answer, const PeekKnobs *knobs)
{
	const EntryBatch *tail = &answer->outcome.tail;
	const Entry *entry = (const Entry *) tail->data;
	BatchEncoder encoder;
	BatchPlace	place;

	if (tail->num_entries == 0)
		return NULL;
	batch_encoder_init(&encoder, CurrentMemoryContext);
	batch_encoder_start(&encoder, answer->outcome.description->desc->natts);
	for (int64 i = 0; i < tail->num_entries; i++)
	{
		batch_encoder_add(&encoder, entry);
		entry = entry_next(entry);
	}
	batch_place_set(&place, &answer->stash, TAIL_WORKER,
					answer->others.num_rows + answer->totals.num_rows);
	return batch_encoder_finish(&encoder, &place, answer_codec(knobs));
}

/* Tell those who listen that a submitted peek has ended. */
void
answer_notify(const PeekKnobs *knobs, const pg_uuid_t *handle,
			  const char *state)
{
	if (knobs->notify)
		Async_Notify("peekstash", psprintf("%s %s", stash_handle_text(handle),
										   state));
}

/* Write the outcome of a kept answer. */
void
answer_store_outcome(PeekAnswer *answer, const PeekKnobs *knobs)
{
	OutcomeRow	row = {0};
	bytea	   *tail = answer_encode_tail(answer, knobs);
	int64		tail_bytes = tail == NULL ? 0 : VARSIZE(tail);

	answer_keep(answer, knobs);
	PEEK_STOP("outcome-insert");
	row.handle = answer->handle;
	row.stash = answer->stash;
	row.state = peek_state_name(PEEK_DONE);
	row.kind = answer->outcome.kind == PEEK_OUTCOME_STASHED ?
		"stashed" : "memory";
	row.num_rows = answer->outcome.num_rows;
	row.answer_bytes = answer->outcome.answer_bytes;
	row.stored_bytes = answer->others.stored_bytes +
		answer->totals.stored_bytes + tail_bytes;
	row.num_batches = answer->others.num_batches +
		answer->totals.num_batches;
	row.positions = answer->outcome.positions;
	answer->share_rows[answer->worker] = answer->totals.num_rows;
	row.num_shares = answer->num_shares + 1;
	row.share_rows = answer->share_rows;
	row.num_workers = answer->num_workers;
	row.inline_reason = answer->inline_reason;
	row.estimated_positions = answer->estimated_positions;
	row.tail_num_rows = answer->outcome.tail.num_rows;
	row.tail = tail;
	if (answer->outcome.kind == PEEK_OUTCOME_STASHED)
		row.stash_reason = answer->stash_reason ?
			answer->stash_reason : "stash_threshold";
	outcome_row_finish(&row, knobs->ttl);
	quota_add_bytes(knobs, answer->charged_to, tail_bytes);

	/* a function of the filter's can have released the very peek it serves */
	if (!outcome_insert(&row, answer->num_workers == 0))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("peek \"%s\" was released while it was walked",
						stash_handle_text(&row.handle))));
	answer_notify(knobs, &row.handle, row.state);
	answer->totals.stored_bytes += tail_bytes;
}
/* The walk has ended with an answer: count it. */
void
answer_count(PeekAnswer *answer, double seconds)
{
	PeekCounts *counts = &answer->counts;

	if (answer->num_workers > 0)
		counts->walks_offloaded = 1;
	else
		counts->walks_inline = 1;
	if (answer->outcome.kind == PEEK_OUTCOME_STASHED)
		counts->answers_stashed = 1;
	else
		counts->answers_memory = 1;
	counts->positions = Max(answer->outcome.positions, 0);
	counts->rows = answer->outcome.num_rows;
	counts->answer_bytes = answer->outcome.answer_bytes;
	counts->stored_bytes = answer->others.stored_bytes +
		answer->totals.stored_bytes;
	counts->batches_written = answer->others.num_batches +
		answer->totals.num_batches;
	counts->walk_seconds = Max(seconds - counts->write_seconds, 0);
	counts->observed |= STAT_OBSERVED(PHASE_WALK) |
		STAT_OBSERVED(PHASE_WRITE);
	stat_count(counts);
	memset(counts, 0, sizeof(*counts));
}

/* The answer is complete: keep it, unless it is a page that holds all. */
void
answer_keep_or_not(PeekAnswer *answer, const PeekKnobs *knobs,
				   const PeekSubmit *submit)
{
	if (submit->page_rows < 0 ||
		answer->outcome.num_rows > submit->page_rows ||
		answer->outcome.kind == PEEK_OUTCOME_STASHED)
		answer_store_outcome(answer, knobs);
	else
		answer_unclaim(answer);
}

/* The walk is over in this process: its slot only stands for the answer now. */
void
answer_walked(PeekAnswer *answer, double seconds)
{
	xact_slot_walked(answer->slot);
	if (answer->slot >= 0 && !answer->kept)
		xact_slot_give_back(answer->slot);
	answer_count(answer, seconds);
}

/* The walk has ended without an answer: count that. */
void
answer_count_failure(bool cancelled, bool offloaded, int64 positions,
					 double seconds)
{
	PeekCounts	counts = {0};

	if (cancelled)
		counts.answers_cancelled = 1;
	else
	{
		counts.answers_failed = 1;
		if (offloaded)
			counts.walks_offloaded = 1;
		else
			counts.walks_inline = 1;
		counts.observed = STAT_OBSERVED(PHASE_WALK);
	}
	counts.positions = Max(positions, 0);
	counts.walk_seconds = seconds;
	stat_count(&counts);
}

/* The walk has thrown: count that, before the error goes on. */
void
answer_count_error(const PeekScanState *state, double seconds)
{
	answer_count_failure(geterrcode() == ERRCODE_QUERY_CANCELED, false,
						 state->positions, seconds);
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
		answer->counts.observed = STAT_OBSERVED(PHASE_READ);
		stat_count(&answer->counts);
	}
	if (complete && answer->keep == NULL &&
		answer->outcome.kind == PEEK_OUTCOME_STASHED)
		xact_stash_delete(&answer->handle);
}
