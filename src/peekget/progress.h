/*-------------------------------------------------------------------------
 *
 * progress.h
 *	  What people see meanwhile.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/peekget/progress.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PROGRESS_H
#define PROGRESS_H

#include "peekget/peekget.h"

extern void progress_begin(int64 num_rows, int64 rows, int64 bytes);
extern void progress_note(const char *format,...) pg_attribute_printf(1, 2);
extern void progress_rows(int64 rows, int64 bytes);
extern void progress_clear(void);
extern void progress_end(int64 rows, int64 bytes);

#endif							/* PROGRESS_H */
