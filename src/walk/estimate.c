/*-------------------------------------------------------------------------
 *
 * estimate.c
 *	  About how many positions a walk has.
 *
 * For people who watch a long walk.  The planner knows best how many rows the
 * conditions leave that bound the walk; it is asked with a query that has just
 * these, and its plan is thrown away.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/walk/estimate.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "optimizer/planner.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "walk/estimate.h"

#include "compat.h"

/* column <operator> value, as an expression; NULL if there is no operator. */
static Expr *
column_condition(const Arrangement *arrangement, int column, Oid type,
				 Datum value, StrategyNumber strategy)
{
	const ArrangementColumn *info = &arrangement->columns[column];
	Form_pg_attribute att;
	Oid			operator = get_opfamily_member(info->opfamily, info->opcintype,
											   type, strategy);
	int16		typlen;
	bool		typbyval;
	Node	   *left;

	if (!OidIsValid(operator))
		return NULL;
	if (info->expr != NULL)
		left = copyObject(info->expr);
	else
	{
		att = TupleDescAttr(RelationGetDescr(arrangement->heap),
							info->table_attno - 1);
		left = (Node *) makeVar(1, info->table_attno, att->atttypid,
								att->atttypmod, att->attcollation, 0);
	}
	get_typlenbyval(type, &typlen, &typbyval);
	return make_opclause(operator, BOOLOID, false, (Expr *) left,
						 (Expr *) makeConst(type, -1, InvalidOid, typlen,
											value, false, typbyval),
						 InvalidOid, info->collation);
}

static List *
add_condition(List *conditions, Expr *condition)
{
	return condition == NULL ? conditions : lappend(conditions, condition);
}

/*
 * The estimate for a request, of whose quals those in residual do not bound
 * the walk; -1 if there is none.
 */
int64
estimate_positions(const Arrangement *arrangement, const PeekRequest *request,
				   const List *residual)
{
	const PeekKeySet *keys = &request->keys;
	int			first = keys->width;
	List	   *conditions = list_difference_ptr(request->quals, residual);
	Query	   *query = makeNode(Query);
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	RangeTblRef *ref = makeNode(RangeTblRef);
	double		rows;

	conditions = copyObject(conditions);
	for (int i = 0; i < keys->width && keys->count > 0; i++)
		conditions = add_condition(conditions,
								   column_condition(arrangement, i,
													keys->types[i],
													keys->values[i],
													BTEqualStrategyNumber));
	if (request->lower.width > 0)
		conditions = add_condition(conditions,
								   column_condition(arrangement, first,
													request->lower.types[0],
													request->lower.values[0],
													BTGreaterEqualStrategyNumber));
	if (request->upper.width > 0)
		conditions = add_condition(conditions,
								   column_condition(arrangement, first,
													request->upper.types[0],
													request->upper.values[0],
													BTLessEqualStrategyNumber));

	/* a partial index has no other rows */
	conditions = list_concat(conditions,
							 RelationGetIndexPredicate(arrangement->index));

	rte->rtekind = RTE_RELATION;
	rte->relid = RelationGetRelid(arrangement->heap);
	rte->relkind = arrangement->heap->rd_rel->relkind;
	rte->rellockmode = AccessShareLock;
	rte->eref = makeAlias("t", NIL);
	rte->inFromCl = true;
	ref->rtindex = 1;
	query->commandType = CMD_SELECT;
	query->canSetTag = true;
	query->rtable = list_make1(rte);
	query->jointree = makeFromExpr(list_make1(ref),
								   conditions == NIL ? NULL :
								   (Node *) make_ands_explicit(conditions));
	query->targetList =
		list_make1(makeTargetEntry((Expr *) makeConst(INT4OID, -1, InvalidOid,
													  sizeof(int32),
													  Int32GetDatum(1), false,
													  true), 1, NULL, false));
	rows = standard_planner(query, "", 0, NULL)->planTree->plan_rows;
	if (keys->count > 1)
		rows *= keys->count;
	return rows >= (double) PG_INT64_MAX / 2 ? -1 : (int64) rows;
}
