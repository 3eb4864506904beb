/*-------------------------------------------------------------------------
 *
 * transfer.h
 *	  A request or a query on its way to another process.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/transfer.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_TRANSFER_H
#define PEEKSTASH_TRANSFER_H

#include "peekstash.h"

#include "lib/stringinfo.h"
#include "walk/query.h"

extern void transfer_write_request(StringInfo buffer,
								   const PeekRequest *request);
extern PeekRequest *transfer_read_request(char *data, Size size);
extern void transfer_write_query(StringInfo buffer, const PeekQuery *query);
extern PeekQuery *transfer_read_query(char *data, Size size);

#endif							/* PEEKSTASH_TRANSFER_H */
