/*-------------------------------------------------------------------------
 *
 * handover.c
 *	  What a submitter and the workers of its walk agree on.
 *
 * All of it lies in one struct in the segment that they share (handover.h),
 * under one spinlock that is held for a few assignments; nothing under it can
 * throw.  Whoever changes something wakes the others.  Only the states are
 * here: who starts workers is offload.c, and what a worker does, worker.c.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/handover.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "drive/handover.h"
#include "drive/registry.h"
#include "mb/pg_wchar.h"
#include "pgstat.h"
#include "utils/elog.h"
#include "utils/wait_event.h"

#include "compat.h"

#define WORKER_ENDED	"a worker of the peek ended before its walk"

HandoverPhase
handover_phase(Handover *handover)
{
	HandoverPhase phase;

	SpinLockAcquire(&handover->mutex);
	phase = handover->phase;
	SpinLockRelease(&handover->mutex);
	return phase;
}

/* Sleep until something has changed, or for so long. */
void
handover_sleep(Handover *handover, long timeout_ms)
{
	(void) ConditionVariableTimedSleep(&handover->changed, timeout_ms,
									   PG_WAIT_EXTENSION);
}

/*
 * Has every worker said whether it can walk?  If one cannot: why.
 */
bool
handover_is_answered(Handover *handover, int num_started,
					 OffloadGate *refusal)
{
	bool		result = true;

	SpinLockAcquire(&handover->mutex);
	for (int i = 0; i < num_started; i++)
	{
		WorkerResult *worker = &handover->workers[i];

		if (worker->left || worker->state == WORKER_REFUSED)
			*refusal = worker->refusal != GATE_OPEN ?
				worker->refusal : GATE_WORKER;
		else if (worker->state != WORKER_READY)
			result = false;
	}
	SpinLockRelease(&handover->mutex);
	return result;
}

/*
 * Decide how it goes on, and tell the workers; returns how many walk.  One that
 * was ready may be gone since, but not after this without being missed; one
 * that has not answered is too late, and named in late.
 */
int
handover_decide(Handover *handover, int num_started, bool *late)
{
	int			num_ready = 0;

	SpinLockAcquire(&handover->mutex);
	for (int i = num_started - 1; i >= 0; i--)
	{
		WorkerResult *worker = &handover->workers[i];

		late[i] = worker->state == WORKER_STARTING && !worker->left;
		if (worker->state == WORKER_READY && !worker->left)
		{
			handover->finisher = i;
			num_ready++;
		}
		else
			worker->state = WORKER_REFUSED;
	}
	handover->num_workers = num_ready;
	handover->phase = num_ready > 0 ? HANDOVER_GO : HANDOVER_STAY;
	SpinLockRelease(&handover->mutex);
	ConditionVariableBroadcast(&handover->changed);
	return num_ready;
}

/* A worker that will be started may be waited for; one that is not, not. */
void
handover_set_left(Handover *handover, int number, bool left)
{
	SpinLockAcquire(&handover->mutex);
	handover->workers[number].left = left;
	SpinLockRelease(&handover->mutex);
}

void
handover_set_state(Handover *handover, int number, WorkerState state)
{
	SpinLockAcquire(&handover->mutex);
	Assert(state > handover->workers[number].state);
	handover->workers[number].state = state;
	SpinLockRelease(&handover->mutex);
	ConditionVariableBroadcast(&handover->changed);
}

/* Say yes.  False: it is too late for that. */
bool
handover_say_ready(Handover *handover, int number)
{
	WorkerResult *worker = &handover->workers[number];
	bool		in_time;

	SpinLockAcquire(&handover->mutex);
	in_time = worker->state == WORKER_STARTING;
	if (in_time)
		worker->state = WORKER_READY;
	SpinLockRelease(&handover->mutex);
	ConditionVariableBroadcast(&handover->changed);
	return in_time;
}

/*
 * Say no, and leave the walk to the submitter.  False: it has been told
 * already that this worker walks.
 */
bool
handover_refuse(Handover *handover, int number, OffloadGate gate)
{
	WorkerResult *worker = &handover->workers[number];
	bool		in_time;

	SpinLockAcquire(&handover->mutex);
	in_time = worker->state < WORKER_READY || handover->phase < HANDOVER_GO;
	if (in_time)
	{
		worker->refusal = gate;
		worker->state = WORKER_REFUSED;
	}
	SpinLockRelease(&handover->mutex);
	ConditionVariableBroadcast(&handover->changed);
	return in_time;
}

/* Have all others come so far, or left?  *lost: one has left before. */
bool
handover_others_are(Handover *handover, int number, WorkerState state,
					bool *lost)
{
	bool		result = true;

	*lost = false;
	SpinLockAcquire(&handover->mutex);
	for (int i = 0; i < MAX_WALK_WORKERS; i++)
	{
		WorkerResult *worker = &handover->workers[i];

		if (i == number || worker->state < WORKER_READY ||
			worker->state >= state)
			continue;
		if (worker->left)
			*lost = true;
		else
			result = false;
	}
	SpinLockRelease(&handover->mutex);
	return result;
}

/* All have walked: let them commit, unless something has failed meanwhile. */
void
handover_allow_commit(Handover *handover)
{
	SpinLockAcquire(&handover->mutex);
	if (handover->phase == HANDOVER_GO)
		handover->phase = HANDOVER_COMMIT;
	SpinLockRelease(&handover->mutex);
	ConditionVariableBroadcast(&handover->changed);
}

/* Tell the others what a worker has come to. */
void
handover_publish(Handover *handover, int number, const PeekAnswer *answer,
				 const PeekScanState *state)
{
	WorkerResult *result = &handover->workers[number];

	SpinLockAcquire(&handover->mutex);
	result->stashed = answer->outcome.kind == PEEK_OUTCOME_STASHED;
	result->totals = answer->totals;
	result->positions = state->positions;
	result->num_rows = state->num_rows;
	result->answer_bytes = state->answer_bytes;
	result->write_seconds = answer->counts.write_seconds;
	SpinLockRelease(&handover->mutex);
}

/*
 * Add up what all have come to, who change nothing any more; the finisher's
 * own is in the answer.
 */
void
handover_add_up(const Handover *handover, PeekAnswer *answer)
{
	UploadTotals *others = &answer->others;

	*others = handover->submitter_totals;
	answer->share_rows[0] = handover->submitter_totals.num_rows;
	for (int i = 0; i < MAX_WALK_WORKERS; i++)
	{
		const WorkerResult *worker = &handover->workers[i];

		if (worker->state < WORKER_READY)
			continue;
		answer->num_shares = i + 1;
		if (i == handover->finisher)
			continue;
		others->num_batches += worker->totals.num_batches;
		others->num_rows += worker->totals.num_rows;
		others->answer_bytes += worker->totals.answer_bytes;
		others->stored_bytes += worker->totals.stored_bytes;
		answer->share_rows[i + 1] = worker->totals.num_rows;
		answer->outcome.positions += worker->positions;
		answer->outcome.num_rows += worker->num_rows;
		answer->outcome.answer_bytes += worker->answer_bytes;
		answer->counts.write_seconds += worker->write_seconds;
		if (worker->stashed)
			answer->outcome.kind = PEEK_OUTCOME_STASHED;
	}
	if (answer->outcome.kind == PEEK_OUTCOME_STASHED &&
		answer->stash_reason == NULL && handover->num_workers > 1 &&
		answer->outcome.answer_bytes <= handover->knobs.stash_threshold)
		answer->stash_reason = "workers";
}

/* What has been stored in transactions that may have been committed. */
int64
handover_stored_bytes(const Handover *handover)
{
	int64		bytes = handover->submitter_totals.stored_bytes;

	for (int i = 0; i < MAX_WALK_WORKERS; i++)
	{
		if (handover->workers[i].state == WORKER_COMMITTED)
			bytes += handover->workers[i].totals.stored_bytes;
	}
	return bytes;
}

/* Positions of all workers together, as far as they have been published. */
int64
handover_positions(const Handover *handover)
{
	int64		positions = 0;

	for (int i = 0; i < MAX_WALK_WORKERS; i++)
		positions += handover->workers[i].positions;
	return positions;
}

/* A verdict, as it is told.  The lock is held. */
static void
set_verdict(Handover *handover, WalkVerdict verdict, int sqlstate,
			const char *message, const char *detail)
{
	handover->verdict = verdict;
	strcpy(handover->sqlstate, unpack_sql_state(sqlstate));
	strcpy(handover->message, message);
	strcpy(handover->detail, detail);
}

/* What an error means for the peek. */
static WalkVerdict
verdict_of(Handover *handover, const ErrorData *error)
{
	/* limits are the peek's own; one of the stash's is an error */
	if (error->sqlerrcode == ERRCODE_CONFIGURATION_LIMIT_EXCEEDED &&
		error_last_limit().kind != PEEK_LIMIT_NONE)
		return VERDICT_LIMIT;
	if (error->sqlerrcode != ERRCODE_QUERY_CANCELED)
		return VERDICT_ERROR;

	/* interrupted because of what somebody else has said already? */
	if (handover_phase(handover) == HANDOVER_ABORT &&
		!registry_cancel_requested(handover->slot) &&
		!registry_is_doomed(handover->slot))
		return VERDICT_NONE;
	return VERDICT_CANCELLED;
}

/* Copy a text, or nothing, as far as there is room for whole characters. */
static void
clip(char *to, const char *text)
{
	int			len = text == NULL ? 0 :
		pg_mbcliplen(text, strlen(text), HANDOVER_TEXT - 1);

	if (len > 0)
		memcpy(to, text, len);
	to[len] = '\0';
}

/*
 * A worker has failed: say how, unless something worse is known, and stop the
 * others.
 */
void
handover_pronounce(Handover *handover, int number, const ErrorData *error,
				   int64 positions)
{
	WalkVerdict verdict = verdict_of(handover, error);
	PeekLimit	limit = error_last_limit();
	char		message[HANDOVER_TEXT];
	char		detail[HANDOVER_TEXT];

	clip(message, error->message);
	clip(detail, error->detail);
	SpinLockAcquire(&handover->mutex);
	handover->workers[number].positions = positions;
	if (verdict > handover->verdict ||
		(verdict == VERDICT_LIMIT && handover->verdict == VERDICT_LIMIT &&
		 peek_limit_is_first(&limit, &handover->limit)))
	{
		set_verdict(handover, verdict, error->sqlerrcode, message, detail);
		handover->limit = limit;
	}
	handover->phase = HANDOVER_ABORT;
	SpinLockRelease(&handover->mutex);
	ConditionVariableBroadcast(&handover->changed);
	registry_interrupt_others(handover->slot);
}

/*
 * All have failed or left: was the peek cancelled?  Whoever has asked for that
 * gets it, though a function may have made another error of its interrupt.
 */
bool
handover_was_cancelled(Handover *handover)
{
	bool		requested = registry_cancel_requested(handover->slot);
	bool		result;

	SpinLockAcquire(&handover->mutex);
	if (requested && handover->verdict != VERDICT_CANCELLED)
		set_verdict(handover, VERDICT_CANCELLED, ERRCODE_QUERY_CANCELED,
					PEEK_CANCELLED_BY_USER, "");
	result = handover->verdict == VERDICT_CANCELLED;
	SpinLockRelease(&handover->mutex);
	return result;
}

/*
 * A worker ends.  is_expected: it has done its part, or has said how it has
 * failed; is_settled: it is known how the peek has ended.  True: it has left
 * the others in the midst of it, and they have been told.
 */
bool
handover_leave(Handover *handover, int number, bool is_expected,
			   bool is_settled)
{
	WorkerResult *worker = &handover->workers[number];
	bool		deserts;

	SpinLockAcquire(&handover->mutex);
	worker->left = true;

	/* one that has refused is no loss */
	deserts = !is_expected && worker->state >= WORKER_READY &&
		handover->phase >= HANDOVER_GO;
	if (deserts)
		handover->phase = HANDOVER_ABORT;
	if (deserts && !is_settled && handover->verdict < VERDICT_ERROR)
		set_verdict(handover, VERDICT_ERROR, ERRCODE_ADMIN_SHUTDOWN,
					WORKER_ENDED, "");
	SpinLockRelease(&handover->mutex);
	ConditionVariableBroadcast(&handover->changed);

	/* btree's own waits for us do not end by themselves */
	if (deserts)
		registry_interrupt_others(handover->slot);
	return deserts;
}

/* Throw because another worker has left. */
void
error_worker_ended(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_ADMIN_SHUTDOWN),
			 errmsg(WORKER_ENDED)));
}
