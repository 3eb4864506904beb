/*-------------------------------------------------------------------------
 *
 * digest.c
 *	  What a request is: for comparing, and for people.
 *
 * A submit with a handle of the client's own is repeated when an answer was
 * lost on the way.  To know the repetition, a digest of the request is kept
 * with the handle.  It is made of the values' bytes, not of their text, so
 * that settings of the session such as DateStyle do not matter.
 *
 * What people see in peekstash.peeks is the request as JSON, shortened.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/face/digest.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "face/digest.h"
#include "face/request.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "nodes/nodes.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/json.h"
#include "utils/lsyscache.h"

#include "compat.h"

/* How much of a list, or of a text, people are shown. */
#define SHOWN_KEYS		10
#define SHOWN_TEXT		1000
#define SHOWN_BYTES		8192

static void
digest_bytes(StringInfo image, const void *data, int len)
{
	appendBinaryStringInfo(image, (const char *) &len, sizeof(len));
	appendBinaryStringInfo(image, data, len);
}

static void
digest_string(StringInfo image, const char *string)
{
	digest_bytes(image, string, strlen(string));
}

static void
digest_int64(StringInfo image, int64 number)
{
	appendBinaryStringInfo(image, (const char *) &number, sizeof(number));
}

/* The values of a column, whose type is not in doubt. */
static void
digest_value(StringInfo image, Oid type, Datum value)
{
	int16		typlen;
	bool		typbyval;

	get_typlenbyval(type, &typlen, &typbyval);
	digest_int64(image, type);
	if (typbyval)
		digest_int64(image, (int64) value);
	else if (typlen == -1)
		digest_bytes(image, VARDATA_ANY(DatumGetPointer(value)),
					 VARSIZE_ANY_EXHDR(DatumGetPointer(value)));
	else
		digest_bytes(image, DatumGetPointer(value),
					 datumGetSize(value, typbyval, typlen));
}

static void
digest_argument(StringInfo image, FunctionCallInfo fcinfo, int argno)
{
	struct varlena *value;

	if (PG_ARGISNULL(argno))
	{
		digest_int64(image, -1);
		return;
	}
	value = PG_GETARG_VARLENA_PP(argno);
	digest_bytes(image, VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value));
}

static void
digest_bound(StringInfo image, const PeekBound *bound)
{
	digest_int64(image, bound->width);
	digest_int64(image, bound->inclusive);
	for (int i = 0; i < bound->width; i++)
		digest_value(image, bound->types[i], bound->values[i]);
}

static bytea *
digest_of_image(const StringInfoData *image)
{
	bytea	   *value = palloc(VARHDRSZ + image->len);

	SET_VARSIZE(value, VARHDRSZ + image->len);
	memcpy(VARDATA(value), image->data, image->len);
	return DatumGetByteaP(DirectFunctionCall1(sha256_bytea,
											  PointerGetDatum(value)));
}

/*
 * A digest of all that decides what the rows of the answer are.
 */
bytea *
request_digest(FunctionCallInfo fcinfo,
			   const Arrangement *arrangement, const PeekRequest *request)
{
	StringInfoData image;

	initStringInfo(&image);
	digest_int64(&image, RelationGetRelid(arrangement->heap));
	digest_int64(&image, RelationGetRelid(arrangement->index));
	digest_int64(&image, request->description->desc->natts);
	for (int i = 0; i < request->description->desc->natts; i++)
		digest_int64(&image, request->columns[i]);
	digest_int64(&image, request->matches_nothing);
	digest_int64(&image, request->keys.width);
	digest_int64(&image, request->keys.count);
	for (int64 i = 0; i < request->keys.count * request->keys.width; i++)
		digest_value(&image, request->keys.types[i % request->keys.width],
					 request->keys.values[i]);
	digest_bound(&image, &request->lower);
	digest_bound(&image, &request->upper);

	/* the text, and what it means under this search_path and these settings */
	digest_string(&image, nodeToString(request->quals));
	for (int i = 0; i < request->num_sort_keys; i++)
	{
		digest_string(&image, nodeToString(request->sort_keys[i].expr));
		digest_int64(&image, request->sort_keys[i].sort_operator);
	}
	digest_argument(&image, fcinfo, REQUEST_ARG(FILTER));
	digest_argument(&image, fcinfo, REQUEST_ARG(ARGS));
	digest_argument(&image, fcinfo, REQUEST_ARG(ORDER_BY));
	digest_int64(&image, request->row_limit);
	digest_int64(&image, request->row_offset);
	digest_int64(&image, request->backward);
	return digest_of_image(&image);
}

/*
 * The same for a query.  The text alone does not say what it means: names and
 * literals depend on search_path, DateStyle and so on.  The parsed query has
 * resolved them, to oids and values, so it is part of the digest instead of
 * the settings: a setting that changes nothing is no other request.  What a
 * view or a policy says today is not part of it; the same request asked
 * tomorrow is still the same.
 */
bytea *
query_digest(const PeekStatement *statement, ArrayType *args)
{
	StringInfoData image;

	initStringInfo(&image);
	digest_string(&image, "query");
	digest_string(&image, statement->text);
	digest_string(&image, nodeToString(statement->query));
	if (args == NULL)
		digest_int64(&image, -1);
	else
		digest_bytes(&image, VARDATA_ANY(args), VARSIZE_ANY_EXHDR(args));
	return digest_of_image(&image);
}

static void
json_name(StringInfo json, const char *name)
{
	if (json->data[json->len - 1] != '{')
		appendStringInfoString(json, ", ");
	escape_json(json, name);
	appendStringInfoString(json, ": ");
}

static void
json_text(StringInfo json, char *string)
{
	int			len = strlen(string);

	if (len > SHOWN_TEXT)
	{
		len = pg_mbcliplen(string, len, SHOWN_TEXT);
		strcpy(string + len, "...");
	}
	escape_json(json, string);
}

static void
json_value(StringInfo json, Oid type, Datum value)
{
	Oid			output;
	bool		is_varlena;

	getTypeOutputInfo(type, &output, &is_varlena);
	json_text(json, OidOutputFunctionCall(output, value));
}

/* Values for the index columns from first on. */
static void
json_row(StringInfo json, const Arrangement *arrangement, int first,
		 int width, const Oid *types, const Datum *values)
{
	appendStringInfoChar(json, '[');
	for (int i = 0; i < width; i++)
	{
		if (i > 0)
			appendStringInfoString(json, ", ");

		/* what an operator class calls anyenum is of the column's type */
		json_value(json, get_typtype(types[i]) == TYPTYPE_PSEUDO ?
				   arrangement->columns[first + i].type : types[i], values[i]);
	}
	appendStringInfoChar(json, ']');
}

static void
json_bound(StringInfo json, const char *name, const Arrangement *arrangement,
		   int first, const PeekBound *bound)
{
	if (bound->width == 0)
		return;
	json_name(json, name);
	json_row(json, arrangement, first, bound->width, bound->types,
			 bound->values);
	json_name(json, name[0] == 'l' ? "lower_inclusive" : "upper_inclusive");
	appendStringInfoString(json, bound->inclusive ? "true" : "false");
}

static void
json_argument(StringInfo json, const char *name, FunctionCallInfo fcinfo,
			  int argno)
{
	if (PG_ARGISNULL(argno))
		return;
	json_name(json, name);
	json_text(json, text_to_cstring(PG_GETARG_TEXT_PP(argno)));
}

static void
json_array(StringInfo json, const char *name, Datum array)
{
	json_name(json, name);
	json_text(json, OidOutputFunctionCall(F_ARRAY_OUT, array));
}

static void
json_columns(StringInfo json, TupleDesc desc)
{
	json_name(json, "columns");
	appendStringInfoChar(json, '[');
	for (int i = 0; i < desc->natts; i++)
	{
		if (i > 0)
			appendStringInfoString(json, ", ");
		escape_json(json, NameStr(TupleDescAttr(desc, i)->attname));
	}
	appendStringInfoChar(json, ']');
}

/* An estimate of the planner's; it may be infinite. */
static void
json_estimate(StringInfo json, const char *name, double value, int digits)
{
	json_name(json, name);
	if (isfinite(value))
		appendStringInfo(json, "%.*f", digits, value);
	else
		appendStringInfoString(json, "null");
}

/*
 * The request as JSON, for people: what is not given is left out, what is long
 * is shortened.
 */
Jsonb *
request_to_json(FunctionCallInfo fcinfo,
				const Arrangement *arrangement, const PeekRequest *request)
{
	StringInfoData json;
	const PeekKeySet *keys = &request->keys;
	TupleDesc	desc = request->description->desc;

	initStringInfo(&json);
	appendStringInfoChar(&json, '{');
	json_name(&json, "index");
	escape_json(&json, RelationGetRelationName(arrangement->index));
	json_columns(&json, desc);

	if (keys->count > 0)
	{
		json_name(&json, "keys");
		appendStringInfoChar(&json, '[');
		for (int64 i = 0; i < Min(keys->count, SHOWN_KEYS); i++)
		{
			if (i > 0)
				appendStringInfoString(&json, ", ");
			json_row(&json, arrangement, 0, keys->width, keys->types,
					 &keys->values[i * keys->width]);
		}
		appendStringInfoChar(&json, ']');
		json_name(&json, "num_keys");
		appendStringInfo(&json, INT64_FORMAT, keys->count);
	}
	json_bound(&json, "lower", arrangement, keys->width, &request->lower);
	json_bound(&json, "upper", arrangement, keys->width, &request->upper);
	json_argument(&json, "filter", fcinfo, REQUEST_ARG(FILTER));
	if (!PG_ARGISNULL(REQUEST_ARG(ARGS)))
		json_array(&json, "args", PG_GETARG_DATUM(REQUEST_ARG(ARGS)));
	json_argument(&json, "order_by", fcinfo, REQUEST_ARG(ORDER_BY));
	if (request->row_limit >= 0)
	{
		json_name(&json, "row_limit");
		appendStringInfo(&json, INT64_FORMAT, request->row_limit);
	}
	if (request->row_offset > 0)
	{
		json_name(&json, "row_offset");
		appendStringInfo(&json, INT64_FORMAT, request->row_offset);
	}
	if (request->backward)
	{
		json_name(&json, "backward");
		appendStringInfoString(&json, "true");
	}
	appendStringInfoChar(&json, '}');

	/* it is stored beside the quotas, so it must not grow large */
	if (json.len > SHOWN_BYTES)
	{
		resetStringInfo(&json);
		appendStringInfoChar(&json, '{');
		json_name(&json, "index");
		escape_json(&json, RelationGetRelationName(arrangement->index));
		json_name(&json, "num_columns");
		appendStringInfo(&json, "%d", desc->natts);
		json_name(&json, "num_keys");
		appendStringInfo(&json, INT64_FORMAT, keys->count);
		json_name(&json, "shortened");
		appendStringInfoString(&json, "true}");
	}

	return DatumGetJsonbP(DirectFunctionCall1(jsonb_in,
											  CStringGetDatum(json.data)));
}

/* The same for a query, with what the planner expects of it. */
Jsonb *
query_to_json(const PeekQuery *query, ArrayType *args)
{
	StringInfoData json;
	TupleDesc	desc = query->description->desc;

	initStringInfo(&json);
	appendStringInfoChar(&json, '{');
	json_name(&json, "query");
	json_text(&json, pstrdup(query->text));
	if (args != NULL)
		json_array(&json, "args", PointerGetDatum(args));
	json_columns(&json, desc);
	if (json.len > SHOWN_BYTES)
	{
		resetStringInfo(&json);
		appendStringInfoChar(&json, '{');
		json_name(&json, "query");
		json_text(&json, pstrdup(query->text));
		json_name(&json, "num_columns");
		appendStringInfo(&json, "%d", desc->natts);
		json_name(&json, "shortened");
		appendStringInfoString(&json, "true");
	}

	json_name(&json, "plan");
	appendStringInfoChar(&json, '{');
	json_estimate(&json, "total_cost", query->plan->planTree->total_cost, 2);
	json_estimate(&json, "rows", query->plan->planTree->plan_rows, 0);
	appendStringInfoString(&json, "}}");
	return DatumGetJsonbP(DirectFunctionCall1(jsonb_in,
											  CStringGetDatum(json.data)));
}
