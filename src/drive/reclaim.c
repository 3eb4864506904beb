/*-------------------------------------------------------------------------
 *
 * reclaim.c
 *	  Deleting what nobody will read any more.
 *
 * Answers expire.  They are swept on use, a few at a time, by whoever submits
 * the next one; by peek_sweep(); and, when the library is preloaded, by a
 * launcher:
 *
 *		launcher	connected to no database; looks for databases and starts
 *					a sweeper in each, one after the other
 *		sweeper		connected to one database for a moment: deletes what
 *					has expired or is orphaned, truncates the tables if
 *					nothing is left, and ends
 *
 * Neither blocks anything: the launcher is in no database, a sweeper lives for
 * moments, takes no lock that it would have to wait for where users wait, and
 * where the extension is gone it finds nothing to do.
 *
 * Workers of an offloaded walk commit on their own.  When the submitter aborts,
 * or the answer is released before it is complete, what they have committed is
 * nobody's; and when one dies, nobody has written how the peek ended.  Their
 * slots say so (registry.c), and wake the launcher, whose sweeper deletes and
 * writes what is due.  If that fails, it is logged and counted, and tried again
 * soon; so are workers that the server has no room for.
 *
 * After its first round the launcher visits only databases that have stored
 * something since the server started, or had something to sweep then.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/reclaim.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "drive/quota.h"
#include "drive/reclaim.h"
#include "drive/registry.h"
#include "drive/xact.h"
#include "executor/spi.h"
#include "knobs.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "stash/handle.h"
#include "stash/stash.h"
#include "stat.h"
#include "stop.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

#include "compat.h"

/* How many expired answers a submit deletes on its way. */
#define SWEEP_ON_USE	8

/* How many the sweeper deletes in one transaction. */
#define SWEEP_AT_ONCE	100

/* How soon the launcher tries again what could not be reclaimed. */
#define RECLAIM_RETRY_MS	500

/* Smaller tables are not worth a truncation. */
#define TRUNCATE_BYTES	(1024 * 1024)

pg_noreturn PGDLLEXPORT void peekstash_launcher_main(Datum arg);
pg_noreturn PGDLLEXPORT void peekstash_sweeper_main(Datum arg);

/*
 * One sweep at a time in a database; others need not wait for it.  The lock is
 * on an object that nothing else locks.  It is let go with the sweep and not
 * with the transaction: who has swept and then does nothing must not keep the
 * others from it.
 */
static void
sweep_lock_tag(LOCKTAG *tag)
{
	SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, RelationRelationId,
					   stash_table("outcome"), 1);
}

static bool
sweep_try_lock(void)
{
	LOCKTAG		tag;

	sweep_lock_tag(&tag);
	return LockAcquire(&tag, ExclusiveLock, false, true) !=
		LOCKACQUIRE_NOT_AVAIL;
}

static void
sweep_unlock(void)
{
	LOCKTAG		tag;

	sweep_lock_tag(&tag);
	LockRelease(&tag, ExclusiveLock, false);
}

static int64
sweep_expired(int limit, Oid owner)
{
	int64		swept;
	PeekCounts	counts = {0};

	quota_look(InvalidOid);
	swept = handle_sweep_expired(limit, owner, quota_freed);
	counts.swept_answers = swept;
	if (swept > 0)
		stat_count(&counts);
	return swept;
}

/*
 * Delete orphans once after each start of the server, before the first answer
 * is stored in a database.  Not in a transaction that has written: batches of
 * its own direct peeks would look like orphans to it.
 */
static int64
sweep_orphans(void)
{
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return 0;

	/*
	 * What workers have written in vain looks like orphans, too, if their
	 * submitter swept, and took that back with its abort.  Reclaim deletes it,
	 * and knows whose quota to give back.
	 */
	if (registry_has_offloaded() || !quota_orphans_are_due())
		return 0;
	return handle_sweep_orphans(quota_freed);
}

/*
 * A new answer is submitted: delete a few old ones first.  In REPEATABLE READ
 * a delete could fail because of another sweep, and in a subtransaction a
 * rollback would undo it, so there it is left to others.
 */
void
reclaim_on_use(void)
{
	xact_register();
	if (XactReadOnly || IsolationUsesXactSnapshot() ||
		GetCurrentTransactionNestLevel() > 1 || !sweep_try_lock())
		return;
	(void) sweep_orphans();
	(void) sweep_expired(SWEEP_ON_USE, InvalidOid);
	sweep_unlock();
}

/*
 * Delete everything that has expired and belongs to an owner; with InvalidOid
 * of all owners, and orphans, too.  Returns the number of answers.
 */
int64
reclaim_all(Oid owner)
{
	int64		total = 0;
	int64		swept;

	xact_register();
	PEEK_STOP("sweep");
	if (!OidIsValid(owner))
		total = sweep_orphans();
	do
	{
		CHECK_FOR_INTERRUPTS();
		swept = sweep_expired(SWEEP_AT_ONCE, owner);
		total += swept;
	} while (swept > 0);
	return total;
}

/* Has the table no row that can be seen? */
static bool
table_is_empty(Oid table_oid)
{
	Relation	table = table_open(table_oid, AccessShareLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan(table, snapshot, 0, NULL);
	TupleTableSlot *slot = table_slot_create(table, NULL);
	bool		empty = !table_scan_getnextslot(scan, ForwardScanDirection,
												slot);

	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(table, AccessShareLock);
	return empty;
}

/*
 * If nothing is stored, give the disk back at once.  The locks are tried for:
 * where anybody uses a table, its space is left to vacuum.  With all three
 * locks, nobody has uncommitted rows in them.
 */
static void
truncate_if_empty(void)
{
	static const char *const tables[] = {"handle", "outcome", "batch"};
	static StashStatement truncate = {
		"TRUNCATE peekstash.handle, peekstash.outcome, peekstash.batch",
		0, {0}, NULL, false
	};

	if (quota_disk_bytes() < TRUNCATE_BYTES)
		return;

	/* look before anybody has to wait, and again with the locks */
	for (int i = 0; i < (int) lengthof(tables); i++)
	{
		if (!table_is_empty(stash_table(tables[i])))
			return;
	}
	for (int i = 0; i < (int) lengthof(tables); i++)
	{
		Oid			table = stash_table(tables[i]);

		if (!OidIsValid(table) ||
			!ConditionalLockRelationOid(table, AccessExclusiveLock))
			return;
	}
	for (int i = 0; i < (int) lengthof(tables); i++)
	{
		if (!table_is_empty(stash_table(tables[i])))
			return;
	}
	(void) stash_execute(&truncate, NULL, NULL, SPI_OK_UTILITY, NULL, NULL);
}

/* Run one step of the sweeper in a transaction of its own. */
static int64
sweeper_step(int64 (*step) (void))
{
	int64		result = 0;

	xact_begin_background();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (OidIsValid(stash_table("handle")))
		result = step();
	PopActiveSnapshot();
	CommitTransactionCommand();
	pgstat_report_stat(true);
	return result;
}

static int64
sweeper_step_expired(void)
{
	int64		swept = 0;

	if (sweep_try_lock())
	{
		swept = sweep_expired(SWEEP_AT_ONCE, InvalidOid);
		sweep_unlock();
	}
	return swept;
}

static int64
sweeper_step_orphans(void)
{
	int64		swept = 0;

	if (sweep_try_lock())
	{
		swept = sweep_orphans();
		sweep_unlock();
	}
	return swept;
}

static int64
sweeper_step_truncate(void)
{
	truncate_if_empty();
	return 0;
}

/* Does the database store anything, so that it wants another visit? */
static int64
sweeper_step_register(void)
{
	quota_remember_database();
	return 0;
}

/* The worker of a peek has died: say so in its outcome. */
static void
write_failure(const PeekInFlight *peek)
{
	PeekKnobs	knobs;
	OutcomeRow	row;
	pg_uuid_t	stash;

	knobs_resolve(&knobs, NULL, NULL);
	stash_new_handle(&stash);
	outcome_row_failed(&row, &peek->handle, &stash,
					   peek_state_name(peek->state == PEEK_CANCELLED ?
									   PEEK_CANCELLED : PEEK_FAILED),
					   knobs.ttl);
	row.positions = peek->positions;
	row.num_workers = peek->num_workers;
	row.estimated_positions = peek->estimated_positions;
	row.sqlstate = peek->sqlstate[0] != '\0' ? peek->sqlstate : "57P01";
	row.error = peek->error[0] != '\0' ? peek->error :
		"the worker of the peek was ended";

	/*
	 * Nothing is written if its handle has been released meanwhile.  If it is
	 * right now, that waits for us and does not see this row: it is left to
	 * reclaim, as what workers write.
	 */
	if (outcome_insert(&row, true))
		registry_committing(peek->slot);
}

/* The rows of a peek that workers have left, under the lock of sweeps. */
static void
reclaim_rows_of(const PeekInFlight *peek, PeekCounts *counts)
{
	int64		bytes;

	/* another sweeper has been here, and the handle may be in use again */
	if (!registry_is_reclaimable(peek))
		return;
	quota_look(InvalidOid);
	counts->reclaimed_batches = handle_reclaim(&peek->handle, &bytes);
	quota_freed(peek->charged_to, 0, bytes, NULL);
	if (!peek->doomed)
		write_failure(peek);
}

/* Delete what workers have left of a peek. */
static void
reclaim_peek(const PeekInFlight *peek)
{
	PeekCounts	counts = {0};
	bool		done = true;

	xact_begin_background();
	PushActiveSnapshot(GetTransactionSnapshot());
	PEEK_STOP("reclaim");
	if (OidIsValid(stash_table("handle")))
	{
		/* to the end of the transaction, which other sweepers must see */
		done = sweep_try_lock();
		if (done)
			reclaim_rows_of(peek, &counts);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	if (done)
		registry_reclaimed(peek);
	stat_count(&counts);
	pgstat_report_stat(true);
}

/* What cannot be reclaimed now is tried again by the next sweeper. */
static void
sweeper_reclaim(void)
{
	MemoryContext context = CurrentMemoryContext;
	PeekInFlight *peeks;
	int			count;

	peeks = registry_reclaimable(&count);
	for (int i = 0; i < count; i++)
	{
		PG_TRY();
		{
			reclaim_peek(&peeks[i]);
		}
		PG_CATCH();
		{
			PeekCounts	counts = {0};

			EmitErrorReport();
			FlushErrorState();
			AbortCurrentTransaction();
			counts.reclaim_failures = 1;
			stat_count(&counts);
		}
		PG_END_TRY();
		MemoryContextSwitchTo(context);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * The sweeper of one database.
 */
void
peekstash_sweeper_main(Datum arg)
{
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	/* as the bootstrap superuser: statements switch to the owner themselves */
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg),
											  InvalidOid, 0);
	pgstat_report_appname("peekstash sweeper");

	/* DDL on the stash must not hold up the launcher, which waits for us */
	SetConfigOption("lock_timeout", "1s", PGC_USERSET, PGC_S_SESSION);

	sweeper_reclaim();
	(void) sweeper_step(sweeper_step_register);
	(void) sweeper_step(sweeper_step_orphans);
	while (sweeper_step(sweeper_step_expired) > 0)
		CHECK_FOR_INTERRUPTS();
	(void) sweeper_step(sweeper_step_truncate);
	proc_exit(0);
}

/*
 * The databases to visit in this round, in the current context: all, or those
 * that have stored something, or had something to sweep, since the start.
 */
static List *
launcher_databases(bool all)
{
	MemoryContext context = CurrentMemoryContext;
	List	   *databases = NIL;
	List	   *known = list_concat_unique_oid(quota_databases(),
											registry_databases());
	Relation	pg_database;
	TableScanDesc scan;
	HeapTuple	tuple;
	ListCell   *lc;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	pg_database = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(pg_database, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database database = (Form_pg_database) GETSTRUCT(tuple);
		MemoryContext old = MemoryContextSwitchTo(context);

		if (database->datallowconn &&
			(all || list_member_oid(known, database->oid)))
			databases = lappend_oid(databases, database->oid);

		/* known before the look, so if it is there, it was seen */
		known = list_delete_oid(known, database->oid);
		MemoryContextSwitchTo(old);
	}
	table_endscan(scan);
	table_close(pg_database, AccessShareLock);
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);

	foreach(lc, known)
	{
		quota_forget_database(lfirst_oid(lc));
		registry_forget_database(lfirst_oid(lc));
	}
	return databases;
}

/* Start a sweeper in a database, and wait for its end. */
static void
launcher_visit(Oid database)
{
	BackgroundWorker worker = {0};
	BackgroundWorkerHandle *handle;
	pid_t		pid;

	snprintf(worker.bgw_name, BGW_MAXLEN, "peekstash sweeper");
	snprintf(worker.bgw_type, BGW_MAXLEN, "peekstash sweeper");
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	snprintf(worker.bgw_library_name, sizeof(worker.bgw_library_name),
			 "peekstash");
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "peekstash_sweeper_main");
	worker.bgw_main_arg = ObjectIdGetDatum(database);
	worker.bgw_notify_pid = MyProcPid;

	/* no slot free: the next round tries again */
	if (!RegisterDynamicBackgroundWorker(&worker, &handle))
		return;

	while (GetBackgroundWorkerPid(handle, &pid) != BGWH_STOPPED)
	{
		if (ShutdownRequestPending)
			TerminateBackgroundWorker(handle);
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 1000L, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	pfree(handle);
}

/* Those databases of a list that are in another. */
static List *
list_intersect_oids(const List *list, const List *other)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, list)
	{
		if (list_member_oid(other, lfirst_oid(lc)))
			result = lappend_oid(result, lfirst_oid(lc));
	}
	return result;
}

static void
launcher_before_exit(int code, Datum arg)
{
	registry_set_launcher(false);
}

/*
 * The launcher.
 */
void
peekstash_launcher_main(Datum arg)
{
	MemoryContext round_context;
	bool		first_round = true;
	TimestampTz last_round = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();

	/* shared catalogs only: no database is kept from being dropped */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	pgstat_report_appname("peekstash launcher");
	round_context = AllocSetContextCreate(TopMemoryContext,
										  "peekstash launcher",
										  ALLOCSET_DEFAULT_SIZES);

	before_shmem_exit(launcher_before_exit, (Datum) 0);
	registry_set_launcher(true);

	while (!ShutdownRequestPending)
	{
		List	   *databases;
		List	   *urgent;
		ListCell   *lc;

		/* what comes from here on sets the latch again */
		ResetLatch(MyLatch);
		MemoryContextSwitchTo(round_context);

		/* between two rounds only what workers have left is looked after */
		urgent = registry_databases();
		databases = launcher_databases(first_round);
		if (first_round ||
			TimestampDifferenceExceeds(last_round, GetCurrentTimestamp(),
									   knobs_sweep_interval() * 1000))
			last_round = GetCurrentTimestamp();
		else
			databases = list_intersect_oids(databases, urgent);
		foreach(lc, databases)
		{
			if (ShutdownRequestPending)
				break;
			launcher_visit(lfirst_oid(lc));
		}
		MemoryContextReset(round_context);
		first_round = false;

		if (!ShutdownRequestPending)
			(void) WaitLatch(MyLatch,
							 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							 registry_wants_reclaim() ? RECLAIM_RETRY_MS :
							 knobs_sweep_interval() * 1000L,
							 PG_WAIT_EXTENSION);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
	}

	/* after an exit with 0 the postmaster would never start it again */
	proc_exit(1);
}

/* Let the postmaster start the launcher. */
void
reclaim_init(void)
{
	BackgroundWorker worker = {0};

	if (!process_shared_preload_libraries_in_progress)
		return;
	snprintf(worker.bgw_name, BGW_MAXLEN, "peekstash launcher");
	snprintf(worker.bgw_type, BGW_MAXLEN, "peekstash launcher");
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 10;
	snprintf(worker.bgw_library_name, sizeof(worker.bgw_library_name),
			 "peekstash");
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "peekstash_launcher_main");
	RegisterBackgroundWorker(&worker);
}
