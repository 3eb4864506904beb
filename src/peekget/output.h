/*-------------------------------------------------------------------------
 *
 * output.h
 *	  Where the rows go.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/peekget/output.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include "peekget/peekget.h"

extern int	output_open(void);
extern bool output_is_resumable(void);
extern bool output_is_empty(void);
extern int	output_verify(void);
extern int	output_begin(void);
extern int	output_write(const char *data, size_t length);
extern int	output_boundary(int64 rows);
extern int	output_make_durable(void);
extern void output_give_up(void);
extern int	output_close(bool discard);
extern int64 output_rows(void);
extern int64 output_bytes(void);

#endif							/* OUTPUT_H */
