/*-------------------------------------------------------------------------
 *
 * driver.h
 *	  Steps a walk and makes an answer of what it collects.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/driver.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_DRIVER_H
#define PEEKSTASH_DRIVER_H

#include "knobs.h"
#include "peekstash.h"
#include "stash/handle.h"
#include "walk/arrangement.h"

/* An answer of the calling backend, being read. */
typedef struct PeekAnswer PeekAnswer;

/* How a submitted peek shall be driven. */
typedef struct PeekSubmit
{
	bool		claim;			/* the handle is the client's, maybe taken */
	int64		page_rows;		/* kept only if it has more; -1 = always */
	bool		may_offload;
	bool		background;		/* it must be offloaded */
	bool		wrote_before;	/* the transaction had written something */
	bool		replaced;		/* an older answer of the handle is deleted */
} PeekSubmit;

extern PeekAnswer *driver_run_inline(Arrangement *arrangement,
									 const PeekRequest *request,
									 const PeekKnobs *knobs);
extern PeekAnswer *driver_run_submitted(Arrangement *arrangement,
										const PeekRequest *request,
										const PeekKnobs *knobs,
										HandleRow *handle,
										const PeekSubmit *submit);
extern bool driver_answer_is_kept(const PeekAnswer *answer);
extern const PeekOutcome *driver_answer_outcome(const PeekAnswer *answer);
extern const Entry *driver_answer_next(PeekAnswer *answer);
extern void driver_answer_end(PeekAnswer *answer, bool complete);

#endif							/* PEEKSTASH_DRIVER_H */
