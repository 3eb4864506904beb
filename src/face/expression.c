/*-------------------------------------------------------------------------
 *
 * expression.c
 *	  The arguments filter and order_by, parsed.
 *
 * Both are SQL text from a caller, and both are parsed once, by PostgreSQL's
 * own parser, as an expression and not as a statement.  The grammar for that
 * still allows the clauses of a SELECT behind the expression; whatever of
 * them is not empty is refused, so that no text can grow a FROM or a UNION.
 *
 * The expression may use the columns of the one table, and functions that
 * depend on nothing else: no subquery, aggregate, window function, set or
 * volatile function.  It is executed as the caller.  Its column references
 * are marked in the scope, for the check of privileges.
 *
 * Error positions point into the text that the user wrote: they are reported
 * as positions in an internal query, as for the body of a function.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/expression.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "face/expression.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/prep.h"
#include "parser/parse_clause.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_param.h"
#include "parser/parse_relation.h"
#include "parser/parse_type.h"
#include "parser/parser.h"
#include "parser/parsetree.h"
#include "optimizer/tlist.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "compat.h"

#define ORDER_BY_PREFIX	"ORDER BY "

/* What is being parsed, for error positions. */
typedef struct ParsedText
{
	const char *argname;
	const char *text;			/* as the user wrote it */
	int			skip;			/* characters that were put before it */
} ParsedText;

static void
expression_error_callback(void *arg)
{
	ParsedText *parsed = arg;
	int			position = geterrposition();

	if (position > 0)
	{
		errposition(0);
		internalerrposition(Max(position - parsed->skip, 1));
		internalerrquery(parsed->text);
	}
	errcontext("argument \"%s\" of a peek", parsed->argname);
}

/*
 * A parse state in which the columns of one table are visible, and nothing
 * else.
 */
ParseState *
expression_scope(Relation heap)
{
	ParseState *pstate = make_parsestate(NULL);
	ParseNamespaceItem *nsitem;

	nsitem = addRangeTableEntryForRelation(pstate, heap, AccessShareLock,
										   NULL, false, true);
	addNSItemToQuery(pstate, nsitem, false, true, true);
	return pstate;
}

/* Point at what does not belong, or at the start where it has no location. */
static void
refuse_clause(ParseState *pstate, const char *argname, int location)
{
	if (location < 0)
		location = strcmp(argname, "filter") == 0 ?
			0 : strlen(ORDER_BY_PREFIX);
	ereport(ERROR,
			(errcode(ERRCODE_SYNTAX_ERROR),
			 errmsg("\"%s\" must be %s and nothing else", argname,
					strcmp(argname, "filter") == 0 ?
					"one expression" : "an ORDER BY list"),
			 parser_errposition(pstate, location)));
}

/*
 * Everything that a filter or an ORDER BY list has no use for is empty.  Of
 * ALL before the expression and FOR READ ONLY behind it the parser leaves no
 * trace; they mean nothing, so they can stay.
 */
static void
check_clauses(ParseState *pstate, const char *argname, SelectStmt *select)
{
	Node	   *clauses[] = {
		(Node *) select->distinctClause, (Node *) select->intoClause,
		(Node *) select->fromClause, select->whereClause,
		(Node *) select->groupClause, select->havingClause,
		(Node *) select->windowClause, (Node *) select->valuesLists,
		select->limitOffset, select->limitCount,
		(Node *) select->lockingClause, (Node *) select->withClause
	};

	for (int i = 0; i < (int) lengthof(clauses); i++)
	{
		if (clauses[i] != NULL)
			refuse_clause(pstate, argname, exprLocation(clauses[i]));
	}
	if (select->op != SETOP_NONE)
		refuse_clause(pstate, argname, -1);
}

static SelectStmt *
parse_select(const char *text)
{
	List	   *statements = raw_parser(text, RAW_PARSE_PLPGSQL_EXPR);
	Node	   *statement;

	if (list_length(statements) != 1)
		elog(ERROR, "expression parsed as %d statements",
			 list_length(statements));
	statement = linitial_node(RawStmt, statements)->stmt;
	return castNode(SelectStmt, statement);
}

static bool
function_is_volatile(Oid funcid, void *context)
{
	return func_volatile(funcid) == PROVOLATILE_VOLATILE;
}

static void
refuse_node(ParseState *pstate, Node *node, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("%s are not allowed here", what),
			 errdetail("The expression may depend on the columns of the row alone."),
			 parser_errposition(pstate, exprLocation(node))));
}

/* A virtual generated column is in no stored row: it would be read as NULL. */
static void
refuse_virtual_columns(ParseState *pstate, Var *var)
{
	RangeTblEntry *rte = rt_fetch(var->varno, pstate->p_rtable);
	Relation	heap = relation_open(rte->relid, NoLock);
	TupleDesc	desc = RelationGetDescr(heap);

	for (int i = 0; i < desc->natts; i++)
	{
		char		generated = TupleDescAttr(desc, i)->attgenerated;

		/* attribute 0 is the whole row */
		if ((var->varattno == 0 || var->varattno == i + 1) &&
			generated == ATTRIBUTE_GENERATED_VIRTUAL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("virtual generated columns are not supported in a peek"),
					 parser_errposition(pstate, exprLocation((Node *) var))));
	}
	relation_close(heap, NoLock);
}

/* Throw at the first part of a parsed expression that has no place in one. */
static bool
check_nodes(Node *node, ParseState *pstate)
{
	if (node == NULL)
		return false;

	switch (nodeTag(node))
	{
		case T_SubLink:
			refuse_node(pstate, node, "subqueries");
			break;
		case T_Aggref:
		case T_GroupingFunc:
			refuse_node(pstate, node, "aggregate functions");
			break;
		case T_WindowFunc:
			refuse_node(pstate, node, "window functions");
			break;
		case T_FuncExpr:
			if (((FuncExpr *) node)->funcretset)
				refuse_node(pstate, node, "set-returning functions");
			break;
		case T_OpExpr:
			if (((OpExpr *) node)->opretset)
				refuse_node(pstate, node, "set-returning functions");
			break;
		case T_Var:
			refuse_virtual_columns(pstate, (Var *) node);
			if (((Var *) node)->varattno < 0)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("system columns are not supported in a peek"),
						 parser_errposition(pstate, exprLocation(node))));
			break;
		default:
			break;
	}
	if (check_functions_in_node(node, function_is_volatile, NULL))
		refuse_node(pstate, node, "volatile functions");

	return expression_tree_walker(node, check_nodes, (void *) pstate);
}

/*
 * Planning has put the defaults of arguments in, which nobody has looked at.
 * They are nothing that the user wrote, so there is no position.
 */
static void
refuse_volatile_default(Node *planned)
{
	if (contain_volatile_functions(planned))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("volatile functions are not allowed here"),
				 errdetail("The default of an argument is volatile.")));
}

/* Replaces parameters by their values. */
static Node *
replace_params(Node *node, Const **values)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Param))
	{
		Param	   *param = (Param *) node;
		Const	   *value = copyObject(values[param->paramid - 1]);

		value->constcollid = param->paramcollid;
		value->location = param->location;
		return (Node *) value;
	}
	return expression_tree_mutator(node, replace_params, (void *) values);
}

/*
 * The arguments, read as the parser has typed the parameters of argname.
 */
Const **
expression_args(ArrayType *args, const Oid *types, int num_types,
				const char *argname)
{
	Datum	   *texts = NULL;
	bool	   *isnull = NULL;
	int			num_args = 0;
	Const	  **values = palloc(num_types * sizeof(Const *) + 1);

	if (args != NULL)
		deconstruct_array(args, TEXTOID, -1, false, TYPALIGN_INT,
						  &texts, &isnull, &num_args);
	if (num_args != num_types)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("wrong number of arguments for the %s", argname),
				 errdetail("Parameters of the %s: %d. Elements of \"args\": %d.",
						   argname, num_types, num_args)));

	for (int i = 0; i < num_types; i++)
	{
		Oid			function;
		Oid			param;
		Datum		value;

		if (!OidIsValid(types[i]) || types[i] == UNKNOWNOID)
			ereport(ERROR,
					(errcode(ERRCODE_INDETERMINATE_DATATYPE),
					 errmsg("could not determine data type of parameter $%d",
							i + 1)));
		getTypeInputInfo(types[i], &function, &param);
		value = OidInputFunctionCall(function,
									 isnull[i] ? NULL :
									 TextDatumGetCString(texts[i]),
									 param, -1);
		values[i] = makeConst(types[i], -1, get_typcollation(types[i]),
							  get_typlen(types[i]), value, isnull[i],
							  get_typbyval(types[i]));
	}
	return values;
}

/*
 * Parse a filter (NULL = none) into a list of conjuncts, without parameters,
 * planned.
 */
List *
expression_filter(ParseState *pstate, const char *filter, ArrayType *args)
{
	ParsedText	parsed = {"filter", filter, 0};
	ErrorContextCallback callback;
	SelectStmt *select;
	ResTarget  *target;
	Node	   *expr;
	Oid		   *types = NULL;
	int			num_types = 0;

	if (filter == NULL)
	{
		(void) expression_args(args, NULL, 0, "filter");
		return NIL;
	}

	callback.callback = expression_error_callback;
	callback.arg = &parsed;
	callback.previous = error_context_stack;
	error_context_stack = &callback;

	pstate->p_sourcetext = filter;
	select = parse_select(filter);
	check_clauses(pstate, "filter", select);
	if (select->sortClause != NIL)
		refuse_clause(pstate, "filter",
					  exprLocation((Node *) select->sortClause));
	if (select->targetList == NIL)
		refuse_clause(pstate, "filter", -1);
	if (list_length(select->targetList) > 1)
		refuse_clause(pstate, "filter",
					  exprLocation((Node *) lsecond(select->targetList)));
	target = linitial_node(ResTarget, select->targetList);
	if (target->name != NULL || target->indirection != NIL ||
		(IsA(target->val, ColumnRef) &&
		 IsA(llast(((ColumnRef *) target->val)->fields), A_Star)))
		refuse_clause(pstate, "filter", target->location);

	setup_parse_variable_parameters(pstate, &types, &num_types);
	expr = transformExpr(pstate, target->val, EXPR_KIND_OTHER);
	(void) check_nodes(expr, pstate);
	expr = coerce_to_boolean(pstate, expr, "filter");
	if (num_types > 0)
	{
		Query	   *query = makeNode(Query);

		/* the parser's own check wants a query around the expression */
		query->commandType = CMD_SELECT;
		query->jointree = makeFromExpr(NIL, expr);
		check_variable_parameters(pstate, query);
	}
	assign_expr_collations(pstate, expr);

	/* once more: a cast to boolean may have come on top */
	(void) check_nodes(expr, pstate);

	error_context_stack = callback.previous;

	expr = replace_params(expr, expression_args(args, types, num_types,
												"filter"));
	expr = (Node *) expression_planner((Expr *) expr);
	refuse_volatile_default(expr);
	return make_ands_implicit(canonicalize_qual((Expr *) expr, false));
}

/*
 * Parse an ORDER BY list (NULL = none) into sort keys, planned.
 */
void
expression_order_by(ParseState *pstate, const char *order_by, int *num_keys,
					PeekSortKey **keys)
{
	ParsedText	parsed = {"order_by", order_by, strlen(ORDER_BY_PREFIX)};
	ErrorContextCallback callback;
	SelectStmt *select;
	List	   *targets = NIL;
	List	   *clauses;
	ListCell   *lc;
	int			i = 0;

	*num_keys = 0;
	*keys = NULL;
	if (order_by == NULL)
		return;

	callback.callback = expression_error_callback;
	callback.arg = &parsed;
	callback.previous = error_context_stack;
	error_context_stack = &callback;

	pstate->p_sourcetext = psprintf(ORDER_BY_PREFIX "%s", order_by);
	pstate->p_paramref_hook = NULL;
	pstate->p_coerce_param_hook = NULL;
	pstate->p_ref_hook_state = NULL;
	select = parse_select(pstate->p_sourcetext);
	check_clauses(pstate, "order_by", select);
	if (select->targetList != NIL)
		refuse_clause(pstate, "order_by",
					  exprLocation((Node *) select->targetList));

	foreach(lc, select->sortClause)
	{
		SortBy	   *item = lfirst_node(SortBy, lc);

		/* the number of a column would be taken for a constant */
		if (IsA(item->node, A_Const))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
					 errmsg("constants are not allowed in \"order_by\""),
					 errhint("Name the column."),
					 parser_errposition(pstate, exprLocation(item->node))));
	}

	clauses = transformSortClause(pstate, select->sortClause, &targets,
								  EXPR_KIND_ORDER_BY, true);
	foreach(lc, targets)
	{
		TargetEntry *target = lfirst_node(TargetEntry, lc);

		assign_expr_collations(pstate, (Node *) target->expr);
		(void) check_nodes((Node *) target->expr, pstate);
	}

	error_context_stack = callback.previous;

	*num_keys = list_length(clauses);
	*keys = palloc(*num_keys * sizeof(PeekSortKey));
	foreach(lc, clauses)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		TargetEntry *target = get_sortgroupclause_tle(clause, targets);
		PeekSortKey *key = &(*keys)[i++];

		key->expr = (Node *) expression_planner(target->expr);
		refuse_volatile_default(key->expr);
		key->sort_operator = clause->sortop;
		key->collation = exprCollation((Node *) target->expr);
		key->nulls_first = clause->nulls_first;
	}
}
