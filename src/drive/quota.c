/*-------------------------------------------------------------------------
 *
 * quota.c
 *	  How much is stored, and how much may be.
 *
 * With shared_preload_libraries the bytes and peeks of each database, and of
 * each session user in it, are counted in shared memory.  What a transaction
 * adds counts at once, so that two of them cannot fill the same gap; its abort
 * takes it back.  What a transaction deletes is given back when it commits:
 * until then it may come again.  So the counters are exact when everybody has
 * committed, and never too low before.
 *
 *					counted		uncounted
 *		added		at once		at the abort of its (sub)transaction
 *		freed		-			at the commit of its transaction
 *
 * The counters of a database are loaded from its tables before they are first
 * changed.  A lock makes one backend load and the others wait; nobody has
 * added anything before, because adding needs loaded counters.
 *
 * Without shared memory each new answer sums up the tables.  That sees what is
 * committed and what is one's own, so concurrent sessions can exceed the
 * limits by what they have in flight.
 *
 * The counters are keyed by the oid of the handle table, too: an extension
 * dropped and created again starts anew.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/quota.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "drive/quota.h"
#include "errors.h"
#include "miscadmin.h"
#include "shared.h"
#include "stash/handle.h"
#include "stash/stash.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"

/*
 * Pairs of a database and a role that has something stored in it.  Further
 * roles are not limited by themselves, and further databases sum their tables.
 */
#define QUOTA_ENTRIES	4096

typedef struct QuotaKey
{
	Oid			database;
	Oid			table;			/* peekstash.handle */
	Oid			role;			/* InvalidOid = the whole database */
} QuotaKey;

typedef struct QuotaEntry
{
	QuotaKey	key;
	int64		bytes;			/* all protected by the quota lock */
	int64		peeks;
	bool		loaded;			/* of a whole database: it can be trusted */
	bool		orphans_swept;	/* likewise, since the start */
	bool		orphans_gone;	/* the transaction that did it has committed */
} QuotaEntry;

/* What the current transaction has changed, for one role. */
typedef struct QuotaChange
{
	struct QuotaChange *next;
	Oid			table;			/* looked up early: the end cannot */
	Oid			role;
	SubTransactionId subid;
	int64		added_bytes;	/* counted already */
	int64		added_peeks;
	int64		freed_bytes;	/* counted at commit */
	int64		freed_peeks;
	bool		swept_orphans;	/* to be done again after an abort */
} QuotaChange;

static LWLock *shared_lock = NULL;	/* NULL = not preloaded */
static HTAB *shared_entries = NULL;

/* Of the current transaction, in its TopTransactionContext. */
static QuotaChange *changes = NULL;

/* Without shared memory: the sums at the last look, and what came after. */
static int64 summed_bytes;
static int64 summed_role_bytes;
static int64 summed_role_peeks;
static Oid	summed_role;


static Size
quota_size(void)
{
	return sizeof(int);			/* the lock and the table are all there is */
}

static Size
quota_table_size(void)
{
	return hash_estimate_size(QUOTA_ENTRIES, sizeof(QuotaEntry));
}

static void
quota_attach(void *place, bool found, LWLock *lock)
{
	HASHCTL		info = {0};

	info.keysize = sizeof(QuotaKey);
	info.entrysize = sizeof(QuotaEntry);
	shared_lock = lock;
	shared_entries = ShmemInitHash("peekstash quota entries", QUOTA_ENTRIES,
								   QUOTA_ENTRIES, &info,
								   HASH_ELEM | HASH_BLOBS);
}

void
quota_init(void)
{
	static const SharedArea area = {
		"peekstash quota", "PeekstashQuota", quota_size, quota_table_size,
		quota_attach
	};

	shared_area_register(&area);
}

/* The counters of a role; NULL if there are none, or no room for them. */
static QuotaEntry *
quota_entry(Oid table, Oid role, HASHACTION action)
{
	QuotaKey	key;
	QuotaEntry *entry;
	bool		found;

	Assert(LWLockHeldByMeInMode(shared_lock, LW_EXCLUSIVE));
	memset(&key, 0, sizeof(key));
	key.database = MyDatabaseId;
	key.table = table;
	key.role = role;
	entry = hash_search(shared_entries, &key, action, &found);
	if (entry != NULL && !found && action == HASH_ENTER_NULL)
	{
		entry->bytes = entry->peeks = 0;
		entry->loaded = entry->orphans_swept = entry->orphans_gone = false;
	}
	return entry;
}

/* Change the counters of a role and of the database.  Cannot throw. */
static void
quota_count(Oid table, Oid role, int64 peeks, int64 bytes)
{
	Oid			roles[] = {role, InvalidOid};

	if (peeks == 0 && bytes == 0)
		return;
	for (int i = 0; i < (int) lengthof(roles); i++)
	{
		QuotaEntry *entry = quota_entry(table, roles[i], HASH_ENTER_NULL);

		if (entry == NULL)
			continue;
		entry->peeks += peeks;
		entry->bytes += bytes;

		/* a role that has nothing stored needs no entry */
		if (OidIsValid(roles[i]) && entry->peeks == 0 && entry->bytes == 0)
			(void) quota_entry(table, roles[i], HASH_REMOVE);
	}
}

/* The sums of the tables, as a list of QuotaEntry in a context. */
typedef struct QuotaSums
{
	MemoryContext context;
	List	   *entries;
} QuotaSums;

static void
quota_remember_sum(Oid role, int64 peeks, int64 bytes, void *arg)
{
	QuotaSums  *sums = arg;
	MemoryContext old = MemoryContextSwitchTo(sums->context);
	QuotaEntry *sum = palloc0(sizeof(QuotaEntry));

	sum->key.role = role;
	sum->peeks = peeks;
	sum->bytes = bytes;
	sums->entries = lappend(sums->entries, sum);
	MemoryContextSwitchTo(old);
}

static List *
quota_sum_tables(void)
{
	QuotaSums	sums = {CurrentMemoryContext, NIL};

	handle_sum_usage(quota_remember_sum, &sums);
	return sums.entries;
}

/* Are the counters of this database in shared memory? */
static bool
quota_is_loaded(Oid table)
{
	QuotaEntry *total;
	bool		result;

	LWLockAcquire(shared_lock, LW_EXCLUSIVE);
	total = quota_entry(table, InvalidOid, HASH_FIND);
	result = total != NULL && total->loaded;
	LWLockRelease(shared_lock);
	return result;
}

/*
 * See to it that the counters are in shared memory; false if they cannot be.
 */
static bool
quota_load(Oid table)
{
	List	   *sums;
	ListCell   *lc;
	QuotaEntry *total;

	if (shared_lock == NULL)
		return false;
	if (quota_is_loaded(table))
		return true;

	/* one loads, the others wait; no table is locked by this */
	LockDatabaseObject(RelationRelationId, table, 0, ExclusiveLock);
	if (!quota_is_loaded(table))
	{
		sums = quota_sum_tables();
		LWLockAcquire(shared_lock, LW_EXCLUSIVE);
		total = quota_entry(table, InvalidOid, HASH_ENTER_NULL);
		if (total != NULL)
		{
			total->bytes = total->peeks = 0;
			total->loaded = true;
			foreach(lc, sums)
			{
				QuotaEntry *sum = lfirst(lc);

				quota_count(table, sum->key.role, sum->peeks, sum->bytes);
			}
		}
		LWLockRelease(shared_lock);
	}
	UnlockDatabaseObject(RelationRelationId, table, 0, ExclusiveLock);
	return quota_is_loaded(table);
}

/* What is stored and in flight: of the database, and of a role in it. */
static void
quota_usage(Oid table, Oid role, int64 *bytes, int64 *role_bytes,
			int64 *role_peeks)
{
	*bytes = *role_bytes = *role_peeks = 0;
	if (quota_load(table))
	{
		QuotaEntry *entry;

		LWLockAcquire(shared_lock, LW_EXCLUSIVE);
		entry = quota_entry(table, InvalidOid, HASH_FIND);
		if (entry != NULL)
			*bytes = entry->bytes;
		entry = quota_entry(table, role, HASH_FIND);
		if (entry != NULL)
		{
			*role_bytes = entry->bytes;
			*role_peeks = entry->peeks;
		}
		LWLockRelease(shared_lock);
	}
	else
	{
		*bytes = summed_bytes;
		if (role == summed_role)
		{
			*role_bytes = summed_role_bytes;
			*role_peeks = summed_role_peeks;
		}
	}
}

/* Without shared memory: look at the tables. */
static void
quota_refresh_sums(Oid role)
{
	ListCell   *lc;

	summed_bytes = summed_role_bytes = summed_role_peeks = 0;
	summed_role = role;
	foreach(lc, quota_sum_tables())
	{
		QuotaEntry *sum = lfirst(lc);

		summed_bytes += sum->bytes;
		if (sum->key.role == role)
		{
			summed_role_bytes = sum->bytes;
			summed_role_peeks = sum->peeks;
		}
	}
}

/* The entry of the list of changes for a role in this subtransaction. */
static QuotaChange *
quota_change(Oid role)
{
	SubTransactionId subid = GetCurrentSubTransactionId();
	Oid			table = stash_table("handle");
	QuotaChange *change;

	for (change = changes; change != NULL; change = change->next)
	{
		if (change->role == role && change->subid == subid &&
			change->table == table)
			return change;
	}
	change = MemoryContextAllocZero(TopTransactionContext,
									sizeof(QuotaChange));
	change->table = table;
	change->role = role;
	change->subid = subid;
	change->next = changes;
	changes = change;
	return change;
}

/* Count what this transaction adds. */
static void
quota_add(Oid role, int64 peeks, int64 bytes)
{
	QuotaChange *change = quota_change(role);

	change->added_peeks += peeks;
	change->added_bytes += bytes;
	summed_bytes += bytes;
	if (role == summed_role)
	{
		summed_role_bytes += bytes;
		summed_role_peeks += peeks;
	}
	if (shared_lock != NULL)
	{
		LWLockAcquire(shared_lock, LW_EXCLUSIVE);
		quota_count(change->table, role, peeks, bytes);
		LWLockRelease(shared_lock);
	}
}

/* Take back, or give back, what a change says.  Cannot throw. */
static void
quota_settle(const QuotaChange *change, bool commit)
{
	QuotaEntry *total;

	if (shared_lock == NULL)
		return;
	LWLockAcquire(shared_lock, LW_EXCLUSIVE);
	total = quota_entry(change->table, InvalidOid, HASH_FIND);
	if (total == NULL || !total->loaded)
	{
		/* nothing has been counted: the tables will be summed up */
	}
	else if (commit)
	{
		quota_count(change->table, change->role, -change->freed_peeks,
					-change->freed_bytes);
		if (change->swept_orphans)
			total->orphans_gone = true;
	}
	else
	{
		quota_count(change->table, change->role, -change->added_peeks,
					-change->added_bytes);
		if (change->swept_orphans)
			total->orphans_swept = false;
	}
	LWLockRelease(shared_lock);
}

/*
 * Has this transaction changed what only its end can settle?  What a direct
 * peek adds, it has taken away again before the end.
 */
bool
quota_is_unsettled(void)
{
	for (QuotaChange *change = changes; change != NULL; change = change->next)
	{
		if (change->added_peeks != 0 || change->freed_peeks != 0 ||
			change->swept_orphans || change->added_bytes != change->freed_bytes)
			return true;
	}
	return false;
}

/* The transaction ends. */
void
quota_at_end(bool commit)
{
	for (QuotaChange *change = changes; change != NULL; change = change->next)
		quota_settle(change, commit);
	changes = NULL;				/* the memory goes with the transaction */
}

/* A subtransaction ends. */
void
quota_at_subend(bool commit, SubTransactionId subid, SubTransactionId parent)
{
	QuotaChange **link = &changes;

	while (*link != NULL)
	{
		QuotaChange *change = *link;

		if (change->subid != subid)
		{
			link = &change->next;
			continue;
		}
		if (commit)
		{
			change->subid = parent;
			link = &change->next;
		}
		else
		{
			quota_settle(change, false);
			*link = change->next;
		}
	}
}

static int64
kilobytes(int value)
{
	return (int64) value * 1024;
}

/* Deleted answers take disk until vacuum has been there. */
static void
quota_check_disk(const PeekKnobs *knobs)
{
	int64		limit = 2 * kilobytes(knobs->max_stash_size);

	if (quota_disk_bytes() > limit)
		error_stash_disk_full(limit);
}

/*
 * Is there room for a new answer that goes to the stash?  Looked at once, when
 * its upload begins.
 */
void
quota_check_room(const PeekKnobs *knobs, Oid charged_to)
{
	int64		limit = kilobytes(knobs->max_stash_size);
	int64		bytes;
	int64		role_bytes;
	int64		role_peeks;

	if (!quota_load(stash_table("handle")))
		quota_refresh_sums(charged_to);
	quota_usage(stash_table("handle"), charged_to, &bytes, &role_bytes,
				&role_peeks);
	if (bytes >= limit)
		error_stash_full(limit, "max_stash_size");

	quota_check_disk(knobs);
}

/*
 * Look at what is stored, before rows of handles are inserted or deleted:
 * sums over the tables that see this transaction's rows would count them
 * twice.
 */
void
quota_look(Oid charged_to)
{
	if (!quota_load(stash_table("handle")))
		quota_refresh_sums(charged_to);
}

/*
 * A new answer is kept for a session user.  quota_look() has been called
 * before its handle row was inserted.
 */
void
quota_add_peek(const PeekKnobs *knobs, Oid charged_to)
{
	int64		bytes;
	int64		role_bytes;
	int64		role_peeks;

	quota_usage(stash_table("handle"), charged_to, &bytes, &role_bytes,
				&role_peeks);
	if (knobs->max_role_peeks > 0 && role_peeks >= knobs->max_role_peeks)
		error_too_many_peeks(knobs->max_role_peeks);

	/* every answer takes disk, also one that is all tail */
	quota_check_disk(knobs);
	quota_add(charged_to, 1, 0);
}

/* An answer has grown by so many stored bytes. */
void
quota_add_bytes(const PeekKnobs *knobs, Oid charged_to, int64 added)
{
	int64		bytes;
	int64		role_bytes;
	int64		role_peeks;

	quota_usage(stash_table("handle"), charged_to, &bytes, &role_bytes,
				&role_peeks);
	if (bytes + added > kilobytes(knobs->max_stash_size))
		error_stash_full(kilobytes(knobs->max_stash_size), "max_stash_size");
	if (knobs->max_role_stash_size > 0 &&
		role_bytes + added > kilobytes(knobs->max_role_stash_size))
		error_stash_full(kilobytes(knobs->max_role_stash_size),
						 "max_role_stash_size");
	quota_add(charged_to, 0, added);
}

/*
 * Peeks and bytes of a session user have been deleted in this transaction.
 * For rows of handles, quota_look() has been called before.
 */
void
quota_freed(Oid charged_to, int64 peeks, int64 bytes, void *arg)
{
	QuotaChange *change = quota_change(charged_to);

	change->freed_peeks += peeks;
	change->freed_bytes += bytes;
}

/*
 * True once after each start of the server, in each database: to the first who
 * asks.  Without shared memory, once in each session.
 */
bool
quota_orphans_are_due(void)
{
	static Oid	swept_table = InvalidOid;
	Oid			table = stash_table("handle");
	bool		due;

	if (quota_load(table))
	{
		QuotaEntry *total;

		LWLockAcquire(shared_lock, LW_EXCLUSIVE);
		total = quota_entry(table, InvalidOid, HASH_FIND);
		due = total != NULL && !total->orphans_swept;
		if (total != NULL)
			total->orphans_swept = true;
		LWLockRelease(shared_lock);
		if (due)
			quota_change(InvalidOid)->swept_orphans = true;
	}
	else
	{
		due = swept_table != table;
		swept_table = table;
	}
	return due;
}

/*
 * Will nobody sweep orphans any more?  What a worker has committed looks like
 * one until its submitter commits.  A sweep of this transaction's own is over.
 */
bool
quota_orphans_are_gone(void)
{
	Oid			table = stash_table("handle");
	QuotaEntry *total;
	bool		gone;

	if (!quota_load(table))
		return false;
	LWLockAcquire(shared_lock, LW_EXCLUSIVE);
	total = quota_entry(table, InvalidOid, HASH_FIND);
	gone = total != NULL && total->orphans_gone;
	LWLockRelease(shared_lock);
	for (QuotaChange *change = changes; change != NULL; change = change->next)
		gone |= change->swept_orphans;
	return gone;
}

/* See to it that quota_knows_database() says yes to the current one. */
void
quota_remember_database(void)
{
	(void) quota_load(stash_table("handle"));
}

/* The databases that have counters, in the current context. */
List *
quota_databases(void)
{
	Oid		   *found = palloc(QUOTA_ENTRIES * sizeof(Oid));
	int			count = 0;
	List	   *databases = NIL;
	HASH_SEQ_STATUS status;
	QuotaEntry *entry;

	LWLockAcquire(shared_lock, LW_SHARED);
	hash_seq_init(&status, shared_entries);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (count < QUOTA_ENTRIES)
			found[count++] = entry->key.database;
	}
	LWLockRelease(shared_lock);

	for (int i = 0; i < count; i++)
		databases = list_append_unique_oid(databases, found[i]);
	pfree(found);
	return databases;
}

/* Forget the counters of a database that has been dropped. */
void
quota_forget_database(Oid database)
{
	HASH_SEQ_STATUS status;
	QuotaEntry *entry;

	LWLockAcquire(shared_lock, LW_EXCLUSIVE);
	hash_seq_init(&status, shared_entries);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (entry->key.database == database)
			(void) hash_search(shared_entries, &entry->key, HASH_REMOVE, NULL);
	}
	LWLockRelease(shared_lock);
}

/* What this database has stored and in flight, committed or not. */
int64
quota_stash_bytes(void)
{
	Oid			table = stash_table("handle");
	int64		bytes;
	int64		role_bytes;
	int64		role_peeks;

	if (!OidIsValid(table))
		return 0;
	if (!quota_load(table))
	{
		ListCell   *lc;

		bytes = 0;
		foreach(lc, quota_sum_tables())
			bytes += ((QuotaEntry *) lfirst(lc))->bytes;
	}
	else
		quota_usage(table, InvalidOid, &bytes, &role_bytes, &role_peeks);
	return bytes;
}

/* Bytes of a table's main fork, if it is there. */
static int64
relation_bytes(Oid relid)
{
	Relation	relation = OidIsValid(relid) ?
		try_relation_open(relid, AccessShareLock) : NULL;
	int64		bytes;

	if (relation == NULL)
		return 0;
	bytes = (int64) RelationGetNumberOfBlocks(relation) * BLCKSZ;
	if (OidIsValid(relation->rd_rel->reltoastrelid))
		bytes += relation_bytes(relation->rd_rel->reltoastrelid);
	relation_close(relation, AccessShareLock);
	return bytes;
}

/* Disk that the tables of the stash take, their indexes left out. */
int64
quota_disk_bytes(void)
{
	return relation_bytes(stash_table("handle")) +
		relation_bytes(stash_table("outcome")) +
		relation_bytes(stash_table("batch"));
}
