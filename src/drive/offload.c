/*-------------------------------------------------------------------------
 *
 * offload.c
 *	  Handing a submitted walk over to background workers: the submitter's
 *	  side.  worker.c is the other one.
 *
 * A walk is handed over once, between two leaf pages, with all that it has:
 * its place in the index, its counters, the entries it holds, its request, its
 * settings.  What it has stashed stays where it is, in the submitter's
 * transaction, as share 0 of the answer.
 *
 *		submitter						worker
 *		writes the segment
 *		starts workers --------------->	attaches to slot and segment
 *		waits							installs the snapshot, takes its locks
 *			<------------------------	READY, or REFUSED
 *		GO, or STAY ------------------>	walks, or leaves
 *		may commit
 *
 * The submitter waits because its transaction is what holds the snapshot's
 * xmin and the locks until the worker holds its own.  After GO nothing in the
 * worker depends on it but the question whether it commits (registry.c).
 *
 * What is held, and what happens if the submitter throws or dies:
 *
 *		before a worker is registered	nothing is there
 *		while it waits					the abort dooms the slot; workers see
 *										that when they attach or wait, and
 *										leave; the segment goes with the last
 *		after GO						the abort dooms the slot: workers are
 *										interrupted, and abort; what one has
 *										committed is reclaimed
 *
 * Own rows.  A worker is not in our transaction: to it, what our transaction
 * has written and not committed is the work of others.  If the snapshot does
 * not say that our transaction is in progress, a worker takes it for aborted
 * and writes that down in the rows, of any table it reads, where it destroys
 * them.  The snapshot is ours, and does not list us.  So it is copied for the
 * worker with our transaction ids in it.  And because a worker does not see
 * our rows where we would, a walk is not handed over at all once the
 * transaction has written anything before the submit.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/offload.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/relation.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "drive/answer.h"
#include "drive/handover.h"
#include "drive/offload.h"
#include "drive/quota.h"
#include "drive/registry.h"
#include "drive/transfer.h"
#include "drive/xact.h"
#include "miscadmin.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "stash/stash.h"
#include "stop.h"
#include "storage/lmgr.h"
#include "storage/shm_toc.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"
#include "walk/scan.h"

#include "compat.h"

/* How often the submitter looks whether a worker has not even started. */
#define START_WAIT_MS	100

/*
 * How long it waits for them at most.  A worker that starts reads catalogs
 * before it can say anything; if somebody waits for a lock on one of these
 * which we hold, that is a deadlock that nobody sees.
 */
#define START_LIMIT_MS	20000

/* As a node tree, more would come near the limit of one string. */
#define MAX_MOVED_KEYS	1000000

/*
 * The gates by name, as inline_reason shows them, and what is said if
 * something other than walking inline was asked for.
 */
static const struct
{
	const char *name;
	const char *detail;
}			gates[] =
{
	[GATE_OPEN] = {NULL, NULL},
	[GATE_NOT_PRELOADED] = {"not_preloaded",
	"The library \"peekstash\" is not in \"shared_preload_libraries\"."},
	[GATE_SLOT] = {"slot",
	"No slot for a submitted peek is free; see \"peekstash.slots\"."},
	[GATE_TRANSACTION_ID] = {"transaction_id",
	"The transaction has written something, which a worker would not see."},
	[GATE_TABLE_LOCK] = {"table_lock",
	"The transaction holds a lock for writing on the table."},
	[GATE_SERIALIZABLE] = {"serializable",
	"A worker cannot take part in a serializable transaction."},
	[GATE_NEW_RELATION] = {"new_relation",
	"The table, its index or the stash was created or rewritten in this transaction."},
	[GATE_TEMPORARY] = {"temporary",
	"A worker cannot read temporary tables."},
	[GATE_FOREIGN] = {"foreign",
	"A worker has no part in this session's transactions on foreign servers."},
	[GATE_PARALLEL_UNSAFE] = {"parallel_unsafe",
	"A function that would be called is not marked PARALLEL SAFE."},
	[GATE_SUBTRANSACTIONS] = {"subtransactions",
	"The transaction has too many subtransactions."},
	[GATE_ORPHANS] = {"orphans",
	"What a restart has left in the stash has not been swept yet."},
	[GATE_HANDLE] = {"handle",
	"The handle replaces an answer that this transaction deletes."},
	[GATE_KEYS] = {"keys",
	"The list of keys is too long to be handed over."},
	[GATE_SORT] = {"sort",
	"The sort for \"order_by\" has gone to disk."},
	[GATE_QUERY] = {"query",
	"A query cannot move once it runs."},
	[GATE_WORKER_SLOT] = {"worker_slot",
	"No background worker is free; see \"max_worker_processes\"."},
	[GATE_LOCK] = {"lock",
	"A lock that another session holds or waits for keeps the worker out."},
	[GATE_WORKER] = {"worker",
	"The worker could not take over; the server log says why."},
};

const char *
offload_gate_name(OffloadGate gate)
{
	return gates[gate].name;
}

/* It was to run elsewhere, and cannot. */
void
error_no_background(OffloadGate gate)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot walk in the background"),
			 errdetail("%s", gates[gate].detail),
			 errhint("Without the option \"background\" the peek is walked in the session that submits it.")));
}

/* Was it made, or given another file, in this transaction? */
static bool
relation_is_new(Relation relation)
{
	return relation->rd_createSubid != InvalidSubTransactionId ||
		relation->rd_newRelfilelocatorSubid != InvalidSubTransactionId ||
		relation->rd_firstRelfilelocatorSubid != InvalidSubTransactionId;
}

static bool
stash_is_new(void)
{
	static const char *const tables[] = {"handle", "outcome", "batch"};
	bool		result = false;

	for (int i = 0; i < (int) lengthof(tables); i++)
	{
		Relation	table = relation_open(stash_table(tables[i]),
										  AccessShareLock);

		result |= relation_is_new(table);
		relation_close(table, AccessShareLock);
	}
	return result;
}

static bool
function_is_unsafe(Oid function, void *context)
{
	return func_parallel(function) != PROPARALLEL_SAFE;
}

static bool
is_unsafe_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (check_functions_in_node(node, function_is_unsafe, context))
		return true;

	/* sequences of a session, and domains, whose checks are not to be seen */
	if (IsA(node, NextValueExpr) || IsA(node, CoerceToDomain))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, is_unsafe_walker, context, 0);
	return expression_tree_walker(node, is_unsafe_walker, context);
}

/*
 * Is every function in a query or an expression marked PARALLEL SAFE?  The
 * planner asks more, because its workers do parts of a query: here one process
 * does all of it.
 */
bool
offload_is_parallel_safe(Node *node)
{
	return !is_unsafe_walker(node, NULL);
}

/* Is everything that the walk calls marked PARALLEL SAFE? */
static bool
is_parallel_safe_walk(const Arrangement *arrangement,
					  const PeekRequest *request)
{
	Relation	index = arrangement->index;

	for (int i = 0; i < request->num_sort_keys; i++)
	{
		if (!offload_is_parallel_safe(request->sort_keys[i].expr))
			return false;
	}
	if (!offload_is_parallel_safe((Node *) request->quals) ||
		!offload_is_parallel_safe((Node *) RelationGetIndexExpressions(index)) ||
		!offload_is_parallel_safe((Node *) RelationGetIndexPredicate(index)))
		return false;

	/* what keys and bounds are compared with */
	for (int i = 0; i < arrangement->num_columns; i++)
	{
		if (func_parallel(index_getprocid(index, i + 1, BTORDER_PROC)) !=
			PROPARALLEL_SAFE)
			return false;
	}
	return true;
}

/* The gates that the transaction and the server decide. */
static OffloadGate
common_gate(int slot, const PeekSubmit *submit)
{
	if (!registry_is_shared())
		return GATE_NOT_PRELOADED;
	if (slot < 0)
		return GATE_SLOT;
	if (IsolationIsSerializable())
		return GATE_SERIALIZABLE;
	if (submit->wrote_before && !PEEK_SKIPPED("own-rows-gate"))
		return GATE_TRANSACTION_ID;
	if (stash_is_new())
		return GATE_NEW_RELATION;
	if (submit->replaced)
		return GATE_HANDLE;
	if (!quota_orphans_are_gone())
		return GATE_ORPHANS;
	return GATE_OPEN;
}

/* Those that a relation decides. */
static OffloadGate
relation_gate(Relation relation)
{
	if (relation->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		return GATE_TEMPORARY;
	if (relation->rd_rel->relkind == RELKIND_FOREIGN_TABLE)
		return GATE_FOREIGN;
	if (CheckRelationLockedByMe(relation, RowExclusiveLock, true) &&
		!PEEK_SKIPPED("own-rows-gate"))
		return GATE_TABLE_LOCK;
	if (relation_is_new(relation))
		return GATE_NEW_RELATION;
	return GATE_OPEN;
}

/* May this walk be handed over? */
static OffloadGate
walk_gate(const OffloadSource *source, int slot, const PeekSubmit *submit)
{
	const Arrangement *arrangement = source->arrangement;
	const PeekRequest *request = source->request;
	OffloadGate gate = common_gate(slot, submit);

	if (gate == GATE_OPEN)
		gate = relation_gate(arrangement->heap);
	if (gate == GATE_OPEN && relation_is_new(arrangement->index))
		gate = GATE_NEW_RELATION;
	if (gate == GATE_OPEN && request->keys.count > MAX_MOVED_KEYS)
		gate = GATE_KEYS;
	if (gate == GATE_OPEN && !is_parallel_safe_walk(arrangement, request))
		gate = GATE_PARALLEL_UNSAFE;
	if (gate == GATE_OPEN && !collection_can_move(source->collection))
		gate = GATE_SORT;
	return gate;
}

/*
 * May this query run in a worker?  The caller's rights on its tables are
 * checked at once, as they would be if it ran here.
 */
static OffloadGate
query_gate(const PeekQuery *query, int slot, const PeekSubmit *submit)
{
	OffloadGate gate = common_gate(slot, submit);
	ListCell   *lc;

	foreach(lc, query->plan->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);
		Relation	relation;

		if (gate != GATE_OPEN)
			return gate;
		if (rte->rtekind != RTE_RELATION)
			continue;
		relation = relation_open(rte->relid, NoLock);
		gate = relation_gate(relation);
		relation_close(relation, NoLock);
	}
	if (gate == GATE_OPEN && !query->is_parallel_safe)
		gate = GATE_PARALLEL_UNSAFE;
	if (gate == GATE_OPEN)
		check_plan_permissions(query->plan);
	return gate;
}

/*
 * A copy of a snapshot in which our own transaction is one of those in
 * progress: its id, and those of its subtransactions, the committed ones, too.
 * NULL if these are too many to be known.
 */
static Snapshot
snapshot_for_worker(Snapshot snapshot)
{
	SnapshotData *copy = palloc(sizeof(SnapshotData));
	TransactionId xid = GetTopTransactionIdIfAny();
	int			nsubxids = MyProc->subxidStatus.count;

	*copy = *snapshot;
	if (!TransactionIdIsValid(xid) || PEEK_SKIPPED("own-rows-snapshot"))
		return copy;
	if (MyProc->subxidStatus.overflowed)
		return NULL;

	copy->xip = palloc((snapshot->xcnt + 1) * sizeof(TransactionId));
	memcpy(copy->xip, snapshot->xip, snapshot->xcnt * sizeof(TransactionId));
	copy->xip[copy->xcnt++] = xid;

	/* where they have overflowed, the top id is looked up for each */
	if (!copy->suboverflowed)
	{
		copy->subxip = palloc((snapshot->subxcnt + nsubxids) *
							  sizeof(TransactionId) + 1);
		memcpy(copy->subxip, snapshot->subxip,
			   snapshot->subxcnt * sizeof(TransactionId));
		memcpy(copy->subxip + copy->subxcnt, MyProc->subxids.xids,
			   nsubxids * sizeof(TransactionId));
		copy->subxcnt += nsubxids;
	}

	/* it is older than anything that anybody still running may not see */
	if (TransactionIdPrecedes(xid, copy->xmin))
		copy->xmin = xid;
	return copy;
}

/* Bytes with their size before them. */
static void *
toc_put(shm_toc *toc, uint64 key, const void *data, Size size)
{
	char	   *place = shm_toc_allocate(toc, MAXALIGN(sizeof(Size)) + size);

	*(Size *) place = size;
	if (size > 0)
		memcpy(place + MAXALIGN(sizeof(Size)), data, size);
	shm_toc_insert(toc, key, place);
	return place;
}

static void
estimate_chunk(shm_toc_estimator *estimator, Size size)
{
	shm_toc_estimate_chunk(estimator, MAXALIGN(sizeof(Size)) + size);
	shm_toc_estimate_keys(estimator, 1);
}

static Handover *
handover_create(dsm_segment **segment, PeekAnswer *answer,
				const OffloadSource *source, const PeekKnobs *knobs,
				Snapshot snapshot)
{
	StringInfoData request;
	shm_toc_estimator estimator;
	shm_toc    *toc;
	Handover   *handover;
	Size		settings_size = EstimateGUCStateSpace();
	Size		snapshot_size = EstimateSnapshotSpace(snapshot);
	Size		place_size = 0;
	EntryBatch	held = {0};
	char	   *place;

	initStringInfo(&request);
	if (source->query != NULL)
		transfer_write_query(&request, source->query);
	else
	{
		transfer_write_request(&request, source->request);
		place_size = peek_scan_export_size(source->scan, snapshot);
		collection_export(source->collection, &held);
	}

	shm_toc_initialize_estimator(&estimator);
	estimate_chunk(&estimator, sizeof(Handover));
	estimate_chunk(&estimator, settings_size);
	estimate_chunk(&estimator, snapshot_size);
	estimate_chunk(&estimator, place_size);
	estimate_chunk(&estimator, request.len);
	estimate_chunk(&estimator, held.size);
	*segment = dsm_create(shm_toc_estimate(&estimator), 0);
	toc = shm_toc_create(HANDOVER_MAGIC, dsm_segment_address(*segment),
						 shm_toc_estimate(&estimator));

	toc_put(toc, HANDOVER_KEY_REQUEST, request.data, request.len);
	pfree(request.data);
	toc_put(toc, HANDOVER_KEY_HELD, held.data, held.size);
	place = shm_toc_allocate(toc, settings_size);
	SerializeGUCState(settings_size, place);
	shm_toc_insert(toc, HANDOVER_KEY_SETTINGS, place);
	place = shm_toc_allocate(toc, snapshot_size);
	SerializeSnapshot(snapshot, place);
	shm_toc_insert(toc, HANDOVER_KEY_SNAPSHOT, place);
	if (source->query == NULL)
	{
		collection_export_end(source->collection);
		place = shm_toc_allocate(toc, place_size);
		peek_scan_export(source->scan, snapshot, place);
		shm_toc_insert(toc, HANDOVER_KEY_PLACE, place);
	}

	handover = shm_toc_allocate(toc, sizeof(Handover));
	memset(handover, 0, sizeof(Handover));
	handover->handle = answer->handle;
	handover->stash = answer->stash;
	handover->slot = answer->slot;
	handover->generation = registry_generation(answer->slot);
	handover->database = MyDatabaseId;
	GetUserIdAndSecContext(&handover->caller, &handover->sec_context);
	handover->session_user = GetSessionUserId();
	handover->session_is_superuser = superuser_arg(GetSessionUserId());
	handover->is_query = source->query != NULL;
	if (!handover->is_query)
	{
		handover->table = RelationGetRelid(source->arrangement->heap);
		handover->index = RelationGetRelid(source->arrangement->index);
	}
	handover->submitter = MyProc;
	handover->transaction_start = GetCurrentTransactionStartTimestamp();
	handover->statement_start = GetCurrentStatementStartTimestamp();
	handover->knobs = *knobs;
	handover->state = *source->state;
	handover->in_place = source->state->in_seek;
	handover->estimated_positions = answer->estimated_positions;
	if (answer->upload != NULL)
		handover->submitter_totals = *stash_upload_totals(answer->upload);
	handover->stashed = answer->outcome.kind == PEEK_OUTCOME_STASHED;
	handover->walk_seconds = source->walk_seconds;
	handover->write_seconds = answer->counts.write_seconds;
	pg_atomic_init_u64(&handover->totals.positions, source->state->positions);
	pg_atomic_init_u64(&handover->totals.answer_bytes,
					   source->state->answer_bytes);
	pg_atomic_init_u64(&handover->totals.rows, 0);
	ConditionVariableInit(&handover->changed);
	SpinLockInit(&handover->mutex);
	handover->phase = HANDOVER_PREPARING;
	for (int i = 0; i < MAX_WALK_WORKERS; i++)
		handover->workers[i].left = true;
	shm_toc_insert(toc, HANDOVER_KEY, handover);
	return handover;
}

/* Start a worker; NULL if the server has none to spare. */
static BackgroundWorkerHandle *
start_worker(dsm_segment *segment, const Handover *handover, int number)
{
	BackgroundWorker worker = {0};
	BackgroundWorkerHandle *handle;
	WorkerStart start;

	snprintf(worker.bgw_name, BGW_MAXLEN, "peekstash walk for PID %d",
			 MyProcPid);
	snprintf(worker.bgw_type, BGW_MAXLEN, "peekstash walk");
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	snprintf(worker.bgw_library_name, sizeof(worker.bgw_library_name),
			 "peekstash");
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "peekstash_worker_main");
	worker.bgw_main_arg = UInt32GetDatum(dsm_segment_handle(segment));
	worker.bgw_notify_pid = MyProcPid;
	start.slot = handover->slot;
	start.generation = handover->generation;
	start.number = number;
	StaticAssertStmt(sizeof(start) <= BGW_EXTRALEN,
					 "a worker is started with too much");
	memcpy(worker.bgw_extra, &start, sizeof(start));
	return RegisterDynamicBackgroundWorker(&worker, &handle) ? handle : NULL;
}

/* A worker that has ended without a word has left. */
static void
look_for_stopped(Handover *handover, BackgroundWorkerHandle **handles,
				 int num_started)
{
	for (int i = 0; i < num_started; i++)
	{
		pid_t		pid;

		if (GetBackgroundWorkerPid(handles[i], &pid) == BGWH_STOPPED)
			handover_set_left(handover, i, true);
	}
}

/* Wait until all have answered, or that takes too long. */
static void
wait_for_workers(Handover *handover, BackgroundWorkerHandle **handles,
				 int num_started, OffloadGate *refusal)
{
	TimestampTz start = GetCurrentTimestamp();

	ConditionVariablePrepareToSleep(&handover->changed);
	while (!handover_is_answered(handover, num_started, refusal))
	{
		if (TimestampDifferenceExceeds(start, GetCurrentTimestamp(),
									   START_LIMIT_MS))
		{
			*refusal = GATE_LOCK;
			break;
		}
		handover_sleep(handover, START_WAIT_MS);
		look_for_stopped(handover, handles, num_started);
	}
	ConditionVariableCancelSleep();
}

/*
 * Hand over what source says.  GATE_OPEN: workers go on with it.  Else it
 * stays where it was, and can go on there.
 */
static OffloadGate
hand_over(PeekAnswer *answer, const OffloadSource *source,
		  const PeekKnobs *knobs, int num_wanted)
{
	BackgroundWorkerHandle *handles[MAX_WALK_WORKERS];
	bool		late[MAX_WALK_WORKERS];
	OffloadGate refusal = GATE_WORKER_SLOT;
	Snapshot	copy = snapshot_for_worker(source->snapshot);
	dsm_segment *segment;
	Handover   *handover;
	int			num_started = 0;
	int			num_ready;

	if (copy == NULL)
		return GATE_SUBTRANSACTIONS;

	PEEK_STOP("handover");
	handover = handover_create(&segment, answer, source, knobs, copy);
	registry_offload(answer->slot, num_wanted, answer->estimated_positions);

	while (num_started < num_wanted)
	{
		handover_set_left(handover, num_started, false);
		handles[num_started] = start_worker(segment, handover, num_started);
		if (handles[num_started] == NULL)
		{
			handover_set_left(handover, num_started, true);
			break;
		}
		num_started++;
	}
	if (num_started > 0)
	{
		refusal = GATE_WORKER;	/* unless one says more */
		wait_for_workers(handover, handles, num_started, &refusal);
	}

	PEEK_STOP("handover-decide");
	registry_set_state(answer->slot, PEEK_QUEUED);
	num_ready = handover_decide(handover, num_started, late);
	for (int i = 0; i < num_started; i++)
	{
		if (late[i])
			TerminateBackgroundWorker(handles[i]);
	}
	if (num_ready > 0)
		registry_offload(answer->slot, num_ready,
						 answer->estimated_positions);
	else
		registry_stay(answer->slot);
	dsm_detach(segment);
	return num_ready > 0 ? GATE_OPEN : refusal;
}

/*
 * Hand a walk over.  The scan has suspended for fuel, or has not begun.
 * Returns GATE_OPEN if workers go on with it; then the caller must not step it
 * any more.  Else the walk stays where it was, and can go on.
 */
OffloadGate
offload_walk(PeekAnswer *answer, OffloadSource *source,
			 const PeekKnobs *knobs, const PeekSubmit *submit)
{
	OffloadGate gate = walk_gate(source, answer->slot, submit);
	int			num_wanted = 1;

	if (gate != GATE_OPEN)
		return gate;

	/*
	 * An order, and a list of keys, want one walk.  And all workers but one
	 * stash whatever they have found.
	 */
	if (source->request->num_sort_keys == 0 &&
		peek_scan_is_one_seek(source->scan) && knobs->enable_stash)
		num_wanted = knobs_workers(knobs);

	answer->estimated_positions = peek_scan_estimate(source->scan);
	return hand_over(answer, source, knobs, num_wanted);
}

/* Have a query run in a worker, from its beginning.  As offload_walk(). */
OffloadGate
offload_query(PeekAnswer *answer, OffloadSource *source,
			  const PeekKnobs *knobs, const PeekSubmit *submit)
{
	OffloadGate gate = query_gate(source->query, answer->slot, submit);

	return gate != GATE_OPEN ? gate : hand_over(answer, source, knobs, 1);
}
