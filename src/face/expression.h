/*-------------------------------------------------------------------------
 *
 * expression.h
 *	  The arguments filter and order_by, parsed.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/expression.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PEEKSTASH_EXPRESSION_H
#define PEEKSTASH_EXPRESSION_H

#include "peekstash.h"

#include "nodes/primnodes.h"
#include "parser/parse_node.h"
#include "utils/array.h"
#include "utils/rel.h"

extern Const **expression_args(ArrayType *args, const Oid *types,
							   int num_types, const char *argname);
extern ParseState *expression_scope(Relation heap);
extern List *expression_filter(ParseState *pstate, const char *filter,
							   ArrayType *args);
extern void expression_order_by(ParseState *pstate, const char *order_by,
								int *num_keys, PeekSortKey **keys);

#endif							/* PEEKSTASH_EXPRESSION_H */
