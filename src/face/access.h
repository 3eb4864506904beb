/*-------------------------------------------------------------------------
 *
 * access.h
 *	  Who may do what with a handle.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/access.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_ACCESS_H
#define PEEKSTASH_ACCESS_H

#include "peekstash.h"

#include "drive/registry.h"
#include "fmgr.h"
#include "stash/handle.h"

extern pg_uuid_t *handle_argument(FunctionCallInfo fcinfo, int argno);
extern void check_stash_readable(void);
extern void check_snapshot_sees(const pg_uuid_t *handle);
extern bool may_own(Oid owner);
extern bool may_anybody_own(Oid owner);
extern bool may_read(const HandleRow *row);
extern bool may_release(const HandleRow *row);
extern bool may_see_status(const HandleRow *row);
extern bool may_anybody(const HandleRow *row);
extern bool find_in_flight(const pg_uuid_t *handle, bool (*may) (Oid owner),
						   PeekInFlight *in_flight);
extern bool has_expired(const StoredPeek *peek);
extern StoredPeek *load_readable(const pg_uuid_t *handle, int64 end_row);

#endif							/* PEEKSTASH_ACCESS_H */
