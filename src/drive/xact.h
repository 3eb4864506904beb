/*-------------------------------------------------------------------------
 *
 * xact.h
 *	  What the end of a (sub)transaction does to stashed answers.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/xact.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_XACT_H
#define PEEKSTASH_XACT_H

#include "postgres.h"

#include "utils/uuid.h"

extern void xact_register(void);
extern void xact_begin_background(void);
extern void xact_stash_opened(const pg_uuid_t *handle, Oid charged_to);
extern void xact_stash_grew(const pg_uuid_t *handle, int64 bytes);
extern bool xact_stash_exists(const pg_uuid_t *handle);
extern void xact_stash_delete(const pg_uuid_t *handle);
extern int	xact_slot_take(const pg_uuid_t *handle, Oid owner,
						   Oid charged_to);
extern void xact_slot_walked(int slot);
extern void xact_slot_give_back(int slot);
extern bool xact_release_in_flight(int slot, uint64 generation);
extern void xact_release_undo(void);
extern bool xact_has_released(int slot, uint64 generation);

#endif							/* PEEKSTASH_XACT_H */
