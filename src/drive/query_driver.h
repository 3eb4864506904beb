/*-------------------------------------------------------------------------
 *
 * query_driver.h
 *	  Steps a query and makes an answer of its rows.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/query_driver.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_QUERY_DRIVER_H
#define PEEKSTASH_QUERY_DRIVER_H

#include "drive/driver.h"
#include "walk/query.h"

extern PeekAnswer *driver_run_query(const PeekQuery *query,
									const PeekKnobs *knobs,
									HandleRow *handle,
									const PeekSubmit *submit);

#endif							/* PEEKSTASH_QUERY_DRIVER_H */
