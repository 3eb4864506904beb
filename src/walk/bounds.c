/*-------------------------------------------------------------------------
 *
 * bounds.c
 *	  What bounds a walk: which conditions btree gets, and which wait.
 *
 * btree gets what bounds the walk and nothing else: equality on leading
 * columns (IS NULL too), then one range on the next column.  A condition
 * further right would make btree skip entries silently; it is tested on the
 * index tuple here instead, so that every entry the walk passes is a counted
 * position.  The order of the walk is never touched.
 *
 *		columns		1 ... f-1		f				f+1 ...
 *		btree		equality		one range		-
 *		tests		-				-				everything else
 *
 * Many values for one column, or one group of columns, become a sorted list
 * of seeks: btree starts once for each.  btree's own arrays are not used:
 * they hide the starts that find nothing, and on PostgreSQL 15 arrays right
 * of a range lose the order.
 *
 * Only comparisons of the index's operator family, and tests for NULL, are
 * taken from the filter.  They run on index entries whose rows may be dead or
 * invisible, as they do inside btree.  Any other function has to wait for the
 * row: it could fail on, or tell of, a row that is not there.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/walk/bounds.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/stratnum.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "walk/bounds.h"

#include "compat.h"

typedef enum ConditionKind
{
	CONDITION_COMPARE,			/* column op value */
	CONDITION_ANY,				/* column = ANY (values) */
	CONDITION_NULL,				/* column IS NULL */
	CONDITION_NOT_NULL			/* column IS NOT NULL */
} ConditionKind;

/* A conjunct of the filter on one index column. */
typedef struct Condition
{
	ConditionKind kind;
	int			column;			/* from 0 */
	StrategyNumber strategy;	/* of COMPARE */
	RegProcedure function;		/* of COMPARE and ANY */
	Oid			righttype;
	Datum		value;
	int			num_values;		/* of ANY */
	Datum	   *values;
	bool		used;			/* has become a scan key or a list */
} Condition;

typedef enum IndexTestKind
{
	TEST_COMPARE,
	TEST_ANY,
	TEST_NULL,
	TEST_NOT_NULL,
	TEST_ROW					/* (columns) >= or <= (values) */
} IndexTestKind;

struct IndexTest
{
	IndexTestKind kind;
	AttrNumber	attno;			/* the (first) index column */
	int			num_values;		/* of ANY: alternatives; of ROW: columns */
	FmgrInfo   *functions;		/* one; of ANY and ROW: comparison support */
	Oid		   *collations;
	Datum	   *values;
	bool		is_lower;		/* of ROW */
	bool		inclusive;		/* of ROW */
};

typedef struct BoundsBuilder
{
	const Arrangement *arrangement;
	const PeekRequest *request;
	ExprContext *econtext;
	WalkBounds *bounds;
	int			max_scan_keys;
	int			max_tests;
} BoundsBuilder;

static ScanKey
next_scan_key(BoundsBuilder *builder)
{
	WalkBounds *bounds = builder->bounds;

	Assert(bounds->num_scan_keys < builder->max_scan_keys);
	return &bounds->scan_keys[bounds->num_scan_keys++];
}

static IndexTest *
next_test(BoundsBuilder *builder, IndexTestKind kind, int column,
		  int num_functions, int num_values)
{
	WalkBounds *bounds = builder->bounds;
	IndexTest  *test;

	Assert(bounds->num_tests < builder->max_tests);
	test = &bounds->tests[bounds->num_tests++];
	test->kind = kind;
	test->attno = column + 1;
	test->num_values = num_values;
	test->functions = palloc0(Max(num_functions, 1) * sizeof(FmgrInfo));
	test->collations = palloc0(Max(num_functions, 1) * sizeof(Oid));
	test->values = palloc0(Max(num_values, 1) * sizeof(Datum));
	return test;
}

/* The operator of the column's family for a value of this type. */
static RegProcedure
family_operator(const ArrangementColumn *column, Oid righttype,
				StrategyNumber strategy)
{
	Oid			operator = get_opfamily_member(column->opfamily,
											   column->opcintype, righttype,
											   strategy);

	if (!OidIsValid(operator))
		elog(ERROR, "missing operator %d(%u,%u) in opfamily %u",
			 strategy, column->opcintype, righttype, column->opfamily);
	return get_opcode(operator);
}

static Oid
family_comparison(const ArrangementColumn *column, Oid lefttype, Oid righttype)
{
	Oid			function = get_opfamily_proc(column->opfamily, lefttype,
											 righttype, BTORDER_PROC);

	if (!OidIsValid(function))
		elog(ERROR, "missing support function %d(%u,%u) in opfamily %u",
			 BTORDER_PROC, lefttype, righttype, column->opfamily);
	return function;
}

static void
add_compare_key(BoundsBuilder *builder, int column, StrategyNumber strategy,
				Oid righttype, RegProcedure function, Datum value)
{
	ScanKeyEntryInitialize(next_scan_key(builder), 0, column + 1, strategy,
						   righttype,
						   builder->arrangement->columns[column].collation,
						   function, value);
}

static void
add_null_key(BoundsBuilder *builder, int column, int flags)
{
	ScanKeyEntryInitialize(next_scan_key(builder), SK_ISNULL | flags,
						   column + 1, InvalidStrategy, InvalidOid,
						   InvalidOid, InvalidOid, (Datum) 0);
}

/*
 * Which index column is this expression, and may an operator with this input
 * collation use the column's order?  start lets the caller go on after a
 * column that did not do: a table's column may be in the index twice, under
 * two collations.
 */
static int
match_column(const Arrangement *arrangement, Node *expr, int start)
{
	if (expr && IsA(expr, RelabelType))
		expr = (Node *) ((RelabelType *) expr)->arg;

	for (int i = start; i < arrangement->num_columns; i++)
	{
		const ArrangementColumn *column = &arrangement->columns[i];

		if (column->table_attno != 0)
		{
			if (expr && IsA(expr, Var) &&
				((Var *) expr)->varattno == column->table_attno)
				return i;
		}
		else
		{
			Node	   *index_expr = column->expr;

			if (IsA(index_expr, RelabelType))
				index_expr = (Node *) ((RelabelType *) index_expr)->arg;
			if (equal(index_expr, expr))
				return i;
		}
	}
	return -1;
}

/*
 * Compute an expression that refers to no column.  This runs the caller's
 * functions, as the caller, once.
 */
static Datum
evaluate_once(BoundsBuilder *builder, Node *expr, bool *isnull)
{
	ExprState  *state;

	if (IsA(expr, Const))
	{
		*isnull = ((Const *) expr)->constisnull;
		return ((Const *) expr)->constvalue;
	}

	state = ExecInitExpr((Expr *) expr, NULL);
	return ExecEvalExpr(state, builder->econtext, isnull);
}

static bool
match_comparison(BoundsBuilder *builder, Oid operator, Oid collation,
				 Node *left, Node *right, bool is_any, Condition *condition)
{
	const Arrangement *arrangement = builder->arrangement;
	int			column;

	if (contain_var_clause(right))
		return false;

	for (column = match_column(arrangement, left, 0); column >= 0;
		 column = match_column(arrangement, left, column + 1))
	{
		const ArrangementColumn *info = &arrangement->columns[column];
		int			strategy;
		Oid			lefttype;
		Oid			righttype;
		bool		isnull;
		Datum		value;

		if (OidIsValid(info->collation) && info->collation != collation)
			continue;
		strategy = get_op_opfamily_strategy(operator, info->opfamily);
		if (strategy == 0 || (is_any && strategy != BTEqualStrategyNumber))
			continue;
		get_op_opfamily_properties(operator, info->opfamily, false,
								   &strategy, &lefttype, &righttype);

		/* what btree needs to find its starting point */
		if (!OidIsValid(get_opfamily_proc(info->opfamily, info->opcintype,
										  righttype, BTORDER_PROC)))
			continue;
		if (is_any && !OidIsValid(get_opfamily_proc(info->opfamily, righttype,
													righttype, BTORDER_PROC)))
			continue;

		condition->kind = is_any ? CONDITION_ANY : CONDITION_COMPARE;
		condition->column = column;
		condition->strategy = strategy;
		condition->function = get_opcode(operator);
		condition->righttype = righttype;

		value = evaluate_once(builder, right, &isnull);
		if (isnull)
		{
			builder->bounds->matches_nothing = true;
			return true;
		}
		if (is_any)
		{
			ArrayType  *array = DatumGetArrayTypeP(value);
			int16		typlen;
			bool		typbyval;
			char		typalign;
			Datum	   *values;
			bool	   *nulls;
			int			count;
			int			kept = 0;

			get_typlenbyvalalign(ARR_ELEMTYPE(array), &typlen, &typbyval,
								 &typalign);
			deconstruct_array(array, ARR_ELEMTYPE(array), typlen, typbyval,
							  typalign, &values, &nulls, &count);
			for (int i = 0; i < count; i++)
			{
				if (!nulls[i])
					values[kept++] = values[i];
			}
			condition->num_values = kept;
			condition->values = values;
			if (kept == 0)
				builder->bounds->matches_nothing = true;
		}
		else
			condition->value = value;
		return true;
	}
	return false;
}

/* column = true, for a conjunct that is the boolean column itself */
static bool
match_boolean(BoundsBuilder *builder, Node *expr, bool wanted,
			  Condition *condition)
{
	Node	   *value;

	if (exprType(expr) != BOOLOID)
		return false;
	value = makeBoolConst(wanted, false);
	return match_comparison(builder, BooleanEqualOperator, InvalidOid, expr,
							value, false, condition);
}

/*
 * Can this conjunct of the filter be decided on the index tuple alone, by the
 * order of the index?
 */
static bool
match_qual(BoundsBuilder *builder, Node *qual, Condition *condition)
{
	memset(condition, 0, sizeof(*condition));

	if (IsA(qual, OpExpr) && list_length(((OpExpr *) qual)->args) == 2)
	{
		OpExpr	   *op = (OpExpr *) qual;
		Node	   *left = (Node *) linitial(op->args);
		Node	   *right = (Node *) lsecond(op->args);
		Oid			commutator;

		if (match_comparison(builder, op->opno, op->inputcollid, left, right,
							 false, condition))
			return true;
		commutator = get_commutator(op->opno);
		return OidIsValid(commutator) &&
			match_comparison(builder, commutator, op->inputcollid, right, left,
							 false, condition);
	}

	if (IsA(qual, ScalarArrayOpExpr) && ((ScalarArrayOpExpr *) qual)->useOr)
	{
		ScalarArrayOpExpr *any = (ScalarArrayOpExpr *) qual;

		return match_comparison(builder, any->opno, any->inputcollid,
								(Node *) linitial(any->args),
								(Node *) lsecond(any->args), true, condition);
	}

	if (IsA(qual, NullTest) && !((NullTest *) qual)->argisrow)
	{
		NullTest   *test = (NullTest *) qual;
		int			column = match_column(builder->arrangement,
										  (Node *) test->arg, 0);

		if (column < 0)
			return false;
		condition->kind = test->nulltesttype == IS_NULL ?
			CONDITION_NULL : CONDITION_NOT_NULL;
		condition->column = column;
		return true;
	}

	if (IsA(qual, BooleanTest))
	{
		BooleanTest *test = (BooleanTest *) qual;

		if (test->booltesttype == IS_TRUE)
			return match_boolean(builder, (Node *) test->arg, true, condition);
		if (test->booltesttype == IS_FALSE)
			return match_boolean(builder, (Node *) test->arg, false, condition);
		return false;
	}

	if (is_notclause(qual))
		return match_boolean(builder, (Node *) get_notclausearg(qual), false,
							 condition);

	return match_boolean(builder, qual, true, condition);
}

/* The first unused condition on the column that is equality, or IS NULL. */
static Condition *
find_equality(Condition *conditions, int count, int column)
{
	for (int i = 0; i < count; i++)
	{
		Condition  *c = &conditions[i];

		if (!c->used && c->column == column &&
			(c->kind == CONDITION_NULL ||
			 (c->kind == CONDITION_COMPARE &&
			  c->strategy == BTEqualStrategyNumber)))
			return c;
	}
	return NULL;
}

static Condition *
find_any(Condition *conditions, int count, int column)
{
	for (int i = 0; i < count; i++)
	{
		Condition  *c = &conditions[i];

		if (!c->used && c->column == column && c->kind == CONDITION_ANY)
			return c;
	}
	return NULL;
}

/* One end of the range as a test on the index tuple, all columns of it. */
static void
add_bound_test(BoundsBuilder *builder, const PeekBound *bound, bool is_lower)
{
	int			first = builder->request->keys.width;
	IndexTest  *test = next_test(builder, TEST_ROW, first,
								 bound->width, bound->width);

	test->is_lower = is_lower;
	test->inclusive = bound->inclusive;
	for (int i = 0; i < bound->width; i++)
	{
		const ArrangementColumn *column = &builder->arrangement->columns[first + i];

		fmgr_info(family_comparison(column, column->opcintype, bound->types[i]),
				  &test->functions[i]);
		test->collations[i] = column->collation;
		test->values[i] = bound->values[i];
	}
}

/*
 * One end of the range as scan keys.  Of a row whose columns differ in
 * direction, the entries between the bounds are not adjacent in the index:
 * then btree gets the leading column, and the whole is tested.
 */
static void
add_bound_keys(BoundsBuilder *builder, const PeekBound *bound, bool is_lower)
{
	int			first = builder->request->keys.width;
	const ArrangementColumn *columns = &builder->arrangement->columns[first];
	StrategyNumber strategy;
	bool		mixed = false;
	ScanKey		members;

	if (bound->width == 0)
		return;

	for (int i = 1; i < bound->width; i++)
		mixed |= columns[i].descending != columns[0].descending;

	if (bound->inclusive || mixed)
		strategy = is_lower ? BTGreaterEqualStrategyNumber :
			BTLessEqualStrategyNumber;
	else
		strategy = is_lower ? BTGreaterStrategyNumber : BTLessStrategyNumber;

	if (bound->width == 1 || mixed)
	{
		add_compare_key(builder, first, strategy, bound->types[0],
						family_operator(&columns[0], bound->types[0], strategy),
						bound->values[0]);
		if (mixed)
			add_bound_test(builder, bound, is_lower);
		return;
	}

	/* a row comparison, laid out as ExecIndexBuildScanKeys() does it */
	members = palloc0(bound->width * sizeof(ScanKeyData));
	for (int i = 0; i < bound->width; i++)
		ScanKeyEntryInitialize(&members[i],
							   SK_ROW_MEMBER |
							   (i == bound->width - 1 ? SK_ROW_END : 0),
							   first + i + 1, strategy, bound->types[i],
							   columns[i].collation,
							   family_comparison(&columns[i],
												 columns[i].opcintype,
												 bound->types[i]),
							   bound->values[i]);
	{
		ScanKey		header = next_scan_key(builder);

		MemSet(header, 0, sizeof(ScanKeyData));
		header->sk_flags = SK_ROW_HEADER;
		header->sk_attno = first + 1;
		header->sk_strategy = strategy;
		header->sk_argument = PointerGetDatum(members);
	}
}

/* How two rows of the list of seeks compare: state of the sort. */
typedef struct SeekOrder
{
	int			width;
	FmgrInfo   *functions;
	Oid		   *collations;
	bool	   *reverse;
} SeekOrder;

static int
compare_seeks(const void *a, const void *b, void *arg)
{
	const Datum *left = *(Datum *const *) a;
	const Datum *right = *(Datum *const *) b;
	SeekOrder  *order = arg;

	CHECK_FOR_INTERRUPTS();
	for (int i = 0; i < order->width; i++)
	{
		int			cmp = DatumGetInt32(FunctionCall2Coll(&order->functions[i],
														  order->collations[i],
														  left[i], right[i]));

		if (cmp != 0)
			return order->reverse[i] ? -cmp : cmp;
	}
	return 0;
}

/* The alternatives of an ANY, sorted, for a test by bisection. */
static void
set_any_values(IndexTest *test, const ArrangementColumn *column,
			   const Condition *condition)
{
	int			count = condition->num_values;
	FmgrInfo	function;
	bool		reverse = false;
	SeekOrder	order = {1, &function, &test->collations[0], &reverse};
	const Datum **rows = MemoryContextAllocHuge(CurrentMemoryContext,
												Max(count, 1) * sizeof(Datum *));

	test->collations[0] = column->collation;
	fmgr_info(family_comparison(column, condition->righttype,
								condition->righttype), &function);
	for (int i = 0; i < count; i++)
		rows[i] = &condition->values[i];
	qsort_arg(rows, count, sizeof(Datum *), compare_seeks, &order);

	test->num_values = count;
	test->values = MemoryContextAllocHuge(CurrentMemoryContext,
										  Max(count, 1) * sizeof(Datum));
	for (int i = 0; i < count; i++)
		test->values[i] = *rows[i];
	pfree(rows);
	fmgr_info(family_comparison(column, column->opcintype,
								condition->righttype), &test->functions[0]);
}

/* A condition that btree does not get, as a test on the index tuple. */
static void
add_condition_test(BoundsBuilder *builder, const Condition *condition)
{
	const ArrangementColumn *column =
		&builder->arrangement->columns[condition->column];
	IndexTest  *test;

	switch (condition->kind)
	{
		case CONDITION_COMPARE:
			test = next_test(builder, TEST_COMPARE, condition->column, 1, 1);
			test->values[0] = condition->value;
			fmgr_info(condition->function, &test->functions[0]);
			test->collations[0] = column->collation;
			return;
		case CONDITION_ANY:
			test = next_test(builder, TEST_ANY, condition->column, 1, 0);
			set_any_values(test, column, condition);
			return;
		case CONDITION_NULL:
			(void) next_test(builder, TEST_NULL, condition->column, 0, 0);
			return;
		case CONDITION_NOT_NULL:
			(void) next_test(builder, TEST_NOT_NULL, condition->column, 0, 0);
			return;
	}
	elog(ERROR, "unrecognized condition kind: %d", (int) condition->kind);
}

/*
 * Sort the list of seeks as the walk will pass them, and drop doubles, so
 * that no row comes twice.  The values are width wide, for the columns from
 * first on.
 */
static void
set_seeks(BoundsBuilder *builder, int first, int width, const Oid *types,
		  const Datum *values, int64 count)
{
	WalkBounds *bounds = builder->bounds;
	SeekOrder	order;
	const Datum **rows;
	int64		kept = 0;

	order.width = width;
	order.functions = palloc0(width * sizeof(FmgrInfo));
	order.collations = palloc(width * sizeof(Oid));
	order.reverse = palloc(width * sizeof(bool));
	for (int i = 0; i < width; i++)
	{
		const ArrangementColumn *column = &builder->arrangement->columns[first + i];

		fmgr_info(family_comparison(column, types[i], types[i]),
				  &order.functions[i]);
		order.collations[i] = column->collation;
		order.reverse[i] = column->descending != builder->request->backward;
	}

	rows = MemoryContextAllocHuge(CurrentMemoryContext,
								  Max(count, 1) * sizeof(Datum *));
	for (int64 i = 0; i < count; i++)
		rows[i] = &values[i * width];
	qsort_arg(rows, count, sizeof(Datum *), compare_seeks, &order);

	bounds->seek_first = first;
	bounds->seek_width = width;
	bounds->seek_values = MemoryContextAllocHuge(CurrentMemoryContext,
												 Max(count, 1) * width * sizeof(Datum));
	for (int64 i = 0; i < count; i++)
	{
		if (i > 0 && compare_seeks(&rows[i - 1], &rows[i], &order) == 0)
			continue;
		memcpy(&bounds->seek_values[kept++ * width], rows[i],
			   width * sizeof(Datum));
	}
	bounds->num_seeks = kept;
	if (kept == 0)
		bounds->matches_nothing = true;
	pfree(rows);
}

/* Equality on a column of the list; the value comes with each seek. */
static void
add_list_key(BoundsBuilder *builder, int column, Oid type)
{
	const ArrangementColumn *info = &builder->arrangement->columns[column];

	add_compare_key(builder, column, BTEqualStrategyNumber, type,
					family_operator(info, type, BTEqualStrategyNumber),
					(Datum) 0);
}

/*
 * Distribute the conditions of a request.  estate serves for computing what
 * the filter compares with; the result lives in the current context.
 */
WalkBounds *
walk_bounds_create(const Arrangement *arrangement, const PeekRequest *request,
				   EState *estate)
{
	WalkBounds *bounds = palloc0(sizeof(WalkBounds));
	BoundsBuilder builder;
	int			max_conditions = list_length(request->quals);
	Condition  *conditions = palloc(Max(max_conditions, 1) * sizeof(Condition));
	int			num_conditions = 0;
	bool		have_list = false;
	int			column;
	ListCell   *lc;

	builder.arrangement = arrangement;
	builder.request = request;
	builder.econtext = CreateExprContext(estate);
	builder.bounds = bounds;
	builder.max_scan_keys = request->keys.width + max_conditions + 2;
	builder.max_tests = max_conditions + 2;
	bounds->scan_keys = palloc0(builder.max_scan_keys * sizeof(ScanKeyData));
	bounds->tests = palloc0(builder.max_tests * sizeof(IndexTest));
	bounds->num_seeks = 1;
	bounds->matches_nothing = request->matches_nothing;

	foreach(lc, request->quals)
	{
		Node	   *qual = (Node *) lfirst(lc);

		if (match_qual(&builder, qual, &conditions[num_conditions]))
			num_conditions++;
		else
			bounds->residual = lappend(bounds->residual, qual);
	}
	if (bounds->matches_nothing)
		return bounds;

	/* equality on leading columns, at most one group of them as a list */
	for (column = 0; column < request->keys.width; column++)
	{
		Oid			type = request->keys.types[column];

		/* one key is no list: the list may still come after it */
		if (request->keys.count == 1)
			add_compare_key(&builder, column, BTEqualStrategyNumber, type,
							family_operator(&arrangement->columns[column],
											type, BTEqualStrategyNumber),
							request->keys.values[column]);
		else
			add_list_key(&builder, column, type);
	}
	if (request->keys.count > 1)
	{
		set_seeks(&builder, 0, request->keys.width, request->keys.types,
				  request->keys.values, request->keys.count);
		have_list = true;
	}
	for (; column < arrangement->num_columns; column++)
	{
		Condition  *c = find_equality(conditions, num_conditions, column);

		if (c == NULL && !have_list)
		{
			c = find_any(conditions, num_conditions, column);
			if (c != NULL)
			{
				set_seeks(&builder, column, 1, &c->righttype, c->values,
						  c->num_values);
				add_list_key(&builder, column, c->righttype);
				have_list = true;
				c->used = true;
				continue;
			}
		}
		if (c == NULL)
			break;
		if (c->kind == CONDITION_NULL)
			add_null_key(&builder, column, SK_SEARCHNULL);
		else
			add_compare_key(&builder, column, c->strategy, c->righttype,
							c->function, c->value);
		c->used = true;
	}

	/* one range on the next column */
	if (column == request->keys.width && column < arrangement->num_columns)
	{
		add_bound_keys(&builder, &request->lower, true);
		add_bound_keys(&builder, &request->upper, false);
	}
	else
	{
		/* the filter fixes the column where the range begins */
		if (request->lower.width > 0)
			add_bound_test(&builder, &request->lower, true);
		if (request->upper.width > 0)
			add_bound_test(&builder, &request->upper, false);
	}
	for (int i = 0; i < num_conditions; i++)
	{
		Condition  *c = &conditions[i];

		if (c->used)
			continue;
		if (c->column == column && c->kind == CONDITION_COMPARE)
			add_compare_key(&builder, column, c->strategy, c->righttype,
							c->function, c->value);
		else if (c->column == column && c->kind == CONDITION_NOT_NULL)
			add_null_key(&builder, column, SK_SEARCHNOTNULL);
		else
			add_condition_test(&builder, c);
	}

	if (bounds->seek_values != NULL)
		walk_bounds_seek(bounds, 0);
	return bounds;
}

/* Put the values of a seek (from 0) into the scan keys. */
void
walk_bounds_seek(WalkBounds *bounds, int64 seek)
{
	Assert(seek < bounds->num_seeks);

	/*
	 * Every column before the list has exactly one scan key, so the number of
	 * a column is the number of its key.
	 */
	for (int i = 0; i < bounds->seek_width; i++)
		bounds->scan_keys[bounds->seek_first + i].sk_argument =
			bounds->seek_values[seek * bounds->seek_width + i];
}

static bool
test_row(const IndexTest *test, IndexTuple tuple, TupleDesc desc)
{
	for (int i = 0; i < test->num_values; i++)
	{
		bool		isnull;
		Datum		value = index_getattr(tuple, test->attno + i, desc, &isnull);
		int			cmp;

		/* as in SQL, NULL decides nothing, and so nothing matches */
		if (isnull)
			return false;
		cmp = DatumGetInt32(FunctionCall2Coll(&test->functions[i],
											  test->collations[i],
											  value, test->values[i]));
		if (cmp != 0)
			return (cmp > 0) == test->is_lower;
	}
	return test->inclusive;
}

/* Is the value among the sorted alternatives? */
static bool
test_any(const IndexTest *test, Datum value)
{
	int			low = 0;
	int			high = test->num_values;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;
		int			cmp = DatumGetInt32(FunctionCall2Coll(&test->functions[0],
														  test->collations[0],
														  value,
														  test->values[middle]));

		if (cmp == 0)
			return true;
		if (cmp < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return false;
}

/* Does the index tuple pass the conditions that btree did not get? */
bool
walk_bounds_test(const WalkBounds *bounds, IndexTuple tuple, TupleDesc desc)
{
	for (int i = 0; i < bounds->num_tests; i++)
	{
		IndexTest  *test = &bounds->tests[i];
		bool		isnull;
		Datum		value;
		bool		passed = false;

		if (test->kind == TEST_ROW)
		{
			if (!test_row(test, tuple, desc))
				return false;
			continue;
		}

		value = index_getattr(tuple, test->attno, desc, &isnull);
		switch (test->kind)
		{
			case TEST_COMPARE:
				passed = !isnull &&
					DatumGetBool(FunctionCall2Coll(&test->functions[0],
												   test->collations[0],
												   value, test->values[0]));
				break;
			case TEST_ANY:
				passed = !isnull && test_any(test, value);
				break;
			case TEST_NULL:
				passed = isnull;
				break;
			case TEST_NOT_NULL:
				passed = !isnull;
				break;
			case TEST_ROW:
				pg_unreachable();
		}
		if (!passed)
			return false;
	}
	return true;
}
