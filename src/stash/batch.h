/*-------------------------------------------------------------------------
 *
 * batch.h
 *	  The stored form of entries.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/stash/batch.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_BATCH_H
#define PEEKSTASH_BATCH_H

#include "peekstash.h"
#include "row.h"
#include "utils/uuid.h"

typedef enum BatchCodec
{
	BATCH_CODEC_NONE = 0,
	BATCH_CODEC_LZ4 = 1
} BatchCodec;

/*
 * Where a payload belongs, so that it is not taken for another.  An answer is
 * known by a uuid of its own: a handle can be used again.
 */
typedef struct BatchPlace
{
	int64		first_row;
	pg_uuid_t	stash;
	int32		worker;			/* TAIL_WORKER = the tail of the answer */
	uint32		unused;			/* 0 */
} BatchPlace;

#define TAIL_WORKER	(-1)

/* The head of each payload, in the machine's own byte order. */
typedef struct BatchHeader
{
	uint32		checksum;		/* CRC-32C of everything behind it */
	uint8		version;
	uint8		codec;
	uint16		num_columns;
	uint32		raw_len;		/* of the entries before compression */
	uint32		num_entries;
	int64		num_rows;		/* copies counted */
	int64		answer_bytes;	/* by the ruler */
	BatchPlace	place;
} BatchHeader;

/* Makes a payload. */
typedef struct BatchEncoder
{
	char	   *data;			/* room for the heads, then entries */
	Size		used;
	Size		allocated;
	MemoryContext context;		/* where data lives */
	BatchHeader header;
} BatchEncoder;

/* Takes a payload apart. */
typedef struct BatchDecoder
{
	BatchHeader header;
	const char *next;			/* entries not yet decoded */
	const char *end;
	void	   *decompressed;	/* what they lie in, if they were compressed */
	uint32		entries_left;
	int64		rows_left;
	int64		bytes_left;
} BatchDecoder;

extern void batch_encoder_init(BatchEncoder *encoder, MemoryContext context);
extern void batch_encoder_start(BatchEncoder *encoder, int num_columns);
extern void batch_encoder_add(BatchEncoder *encoder, const Entry *entry);
extern void batch_place_set(BatchPlace *place, const pg_uuid_t *stash,
							int worker, int64 first_row);
extern bytea *batch_encoder_finish(BatchEncoder *encoder,
								   const BatchPlace *place, BatchCodec codec);

extern const char *batch_decoder_open(BatchDecoder *decoder,
									  const bytea *payload, int num_columns);
extern const char *batch_decoder_next(BatchDecoder *decoder,
									  EntryBuffer *buffer, Entry **entry);
extern bool batch_decoder_is_at(const BatchDecoder *decoder,
								const BatchPlace *place);
extern void batch_decoder_close(BatchDecoder *decoder);

#endif							/* PEEKSTASH_BATCH_H */
