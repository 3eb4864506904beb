/*-------------------------------------------------------------------------
 *
 * values.c
 *	  Key values that callers give, as values that the index compares.
 *
 * The parameters key, keys, lower and upper are of type "any".  What arrives
 * is brought to a type that the operator family of the index column compares
 * with the column, by the first of these ways that exists:
 *
 *		the column's own type, or one that is binary-coercible to it
 *		an exact cross-type operator of the operator family
 *		an untyped literal, or a text value for a column that is no string:
 *			the input function of the column's type
 *		one implicit cast
 *
 * No operator is ever looked up by name: search_path decides nothing here.
 *
 * An anonymous ROW is a list of columns; a value of a named composite type is
 * one scalar, because a column can be of that type.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/values.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "face/values.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "compat.h"

typedef enum ConversionMethod
{
	CONVERT_AS_IS,
	CONVERT_INPUT,
	CONVERT_CAST
} ConversionMethod;

/* How values of one type become values that a column compares with. */
typedef struct Conversion
{
	ConversionMethod method;
	Oid			source_type;
	Oid			result_type;
	int16		result_typlen;
	FmgrInfo	output;			/* of the source, unless it is untyped */
	FmgrInfo	input;
	Oid			input_param;
	ExprState  *cast;
	ExprContext *econtext;
} Conversion;

/* Has the family all that a walk may need to compare with this type? */
static bool
family_compares(const ArrangementColumn *column, Oid type)
{
	for (StrategyNumber strategy = BTLessStrategyNumber;
		 strategy <= BTMaxStrategyNumber; strategy++)
	{
		if (!OidIsValid(get_opfamily_member(column->opfamily,
											column->opcintype, type, strategy)))
			return false;
	}
	return OidIsValid(get_opfamily_proc(column->opfamily, column->opcintype,
										type, BTORDER_PROC)) &&
		OidIsValid(get_opfamily_proc(column->opfamily, type, type,
									 BTORDER_PROC));
}

/* Is the operator class declared on a pseudo-type, such as anyarray? */
static bool
is_polymorphic(const ArrangementColumn *column)
{
	return get_typtype(column->opcintype) == TYPTYPE_PSEUDO;
}

/*
 * Find out how to convert.  wanted is the type to end at, where rows of mixed
 * types must end as one; InvalidOid leaves the choice.
 */
static void
prepare_conversion(Conversion *conversion, const Arrangement *arrangement,
				   int number, Oid type, Oid wanted, EState *estate)
{
	const ArrangementColumn *column = &arrangement->columns[number];
	Oid			own = is_polymorphic(column) ? column->type : column->opcintype;
	Oid			target = OidIsValid(wanted) ? wanted : own;
	Oid			base = getBaseType(type);

	memset(conversion, 0, sizeof(*conversion));
	conversion->source_type = type;
	conversion->result_type = target == own ? column->opcintype : target;

	if (target == own &&
		(base == column->type ||
		 (!is_polymorphic(column) && IsBinaryCoercible(type, own))))
		conversion->method = CONVERT_AS_IS;
	else if (base == wanted ||
			 (!OidIsValid(wanted) && family_compares(column, base)))
	{
		conversion->method = CONVERT_AS_IS;
		conversion->result_type = base;
	}
	else if (type == UNKNOWNOID ||
			 (TypeCategory(base) == TYPCATEGORY_STRING &&
			  TypeCategory(column->type) != TYPCATEGORY_STRING))
	{
		Oid			function;
		bool		is_varlena;

		conversion->method = CONVERT_INPUT;
		if (type != UNKNOWNOID)
		{
			/* not every string type is a varlena: name is not */
			getTypeOutputInfo(base, &function, &is_varlena);
			fmgr_info(function, &conversion->output);
		}
		getTypeInputInfo(target == own ? column->type : target, &function,
						 &conversion->input_param);
		fmgr_info(function, &conversion->input);
	}
	else
	{
		/* the value takes the place of the CaseTestExpr */
		CaseTestExpr *value = makeNode(CaseTestExpr);
		Node	   *cast;

		value->typeId = type;
		value->typeMod = -1;
		value->collation = get_typcollation(type);
		cast = coerce_to_target_type(NULL, (Node *) value, type, target, -1,
									 COERCION_IMPLICIT, COERCE_IMPLICIT_CAST,
									 -1);
		if (cast == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("cannot compare column \"%s\" of type %s with a value of type %s",
							arrangement_column_name(arrangement, number),
							format_type_be(column->type), format_type_be(type)),
					 type_is_array(column->type) ?
					 errhint("Keys for a column of an array type are given as rows: ARRAY[ROW(value)].") :
					 errhint("Cast the value to the type of the column.")));
		conversion->method = CONVERT_CAST;
		conversion->econtext = CreateExprContext(estate);
		conversion->cast = ExecPrepareExpr((Expr *) cast, estate);
	}
	conversion->result_typlen = get_typlen(conversion->method == CONVERT_AS_IS ?
										   base : target);
}

/* Convert a value, never NULL; the result lives in the current context. */
static Datum
convert_value(Conversion *conversion, Datum value)
{
	char	   *string;
	bool		isnull;

	switch (conversion->method)
	{
		case CONVERT_AS_IS:
			break;
		case CONVERT_INPUT:
			string = conversion->source_type == UNKNOWNOID ?
				DatumGetCString(value) :
				OutputFunctionCall(&conversion->output, value);
			value = InputFunctionCall(&conversion->input, string,
									  conversion->input_param, -1);
			break;
		case CONVERT_CAST:
			conversion->econtext->caseValue_datum = value;
			conversion->econtext->caseValue_isNull = false;
			value = ExecEvalExpr(conversion->cast, conversion->econtext,
								 &isnull);
			if (isnull)
				ereport(ERROR,
						(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						 errmsg("cast of a key value returned NULL")));
			break;
	}

	/* compared many times: once out of line is enough */
	if (conversion->result_typlen == -1)
		value = PointerGetDatum(PG_DETOAST_DATUM(value));
	return value;
}

/* Take a row value apart. */
static void
deform_row(Datum row, TupleDesc *desc, Datum **values, bool **isnull)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(row);
	HeapTupleData tuple;

	*desc = lookup_rowtype_tupdesc_copy(HeapTupleHeaderGetTypeId(header),
										HeapTupleHeaderGetTypMod(header));
	*values = palloc((*desc)->natts * sizeof(Datum) + 1);
	*isnull = palloc((*desc)->natts * sizeof(bool) + 1);

	tuple.t_len = HeapTupleHeaderGetDatumLength(header);
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = InvalidOid;
	tuple.t_data = header;
	heap_deform_tuple(&tuple, *desc, *values, *isnull);
}

static Oid
argument_type(FunctionCallInfo fcinfo, int argno, const char *argname)
{
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, argno);

	if (!OidIsValid(type))
		ereport(ERROR,
				(errcode(ERRCODE_INDETERMINATE_DATATYPE),
				 errmsg("could not determine data type of argument \"%s\"",
						argname)));
	return type;
}

static void
check_width(const Arrangement *arrangement, const char *argname,
			int first_column, int width)
{
	if (first_column + width <= arrangement->num_columns)
		return;

	if (first_column >= arrangement->num_columns)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" has no column left to bound", argname),
				 errdetail("The keys fix every key column of index \"%s\".",
						   RelationGetRelationName(arrangement->index))));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("\"%s\" has too many columns", argname),
			 errdetail("Index \"%s\" has key columns up to number %d; columns %d to %d are given.",
					   RelationGetRelationName(arrangement->index),
					   arrangement->num_columns, first_column + 1,
					   first_column + width)));
}

/*
 * Convert the argument key, lower or upper for the index columns from
 * first_column (counted from 0) on.
 */
void
values_from_row(FunctionCallInfo fcinfo, int argno, const char *argname,
				const Arrangement *arrangement, int first_column,
				EState *estate, ArgumentRow *row)
{
	Oid			type = argument_type(fcinfo, argno, argname);
	Datum	   *values;
	bool	   *isnull;
	Oid		   *types;

	memset(row, 0, sizeof(*row));
	if (type == RECORDOID && PG_ARGISNULL(argno))
	{
		row->given = row->has_null = true;
		return;
	}

	if (type == RECORDOID)
	{
		TupleDesc	desc;

		deform_row(PG_GETARG_DATUM(argno), &desc, &values, &isnull);
		row->width = desc->natts;
		types = palloc(row->width * sizeof(Oid) + 1);
		for (int i = 0; i < row->width; i++)
			types[i] = TupleDescAttr(desc, i)->atttypid;
		if (row->width == 0)
			return;				/* ROW() is: not given */
	}
	else
	{
		row->width = 1;
		values = palloc(sizeof(Datum));
		isnull = palloc(sizeof(bool));
		types = palloc(sizeof(Oid));
		values[0] = PG_GETARG_DATUM(argno);
		isnull[0] = PG_ARGISNULL(argno);
		types[0] = type;
	}

	row->given = true;
	check_width(arrangement, argname, first_column, row->width);
	for (int i = 0; i < row->width; i++)
	{
		Conversion	conversion;

		/* also for NULL: a wrong type is an error whatever the value */
		prepare_conversion(&conversion, arrangement, first_column + i,
						   types[i], InvalidOid, estate);
		types[i] = conversion.result_type;
		if (isnull[i])
			row->has_null = true;
		else
			values[i] = convert_value(&conversion, values[i]);
	}
	row->types = types;
	row->values = values;
}

/* The elements of the argument keys. */
static void
deconstruct_keys(FunctionCallInfo fcinfo, int argno, Oid type,
				 const Arrangement *arrangement, Oid *element_type,
				 Datum **elements, bool **isnull, int *count)
{
	Datum		value = PG_GETARG_DATUM(argno);
	ArrayType  *array;
	int16		typlen;
	bool		typbyval;
	char		typalign;

	if (type == UNKNOWNOID)
	{
		/* a literal is an array of what the first column holds */
		Oid			function;
		Oid			param;

		type = get_array_type(arrangement->columns[0].type);
		if (!OidIsValid(type))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("could not find array type for data type %s",
							format_type_be(arrangement->columns[0].type))));
		getTypeInputInfo(type, &function, &param);
		value = OidInputFunctionCall(function, DatumGetCString(value), param,
									 -1);
	}

	*element_type = get_base_element_type(type);
	if (!OidIsValid(*element_type))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"keys\" must be an array, not type %s",
						format_type_be(type)),
				 errhint("One key is given by \"key\", many by ARRAY[...] or ARRAY[ROW(...), ...].")));

	array = DatumGetArrayTypeP(value);
	*element_type = ARR_ELEMTYPE(array);
	get_typlenbyvalalign(*element_type, &typlen, &typbyval, &typalign);
	deconstruct_array(array, *element_type, typlen, typbyval, typalign,
					  elements, isnull, count);
}

/* A shape of rows: rows of one anonymous row type share it. */
typedef struct KeyShape
{
	Oid			typid;			/* of the row; InvalidOid = a scalar */
	int32		typmod;
	TupleDesc	desc;			/* of the row, or NULL */
	Oid			scalar;			/* type of the scalar */
	Conversion *conversions;	/* per column; source_type Invalid = not yet */
} KeyShape;

/* The rows of the argument keys, not yet converted. */
typedef struct KeyRows
{
	int			width;
	int64		count;
	Datum	   *values;			/* count * width */
	bool	   *isnull;
	KeyShape  **shapes;			/* per row */
	List	   *all_shapes;
} KeyRows;

static Oid
shape_column_type(const KeyShape *shape, int column)
{
	return shape->desc == NULL ? shape->scalar :
		TupleDescAttr(shape->desc, column)->atttypid;
}

/* The shape of a row value; most often that of the row before. */
static KeyShape *
find_shape(KeyRows *rows, Oid typid, int32 typmod)
{
	ListCell   *lc;
	KeyShape   *shape;

	foreach(lc, rows->all_shapes)
	{
		shape = lfirst(lc);
		if (shape->typid == typid && shape->typmod == typmod)
			return shape;
	}
	shape = palloc0(sizeof(KeyShape));
	shape->typid = typid;
	shape->typmod = typmod;
	shape->desc = lookup_rowtype_tupdesc_copy(typid, typmod);
	if (shape->desc->natts == 0 ||
		(rows->all_shapes != NIL && shape->desc->natts != rows->width))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("rows of \"keys\" must all have the same number of columns, and at least one")));
	rows->width = shape->desc->natts;
	rows->all_shapes = lcons(shape, rows->all_shapes);
	return shape;
}

/* Take the elements of the argument keys apart; NULL ones are left out. */
static void
collect_rows(const Arrangement *arrangement, Oid element_type,
			 Datum *elements, bool *isnull, int count, KeyRows *rows)
{
	Size		size = Max(count, 1);
	KeyShape   *shape = NULL;

	memset(rows, 0, sizeof(*rows));
	rows->shapes = MemoryContextAllocHuge(CurrentMemoryContext,
										  size * sizeof(KeyShape *));
	if (element_type != RECORDOID)
	{
		rows->width = 1;
		shape = palloc0(sizeof(KeyShape));
		shape->scalar = element_type;
		rows->all_shapes = list_make1(shape);
	}

	for (int i = 0; i < count; i++)
	{
		HeapTupleData tuple;

		CHECK_FOR_INTERRUPTS();
		if (isnull[i])
			continue;
		if (element_type == RECORDOID)
		{
			HeapTupleHeader header = DatumGetHeapTupleHeader(elements[i]);

			shape = find_shape(rows, HeapTupleHeaderGetTypeId(header),
							   HeapTupleHeaderGetTypMod(header));
			tuple.t_len = HeapTupleHeaderGetDatumLength(header);
			ItemPointerSetInvalid(&tuple.t_self);
			tuple.t_tableOid = InvalidOid;
			tuple.t_data = header;
		}
		if (rows->values == NULL)
		{
			check_width(arrangement, "keys", 0, rows->width);
			rows->values = MemoryContextAllocHuge(CurrentMemoryContext,
												  size * rows->width * sizeof(Datum));
			rows->isnull = MemoryContextAllocHuge(CurrentMemoryContext,
												  size * rows->width);
		}
		if (element_type == RECORDOID)
			heap_deform_tuple(&tuple, shape->desc,
							  &rows->values[rows->count * rows->width],
							  &rows->isnull[rows->count * rows->width]);
		else
		{
			rows->values[rows->count] = elements[i];
			rows->isnull[rows->count] = false;
		}
		rows->shapes[rows->count++] = shape;
	}
	if (rows->width == 0)
		rows->width = 1;		/* no row told */
}

/* Can the values of a column all become this type? */
static bool
all_rows_fit(const KeyRows *rows, int number, Oid type)
{
	ListCell   *lc;

	foreach(lc, rows->all_shapes)
	{
		Oid			other = shape_column_type(lfirst(lc), number);

		if (other != UNKNOWNOID && !IsBinaryCoercible(other, type) &&
			!can_coerce_type(1, &other, &type, COERCION_IMPLICIT))
			return false;
	}
	return true;
}

/*
 * The one type that the values of a column can all become; InvalidOid if they
 * are of one type already.  It is the column's own, or else the first of their
 * types that the index compares with and the others can be cast to.  The own
 * type comes first because untyped literals are of it.
 */
static Oid
common_key_type(const Arrangement *arrangement, const KeyRows *rows,
				int number)
{
	const ArrangementColumn *column = &arrangement->columns[number];
	Oid			own = is_polymorphic(column) ? column->type : column->opcintype;
	Oid			first = shape_column_type(linitial(rows->all_shapes),
										  number);
	bool		mixed = false;
	ListCell   *lc;

	foreach(lc, rows->all_shapes)
		mixed |= shape_column_type(lfirst(lc), number) != first;
	if (!mixed)
		return InvalidOid;

	if (all_rows_fit(rows, number, own))
		return own;
	foreach(lc, rows->all_shapes)
	{
		Oid			type = shape_column_type(lfirst(lc), number);

		type = getBaseType(type);
		if (family_compares(column, type) && all_rows_fit(rows, number, type))
			return type;
	}
	return own;
}

/*
 * Convert the argument keys into rows for the leading index columns; false if
 * it is not given.  Rows with NULL inside are left out: they match nothing.
 */
bool
values_from_rows(FunctionCallInfo fcinfo, int argno,
				 const Arrangement *arrangement, EState *estate,
				 PeekKeySet *keys)
{
	Oid			type = argument_type(fcinfo, argno, "keys");
	Oid			element_type;
	Datum	   *elements;
	bool	   *isnull;
	int			count;
	KeyRows		rows;
	Oid			common[INDEX_MAX_KEYS];

	memset(keys, 0, sizeof(*keys));
	if (PG_ARGISNULL(argno))
	{
		/* bounds begin behind the keys; no rows do not tell where */
		keys->width = type == RECORDARRAYOID || type == RECORDOID ? 0 : 1;
		return true;
	}
	if (type == RECORDOID)
	{
		TupleDesc	desc;

		deform_row(PG_GETARG_DATUM(argno), &desc, &elements, &isnull);
		if (desc->natts == 0)
			return false;		/* ROW() is: not given */
	}
	deconstruct_keys(fcinfo, argno, type, arrangement, &element_type,
					 &elements, &isnull, &count);
	collect_rows(arrangement, element_type, elements, isnull, count, &rows);

	keys->width = rows.width;
	keys->types = palloc(rows.width * sizeof(Oid));
	keys->values = rows.values;
	for (int i = 0; i < rows.width; i++)
	{
		common[i] = rows.count > 0 ?
			common_key_type(arrangement, &rows, i) : InvalidOid;
		keys->types[i] = arrangement->columns[i].opcintype;
	}

	/* in place: a row that is left out makes room for the next */
	for (int64 i = 0; i < rows.count; i++)
	{
		KeyShape   *shape = rows.shapes[i];
		Datum	   *from = &rows.values[i * rows.width];
		Datum	   *to = &rows.values[keys->count * rows.width];
		bool		has_null = false;

		CHECK_FOR_INTERRUPTS();
		if (shape->conversions == NULL)
		{
			shape->conversions = palloc(rows.width * sizeof(Conversion));
			for (int column = 0; column < rows.width; column++)
			{
				prepare_conversion(&shape->conversions[column], arrangement,
								   column, shape_column_type(shape, column),
								   common[column], estate);
				keys->types[column] = shape->conversions[column].result_type;
			}
		}
		for (int column = 0; column < rows.width; column++)
		{
			if (rows.isnull[i * rows.width + column])
				has_null = true;
			else
				to[column] = convert_value(&shape->conversions[column],
										   from[column]);
		}
		if (!has_null)
			keys->count++;
	}
	return true;
}
