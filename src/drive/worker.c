/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  Going on with a walk that was handed over: the worker's side.
 *
 * A worker is a background worker that belongs to nobody's transaction.  It
 * connects as no role, because a role may not be allowed to log in, and
 * becomes the caller before any code of a user's runs: with the caller's
 * settings and times, under the submitter's snapshot, in a security context
 * that does not let that code become anybody else.
 *
 * All of its locks are taken without waiting: the submitter waits for it, and
 * the two share no lock group, so a wait could be a deadlock that nobody sees.
 * What functions of a filter lock later is bound by lock_timeout for the same
 * reason.
 *
 * With one worker, or of several the first, it is the finisher, who writes the
 * outcome.  The others write their batches only:
 *
 *		finisher					other
 *		walks						walks
 *		gives its permit back		gives its permit back
 *		its rest is the tail		its rest is a last batch
 *		waits until all have walked	WALKED, waits
 *		COMMIT ------------------->	commits, COMMITTED, ends
 *		waits for that
 *		writes the outcome, commits
 *
 * Whoever fails says how (the worst is kept) and leaves; the finisher then
 * writes that as the outcome, in a transaction of its own, and deletes what
 * others may have committed.
 *
 * What is held, and what happens if a worker throws, is ended or dies:
 *
 *		attached to the slot	worker_before_exit() detaches, after the abort
 *		permit, or a wait		given back there, too
 *		batches					rows of its transaction: gone
 *		batches, committed		the finisher, or reclaim, deletes them
 *		nothing written			the slot says that it died; reclaim writes
 *								the outcome once the submitter has committed
 *		killed, server crash	shared memory and the stash begin anew
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/worker.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "drive/answer.h"
#include "drive/handover.h"
#include "drive/permits.h"
#include "drive/quota.h"
#include "drive/registry.h"
#include "drive/transfer.h"
#include "drive/xact.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "row.h"
#include "stash/stash.h"
#include "stop.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/shm_toc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "walk/scan.h"

#include "compat.h"

/* How often a worker that waits looks around, even if not woken. */
#define WAIT_MS	1000

/* For locks that functions of a filter ask for, unless set lower. */
#define LOCK_TIMEOUT_MS	10000

pg_noreturn PGDLLEXPORT void peekstash_worker_main(Datum arg);

/* What gives the rows. */
typedef struct WorkerSource
{
	Snapshot	snapshot;
	PeekQuery  *query;			/* NULL = a walk */
	Arrangement *arrangement;
	PeekRequest *request;
	RowDescription *description;	/* of its rows */
} WorkerSource;

/* There is one walk in the life of a worker. */
static WorkerStart me;
static shm_toc *toc;
static Handover *handover = NULL;	/* NULL = not attached */
static bool has_ended = false;	/* its end is known: no need for last words */
static bool is_counted = false; /* what has become of the walk */
static bool settings_changed = false;	/* the walk has not followed yet */
static Oid	nobody;				/* whom it has connected as */

static int
my_place(void)
{
	return me.slot * MAX_WALK_WORKERS + me.number;
}

static bool
is_finisher(void)
{
	return handover->finisher == me.number;
}

/*
 * The last words, spoken after the transaction has been aborted, while shared
 * memory is still there.
 */
static void
worker_before_exit(int code, Datum arg)
{
	PeekCounts	counts = {0};
	bool		has_last_words;

	permit_release(my_place());
	has_last_words = handover != NULL &&
		handover_leave(handover, me.number, has_ended, is_counted) &&
		is_finisher();
	counts.answers_cancelled = 1;
	if (has_last_words && !is_counted)
		stat_count(&counts);
	registry_detach(me.slot, me.number,
					has_last_words ? handover->sqlstate : NULL,
					has_last_words ? handover->message : NULL);
}

/* Throw if nobody wants the walk any more, or it has failed elsewhere. */
static void
check_wanted(void *arg)
{
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		settings_changed = true;
	}
	if (handover_phase(handover) == HANDOVER_ABORT ||
		registry_cancel_requested(me.slot) || registry_is_doomed(me.slot))
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg(PEEK_CANCELLED_BY_USER)));
}

/* Take over the submitter's settings.  They come with their sources. */
static void
take_settings(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	XactReadOnly = false;
	RestoreGUCState(shm_toc_lookup(toc, HANDOVER_KEY_SETTINGS, false));
	CommitTransactionCommand();

	/*
	 * What the submitter has from the configuration may be old: it looks
	 * between statements only, and the change may have been before us.
	 */
	ProcessConfigFile(PGC_SIGHUP);
	settings_changed = true;

	if (LockTimeout == 0 || LockTimeout > LOCK_TIMEOUT_MS)
		SetConfigOption("lock_timeout", psprintf("%d", LOCK_TIMEOUT_MS),
						PGC_USERSET, PGC_S_SESSION);

	/* the submitter's transaction is not ours */
#if PG_VERSION_NUM >= 170000
	SetConfigOption("transaction_timeout", "0", PGC_USERSET, PGC_S_SESSION);
#endif
}

/*
 * now() and the like shall be the submitter's.  The function that sets them is
 * meant for workers of a parallel query, and insists on being called in one.
 */
static void
take_timestamps(void)
{
	int			number = ParallelWorkerNumber;

	ParallelWorkerNumber = 0;
	SetParallelStartTimestamps(handover->transaction_start,
							   handover->statement_start);
	ParallelWorkerNumber = number;
}

/* Install the snapshot: from here on its rows are safe from vacuum. */
static Snapshot
take_snapshot(void)
{
	Snapshot	snapshot = RestoreSnapshot(shm_toc_lookup(toc,
														  HANDOVER_KEY_SNAPSHOT,
														  false));

	RestoreTransactionSnapshot(snapshot, handover->submitter);
	snapshot = RegisterSnapshot(snapshot);
	PushActiveSnapshot(snapshot);
	return snapshot;
}

/* The tables of the stash, or false. */
static bool
lock_stash(void)
{
	static const char *const tables[] = {"outcome", "batch"};

	for (int i = 0; i < (int) lengthof(tables); i++)
	{
		Oid			table = stash_table(tables[i]);

		if (!OidIsValid(table) ||
			!ConditionalLockRelationOid(table, RowExclusiveLock))
			return false;
	}
	return true;
}

/* All locks of the walk or the query, or false. */
static bool
take_locks(const WorkerSource *source)
{
	ListCell   *lc;

	if (source->query == NULL)
		return ConditionalLockRelationOid(handover->table, AccessShareLock) &&
			ConditionalLockRelationOid(handover->index, AccessShareLock) &&
			lock_stash();

	foreach(lc, source->query->plan->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_RELATION &&
			!ConditionalLockRelationOid(rte->relid, rte->rellockmode))
			return false;
	}
	return lock_stash();
}

/* Wait for the submitter's word; false if it walks itself, or is gone. */
static bool
wait_for_go(void)
{
	HandoverPhase phase;

	ConditionVariablePrepareToSleep(&handover->changed);
	while ((phase = handover_phase(handover)) == HANDOVER_PREPARING)
	{
		if (registry_is_doomed(me.slot))
			break;
		handover_sleep(handover, WAIT_MS);
	}
	ConditionVariableCancelSleep();
	return phase >= HANDOVER_GO;
}

/* The finisher waits for the others. */
static void
wait_for_others(WorkerState state)
{
	bool		lost;

	ConditionVariablePrepareToSleep(&handover->changed);
	while (!handover_others_are(handover, me.number, state, &lost) && !lost)
	{
		check_wanted(NULL);
		handover_sleep(handover, WAIT_MS);
	}
	ConditionVariableCancelSleep();
	check_wanted(NULL);
	if (lost)
		error_worker_ended();
}

/* Take what the submitter held. */
static void
take_held(PeekCollection *collection)
{
	char	   *place = shm_toc_lookup(toc, HANDOVER_KEY_HELD, false);
	char	   *next = place + MAXALIGN(sizeof(Size));
	char	   *end = next + *(Size *) place;

	while (next < end)
	{
		CHECK_FOR_INTERRUPTS();
		collection_import(collection, (Entry *) next);
		next += entry_size((Entry *) next);
	}
}

/* Follow changed settings; true if the limits may be others now. */
static bool
follow_settings(PeekKnobs *knobs, PeekCollection *collection)
{
	if (!settings_changed)
		return false;
	settings_changed = false;
	knobs_follow(knobs);
	collection_set_cap(collection, knobs_max_result_bytes(knobs));
	return true;
}

/* The step has ended: take a batch, say how far it is. */
static void
take_step(PeekAnswer *answer, PeekCollection *collection,
		  const PeekKnobs *knobs, const PeekScanState *state,
		  PeekScanResult result)
{
	EntryBatch	batch;

	if (collection_take(collection, &batch))
		answer_batch(answer, &batch, knobs);
	else if (result == PEEK_SCAN_SUSPENDED_BATCH)
		elog(ERROR, "peek scan announced a batch that is not there");

	/* while others walk, it can still be cancelled */
	answer_report(answer, state, result == PEEK_SCAN_FINISHED &&
				  handover->num_workers == 1);
}

/* Walk, with a permit.  What was found is in answer and collection then. */
static PeekCollection *
walk(PeekAnswer *answer, WorkerSource *source, PeekKnobs *knobs,
	 PeekScanState *state)
{
	PeekScan   *scan;
	CollectionOptions options;
	PeekCollection *collection;
	PeekScanResult result;
	PeekSharedTotals *shared = handover->num_workers > 1 ?
		&handover->totals : NULL;

	scan = peek_scan_begin(source->arrangement, source->request,
						   source->snapshot, knobs->row_iteration_limit,
						   state);
	if (handover->in_place)
		peek_scan_import(scan, shm_toc_lookup(toc, HANDOVER_KEY_PLACE, false),
						 shared);

	answer_collection_options(answer, knobs, &options);
	options.slot_is_row = peek_scan_slot_is_row(scan);
	options.order = peek_scan_order(scan);
	options.shared = shared;
	collection = collection_create(&options, state);
	if (is_finisher())
		take_held(collection);

	do
	{
		check_wanted(NULL);
		if (follow_settings(knobs, collection))
			peek_scan_set_max_positions(scan, knobs->row_iteration_limit);
		result = peek_scan_step(scan, collection, knobs->yield_granularity);
		take_step(answer, collection, knobs, state, result);
	} while (result != PEEK_SCAN_FINISHED);

	PEEK_STOP("walk-end");
	peek_scan_end(scan);
	arrangement_close(source->arrangement);
	return collection;
}

/* The same with a query. */
static PeekCollection *
run_query(PeekAnswer *answer, WorkerSource *source, PeekKnobs *knobs,
		  PeekScanState *state)
{
	PeekQueryRun *query = query_begin(source->query, source->snapshot);
	CollectionOptions options;
	PeekCollection *collection;
	PeekScanResult result;

	answer_collection_options(answer, knobs, &options);
	options.slot_is_row = true;
	collection = collection_create(&options, state);
	do
	{
		check_wanted(NULL);
		(void) follow_settings(knobs, collection);
		result = query_step(query, collection, knobs->yield_granularity);
		take_step(answer, collection, knobs, state, result);
	} while (result != PEEK_SCAN_FINISHED);

	PEEK_STOP("walk-end");
	query_end(query);
	return collection;
}

/*
 * Commit as nobody, as the transaction began.  No code of the caller's runs
 * there as that superuser: under SECURITY_RESTRICTED_OPERATION neither a
 * trigger can be deferred nor a cursor held.
 */
static void
commit(void)
{
	PopActiveSnapshot();
	SetUserIdAndSecContext(nobody, 0);
	CommitTransactionCommand();
}

/* The part of a worker that is not the finisher, after its walk. */
static void
finish_share(PeekAnswer *answer, PeekCollection *collection,
			 const PeekScanState *state, const PeekKnobs *knobs)
{
	answer_complete_share(answer, collection, knobs);
	handover_publish(handover, me.number, answer, state);
	handover_set_state(handover, me.number, WORKER_WALKED);

	ConditionVariablePrepareToSleep(&handover->changed);
	while (handover_phase(handover) != HANDOVER_COMMIT)
	{
		check_wanted(NULL);
		handover_sleep(handover, WAIT_MS);
	}
	ConditionVariableCancelSleep();

	PEEK_STOP("share-commit");
	registry_committing(me.slot);
	commit();
	has_ended = true;
	handover_set_state(handover, me.number, WORKER_COMMITTED);
}

/* The finisher's part after its walk: the outcome. */
static void
finish_answer(PeekAnswer *answer, PeekCollection *collection,
			  const PeekScanState *state, const PeekKnobs *knobs)
{
	answer_complete(answer, collection, state, knobs);
	handover_publish(handover, me.number, answer, state);
	wait_for_others(WORKER_WALKED);
	if (handover->num_workers > 1)
	{
		registry_progress(me.slot, PEEK_FINISHING, 0, 0, 0, 0);
		PEEK_STOP("finisher-commit");
		handover_allow_commit(handover);
		wait_for_others(WORKER_COMMITTED);
	}

	handover_add_up(handover, answer);
	answer_store_outcome(answer, knobs);
	PEEK_STOP("worker-commit");
	check_wanted(NULL);
	registry_committing(me.slot);
	commit();

	has_ended = true;
	registry_has_outcome(me.slot);
	registry_set_state(me.slot, PEEK_DONE);
}

/* What the submitter wants to have read. */
static void
read_source(WorkerSource *source)
{
	char	   *place = shm_toc_lookup(toc, HANDOVER_KEY_REQUEST, false);
	char	   *data = place + MAXALIGN(sizeof(Size));
	Size		size = *(Size *) place;

	if (handover->is_query)
	{
		source->query = transfer_read_query(data, size);
		source->description = source->query->description;
	}
	else
	{
		source->request = transfer_read_request(data, size);
		source->description = source->request->description;
	}
}

/* Everything up to READY.  False: the submitter has to walk itself. */
static bool
prepare(WorkerSource *source)
{
	xact_begin_background();
	take_timestamps();
	source->snapshot = take_snapshot();
	nobody = GetUserId();
	SetSessionAuthorization(handover->session_user,
							handover->session_is_superuser);
	SetUserIdAndSecContext(handover->caller, handover->sec_context |
						   SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_RESTRICTED_OPERATION);
	read_source(source);
	if (!take_locks(source))
	{
		(void) handover_refuse(handover, me.number, GATE_LOCK);
		return false;
	}
	PEEK_STOP("worker-ready");

	/* a query's rights are checked when its plan starts */
	if (source->query == NULL)
	{
		source->arrangement = arrangement_open(handover->index);
		arrangement_check_select(source->arrangement,
								 source->request->used_columns);
	}
	return handover_say_ready(handover, me.number);
}

/* Run the walk, up to the commit. */
static void
run(PeekAnswer *answer, PeekScanState *state, WorkerSource *source,
	PeekKnobs *knobs)
{
	PeekCollection *collection;
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	PEEK_STOP("permit-wait");
	permit_acquire(my_place(), check_wanted, NULL);
	registry_set_state(me.slot, PEEK_RUNNING);
	if (is_finisher())
	{
		PeekCounts	counts = {0};

		/* at once: however the walk ends, it has been admitted */
		counts.queue_seconds = seconds_since(start);
		counts.observed = STAT_OBSERVED(PHASE_QUEUE);
		stat_count(&counts);
	}

	INSTR_TIME_SET_CURRENT(start);
	collection = source->query != NULL ?
		run_query(answer, source, knobs, state) :
		walk(answer, source, knobs, state);
	UnregisterSnapshot(source->snapshot);
	permit_release(my_place());

	if (is_finisher())
	{
		finish_answer(answer, collection, state, knobs);
		is_counted = true;
		answer->counts.write_seconds += handover->write_seconds;
		answer_count(answer, seconds_since(start) + handover->walk_seconds +
					 handover->write_seconds);
	}
	else
		finish_share(answer, collection, state, knobs);
}

/* Write how the peek has failed, and delete what may be there of it. */
static void
store_failure(const PeekKnobs *knobs, int64 positions, bool cancelled)
{
	OutcomeRow	row;
	int64		deleted;
	int64		stored = handover_stored_bytes(handover);

	xact_begin_background();
	PushActiveSnapshot(GetTransactionSnapshot());
	(void) handle_reclaim(&handover->handle, &deleted);
	quota_freed(handover->session_user, 0, deleted, NULL);

	outcome_row_failed(&row, &handover->handle, &handover->stash,
					   peek_state_name(cancelled ? PEEK_CANCELLED :
									   PEEK_FAILED), knobs->ttl);
	row.positions = positions;
	row.stored_bytes = Max(stored - deleted, 0);
	row.num_workers = handover->num_workers;
	row.estimated_positions = handover->estimated_positions;
	row.sqlstate = handover->sqlstate;
	row.error = handover->message;
	row.detail = handover->detail[0] != '\0' ? handover->detail : NULL;
	PEEK_STOP("failure-insert");
	(void) outcome_insert(&row, false);
	answer_notify(knobs, &row.handle, row.state);
	registry_committing(me.slot);
	PopActiveSnapshot();
	CommitTransactionCommand();
	registry_has_outcome(me.slot);
}

/*
 * SIGINT, where a request to stop is not heard any more.  lock_timeout comes
 * by it, too, and must be: catalogs and the stash can be locked by somebody who
 * waits for the submitter.
 */
static void
handle_lock_timeout(SIGNAL_ARGS)
{
	if (get_timeout_indicator(LOCK_TIMEOUT, false))
		StatementCancelHandler(postgres_signal_arg);
}

/*
 * The finisher has failed, or another worker has: when all have left, it is
 * known how.  The transaction has been aborted.
 */
static void
finish_failure(const PeekKnobs *knobs, double seconds)
{
	int64		positions;
	bool		cancelled;
	bool		lost;

	/* whoever asks to stop now has been heard; SIGTERM still ends us */
	pqsignal(SIGINT, handle_lock_timeout);
	(void) get_timeout_indicator(LOCK_TIMEOUT, true);
	QueryCancelPending = false;

	ConditionVariablePrepareToSleep(&handover->changed);
	while (!handover_others_are(handover, me.number, WORKER_COMMITTED, &lost))
		handover_sleep(handover, WAIT_MS);
	ConditionVariableCancelSleep();
	cancelled = handover_was_cancelled(handover);
	positions = handover_positions(handover);

	/* if it cannot be written now, reclaim does that, and counts nothing */
	is_counted = true;
	answer_count_failure(cancelled, true, positions, seconds);
	if (!registry_is_doomed(me.slot))
	{
		store_failure(knobs, positions, cancelled);
		registry_set_state(me.slot, cancelled ? PEEK_CANCELLED : PEEK_FAILED);
	}
	has_ended = true;
}

/* Make the error at hand that of the peek, and end. */
static void
fail(MemoryContext context, const PeekScanState *state,
	 const PeekKnobs *knobs, bool walking, double seconds)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();

	/* a user's error is the user's to see, and no news for the log */
	if (!walking && error->sqlerrcode != ERRCODE_QUERY_CANCELED)
		EmitErrorReport();
	FlushErrorState();
	HOLD_INTERRUPTS();
	AbortOutOfAnyTransaction();
	permit_release(my_place());
	RESUME_INTERRUPTS();

	if (!walking &&
		handover_refuse(handover, me.number,
						error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE ?
						GATE_LOCK : GATE_WORKER))
		return;
	handover_pronounce(handover, me.number, error, state->positions);
	if (is_finisher())
		finish_failure(knobs, seconds);
	else
		has_ended = true;
}

/* Attach to what was prepared for us; false if that is gone. */
static bool
attach(Datum arg)
{
	dsm_segment *segment;

	if (!registry_attach(me.slot, me.generation, me.number))
		return false;
	before_shmem_exit(worker_before_exit, (Datum) 0);

	segment = dsm_attach(DatumGetUInt32(arg));
	if (segment == NULL)
		return false;
	toc = shm_toc_attach(HANDOVER_MAGIC, dsm_segment_address(segment));
	if (toc == NULL)
		elog(ERROR, "invalid magic number in dynamic shared memory segment");
	handover = shm_toc_lookup(toc, HANDOVER_KEY, false);
	return true;
}

/*
 * A worker.
 */
void
peekstash_worker_main(Datum arg)
{
	MemoryContext context;
	PeekScanState *state;
	PeekKnobs	knobs;
	HandleRow	keep = {0};
	volatile bool walking = false;
	instr_time	start;

	memcpy(&me, MyBgworkerEntry->bgw_extra, sizeof(me));

	/*
	 * A process that has freed something large keeps memory that is freed
	 * later, where a fresh one gives it back to the system each time (glibc).
	 * A filter that allocates and frees for each row is a third slower then.
	 */
	pfree(MemoryContextAlloc(TopMemoryContext, 16 * 1024 * 1024));
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();

	if (!attach(arg))
		proc_exit(0);

	BackgroundWorkerInitializeConnectionByOid(handover->database, InvalidOid,
											  0);
	context = AllocSetContextCreate(TopMemoryContext, "peekstash worker",
									ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(context);
	state = palloc0(sizeof(PeekScanState));
	knobs = handover->knobs;
	INSTR_TIME_SET_CURRENT(start);

	PG_TRY();
	{
		WorkerSource source = {0};
		PeekAnswer *answer;

		take_settings();
		MemoryContextSwitchTo(context);
		if (prepare(&source) && wait_for_go())
		{
			walking = true;

			/* what is counted at the end outlives the transaction */
			MemoryContextSwitchTo(context);
			keep.handle = handover->handle;
			answer = answer_create(&knobs, source.description, &keep);
			answer->stash = handover->stash;
			answer->charged_to = handover->session_user;
			answer->worker = me.number + 1;
			answer->num_workers = handover->num_workers;
			answer->slot = me.slot;
			answer->kept = true;
			answer->estimated_positions = handover->estimated_positions;

			/* what was counted before goes on with the finisher */
			*state = handover->state;
			if (is_finisher())
			{
				answer->reported = *state;
				if (handover->stashed)
					answer->outcome.kind = PEEK_OUTCOME_STASHED;
			}
			else
				state->positions = state->fuel_spent = state->num_rows =
					state->answer_bytes = state->max_held_bytes = 0;
			run(answer, state, &source, &knobs);
		}
	}
	PG_CATCH();
	{
		fail(context, state, &knobs, walking, seconds_since(start));
	}
	PG_END_TRY();
	proc_exit(0);
}
