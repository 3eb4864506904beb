/*-------------------------------------------------------------------------
 *
 * statement.c
 *	  The argument query, parsed and planned.
 *
 * The text is parsed, rewritten and planned by PostgreSQL's own functions, as
 * the caller and under the caller's search_path: what it may read, and which
 * policies apply, is decided where any query's is.  Here is only decided what
 * it may be: one statement that returns rows and writes nothing.  That is one
 * SELECT, also as VALUES, TABLE, WITH or a set operation.  What its functions
 * do is as in any other query, volatile ones included.
 *
 * Parameters are typed by the parser, and read by the input functions of their
 * types, as those of a filter.
 *
 * The plan is a serial one: see walk/query.c.
 *
 * Error positions point into the text that the user wrote: they are reported
 * as positions in an internal query, as for the body of a function.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/statement.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "face/expression.h"
#include "face/statement.h"
#include "nodes/nodeFuncs.h"
#include "parser/analyze.h"
#include "parser/parser.h"
#include "row.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "compat.h"

static void
statement_error_callback(void *arg)
{
	const char *text = arg;
	int			position = geterrposition();

	if (position > 0)
	{
		errposition(0);
		internalerrposition(position);
		internalerrquery(text);
	}
	errcontext("argument \"%s\" of a peek", "query");
}

static void
callback_push(ErrorContextCallback *callback, const char *text)
{
	callback->callback = statement_error_callback;
	callback->arg = unconstify(char *, text);
	callback->previous = error_context_stack;
	error_context_stack = callback;
}

static void
callback_pop(ErrorContextCallback *callback)
{
	error_context_stack = callback->previous;
}

/* Throw because something does not belong into a query that is read. */
static void
refuse(const char *text, const char *what, int location)
{
	ParseState *pstate = make_parsestate(NULL);

	pstate->p_sourcetext = text;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s is not supported in the query of a peek", what),
			 errdetail("It must be one SELECT, VALUES, TABLE or WITH that writes and locks nothing."),
			 parser_errposition(pstate, location)));
}

/* The first statement among those of a WITH that is no SELECT. */
static void
check_with_clause(const char *text, SelectStmt *select)
{
	ListCell   *lc;

	if (select->withClause == NULL)
		return;
	foreach(lc, select->withClause->ctes)
	{
		CommonTableExpr *cte = lfirst_node(CommonTableExpr, lc);

		if (!IsA(cte->ctequery, SelectStmt))
			refuse(text, psprintf("%s in WITH",
								  CreateCommandName(cte->ctequery)),
				   cte->location);
	}
}

/*
 * Throw unless the text is one statement of the right kind, as far as its
 * grammar tells.
 */
static RawStmt *
parse_raw(const char *text)
{
	List	   *statements = raw_parser(text, RAW_PARSE_DEFAULT);
	RawStmt    *raw;
	SelectStmt *select;

	if (statements == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("query is empty")));
	if (list_length(statements) > 1)
		refuse(text, "a second statement",
			   lsecond_node(RawStmt, statements)->stmt_location);

	raw = linitial_node(RawStmt, statements);
	if (!IsA(raw->stmt, SelectStmt))
		refuse(text, CreateCommandName(raw->stmt), -1);
	select = (SelectStmt *) raw->stmt;
	if (select->lockingClause != NIL)
		refuse(text, LCS_asString(linitial_node(LockingClause,
												select->lockingClause)->strength),
			   -1);
	check_with_clause(text, select);
	while (select->op != SETOP_NONE)
		select = select->larg;
	if (select->intoClause != NULL)
		refuse(text, "SELECT INTO", select->intoClause->rel->location);
	return raw;
}

/* What has no name as a stored type cannot be read later, or elsewhere. */
static void
check_columns_stored(const char *text, const Query *query)
{
	ParseState *pstate = make_parsestate(NULL);
	ListCell   *lc;

	pstate->p_sourcetext = text;
	foreach(lc, query->targetList)
	{
		TargetEntry *target = lfirst_node(TargetEntry, lc);
		Oid			type = exprType((Node *) target->expr);

		if (target->resjunk || get_typtype(type) != TYPTYPE_PSEUDO)
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("column \"%s\" has pseudo-type %s", target->resname,
						format_type_be(type)),
				 type == RECORDOID || type == RECORDARRAYOID ?
				 errhint("Cast it to a named composite type, or use to_jsonb.") : 0,
				 parser_errposition(pstate,
									exprLocation((Node *) target->expr))));
	}
}

/*
 * Parse a query.  Takes the locks that a query takes, but runs nothing.  The
 * result lives in the current context.
 */
PeekStatement *
statement_parse(const char *text)
{
	PeekStatement *statement = palloc0(sizeof(PeekStatement));
	ErrorContextCallback callback;
	RawStmt    *raw;

	callback_push(&callback, text);
	raw = parse_raw(text);
	statement->text = text;
	statement->query = parse_analyze_varparams(raw, text,
											   &statement->param_types,
											   &statement->num_params, NULL);
	if (statement->query->commandType != CMD_SELECT ||
		statement->query->utilityStmt != NULL ||
		statement->query->hasModifyingCTE)
		refuse(text, "a statement that writes", -1);
	check_columns_stored(text, statement->query);
	statement->description =
		row_description_create(ExecCleanTypeFromTL(statement->query->targetList));
	callback_pop(&callback);
	return statement;
}

/* The arguments as parameters of a plan, to be taken for constants. */
static ParamListInfo
bind_args(const PeekStatement *statement, ArrayType *args)
{
	Const	  **values = expression_args(args, statement->param_types,
										 statement->num_params, "query");
	ParamListInfo params;

	if (statement->num_params == 0)
		return NULL;
	params = makeParamList(statement->num_params);
	for (int i = 0; i < statement->num_params; i++)
	{
		ParamExternData *param = &params->params[i];

		param->value = values[i]->constvalue;
		param->isnull = values[i]->constisnull;
		param->pflags = PARAM_FLAG_CONST;
		param->ptype = values[i]->consttype;
	}
	return params;
}

/*
 * Plan a query with the values of its parameters.  May run functions of the
 * caller's: input functions, and what the planner evaluates beforehand.  The
 * result lives in the current context.
 */
PeekQuery *
statement_plan(const PeekStatement *statement, ArrayType *args)
{
	PeekQuery  *query = palloc0(sizeof(PeekQuery));
	ErrorContextCallback callback;
	List	   *queries;

	query->text = statement->text;
	query->description = statement->description;
	query->params = bind_args(statement, args);

	callback_push(&callback, statement->text);
	/* rewriting changes what it is given */
	queries = pg_rewrite_query(copyObject(statement->query));
	if (list_length(queries) != 1)
		elog(ERROR, "query was rewritten into %d queries",
			 list_length(queries));
	query->plan = pg_plan_query(linitial_node(Query, queries),
								statement->text, 0, query->params);
	Assert(!query->plan->parallelModeNeeded);

	/* a view or a subquery can lock, too */
	if (query->plan->commandType != CMD_SELECT ||
		query->plan->hasModifyingCTE)
		refuse(statement->text, "a statement that writes", -1);
	if (query->plan->rowMarks != NIL)
		refuse(statement->text,
			   LCS_asString(linitial_node(PlanRowMark,
										  query->plan->rowMarks)->strength),
			   -1);
	callback_pop(&callback);
	return query;
}
