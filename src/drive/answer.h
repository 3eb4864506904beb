/*-------------------------------------------------------------------------
 *
 * answer.h
 *	  What a driver makes of the batches that a source of rows cuts.
 *
 * For drivers; those who read an answer use driver.h.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/answer.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_ANSWER_H
#define PEEKSTASH_ANSWER_H

#include "drive/driver.h"
#include "drive/spool.h"
#include "knobs.h"
#include "peekstash.h"
#include "portability/instr_time.h"
#include "stash/handle.h"
#include "stash/reader.h"
#include "stash/upload.h"
#include "stat.h"
#include "walk/collection.h"

struct PeekAnswer
{
	PeekOutcome outcome;
	int64		read_bytes;		/* how much the reader may hold */

	/* the batches: in the stash, in a spool, or nowhere */
	StashUpload *upload;		/* while walking */
	pg_uuid_t	handle;			/* what batches are found by */
	pg_uuid_t	stash;			/* what they are known by */
	Oid			charged_to;		/* for quotas: the session user */
	int			worker;			/* 0 = the submitter itself */
	UploadTotals totals;
	PeekSpool  *spool;

	/* of a submitted peek */
	HandleRow  *keep;			/* NULL = a direct peek */
	bool		kept;			/* the handle row has been written */
	int			slot;			/* of the registry, or -1 */
	const char *stash_reason;
	const char *inline_reason;	/* why it was not offloaded, or NULL */
	int64		estimated_positions;	/* -1 = not known */

	/* of an offloaded one: what others have written of it */
	int			num_workers;	/* 0 = inline */
	int			num_shares;		/* beside the submitter's */
	int64		share_rows[MAX_WALK_WORKERS + 1];	/* per worker */
	UploadTotals others;

	/* reading: the run of entries at hand, and what comes after it */
	StashReader *reader;
	const char *next;
	const char *end;
	bool		in_tail;

	PeekScanState reported;		/* what other sessions have been told */
	int64		reported_bytes;

	PeekCounts	counts;			/* what it adds to the statistics */
};

#define PEEK_CANCELLED_BY_USER	"canceling peek due to user request"

extern PeekAnswer *answer_create(const PeekKnobs *knobs,
								 RowDescription *description, HandleRow *keep);
extern bool answer_take_handle(PeekAnswer *answer, const PeekKnobs *knobs,
							   const PeekSubmit *submit);
extern void answer_collection_options(const PeekAnswer *answer,
									  const PeekKnobs *knobs,
									  CollectionOptions *options);
extern void answer_batch(PeekAnswer *answer, const EntryBatch *batch,
						 const PeekKnobs *knobs);
extern void answer_report(PeekAnswer *answer, const PeekScanState *state,
						  bool ended);
extern void answer_complete(PeekAnswer *answer, PeekCollection *collection,
							const PeekScanState *state,
							const PeekKnobs *knobs);
extern void answer_complete_share(PeekAnswer *answer,
								  PeekCollection *collection,
								  const PeekKnobs *knobs);
extern void answer_store_outcome(PeekAnswer *answer, const PeekKnobs *knobs);
extern void answer_keep_or_not(PeekAnswer *answer, const PeekKnobs *knobs,
							   const PeekSubmit *submit);
extern void answer_walked(PeekAnswer *answer, double seconds);
extern void answer_count(PeekAnswer *answer, double seconds);
extern void answer_count_error(const PeekScanState *state, double seconds);
extern void answer_count_failure(bool cancelled, bool offloaded,
								 int64 positions, double seconds);
extern void answer_notify(const PeekKnobs *knobs, const pg_uuid_t *handle,
						  const char *state);
extern double seconds_since(instr_time start);

#endif							/* PEEKSTASH_ANSWER_H */
