/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  PostgreSQL 18's names for PostgreSQL 15 to 17.
 *
 * The sources read as for the newest server; what older ones call by another
 * name, or with other arguments, is mapped here and nowhere else.
 *
 * The headers that declare a function which is given other arguments here are
 * included first, so that it does not matter who includes this one when.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/compat.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_COMPAT_H
#define PEEKSTASH_COMPAT_H

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "peekstash needs PostgreSQL 15, 16, 17 or 18"
#endif

#include "access/genam.h"
#include "access/htup_details.h"
#include "executor/executor.h"
#include "utils/relcache.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* It stands before a declaration since 18. */
#ifndef pg_noreturn
#define pg_noreturn pg_attribute_noreturn()
#endif

/* Permissions of a range table moved out of its entries in 16. */
#if PG_VERSION_NUM < 160000
#define check_range_table_permissions(pstate) \
	ExecCheckRTPerms((pstate)->p_rtable, true)
#define range_table_selected_columns(pstate, rte) \
	(&(rte)->selectedCols)
#define range_table_required_perms(pstate, rte) \
	(&(rte)->requiredPerms)
#else
#define check_range_table_permissions(pstate) \
	ExecCheckPermissions((pstate)->p_rtable, (pstate)->p_rteperminfos, true)
#define range_table_selected_columns(pstate, rte) \
	(&getRTEPermissionInfo((pstate)->p_rteperminfos, (rte))->selectedCols)
#define range_table_required_perms(pstate, rte) \
	(&getRTEPermissionInfo((pstate)->p_rteperminfos, (rte))->requiredPerms)
#endif

/* Index scans are instrumented by their callers since 18. */
#if PG_VERSION_NUM < 180000
#define index_beginscan(heap, index, snapshot, instrument, nkeys, norderbys) \
	index_beginscan(heap, index, snapshot, nkeys, norderbys)
#endif

/* Parallel scans are told of keys since 17, and instrumented since 18. */
#if PG_VERSION_NUM < 170000
#define index_parallelscan_estimate(index, nkeys, norderbys, snapshot) \
	index_parallelscan_estimate(index, snapshot)
#elif PG_VERSION_NUM >= 180000
#define index_parallelscan_estimate(index, nkeys, norderbys, snapshot) \
	index_parallelscan_estimate(index, nkeys, norderbys, snapshot, false, \
								true, 0)
#define index_parallelscan_initialize(heap, index, snapshot, target) \
	index_parallelscan_initialize(heap, index, snapshot, false, true, 0, \
								  &(SharedIndexScanInstrumentation *) {NULL}, \
								  target)
#endif
#if PG_VERSION_NUM < 180000
#define index_beginscan_parallel(heap, index, instrument, nkeys, norderbys, pscan) \
	index_beginscan_parallel(heap, index, nkeys, norderbys, pscan)
#define ps_offset_am	ps_offset
#endif

/* Files were called nodes before 16. */
#if PG_VERSION_NUM < 160000
#define rd_newRelfilelocatorSubid	rd_newRelfilenodeSubid
#define rd_firstRelfilelocatorSubid	rd_firstRelfilenodeSubid
#endif

/* Room can be left before the tuple since 18. */
#if PG_VERSION_NUM < 180000
#define heap_form_minimal_tuple(desc, values, isnull, extra) \
	heap_form_minimal_tuple(desc, values, isnull)
#endif

/* Up to 17 it must be promised that a plan is run once, or not promised. */
#if PG_VERSION_NUM < 180000
#define ExecutorRun(desc, direction, count) \
	ExecutorRun(desc, direction, count, false)
#endif

/* Deferrable primary keys have to be asked for since 18. */
#if PG_VERSION_NUM < 180000
#define RelationGetPrimaryKeyIndex(relation, deferrable_ok) \
	RelationGetPrimaryKeyIndex(relation)
#endif

/* One function checks the owner of any object since 16. */
#if PG_VERSION_NUM < 160000
#define database_owned_by(database, role) \
	pg_database_ownercheck(database, role)
#else
#define database_owned_by(database, role) \
	object_ownercheck(DatabaseRelationId, database, role)
#endif

/* Virtual generated columns came with 18. */
#ifndef ATTRIBUTE_GENERATED_VIRTUAL
#define ATTRIBUTE_GENERATED_VIRTUAL 'v'
#endif

#endif							/* PEEKSTASH_COMPAT_H */
