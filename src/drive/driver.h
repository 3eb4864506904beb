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

extern PeekAnswer *driver_run_inline(Arrangement *arrangement,
									 const PeekRequest *request,
									 const PeekKnobs *knobs);
extern PeekAnswer *driver_run_submitted(Arrangement *arrangement,
										const PeekRequest *request,
										const PeekKnobs *knobs,
										HandleRow *handle, bool claim,
										int64 page_rows);
extern bool driver_answer_is_kept(const PeekAnswer *answer);
extern const PeekOutcome *driver_answer_outcome(const PeekAnswer *answer);
extern const Entry *driver_answer_next(PeekAnswer *answer);
extern void driver_answer_end(PeekAnswer *answer, bool complete);

#endif							/* PEEKSTASH_DRIVER_H */
