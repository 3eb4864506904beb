/*-------------------------------------------------------------------------
 *
 * fetch.h
 *	  The rows of an answer, over several links, into the output.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/peekget/fetch.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef FETCH_H
#define FETCH_H

#include "peekget/link.h"

extern int	fetch_rows(Link *first, Answer *answer);
extern void fetch_stop(void);

#endif							/* FETCH_H */
