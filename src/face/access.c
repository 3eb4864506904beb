/*-------------------------------------------------------------------------
 *
 * access.c
 *	  Who may do what with a handle.
 *
 * Decided here, once for all functions:
 *
 *		read			owner and its members, roles granted, superusers
 *		grant, touch	owner and its members, superusers
 *		cancel			these, and members of pg_signal_backend
 *		release			owner and its members, superusers, the database owner
 *		status			who may read, and members of pg_read_all_stats
 *
 * To everybody else a handle does not exist: the answer is the very error, or
 * the very false, that an unknown one gives.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/access.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "drive/xact.h"
#include "face/access.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "compat.h"

/* Is the current role the owner, for all that matters? */
bool
may_own(Oid owner)
{
	return has_privs_of_role(GetUserId(), owner);
}

/* For deciding later, by the handle row. */
bool
may_anybody_own(Oid owner)
{
	return true;
}

bool
may_read(const HandleRow *row)
{
	if (may_own(row->owner))
		return true;
	for (int i = 0; i < row->num_granted; i++)
	{
		if (has_privs_of_role(GetUserId(), row->granted[i]))
			return true;
	}
	return false;
}

pg_uuid_t *
handle_argument(FunctionCallInfo fcinfo, int argno)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("\"handle\" must not be NULL")));
	return PG_GETARG_UUID_P(argno);
}

bool
may_release(const HandleRow *row)
{
	return may_own(row->owner) ||
		database_owned_by(MyDatabaseId, GetUserId());
}

bool
may_see_status(const HandleRow *row)
{
	return may_read(row) ||
		has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

/* For deciding later, by more than the handle row. */
bool
may_anybody(const HandleRow *row)
{
	return true;
}

/*
 * Find a peek in flight of an owner for whom the current role may do this.
 * Two sessions can be walking under one uuid; only one will keep it.  A walk
 * of this session's own that is over, but of which nothing is to be seen, is
 * not in flight: it was released in this very transaction.
 *
 * Looked for before what is stored: a slot is given back only after the rows
 * of the answer can be seen.
 */
bool
find_in_flight(const pg_uuid_t *handle, bool (*may) (Oid owner),
			   PeekInFlight *in_flight)
{
	int			count;
	PeekInFlight *peeks = registry_list(&count);

	for (int i = 0; i < count; i++)
	{
		PeekInFlight *peek = &peeks[i];

		if (memcmp(&peek->handle, handle, sizeof(pg_uuid_t)) == 0 &&
			(peek->offloaded ?
			 !xact_has_released(peek->slot, peek->generation) :
			 peek->pid != MyProcPid || peek->phase != PEEK_FINISHING) &&
			may(peek->owner))
		{
			*in_flight = *peek;
			return true;
		}
	}
	return false;
}

/* Throw where the tables of the stash cannot be read at all. */
void
check_stash_readable(void)
{
	Oid			table = stash_table("handle");

	if (!OidIsValid(table))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the stash tables do not exist"),
				 errhint("Use CREATE EXTENSION peekstash in this database.")));
	if (RecoveryInProgress() &&
		get_rel_persistence(table) != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("stashed answers cannot be read during recovery"),
				 errhint("The tables of schema \"peekstash\" are unlogged; ALTER TABLE ... SET LOGGED on all three makes replicas read them.")));
}

/*
 * A statement that changes what is stored under a handle has found nothing,
 * though there was something to be read.  Throw if that is so because the
 * transaction's snapshot is older: reading does not mind, writing must.
 */
void
check_snapshot_sees(const pg_uuid_t *handle)
{
	if (IsolationUsesXactSnapshot() && handle_exists(handle))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access to peek \"%s\"",
						stash_handle_text(handle)),
				 errdetail("It is newer than the snapshot of this transaction."),
				 errhint("Try again in a new transaction.")));
}

bool
has_expired(const StoredPeek *peek)
{
	return peek->has_outcome &&
		peek->outcome.expires_at <= GetCurrentTimestamp();
}

/* A walk that failed: raise its error again. */
static void
raise_stored_error(const OutcomeRow *outcome)
{
	const char *code = outcome->sqlstate;

	ereport(ERROR,
			(errcode(code != NULL && strlen(code) == 5 ?
					 MAKE_SQLSTATE(code[0], code[1], code[2], code[3], code[4]) :
					 ERRCODE_INTERNAL_ERROR),
			 errmsg_internal("%s", outcome->error ?
							 outcome->error : "peek failed"),
			 outcome->detail ? errdetail_internal("%s", outcome->detail) : 0));
}

static void
error_cancelled(const char *handle)
{
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("peek \"%s\" was cancelled", handle)));
}

/*
 * Load an answer that the current role may read and that is there to be read.
 * Anything else is an error, never an empty answer.
 */
StoredPeek *
load_readable(const pg_uuid_t *handle, int64 end_row)
{
	StoredPeek *peek = palloc(sizeof(StoredPeek));
	PeekInFlight in_flight;
	char	   *text = stash_handle_text(handle);
	bool		flying;

	check_stash_readable();
	flying = find_in_flight(handle, may_own, &in_flight);
	if (!handle_load(handle, peek, may_read, end_row) ||
		!handle_is_current(&peek->handle) || !peek->has_outcome)
	{
		if (flying && in_flight.state == PEEK_FAILED && !in_flight.has_outcome)
			ereport(ERROR,
					(errcode(ERRCODE_ADMIN_SHUTDOWN),
					 errmsg("the worker of peek \"%s\" was ended", text)));
		if (flying && in_flight.state == PEEK_CANCELLED &&
			!in_flight.has_outcome)
			error_cancelled(text);
		if (flying && peek_state_is_end(in_flight.state))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("peek \"%s\" is not committed yet", text),
					 errhint("The transaction that has submitted it is still open.")));
		if (flying)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("peek \"%s\" is still %s", text,
							peek_state_name(in_flight.state)),
					 errhint("peek_wait waits for its end.")));
		error_no_such_peek(handle);
	}
	if (has_expired(peek))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("peek \"%s\" has expired", text),
				 errhint("Submit it again; \"ttl\" says how long an answer is kept.")));

	if (strcmp(peek->outcome.state, peek_state_name(PEEK_FAILED)) == 0)
		raise_stored_error(&peek->outcome);
	if (strcmp(peek->outcome.state, peek_state_name(PEEK_CANCELLED)) == 0)
		error_cancelled(text);
	return peek;
}
