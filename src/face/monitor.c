/*-------------------------------------------------------------------------
 *
 * monitor.c
 *	  The functions behind the views.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/monitor.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "drive/quota.h"
#include "drive/registry.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "stat.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/uuid.h"

#include "compat.h"

PG_FUNCTION_INFO_V1(peekstash_stat);
PG_FUNCTION_INFO_V1(peekstash_stat_reset);
PG_FUNCTION_INFO_V1(peekstash_in_flight);

#define STAT_COLUMNS		20
#define IN_FLIGHT_COLUMNS	11

/*
 * peekstash_stat() returns the one row of peekstash.stat.
 */
Datum
peekstash_stat(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	PeekCounts	counts;
	TimestampTz reset_time;
	Datum		values[STAT_COLUMNS];
	bool		isnull[STAT_COLUMNS] = {0};
	int			i = 0;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE ||
		desc->natts != STAT_COLUMNS)
		elog(ERROR, "unexpected result type of peekstash_stat");

	stat_read(&counts, &reset_time);
	values[i++] = CStringGetTextDatum(stat_is_shared() ? "cluster" : "session");
	values[i++] = Int64GetDatum(counts.walks_inline);
	values[i++] = Int64GetDatum(counts.answers_memory);
	values[i++] = Int64GetDatum(counts.answers_stashed);
	values[i++] = Int64GetDatum(counts.answers_failed);
	values[i++] = Int64GetDatum(counts.answers_cancelled);
	values[i++] = Int64GetDatum(counts.positions);
	values[i++] = Int64GetDatum(counts.rows);
	values[i++] = Int64GetDatum(counts.answer_bytes);
	values[i++] = Int64GetDatum(counts.stored_bytes);
	values[i++] = Int64GetDatum(counts.batches_written);
	values[i++] = Int64GetDatum(counts.batches_read);
	values[i++] = Float8GetDatum(counts.walk_seconds);
	values[i++] = Float8GetDatum(counts.write_seconds);
	values[i++] = Float8GetDatum(counts.read_seconds);
	values[i++] = Int32GetDatum(registry_slots_in_use());
	values[i++] = Int64GetDatum(counts.swept_answers);
	/* a replica does not have the files of unlogged tables */
	isnull[i] = isnull[i + 1] = RecoveryInProgress();
	values[i] = Int64GetDatum(isnull[i] ? 0 : quota_stash_bytes());
	i++;
	values[i] = Int64GetDatum(isnull[i] ? 0 : quota_disk_bytes());
	i++;
	values[i++] = TimestampTzGetDatum(reset_time);
	Assert(i == STAT_COLUMNS);

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, isnull)));
}

/*
 * peekstash_stat_reset() sets all counters to zero.
 */
Datum
peekstash_stat_reset(PG_FUNCTION_ARGS)
{
	stat_reset();
	PG_RETURN_VOID();
}

/*
 * peekstash_in_flight() returns the submitted peeks of this database that are
 * running, as far as the current role may see them.
 */
Datum
peekstash_in_flight(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	PeekInFlight *peeks;
	int			count;
	bool		see_all = has_privs_of_role(GetUserId(),
											ROLE_PG_READ_ALL_STATS);

	InitMaterializedSRF(fcinfo, 0);
	peeks = registry_list(&count);
	for (int i = 0; i < count; i++)
	{
		PeekInFlight *peek = &peeks[i];
		Datum		values[IN_FLIGHT_COLUMNS];
		bool		isnull[IN_FLIGHT_COLUMNS] = {0};
		int			n = 0;

		if (!see_all && !has_privs_of_role(GetUserId(), peek->owner))
			continue;
		values[n++] = UUIDPGetDatum(&peek->handle);
		values[n++] = ObjectIdGetDatum(peek->owner);
		values[n++] = ObjectIdGetDatum(peek->charged_to);
		values[n++] = CStringGetTextDatum(peek_state_name(peek->state));
		values[n++] = CStringGetTextDatum(peek_phase_name(peek->phase));
		isnull[n] = peek->positions < 0;
		values[n++] = Int64GetDatum(peek->positions);
		values[n++] = Int64GetDatum(peek->num_rows);
		values[n++] = Int64GetDatum(peek->answer_bytes);
		values[n++] = Int64GetDatum(peek->stored_bytes);
		values[n++] = Int32GetDatum(peek->pid);
		values[n++] = TimestampTzGetDatum(peek->submitted_at);
		Assert(n == IN_FLIGHT_COLUMNS);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values,
							 isnull);
	}
	return (Datum) 0;
}
