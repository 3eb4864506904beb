/*-------------------------------------------------------------------------
 *
 * stop.h
 *	  Named places where a test can make a process throw, wait or die.
 *
 * PEEK_STOP("name") costs nothing in a normal build: it is compiled out.
 * PEEK_SKIPPED("name") is constant false there; in a test it tells whether a
 * protection shall be left out, to show that it is needed.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/stop.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_STOP_H
#define PEEKSTASH_STOP_H

#ifdef PEEKSTASH_STOP_POINTS
extern void stop_point_reached(const char *name);

extern bool stop_point_skipped(const char *name);

#define PEEK_STOP(name)		stop_point_reached(name)
#define PEEK_SKIPPED(name)	stop_point_skipped(name)
#else
#define PEEK_STOP(name)		((void) 0)
#define PEEK_SKIPPED(name)	false
#endif

#endif							/* PEEKSTASH_STOP_H */
