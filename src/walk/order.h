/*-------------------------------------------------------------------------
 *
 * order.h
 *	  The sort of an answer with order_by.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/walk/order.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_ORDER_H
#define PEEKSTASH_ORDER_H

#include "peekstash.h"
#include "row.h"

typedef struct PeekOrder PeekOrder;

typedef struct OrderOptions
{
	int			num_keys;
	AttrNumber *attnos;			/* columns of the offered slots */
	Oid		   *types;
	Oid		   *operators;
	Oid		   *collations;
	bool	   *nulls_first;
	int64		max_rows;		/* first rows wanted, copies counted; -1 = all */
} OrderOptions;

extern PeekOrder *order_create(const OrderOptions *options);
extern bool order_wants(PeekOrder *order, const Datum *keys,
						const bool *isnull);
extern void order_put(PeekOrder *order, const Entry *entry, const Datum *keys,
					  const bool *isnull);
extern bool order_add_copy(PeekOrder *order, const Entry *entry,
						   const Datum *keys, const bool *isnull);
extern void order_sort(PeekOrder *order);
extern const Entry *order_next(PeekOrder *order);
extern bool order_can_move(const PeekOrder *order);
extern int	order_export(PeekOrder *order, EntryBuffer *buffer);
extern void order_import(PeekOrder *order, const Entry *entry);
extern void order_end(PeekOrder *order);

#endif							/* PEEKSTASH_ORDER_H */
