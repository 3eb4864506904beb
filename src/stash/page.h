/*-------------------------------------------------------------------------
 *
 * page.h
 *	  A page of a stored answer: its rows from a number on.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/stash/page.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_PAGE_H
#define PEEKSTASH_PAGE_H

#include "peekstash.h"
#include "stash/handle.h"

typedef struct StashPage StashPage;

extern StashPage *stash_page_open(const StoredPeek *peek, int64 from_row,
								  int64 max_rows, int64 max_bytes,
								  int64 read_bytes);
extern const Entry *stash_page_next(StashPage *page);
extern int64 stash_page_batches(const StashPage *page);
extern double stash_page_seconds(const StashPage *page);
extern void stash_page_close(StashPage *page);

#endif							/* PEEKSTASH_PAGE_H */
