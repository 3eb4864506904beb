/*-------------------------------------------------------------------------
 *
 * arrangement.h
 *	  A btree index and the table it leads to, opened and checked.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/walk/arrangement.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_ARRANGEMENT_H
#define PEEKSTASH_ARRANGEMENT_H

#include "postgres.h"

#include "nodes/bitmapset.h"
#include "utils/rel.h"

/* One key column of the index. */
typedef struct ArrangementColumn
{
	AttrNumber	table_attno;	/* 0 = an expression */
	Node	   *expr;			/* the expression, else NULL */
	Oid			type;			/* base type of the column or expression */
	Oid			opfamily;
	Oid			opcintype;		/* declared input type, maybe polymorphic */
	Oid			collation;
	bool		descending;
} ArrangementColumn;

typedef struct Arrangement
{
	Relation	heap;
	Relation	index;
	int			num_columns;	/* key columns; INCLUDE ones are not counted */
	ArrangementColumn *columns;
	bool		wants_new_snapshot; /* the active one is too old for the table */
	Bitmapset  *read_columns;	/* table's attributes that the walk itself
								 * reads, offset as in permission checks */
} Arrangement;

extern Arrangement *arrangement_open(Oid relid);
extern void arrangement_check_select(const Arrangement *arrangement,
									 Bitmapset *columns);
extern void arrangement_close(Arrangement *arrangement);
extern bool table_check_rewritten(Relation heap);
extern char *arrangement_column_name(const Arrangement *arrangement, int column);

#endif							/* PEEKSTASH_ARRANGEMENT_H */
