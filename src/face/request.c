/*-------------------------------------------------------------------------
 *
 * request.c
 *	  The arguments of a peek, as a PeekRequest.
 *
 * Everything that can be wrong with a request is found here, before the walk
 * begins: names, types, widths, texts, and the privileges of the current role
 * on every column that is read or returned.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/request.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/heap.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "errors.h"
#include "executor/executor.h"
#include "face/expression.h"
#include "face/request.h"
#include "face/values.h"
#include "parser/parse_relation.h"
#include "row.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "compat.h"

/*
 * The attribute of the table that a column name means; 0 if there is none.
 * Throws for columns that no stored row has.
 */
static AttrNumber
find_column(Relation heap, const char *name)
{
	TupleDesc	desc = RelationGetDescr(heap);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped || strcmp(NameStr(att->attname), name) != 0)
			continue;
		if (att->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("virtual generated column \"%s\" cannot be returned by a peek",
							name)));
		return i + 1;
	}

	if (SystemAttributeByName(name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("system column \"%s\" cannot be returned by a peek",
						name)));
	return 0;
}

/* Set the columns of the answer: count of them are in request->columns. */
static void
set_description(PeekRequest *request, Relation heap, int count)
{
	TupleDesc	heap_desc = RelationGetDescr(heap);
	TupleDesc	desc = CreateTemplateTupleDesc(count);
	bool		whole_row = count == heap_desc->natts;

	for (int i = 0; i < count; i++)
	{
		TupleDescCopyEntry(desc, i + 1, heap_desc, request->columns[i]);
		whole_row &= request->columns[i] == i + 1;
	}
	request->description = row_description_create(desc);
	request->whole_row = whole_row;
}

/* A number of rows or bytes, or not_given for NULL; negative is an error. */
int64
count_argument(FunctionCallInfo fcinfo, int argno, int64 not_given,
			   int sqlstate, const char *argname)
{
	int64		value;

	if (PG_ARGISNULL(argno))
		return not_given;
	value = PG_GETARG_INT64(argno);
	if (value < 0)
		ereport(ERROR,
				(errcode(sqlstate),
				 errmsg("\"%s\" must not be negative", argname)));
	return value;
}

static char *
text_argument(FunctionCallInfo fcinfo, int argno)
{
	return PG_ARGISNULL(argno) ? NULL :
		text_to_cstring(PG_GETARG_TEXT_PP(argno));
}

static void
bounds_argument(FunctionCallInfo fcinfo, int argno, bool *lower_inclusive,
				bool *upper_inclusive)
{
	char	   *bounds = text_argument(fcinfo, argno);

	if (bounds == NULL)
		bounds = "[]";
	if (strlen(bounds) != 2 || strchr("[(", bounds[0]) == NULL ||
		strchr("])", bounds[1]) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for \"bounds\": \"%s\"", bounds),
				 errhint("Valid values are \"[]\", \"[)\", \"(]\", and \"()\".")));
	*lower_inclusive = bounds[0] == '[';
	*upper_inclusive = bounds[1] == ']';
}

static void
set_bound(PeekRequest *request, PeekBound *bound, const ArgumentRow *row,
		  bool inclusive)
{
	if (row->has_null)
		request->matches_nothing = true;
	else if (row->given)
	{
		bound->width = row->width;
		bound->inclusive = inclusive;
		bound->types = row->types;
		bound->values = row->values;
	}
}

/* key, keys, lower, upper and bounds */
static void
set_keys(PeekRequest *request, FunctionCallInfo fcinfo,
		 const Arrangement *arrangement)
{
	EState	   *estate = CreateExecutorState();
	ArgumentRow key;
	ArgumentRow lower;
	ArgumentRow upper;
	bool		lower_inclusive;
	bool		upper_inclusive;

	values_from_row(fcinfo, REQUEST_ARG(KEY), "key", arrangement, 0,
					estate, &key);
	if (values_from_rows(fcinfo, REQUEST_ARG(KEYS), arrangement, estate,
						 &request->keys))
	{
		if (key.given)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("\"key\" and \"keys\" cannot be given together"),
					 errhint("Put all keys into \"keys\".")));
		if (request->keys.count == 0)
			request->matches_nothing = true;
	}
	else if (key.has_null)
	{
		request->matches_nothing = true;
		request->keys.width = key.width;
	}
	else if (key.given)
	{
		request->keys.width = key.width;
		request->keys.count = 1;
		request->keys.types = key.types;
		request->keys.values = key.values;
	}

	values_from_row(fcinfo, REQUEST_ARG(LOWER), "lower", arrangement,
					request->keys.width, estate, &lower);
	values_from_row(fcinfo, REQUEST_ARG(UPPER), "upper", arrangement,
					request->keys.width, estate, &upper);
	bounds_argument(fcinfo, REQUEST_ARG(BOUNDS), &lower_inclusive,
					&upper_inclusive);
	set_bound(request, &request->lower, &lower, lower_inclusive);
	set_bound(request, &request->upper, &upper, upper_inclusive);
	/* values may lie in the estate's memory: it goes with its context */
}

/*
 * Throw unless the current role may SELECT every column that is returned, or
 * named in an expression, or read by the walk itself.
 */
static void
check_privileges(PeekRequest *request, const Arrangement *arrangement,
				 ParseState *pstate)
{
	RangeTblEntry *rte = linitial_node(RangeTblEntry, pstate->p_rtable);
	Bitmapset **columns = range_table_selected_columns(pstate, rte);

	for (int i = 0; i < request->description->desc->natts; i++)
		*columns = bms_add_member(*columns, request->columns[i] -
								  FirstLowInvalidHeapAttributeNumber);
	*columns = bms_add_members(*columns, arrangement->read_columns);
	check_range_table_permissions(pstate);
	request->used_columns = bms_copy(*columns);
}

/*
 * Open the arrangement that an argument names; NULL means the table of the
 * rowtype.
 */
Arrangement *
request_arrangement(FunctionCallInfo fcinfo, int argno, Oid rowtype)
{
	Oid			relid;

	if (!PG_ARGISNULL(argno))
		return arrangement_open(PG_GETARG_OID(argno));

	relid = OidIsValid(rowtype) ? get_typ_typrelid(rowtype) : InvalidOid;
	if (!OidIsValid(relid) ||
		get_rel_relkind(relid) == RELKIND_COMPOSITE_TYPE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"arrangement\" must be given"),
				 errdetail("Only the row type of a table says which table to peek at.")));
	return arrangement_open(relid);
}

/* Everything but the columns. */
static void
set_arguments(PeekRequest *request, FunctionCallInfo fcinfo,
			  const Arrangement *arrangement)
{
	ParseState *pstate = expression_scope(arrangement->heap);
	char	   *filter = text_argument(fcinfo, REQUEST_ARG(FILTER));
	char	   *order_by = text_argument(fcinfo, REQUEST_ARG(ORDER_BY));
	ArrayType  *args = PG_ARGISNULL(REQUEST_ARG(ARGS)) ? NULL :
		PG_GETARG_ARRAYTYPE_P(REQUEST_ARG(ARGS));

	set_keys(request, fcinfo, arrangement);
	request->quals = expression_filter(pstate, filter, args);
	expression_order_by(pstate, order_by, &request->num_sort_keys,
						&request->sort_keys);
	check_privileges(request, arrangement, pstate);

	/* a filter that is never true needs no walk */
	if (list_length(request->quals) == 1 && IsA(linitial(request->quals), Const))
		request->matches_nothing = true;

	request->row_limit =
		count_argument(fcinfo, REQUEST_ARG(ROW_LIMIT), -1,
					   ERRCODE_INVALID_ROW_COUNT_IN_LIMIT_CLAUSE, "row_limit");
	request->row_offset =
		count_argument(fcinfo, REQUEST_ARG(ROW_OFFSET), 0,
					   ERRCODE_INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE,
					   "row_offset");
	request->backward = !PG_ARGISNULL(REQUEST_ARG(BACKWARD)) &&
		PG_GETARG_BOOL(REQUEST_ARG(BACKWARD));
}

/*
 * The request in the arguments, for an answer with the
 * attributes of a composite type: each must name a column of the same type.
 */
PeekRequest *
request_from_rowtype(FunctionCallInfo fcinfo,
					 const Arrangement *arrangement, TupleDesc rowtype)
{
	PeekRequest *request = palloc0(sizeof(PeekRequest));
	Relation	heap = arrangement->heap;
	int			count = 0;

	request->columns = palloc(rowtype->natts * sizeof(AttrNumber) + 1);
	for (int i = 0; i < rowtype->natts; i++)
	{
		Form_pg_attribute wanted = TupleDescAttr(rowtype, i);
		Form_pg_attribute found;
		AttrNumber	attno;

		if (wanted->attisdropped)
			continue;
		attno = find_column(heap, NameStr(wanted->attname));
		if (attno == 0)
			error_row_type_mismatch(psprintf("Table \"%s\" has no column \"%s\".",
											 RelationGetRelationName(heap),
											 NameStr(wanted->attname)));
		found = TupleDescAttr(RelationGetDescr(heap), attno - 1);
		if (found->atttypid != wanted->atttypid ||
			found->atttypmod != wanted->atttypmod)
			error_row_type_mismatch(psprintf("Column \"%s\" is of type %s in table \"%s\", but of type %s in the row type.",
											 NameStr(wanted->attname),
											 format_type_with_typemod(found->atttypid,
																	  found->atttypmod),
											 RelationGetRelationName(heap),
											 format_type_with_typemod(wanted->atttypid,
																	  wanted->atttypmod)));
		request->columns[count++] = attno;
	}
	set_description(request, heap, count);
	set_arguments(request, fcinfo, arrangement);
	return request;
}

/*
 * The request in the arguments, for an answer with the named
 * columns of the table, or all of them (NULL).
 */
PeekRequest *
request_from_columns(FunctionCallInfo fcinfo,
					 const Arrangement *arrangement, ArrayType *columns)
{
	PeekRequest *request = palloc0(sizeof(PeekRequest));
	Relation	heap = arrangement->heap;
	TupleDesc	heap_desc = RelationGetDescr(heap);
	int			count = 0;

	if (columns == NULL)
	{
		request->columns = palloc(heap_desc->natts * sizeof(AttrNumber) + 1);
		for (int i = 0; i < heap_desc->natts; i++)
		{
			Form_pg_attribute att = TupleDescAttr(heap_desc, i);

			if (!att->attisdropped)
				request->columns[count++] = find_column(heap,
														NameStr(att->attname));
		}
	}
	else
	{
		Datum	   *names;
		bool	   *isnull;
		int			num_names;

		deconstruct_array(columns, TEXTOID, -1, false, TYPALIGN_INT,
						  &names, &isnull, &num_names);
		if (num_names > MaxTupleAttributeNumber)
			ereport(ERROR,
					(errcode(ERRCODE_TOO_MANY_COLUMNS),
					 errmsg("an answer can have at most %d columns",
							MaxTupleAttributeNumber)));
		request->columns = palloc(num_names * sizeof(AttrNumber) + 1);
		for (int i = 0; i < num_names; i++)
		{
			char	   *name;

			if (isnull[i])
				ereport(ERROR,
						(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						 errmsg("\"columns\" must not contain NULL")));
			name = TextDatumGetCString(names[i]);
			request->columns[count] = find_column(heap, name);
			if (request->columns[count++] == 0)
				ereport(ERROR,
						(errcode(ERRCODE_UNDEFINED_COLUMN),
						 errmsg("column \"%s\" of relation \"%s\" does not exist",
								name, RelationGetRelationName(heap))));
		}
	}
	set_description(request, heap, count);
	set_arguments(request, fcinfo, arrangement);
	return request;
}
