/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  The stored form of entries.
 *
 * A payload is a head and, behind it, entries one after the other, maybe
 * compressed as a whole:
 *
 *		head	checksum, version, codec, counts, place (BatchHeader)
 *		entry	number of copies	variable length, 7 bits a byte
 *				length of the row	the same
 *				the row				from its column count on, as in memory
 *
 * Payloads are read by the cluster that wrote them, so numbers and rows keep
 * the machine's own layout.
 *
 * Compression is the server's own, lz4_compress_datum(): no library of ours,
 * and where the server has none there is none.
 *
 * The decoder trusts nothing: it checks the checksum before anything else,
 * each length before it is used, and in the end that rows, entries and bytes
 * add up to what the head says.  It returns what is wrong as text, and leaves
 * it to its caller to name the peek.  This file knows no server state: all it
 * needs is memory.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/stash/batch.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/toast_compression.h"
#include "access/toast_internals.h"
#include "port/pg_crc32c.h"
#include "ruler.h"
#include "stash/batch.h"
#include "utils/memutils.h"

#include "compat.h"

#define BATCH_VERSION	1

StaticAssertDecl(sizeof(BatchHeader) == 64, "the head of a batch has holes");

/* Where the entries begin in a payload, its varlena header included. */
#define ENTRIES_OFFSET	(VARHDRSZ + sizeof(BatchHeader))

/* The shortest row has a header and nothing else. */
#define MIN_ROW_LEN \
	(offsetof(MinimalTupleData, t_bits) - MINIMAL_TUPLE_DATA_OFFSET)

/* The longest number takes ten bytes of seven bits. */
#define MAX_NUMBER_LEN	10

/*
 * Larger payloads stay as they are: the compressor's worst case has to fit
 * into one palloc.
 */
#define MAX_COMPRESSED_LEN	(256 * 1024 * 1024)

static uint32
batch_checksum(const BatchHeader *header, const char *data, Size len)
{
	pg_crc32c	crc;
	Size		skip = sizeof(header->checksum);

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, (const char *) header + skip, sizeof(*header) - skip);
	COMP_CRC32C(crc, data, len);
	FIN_CRC32C(crc);
	return crc;
}

static char *
put_number(char *to, uint64 number)
{
	while (number >= 0x80)
	{
		*to++ = (char) (number | 0x80);
		number >>= 7;
	}
	*to++ = (char) number;
	return to;
}

/* Read a number; NULL if it does not end before end, or is too long. */
static const char *
get_number(const char *from, const char *end, uint64 *number)
{
	int			shift = 0;

	*number = 0;
	while (from < end && shift < 64)
	{
		uint64		bits = (unsigned char) *from++;

		*number |= (bits & 0x7f) << shift;
		if ((bits & 0x80) == 0)
			return from;
		shift += 7;
	}
	return NULL;
}

void
batch_encoder_init(BatchEncoder *encoder, MemoryContext context)
{
	memset(encoder, 0, sizeof(*encoder));
	encoder->context = context;
}

/* Begin a payload; the memory of the one before is used again. */
void
batch_encoder_start(BatchEncoder *encoder, int num_columns)
{
	memset(&encoder->header, 0, sizeof(encoder->header));
	encoder->header.version = BATCH_VERSION;
	encoder->header.num_columns = num_columns;
	encoder->used = ENTRIES_OFFSET;
}

void
batch_encoder_add(BatchEncoder *encoder, const Entry *entry)
{
	Size		row_len = entry->row.t_len - MINIMAL_TUPLE_DATA_OFFSET;
	Size		needed = encoder->used + 2 * MAX_NUMBER_LEN + row_len;
	char	   *to;

	if (needed > encoder->allocated)
	{
		/* as for entries in memory: double while small */
		Size		allocated = needed < 64 * 1024 * 1024 ?
			needed * 2 : needed + needed / 8;

		if (encoder->data == NULL)
			encoder->data = MemoryContextAllocHuge(encoder->context,
												   allocated);
		else
			encoder->data = repalloc_huge(encoder->data, allocated);
		encoder->allocated = allocated;
	}

	to = encoder->data + encoder->used;
	to = put_number(to, entry->copies);
	to = put_number(to, row_len);
	memcpy(to, (const char *) &entry->row + MINIMAL_TUPLE_DATA_OFFSET,
		   row_len);
	encoder->used = to + row_len - encoder->data;

	encoder->header.num_entries++;
	encoder->header.num_rows += entry->copies;
	encoder->header.answer_bytes += entry_byte_len(&entry->row);
}

void
batch_place_set(BatchPlace *place, const pg_uuid_t *stash, int worker,
				int64 first_row)
{
	place->stash = *stash;
	place->worker = worker;
	place->first_row = first_row;
	place->unused = 0;
}

/*
 * The finished payload.  It lies in the encoder's memory, or in the current
 * context, and holds until the encoder is started again.
 */
bytea *
batch_encoder_finish(BatchEncoder *encoder, const BatchPlace *place,
					 BatchCodec codec)
{
	BatchHeader *header = &encoder->header;
	char	   *payload = encoder->data;
	Size		raw_len = encoder->used - ENTRIES_OFFSET;
	Size		len = raw_len;

	Assert(header->num_entries > 0);
	header->place = *place;
	header->raw_len = raw_len;
	header->codec = BATCH_CODEC_NONE;

	if (codec == BATCH_CODEC_LZ4 && raw_len <= MAX_COMPRESSED_LEN)
	{
		/* the entries, made to look like a value: the head is written later */
		struct varlena *raw = (struct varlena *)
			(encoder->data + ENTRIES_OFFSET - VARHDRSZ);
		struct varlena *compressed;

		SET_VARSIZE(raw, VARHDRSZ + raw_len);
		compressed = lz4_compress_datum(raw);
		if (compressed != NULL)
		{
			len = VARSIZE(compressed) - VARHDRSZ_COMPRESSED;
			payload = palloc(ENTRIES_OFFSET + len);
			memcpy(payload + ENTRIES_OFFSET,
				   (char *) compressed + VARHDRSZ_COMPRESSED, len);
			pfree(compressed);
			header->codec = BATCH_CODEC_LZ4;
		}
	}

	header->checksum = batch_checksum(header, payload + ENTRIES_OFFSET, len);
	memcpy(payload + VARHDRSZ, header, sizeof(*header));
	SET_VARSIZE(payload, ENTRIES_OFFSET + len);
	return (bytea *) payload;
}

/*
 * Open a payload that shall have rows of num_columns columns.  Returns NULL,
 * or what is wrong with it; then there is nothing to close.  payload must be
 * neither compressed nor out of line, and stay until batch_decoder_close().
 * Decompressed entries live in the current context.
 */
const char *
batch_decoder_open(BatchDecoder *decoder, const bytea *payload,
				   int num_columns)
{
	Size		size = VARSIZE_ANY_EXHDR(payload);
	const char *data = VARDATA_ANY(payload);
	BatchHeader *header = &decoder->header;

	memset(decoder, 0, sizeof(*decoder));
	if (size < sizeof(BatchHeader))
		return "is truncated";
	memcpy(header, data, sizeof(BatchHeader));
	data += sizeof(BatchHeader);
	size -= sizeof(BatchHeader);

	if (header->checksum != batch_checksum(header, data, size))
		return "has a wrong checksum";
	if (header->version != BATCH_VERSION)
		return "has an unknown version";
	if (header->num_columns != num_columns)
		return "has a wrong number of columns";

	switch (header->codec)
	{
		case BATCH_CODEC_NONE:
			if (header->raw_len != size)
				return "has a wrong length";
			break;
		case BATCH_CODEC_LZ4:
			{
				struct varlena *compressed;
				struct varlena *raw;

				if (header->raw_len == 0 ||
					header->raw_len > MAX_COMPRESSED_LEN)
					return "has a wrong length";
				compressed = palloc(VARHDRSZ_COMPRESSED + size);
				SET_VARSIZE_COMPRESSED(compressed, VARHDRSZ_COMPRESSED + size);
				TOAST_COMPRESS_SET_SIZE_AND_COMPRESS_METHOD(compressed,
															header->raw_len,
															TOAST_LZ4_COMPRESSION_ID);
				memcpy((char *) compressed + VARHDRSZ_COMPRESSED, data, size);
				raw = lz4_decompress_datum(compressed);
				pfree(compressed);
				size = VARSIZE(raw) - VARHDRSZ;
				if (size != header->raw_len)
				{
					pfree(raw);
					return "has a wrong length";
				}
				data = VARDATA(raw);
				decoder->decompressed = raw;
				break;
			}
		default:
			return "has an unknown codec";
	}

	decoder->next = data;
	decoder->end = data + size;
	decoder->entries_left = header->num_entries;
	decoder->rows_left = header->num_rows;
	decoder->bytes_left = header->answer_bytes;
	return NULL;
}

/* Is this, read from a payload, a row that can be looked at? */
static bool
row_is_sound(const MinimalTupleData *row, int num_columns)
{
	Size		bitmap = (row->t_infomask & HEAP_HASNULL) ?
		BITMAPLEN(num_columns) : 0;

	return row->t_infomask2 == num_columns &&
		(row->t_infomask & ~(HEAP_HASNULL | HEAP_HASVARWIDTH)) == 0 &&
		row->t_hoff == MAXALIGN(SizeofHeapTupleHeader + bitmap) &&
		row->t_len + MINIMAL_TUPLE_OFFSET >= row->t_hoff;
}

/*
 * Decode the next entry to the end of buffer.  Returns NULL, or what is wrong;
 * *entry is NULL when there are no more.  The entry's place in the buffer
 * moves when the buffer grows.
 */
const char *
batch_decoder_next(BatchDecoder *decoder, EntryBuffer *buffer, Entry **entry)
{
	uint64		copies;
	uint64		row_len;
	Size		size;
	Entry	   *result;
	const char *next = decoder->next;

	*entry = NULL;
	if (next == decoder->end)
		return decoder->entries_left == 0 && decoder->rows_left == 0 &&
			decoder->bytes_left == 0 ? NULL : "has wrong counts";
	if (decoder->entries_left == 0)
		return "has wrong counts";

	next = get_number(next, decoder->end, &copies);
	if (next == NULL || copies == 0 || copies > (uint64) decoder->rows_left)
		return "has wrong counts";
	next = get_number(next, decoder->end, &row_len);
	if (next == NULL || row_len > (uint64) (decoder->end - next) ||
		row_len < MIN_ROW_LEN)
		return "has a row of a wrong length";

	size = MAXALIGN(ENTRY_ROW_OFFSET + MINIMAL_TUPLE_DATA_OFFSET + row_len);
	entry_buffer_reserve(buffer, size);
	result = (Entry *) (buffer->data + buffer->used);
	result->copies = copies;
	result->row.t_len = MINIMAL_TUPLE_DATA_OFFSET + row_len;
	memset(result->row.mt_padding, 0, sizeof(result->row.mt_padding));
	memcpy((char *) &result->row + MINIMAL_TUPLE_DATA_OFFSET, next, row_len);
	if (!row_is_sound(&result->row, decoder->header.num_columns))
		return "has a damaged row";

	buffer->used += size;
	decoder->next = next + row_len;
	decoder->entries_left--;
	decoder->rows_left -= copies;
	decoder->bytes_left -= entry_byte_len(&result->row);
	*entry = result;
	return NULL;
}

/* Was the payload written for this place? */
bool
batch_decoder_is_at(const BatchDecoder *decoder, const BatchPlace *place)
{
	return memcmp(&decoder->header.place, place, sizeof(BatchPlace)) == 0;
}

void
batch_decoder_close(BatchDecoder *decoder)
{
	if (decoder->decompressed != NULL)
		pfree(decoder->decompressed);
	decoder->decompressed = NULL;
}
