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
 * On abort nothing but memory is touched: no SPI, no error.  The list lies in
 * the transaction's own memory, and is found empty by the next one.
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
} XactStash;

/* Of the current transaction, in its TopTransactionContext. */
static dlist_head stashes = DLIST_STATIC_INIT(stashes);

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
		(void) stash_delete_batches(&stash->handle);
		PopActiveSnapshot();
		stash->deleted_in = GetCurrentSubTransactionId();
	}
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			xact_before_commit();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
			/* its memory goes with the transaction */
			dlist_init(&stashes);
			break;
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			/* nothing is stashed in parallel mode */
			break;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId subid,
				 SubTransactionId parent, void *arg)
{
	dlist_mutable_iter iter;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;

	dlist_foreach_modify(iter, &stashes)
	{
		XactStash  *stash = dlist_container(XactStash, node, iter.cur);
		bool		commit = event == SUBXACT_EVENT_COMMIT_SUB;

		if (stash->deleted_in == subid)
			stash->deleted_in = commit ? parent : InvalidSubTransactionId;
		if (stash->made_in == subid)
		{
			if (commit)
				stash->made_in = parent;
			else
				dlist_delete(&stash->node);
		}
	}
}

/*
 * An upload of a direct peek begins under this handle, in the current
 * (sub)transaction.
 */
void
xact_stash_opened(const pg_uuid_t *handle)
{
	static bool registered = false;
	XactStash  *stash;

	if (!registered)
	{
		RegisterXactCallback(xact_callback, NULL);
		RegisterSubXactCallback(subxact_callback, NULL);
		registered = true;
	}

	stash = MemoryContextAlloc(TopTransactionContext, sizeof(XactStash));
	stash->handle = *handle;
	stash->made_in = GetCurrentSubTransactionId();
	stash->deleted_in = InvalidSubTransactionId;
	dlist_push_tail(&stashes, &stash->node);
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
	(void) stash_delete_batches(handle);
	stash->deleted_in = GetCurrentSubTransactionId();
}
