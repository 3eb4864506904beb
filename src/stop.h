/*-------------------------------------------------------------------------
 *
 * stop.h
 *	  Named places where a test can make a process throw, wait or die.
 *
 * PEEK_STOP("name") costs nothing in a normal build: it is compiled out.
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

#define PEEK_STOP(name)		stop_point_reached(name)
#else
#define PEEK_STOP(name)		((void) 0)
#endif

#endif							/* PEEKSTASH_STOP_H */
