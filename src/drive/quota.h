/*-------------------------------------------------------------------------
 *
 * quota.h
 *	  How much is stored, and how much may be.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/quota.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_QUOTA_H
#define PEEKSTASH_QUOTA_H

#include "knobs.h"
#include "nodes/pg_list.h"

extern void quota_init(void);
extern void quota_check_room(const PeekKnobs *knobs, Oid charged_to);
extern void quota_look(Oid charged_to);
extern void quota_add_peek(const PeekKnobs *knobs, Oid charged_to);
extern void quota_add_bytes(const PeekKnobs *knobs, Oid charged_to,
							int64 bytes);
extern void quota_freed(Oid charged_to, int64 peeks, int64 bytes, void *arg);
extern bool quota_orphans_are_due(void);
extern bool quota_orphans_are_gone(void);
extern void quota_remember_database(void);
extern List *quota_databases(void);
extern void quota_forget_database(Oid database);
extern int64 quota_stash_bytes(void);
extern int64 quota_disk_bytes(void);
extern bool quota_is_unsettled(void);
extern void quota_at_end(bool commit);
extern void quota_at_subend(bool commit, SubTransactionId subid,
							SubTransactionId parent);

#endif							/* PEEKSTASH_QUOTA_H */
