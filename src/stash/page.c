/*-------------------------------------------------------------------------
 *
 * page.c
 *	  A page of a stored answer: its rows from a number on.
 *
 * Row numbers run over the batches of the first worker, then of the next, and
 * so on, then over the tail.  The row of a number is found through the primary
 * key of the batch table; only batches that the page touches are decoded.
 *
 *		worker 0			worker 1			tail
 *		| batch | batch |	| batch | batch |	| rows |
 *		0 ...				share_rows[0] ...
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/stash/page.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "errors.h"
#include "portability/instr_time.h"
#include "row.h"
#include "ruler.h"
#include "stash/batch.h"
#include "stash/page.h"
#include "stash/reader.h"
#include "utils/memutils.h"

#include "compat.h"

struct StashPage
{
	const StoredPeek *peek;
	MemoryContext context;
	int64		rows_left;		/* of the page */
	int64		bytes_left;		/* by the ruler; -1 = no limit */
	int64		read_bytes;
	bool		started;		/* a row has been returned */

	/* where it stands: in the batches of a worker, or in the tail */
	int			worker;
	int64		worker_row;		/* where the reader of the worker begins */
	StashReader *reader;
	bool		in_tail;
	int64		tail_skip;		/* rows of the tail before the page */
	EntryBuffer tail;

	/* the run of entries at hand */
	const char *next;
	const char *end;
	const Entry *entry;
	int64		copies_left;	/* of entry */

	int64		num_batches;	/* of readers that are closed */
	double		seconds;
};

/* Does the outcome add up? */
static void
check_counts(const StoredPeek *peek)
{
	const OutcomeRow *outcome = &peek->outcome;
	int64		rows = outcome->tail_num_rows;

	for (int i = 0; i < outcome->num_shares; i++)
		rows += outcome->share_rows[i];
	if (rows != outcome->num_rows)
		error_answer_damaged(stash_handle_text(&outcome->handle),
							 "The rows of batches and tail do not add up to those of the answer.");
}

/*
 * Open a page in the current context: at most max_rows rows (-1 = all) of at
 * most max_bytes (-1 = any), but at least one, from from_row on.
 */
StashPage *
stash_page_open(const StoredPeek *peek, int64 from_row, int64 max_rows,
				int64 max_bytes, int64 read_bytes)
{
	const OutcomeRow *outcome = &peek->outcome;
	StashPage  *page = palloc0(sizeof(StashPage));
	int64		row = from_row;

	check_counts(peek);
	page->peek = peek;
	page->context = CurrentMemoryContext;
	page->rows_left = Max(outcome->num_rows - from_row, 0);
	if (max_rows >= 0)
		page->rows_left = Min(page->rows_left, max_rows);
	page->bytes_left = max_bytes;
	page->read_bytes = read_bytes;
	entry_buffer_init(&page->tail, CurrentMemoryContext);

	while (page->worker < outcome->num_shares &&
		   row >= outcome->share_rows[page->worker])
		row -= outcome->share_rows[page->worker++];
	if (page->worker < outcome->num_shares)
		page->worker_row = row;
	else
		page->tail_skip = row;
	return page;
}

static void
page_close_reader(StashPage *page)
{
	page->num_batches += stash_reader_batches(page->reader);
	stash_reader_close(page->reader);
	page->reader = NULL;
}

/* The next run of entries from the batches; false after the last. */
static bool
page_read_batches(StashPage *page)
{
	const OutcomeRow *outcome = &page->peek->outcome;
	Size		size;

	for (; page->worker < outcome->num_shares; page->worker++)
	{
		int64		num_rows = outcome->share_rows[page->worker];

		if (num_rows > page->worker_row && page->reader == NULL)
		{
			page->reader = stash_reader_open(&outcome->handle,
											 &outcome->stash, true,
											 page->worker,
											 page->peek->handle.num_columns,
											 num_rows, page->read_bytes);
			if (page->worker_row > 0)
				stash_reader_seek(page->reader, page->worker_row);
		}
		if (page->reader != NULL &&
			stash_reader_next(page->reader, page->rows_left, &page->next,
							  &size))
		{
			page->end = page->next + size;
			return true;
		}
		if (page->reader != NULL)
			page_close_reader(page);
		page->worker_row = 0;
	}
	return false;
}

/* The tail is decoded whole: it is no larger than what a reader may hold. */
static void
page_read_tail(StashPage *page)
{
	const OutcomeRow *outcome = &page->peek->outcome;
	int64		rows = 0;
	int64		skip = page->tail_skip;
	Size		start = 0;
	BatchDecoder decoder;
	const char *wrong = NULL;

	if (outcome->tail != NULL)
	{
		Entry	   *entry;
		BatchPlace	place;

		wrong = batch_decoder_open(&decoder, outcome->tail,
								   page->peek->handle.num_columns);
		batch_place_set(&place, &outcome->stash, TAIL_WORKER,
						outcome->num_rows - outcome->tail_num_rows);
		if (wrong == NULL && !batch_decoder_is_at(&decoder, &place))
			wrong = "belongs elsewhere";
		while (wrong == NULL)
		{
			Size		used = page->tail.used;

			wrong = batch_decoder_next(&decoder, &page->tail, &entry);
			if (wrong != NULL || entry == NULL)
				break;
			rows += entry->copies;
			if (skip >= entry->copies)
			{
				skip -= entry->copies;
				start = page->tail.used;
			}
			else if (skip > 0)
			{
				entry->copies -= skip;
				skip = 0;
				start = used;
			}
		}
		if (wrong == NULL)
			batch_decoder_close(&decoder);
	}
	if (wrong == NULL && rows != outcome->tail_num_rows)
		wrong = "has wrong counts";
	if (wrong != NULL)
		error_answer_damaged(stash_handle_text(&outcome->handle),
							 psprintf("The tail %s.", wrong));

	page->in_tail = true;
	page->next = page->tail.data + start;
	page->end = page->tail.data + page->tail.used;
}

/* Go on to the next entry; the page has rows left, so there must be one. */
static void
page_next_entry(StashPage *page)
{
	while (page->next == page->end)
	{
		instr_time	start;
		instr_time	duration;
		MemoryContext old = MemoryContextSwitchTo(page->context);

		INSTR_TIME_SET_CURRENT(start);
		if (page->in_tail)
			error_answer_damaged(stash_handle_text(&page->peek->outcome.handle),
								 "Rows are missing at its end.");
		if (!page_read_batches(page))
			page_read_tail(page);
		INSTR_TIME_SET_CURRENT(duration);
		INSTR_TIME_SUBTRACT(duration, start);
		page->seconds += INSTR_TIME_GET_DOUBLE(duration);
		MemoryContextSwitchTo(old);
	}
	page->entry = (const Entry *) page->next;
	page->copies_left = page->entry->copies;
	page->next += entry_size(page->entry);
}

/*
 * The next row of the page, as the entry that it is a copy of, valid until the
 * next call; NULL at the end of the page.
 */
const Entry *
stash_page_next(StashPage *page)
{
	int64		bytes;

	if (page->rows_left == 0)
		return NULL;
	if (page->copies_left == 0)
		page_next_entry(page);

	bytes = entry_byte_len(&page->entry->row);
	if (page->bytes_left >= 0)
	{
		if (page->started && bytes > page->bytes_left)
		{
			page->rows_left = 0;
			return NULL;
		}
		page->bytes_left = Max(page->bytes_left - bytes, 0);
	}
	page->started = true;
	page->rows_left--;
	page->copies_left--;
	return page->entry;
}

/* Batches that were read for the page. */
int64
stash_page_batches(const StashPage *page)
{
	return page->num_batches +
		(page->reader != NULL ? stash_reader_batches(page->reader) : 0);
}

/* The time that reading took. */
double
stash_page_seconds(const StashPage *page)
{
	return page->seconds;
}

void
stash_page_close(StashPage *page)
{
	if (page->reader != NULL)
		page_close_reader(page);
	entry_buffer_free(&page->tail);
}
