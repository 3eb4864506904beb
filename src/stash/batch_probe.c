/*-------------------------------------------------------------------------
 *
 * batch_probe.c
 *	  The decoder's unit test, as SQL functions of the test build.
 *
 * batch_probe_mutate(payload, columns, mutations, seed, mend) damages copies
 * of a real payload at random and decodes each: single bits and bytes, runs of
 * bytes, truncations, changed counts.  With mend the checksum is made right
 * again after the damage, so that the checks behind it are reached.  The
 * result says how many were refused, and how many were read to their end.  A
 * crash, or a read beyond the payload, is for the server and valgrind to show.
 *
 * The whole file is empty in a normal build.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/stash/batch_probe.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "stop.h"

#ifdef PEEKSTASH_STOP_POINTS

#include "common/pg_prng.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "port/pg_crc32c.h"
#include "stash/batch.h"
#include "utils/memutils.h"

#include "compat.h"

PG_FUNCTION_INFO_V1(batch_probe_mutate);

/*
 * Decode to the end, as a reader does who looks for the payload of a place;
 * NULL, or what is wrong.  lz4's own errors count, too.
 */
static const char *
probe_decode(const bytea *payload, const BatchPlace *place, int num_columns)
{
	BatchDecoder decoder;
	EntryBuffer buffer;
	Entry	   *entry = NULL;
	const char *volatile wrong = NULL;
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		wrong = batch_decoder_open(&decoder, payload, num_columns);
		if (wrong == NULL && !batch_decoder_is_at(&decoder, place))
			wrong = "belongs elsewhere";
		if (wrong == NULL)
		{
			entry_buffer_init(&buffer, context);
			do
			{
				buffer.used = 0;
				wrong = batch_decoder_next(&decoder, &buffer, &entry);
			} while (wrong == NULL && entry != NULL);
		}
	}
	PG_CATCH();
	{
		if (geterrcode() != ERRCODE_DATA_CORRUPTED)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
		wrong = "could not be decompressed";
	}
	PG_END_TRY();
	return wrong;
}

static bytea *
probe_damage(const bytea *original, pg_prng_state *prng)
{
	Size		size = VARSIZE(original);
	Size		len = size - VARHDRSZ;
	bytea	   *copy = palloc(size);
	unsigned char *data = (unsigned char *) VARDATA(copy);
	Size		at = pg_prng_uint64_range(prng, 0, len - 1);

	memcpy(copy, original, size);
	switch (pg_prng_uint64_range(prng, 0, 4))
	{
		case 0:
			data[at] ^= 1 << pg_prng_uint64_range(prng, 0, 7);
			break;
		case 1:
			data[at] ^= pg_prng_uint64_range(prng, 1, 255);
			break;
		case 2:
			for (Size i = at; i < Min(at + 16, len); i++)
				data[i] = pg_prng_uint64(prng);
			/* the run may have been written as it was */
			data[at] = ((unsigned char *) VARDATA(original))[at] ^ 0x55;
			break;
		case 3:
			SET_VARSIZE(copy, VARHDRSZ + at);
			break;
		case 4:
			/* somewhere in the head: versions, lengths, counts */
			data[pg_prng_uint64_range(prng, 4, sizeof(BatchHeader) - 1)] ^=
				pg_prng_uint64_range(prng, 1, 255);
			break;
	}
	return copy;
}

static void
probe_mend(bytea *payload)
{
	Size		len = VARSIZE(payload) - VARHDRSZ;
	pg_crc32c	crc;

	if (len < sizeof(BatchHeader))
		return;
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, VARDATA(payload) + sizeof(uint32), len - sizeof(uint32));
	FIN_CRC32C(crc);
	memcpy(VARDATA(payload), &crc, sizeof(crc));
}

Datum
batch_probe_mutate(PG_FUNCTION_ARGS)
{
	bytea	   *original = PG_GETARG_BYTEA_P_COPY(0);
	int			num_columns = PG_GETARG_INT32(1);
	int			mutations = PG_GETARG_INT32(2);
	bool		mend = PG_GETARG_BOOL(4);
	BatchHeader header;
	pg_prng_state prng;
	MemoryContext scratch;
	TupleDesc	desc;
	int64		refused = 0;
	int64		read = 0;
	Datum		values[2];
	bool		isnull[2] = {0};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "unexpected result type of batch_probe_mutate");
	memcpy(&header, VARDATA(original), sizeof(header));
	if (probe_decode(original, &header.place, num_columns) != NULL)
		elog(ERROR, "the undamaged payload %s",
			 probe_decode(original, &header.place, num_columns));

	pg_prng_seed(&prng, PG_GETARG_INT64(3));
	scratch = AllocSetContextCreate(CurrentMemoryContext, "peekstash probe",
									ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < mutations; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(scratch);
		bytea	   *copy = probe_damage(original, &prng);

		CHECK_FOR_INTERRUPTS();
		if (mend)
			probe_mend(copy);
		if (probe_decode(copy, &header.place, num_columns) == NULL)
			read++;
		else
			refused++;
		MemoryContextSwitchTo(old);
		MemoryContextReset(scratch);
	}

	values[0] = Int64GetDatum(refused);
	values[1] = Int64GetDatum(read);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, isnull)));
}

#endif							/* PEEKSTASH_STOP_POINTS */
