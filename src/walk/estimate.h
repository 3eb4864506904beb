/*-------------------------------------------------------------------------
 *
 * estimate.h
 *	  About how many positions a walk has.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/walk/estimate.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_ESTIMATE_H
#define PEEKSTASH_ESTIMATE_H

#include "peekstash.h"

#include "walk/arrangement.h"

extern int64 estimate_positions(const Arrangement *arrangement,
								const PeekRequest *request,
								const List *residual);

#endif							/* PEEKSTASH_ESTIMATE_H */
