/*-------------------------------------------------------------------------
 *
 * transfer.h
 *	  A request on its way to another process.
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

extern void transfer_write_request(StringInfo buffer,
								   const PeekRequest *request);
extern PeekRequest *transfer_read_request(char *data, Size size);

#endif							/* PEEKSTASH_TRANSFER_H */
