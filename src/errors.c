/*-------------------------------------------------------------------------
 *
 * errors.c
 *	  Errors that more than one place raises, each defined once.
 *
 * A limit must say the same thing with the same SQLSTATE on every path; an
 * ereport written twice would drift.  Errors that only one function can
 * raise stay in that function.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/errors.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "errors.h"
#include "utils/builtins.h"

/* A size as pg_size_pretty() writes it. */
static char *
pretty_size(int64 bytes)
{
	Datum		pretty = DirectFunctionCall1(pg_size_pretty,
											 Int64GetDatum(bytes));

	return text_to_cstring(DatumGetTextPP(pretty));
}

static PeekLimit last_limit = {PEEK_LIMIT_NONE, 0};

/* The limit that was exceeded last in this process. */
PeekLimit
error_last_limit(void)
{
	return last_limit;
}

/*
 * Where several workers exceed limits, which one is named, whoever comes first?
 * The smaller of two of a kind; positions cannot be compared with bytes, and
 * are named before them.
 */
bool
peek_limit_is_first(const PeekLimit *limit, const PeekLimit *other)
{
	return limit->kind != other->kind ? limit->kind < other->kind :
		limit->value < other->value;
}

void
error_result_too_large(int64 max_bytes)
{
	last_limit = (PeekLimit) {PEEK_LIMIT_BYTES, max_bytes};
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("result exceeds max size of %s", pretty_size(max_bytes)),
			 errhint("Ask for fewer rows or columns, or raise \"peekstash.max_result_size\".")));
}

/*
 * The limit is named, never a count of what was looked at: positions of rows
 * that the role may not see must not leak through an error.
 */
void
error_too_many_positions(int64 max_positions)
{
	last_limit = (PeekLimit) {PEEK_LIMIT_POSITIONS, max_positions};
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("peek exceeded the row iteration limit of " INT64_FORMAT,
					max_positions),
			 errhint("Bound the walk more tightly, or raise \"peekstash.row_iteration_limit\".")));
}

void
error_row_too_large(int64 bytes)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("row of %s is too large to return", pretty_size(bytes)),
			 errdetail("A row and its header must fit into one value of at most 1 GB.")));
}

/* The row type asked for is not that of the answer; detail is a sentence. */
void
error_row_type_mismatch(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("row type does not match the columns of the answer"),
			 errdetail_internal("%s", detail)));
}

void
error_no_such_arrangement(Oid relid)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("arrangement with OID %u does not exist", relid),
			 errhint("REINDEX CONCURRENTLY gives an index a new OID. In views and stored expressions write the index as 'name'::text::regclass.")));
}

/* A stored answer is not what was stored; detail is a sentence. */
void
error_answer_damaged(const char *handle, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("stashed answer of peek \"%s\" is damaged", handle),
			 errdetail_internal("%s", detail)));
}

void
error_answer_rolled_back(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_CURSOR_STATE),
			 errmsg("the rows of this peek were rolled back"),
			 errdetail("They were stashed in a savepoint that has been rolled back."),
			 errhint("Fetch the first row before the savepoint, or set \"peekstash.enable_stash\" to off.")));
}

/* A submitted peek that may not be stashed has outgrown memory. */
void
error_stash_disabled(int64 max_bytes)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("result exceeds max size of %s", pretty_size(max_bytes)),
			 errdetail("\"peekstash.enable_stash\" is off, so a submitted peek is kept in memory."),
			 errhint("Set \"peekstash.enable_stash\" to on, or use peek.")));
}

void
error_stash_full(int64 limit, const char *knob)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("stash size limit of %s exceeded", pretty_size(limit)),
			 errhint("Release answers, see peekstash.peeks, or raise \"peekstash.%s\".",
					 knob)));
}

void
error_stash_disk_full(int64 limit)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("stash size limit of %s on disk exceeded",
					pretty_size(limit)),
			 errdetail("The space of deleted answers has not been vacuumed yet."),
			 errhint("VACUUM the tables of schema \"peekstash\", or raise \"peekstash.max_stash_size\".")));
}

void
error_too_many_peeks(int limit)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("limit of %d stored peeks exceeded", limit),
			 errhint("Release answers, see peekstash.peeks, or raise \"peekstash.max_role_peeks\".")));
}
