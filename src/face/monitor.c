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
#include "drive/permits.h"
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
PG_FUNCTION_INFO_V1(peekstash_stat_phases);
PG_FUNCTION_INFO_V1(peekstash_in_flight);

#define STAT_COLUMNS		26
#define IN_FLIGHT_COLUMNS	14
#define PHASE_COLUMNS		4

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
	values[i++] = Int64GetDatum(counts.walks_offloaded);
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
	values[i++] = Float8GetDatum(counts.queue_seconds);
	values[i++] = Float8GetDatum(counts.walk_seconds);
	values[i++] = Float8GetDatum(counts.write_seconds);
	values[i++] = Float8GetDatum(counts.read_seconds);
	values[i++] = Int32GetDatum(permits_in_use());
	values[i++] = Int32GetDatum(permits_queue_depth());
	values[i++] = Int32GetDatum(registry_slots_in_use());
	values[i++] = Int64GetDatum(counts.reclaimed_batches);
	values[i++] = Int64GetDatum(counts.reclaim_failures);
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
 * peekstash_stat_phases() returns the lines of peekstash.stat_phase.
 */
Datum
peekstash_stat_phases(PG_FUNCTION_ARGS)
{
	static const char *const names[NUM_STAT_PHASES] = {
		[PHASE_QUEUE] = "queue",
		[PHASE_WALK] = "walk",
		[PHASE_WRITE] = "write",
		[PHASE_READ] = "read"
	};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	PhaseHistogram phases[NUM_STAT_PHASES];

	InitMaterializedSRF(fcinfo, 0);
	stat_read_phases(phases);
	for (int i = 0; i < NUM_STAT_PHASES; i++)
	{
		int64		count = 0;

		for (int j = 0; j < NUM_STAT_BUCKETS; j++)
		{
			Datum		values[PHASE_COLUMNS];
			bool		isnull[PHASE_COLUMNS] = {0};

			/* up to a bound, so that what is above it is the difference */
			count += phases[i].counts[j];
			values[0] = CStringGetTextDatum(names[i]);
			values[1] = Float8GetDatum(stat_bucket_bound(j));
			values[2] = Int64GetDatum(count);
			values[3] = Float8GetDatum(phases[i].seconds);
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values,
								 isnull);
		}
	}
	return (Datum) 0;
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
		values[n++] = CStringGetTextDatum(peek->offloaded ?
										  "offloaded" : "inline");
		values[n++] = Int32GetDatum(peek->num_workers);
		isnull[n] = peek->positions < 0;
		values[n++] = Int64GetDatum(peek->positions);
		isnull[n] = peek->estimated_positions < 0;
		values[n++] = Int64GetDatum(peek->estimated_positions);
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
