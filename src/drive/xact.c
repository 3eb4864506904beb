/*-------------------------------------------------------------------------
 *
 * xact.c
 *	  What the end of a (sub)transaction does to stashed answers.
 *
 * The batches of a direct peek live and die in one transaction.  They are
 * deleted when they have been read; what an early end (LIMIT, CLOSE, EXISTS)
 * leaves is deleted before the transaction commits.  To know what that is,
 * the backend keeps a list of the answers it has stashed in this transaction,
 * with the subtransactions that made and deleted them:
 *
 *		made in		deleted in	means
 *		s			-			there are batches
 *		s			d			there are none, unless d is rolled back
 *		s			s			there are none; forgotten
 *
 * The commit of a subtransaction hands both to its parent.  Its abort forgets
 * what was made in it, for the batches are gone, and what was deleted in it is
 * there again.
 *
 * What happens if the process throws or dies:
 *
 *		while writing		the (sub)transaction aborts, the batches with it
 *		after writing		the same
 *		while reading		the same
 *		while deleting		the same
 *		before the commit	the transaction aborts, the batches with it
 *		after the commit	there was nothing left to delete
 *
 * The slots of submitted peeks, and what the quota counts, follow the same
 * ends: a slot is given back when its (sub)transaction has ended either way.
 * If workers are still walking for it, an abort dooms it, which stops them.
 * The release of a peek that workers walk for does the same when it commits;
 * until then it keeps the slot, because nobody else would know that what they
 * commit meanwhile is not wanted.
 *
 * On abort nothing but memory is touched: no SPI, no error.  The lists lie in
 * the transaction's own memory, and are found empty by the next one.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/xact.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "drive/quota.h"
#include "drive/registry.h"
#include "drive/xact.h"
#include "lib/ilist.h"
#include "stash/stash.h"
#include "stop.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "compat.h"

/* An answer that this transaction has stashed. */
typedef struct XactStash
{
	dlist_node	node;
	pg_uuid_t	handle;
	SubTransactionId made_in;
	SubTransactionId deleted_in;	/* Invalid = there are batches */
	Oid			charged_to;
	int64		bytes;			/* stored */
} XactStash;

/* A slot of the registry that this transaction holds. */
typedef struct XactSlot
{
	dlist_node	node;
	int			slot;
	SubTransactionId made_in;
	bool		walking;		/* we do, maybe inside of another walk, or
								 * workers; not to be given away */
} XactSlot;

/* An offloaded peek of anybody's that this transaction has released. */
typedef struct XactRelease
{
	dlist_node	node;
	int			slot;
	uint64		generation;
	SubTransactionId made_in;
} XactRelease;

/* Of the current transaction, in its TopTransactionContext. */
static dlist_head stashes = DLIST_STATIC_INIT(stashes);
static dlist_head slots = DLIST_STATIC_INIT(slots);
static int	num_slots = 0;
static dlist_head releases = DLIST_STATIC_INIT(releases);

static XactStash *
xact_find(const pg_uuid_t *handle)
{
	dlist_iter	iter;

	dlist_foreach(iter, &stashes)
	{
		XactStash  *stash = dlist_container(XactStash, node, iter.cur);

		if (memcmp(&stash->handle, handle, sizeof(pg_uuid_t)) == 0)
			return stash;
	}
	return NULL;
}

/* Delete the batches of an answer, and remember that they are deleted. */
static void
xact_delete(XactStash *stash)
{
	(void) stash_delete_batches(&stash->handle);
	quota_freed(stash->charged_to, 0, stash->bytes, NULL);
	stash->deleted_in = GetCurrentSubTransactionId();
}

/*
 * What was made and deleted in the same subtransaction is gone however that
 * ends: there is nothing to remember.
 */
static void
xact_forget_if_gone(XactStash *stash)
{
	if (stash->deleted_in != stash->made_in)
		return;
	dlist_delete(&stash->node);
	pfree(stash);
}

/* Delete what was not read to its end. */
static void
xact_before_commit(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &stashes)
	{
		XactStash  *stash = dlist_container(XactStash, node, iter.cur);

		if (stash->deleted_in != InvalidSubTransactionId)
			continue;

		PEEK_STOP("pre-commit");
		/* the extension may have been dropped in this very transaction */
		if (!OidIsValid(stash_batch_table()))
			continue;
		PushActiveSnapshot(GetTransactionSnapshot());
		xact_delete(stash);
		PopActiveSnapshot();
	}
}

/* The transaction has ended. */
static void
xact_ended(bool commit)
{
	dlist_iter	iter;

	dlist_foreach(iter, &releases)
		registry_unhold(dlist_container(XactRelease, node, iter.cur)->slot,
						commit);
	dlist_foreach(iter, &slots)
		registry_end(dlist_container(XactSlot, node, iter.cur)->slot, commit);
	quota_at_end(commit);

	/* their memory goes with the transaction */
	dlist_init(&stashes);
	dlist_init(&slots);
	dlist_init(&releases);
	num_slots = 0;
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			xact_before_commit();
			break;
		case XACT_EVENT_PRE_PREPARE:
			xact_before_commit();

			/*
			 * Whether it commits is decided elsewhere, maybe after a restart:
			 * nobody would settle what it has changed in the counts.  A direct
			 * peek has given back all that it took.
			 */
			if (quota_is_unsettled())
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has submitted, released or swept peeks")));
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			xact_ended(true);
			break;
		case XACT_EVENT_ABORT:
			xact_ended(false);
			break;
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			/* nothing is stashed in parallel mode */
			break;
	}
}

/* The release has come to nothing. */
static void
xact_release_end(XactRelease *release)
{
	registry_unhold(release->slot, false);
	dlist_delete(&release->node);
	pfree(release);
}

static void
subxact_callback(SubXactEvent event, SubTransactionId subid,
				 SubTransactionId parent, void *arg)
{
	dlist_mutable_iter iter;
	bool		commit = event == SUBXACT_EVENT_COMMIT_SUB;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;

	dlist_foreach_modify(iter, &stashes)
	{
		XactStash  *stash = dlist_container(XactStash, node, iter.cur);

		if (stash->deleted_in == subid)
			stash->deleted_in = commit ? parent : InvalidSubTransactionId;
		if (stash->made_in == subid)
		{
			if (!commit)
			{
				dlist_delete(&stash->node);
				pfree(stash);
				continue;
			}
			stash->made_in = parent;
		}
		xact_forget_if_gone(stash);
	}

	dlist_foreach_modify(iter, &slots)
	{
		XactSlot   *slot = dlist_container(XactSlot, node, iter.cur);

		if (slot->made_in != subid)
			continue;
		if (commit)
			slot->made_in = parent;
		else
		{
			registry_end(slot->slot, false);
			dlist_delete(&slot->node);
			num_slots--;
		}
	}

	dlist_foreach_modify(iter, &releases)
	{
		XactRelease *release = dlist_container(XactRelease, node, iter.cur);

		if (release->made_in != subid)
			continue;
		if (commit)
			release->made_in = parent;
		else
			xact_release_end(release);
	}

	quota_at_subend(commit, subid, parent);
}

/* See to it that the ends of transactions are heard of. */
void
xact_register(void)
{
	static bool registered = false;

	if (registered)
		return;
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
	registered = true;
}

/*
 * Begin a transaction of a background process of ours: one that can write and
 * sees what is committed, whatever the database has been set to.
 */
void
xact_begin_background(void)
{
	xact_register();
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	XactIsoLevel = XACT_READ_COMMITTED;
	XactReadOnly = false;
	XactDeferrable = false;
}

/*
 * An upload of a direct peek begins under this handle, in the current
 * (sub)transaction.
 */
void
xact_stash_opened(const pg_uuid_t *handle, Oid charged_to)
{
	XactStash  *stash;

	xact_register();
	stash = MemoryContextAllocZero(TopTransactionContext, sizeof(XactStash));
	stash->handle = *handle;
	stash->made_in = GetCurrentSubTransactionId();
	stash->deleted_in = InvalidSubTransactionId;
	stash->charged_to = charged_to;
	dlist_push_tail(&stashes, &stash->node);
}

/* More has been stored under this handle. */
void
xact_stash_grew(const pg_uuid_t *handle, int64 bytes)
{
	xact_find(handle)->bytes += bytes;
}

/* Are the batches still there, as far as savepoints decide it? */
bool
xact_stash_exists(const pg_uuid_t *handle)
{
	XactStash  *stash = xact_find(handle);

	return stash != NULL && stash->deleted_in == InvalidSubTransactionId;
}

/*
 * Delete the batches, in a statement of the transaction.  Does nothing if a
 * rollback has already taken them away.
 */
void
xact_stash_delete(const pg_uuid_t *handle)
{
	XactStash  *stash = xact_find(handle);

	if (stash == NULL || stash->deleted_in != InvalidSubTransactionId)
		return;
	xact_delete(stash);
	xact_forget_if_gone(stash);
}

/* Give a slot back before the end of the (sub)transaction. */
static void
xact_slot_end(XactSlot *slot)
{
	registry_end(slot->slot, true);
	dlist_delete(&slot->node);
	num_slots--;
	pfree(slot);
}

/*
 * The oldest slot that nobody needs any more, neither a worker nor a walk that
 * is under way around this one; NULL if there is none.
 */
static XactSlot *
xact_slot_to_spare(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &slots)
	{
		XactSlot   *slot = dlist_container(XactSlot, node, iter.cur);

		if (!slot->walking)
			return slot;
	}
	return NULL;
}

/*
 * Take a slot of the registry; -1 if there is none.  The end of the
 * (sub)transaction gives it back.  A session that holds its share of them
 * gives its oldest for it.
 */
int
xact_slot_take(const pg_uuid_t *handle, Oid owner, Oid charged_to)
{
	XactSlot   *slot;

	if (!registry_is_shared())
		return -1;

	/* memory first: a slot that nobody remembers would be lost */
	xact_register();
	if (num_slots >= registry_max_own_slots())
	{
		slot = xact_slot_to_spare();
		if (slot == NULL)
			return -1;
		xact_slot_end(slot);
	}
	slot = MemoryContextAllocZero(TopTransactionContext, sizeof(XactSlot));
	slot->slot = registry_begin(handle, owner, charged_to);
	slot->made_in = GetCurrentSubTransactionId();
	slot->walking = true;
	if (slot->slot < 0)
	{
		pfree(slot);
		return -1;
	}
	dlist_push_tail(&slots, &slot->node);
	num_slots++;
	return slot->slot;
}

static XactSlot *
xact_find_slot(int number)
{
	dlist_iter	iter;

	dlist_foreach(iter, &slots)
	{
		XactSlot   *slot = dlist_container(XactSlot, node, iter.cur);

		if (slot->slot == number)
			return slot;
	}
	return NULL;
}

/*
 * The walk of a slot is over in this process; from now on it only stands for
 * the answer.  Not called if workers go on with it.
 */
void
xact_slot_walked(int number)
{
	XactSlot   *slot = xact_find_slot(number);

	if (slot != NULL)
		slot->walking = false;
}

/* What a slot stands for has come to nothing. */
void
xact_slot_give_back(int number)
{
	XactSlot   *slot = xact_find_slot(number);

	if (slot != NULL)
		xact_slot_end(slot);
}

/*
 * This transaction is about to release an offloaded peek in flight.  False: it
 * is not in flight any more.
 */
bool
xact_release_in_flight(int slot, uint64 generation)
{
	XactRelease *release;

	/* memory first: a hold that nobody remembers would be lost */
	xact_register();
	release = MemoryContextAlloc(TopTransactionContext, sizeof(XactRelease));
	release->slot = slot;
	release->generation = generation;
	release->made_in = GetCurrentSubTransactionId();
	if (!registry_hold(slot, generation))
	{
		pfree(release);
		return false;
	}
	dlist_push_tail(&releases, &release->node);
	return true;
}

/* There was nothing to release: the latest of these calls was in vain. */
void
xact_release_undo(void)
{
	xact_release_end(dlist_tail_element(XactRelease, node, &releases));
}

/* Has this transaction released it? */
bool
xact_has_released(int slot, uint64 generation)
{
	dlist_iter	iter;

	dlist_foreach(iter, &releases)
	{
		XactRelease *release = dlist_container(XactRelease, node, iter.cur);

		if (release->slot == slot && release->generation == generation)
			return true;
	}
	return false;
}
