/*-------------------------------------------------------------------------
 *
 * transfer.c
 *	  A request on its way to another process.
 *
 * Numbers go as they are.  Expressions, and the values of keys and bounds,
 * which are made into constants for it, go as node trees in the server's own
 * text form: a filter is never parsed again, so it means over there what it
 * meant here, whatever search_path says.
 *
 * Both processes run the same binary, so there is no version and no byte
 * order; lengths are checked all the same.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/drive/transfer.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "drive/transfer.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodes.h"
#include "nodes/primnodes.h"
#include "row.h"
#include "utils/lsyscache.h"

#include "compat.h"

/* Where reading stands. */
typedef struct TransferReader
{
	char	   *next;
	char	   *end;
} TransferReader;

static void
put_bytes(StringInfo buffer, const void *data, Size size)
{
	appendBinaryStringInfo(buffer, data, size);
}

#define put_value(buffer, value) put_bytes(buffer, &(value), sizeof(value))

static void
get_bytes(TransferReader *reader, void *data, Size size)
{
	if ((Size) (reader->end - reader->next) < size)
		elog(ERROR, "request of a peek was cut off on its way");
	memcpy(data, reader->next, size);
	reader->next += size;
}

#define get_value(reader, value) get_bytes(reader, &(value), sizeof(value))

static void
put_node(StringInfo buffer, const void *node)
{
	char	   *text = nodeToString(node);

	put_bytes(buffer, text, strlen(text) + 1);
	pfree(text);
}

static void *
get_node(TransferReader *reader)
{
	char	   *text = reader->next;
	Size		len = strnlen(text, reader->end - text);

	if (text + len == reader->end)
		elog(ERROR, "request of a peek was cut off on its way");
	reader->next += len + 1;
	return stringToNode(text);
}

/* Values of the leading columns, row after row; none is NULL. */
static void
put_values(StringInfo buffer, int width, int64 rows, const Oid *types,
		   const Datum *values)
{
	List	   *constants = NIL;
	int16	   *typlen = palloc(width * sizeof(int16) + 1);
	bool	   *typbyval = palloc(width * sizeof(bool) + 1);

	for (int i = 0; i < width; i++)
		get_typlenbyval(types[i], &typlen[i], &typbyval[i]);
	for (int64 i = 0; i < rows * width; i++)
	{
		int			column = i % width;
		Datum		value = values[i];

		if (typlen[column] == -1)
			value = PointerGetDatum(PG_DETOAST_DATUM(value));
		constants = lappend(constants,
							makeConst(types[column], -1, InvalidOid,
									  typlen[column], value, false,
									  typbyval[column]));
	}
	put_node(buffer, constants);
}

static void
get_values(TransferReader *reader, int width, int64 rows, Oid **types,
		   Datum **values)
{
	List	   *constants = get_node(reader);
	ListCell   *lc;
	int64		i = 0;

	if (list_length(constants) != rows * width)
		elog(ERROR, "request of a peek has a wrong number of values");
	*types = palloc0(width * sizeof(Oid) + 1);
	*values = MemoryContextAllocHuge(CurrentMemoryContext,
									 rows * width * sizeof(Datum) + 1);
	foreach(lc, constants)
	{
		Const	   *constant = lfirst_node(Const, lc);

		if (i < width)
			(*types)[i] = constant->consttype;
		(*values)[i++] = constant->constvalue;
	}
}

static void
put_bound(StringInfo buffer, const PeekBound *bound)
{
	put_value(buffer, bound->width);
	put_value(buffer, bound->inclusive);
	put_values(buffer, bound->width, 1, bound->types, bound->values);
}

static void
get_bound(TransferReader *reader, PeekBound *bound)
{
	get_value(reader, bound->width);
	get_value(reader, bound->inclusive);
	get_values(reader, bound->width, 1, &bound->types, &bound->values);
}

static void
put_description(StringInfo buffer, const RowDescription *description)
{
	TupleDesc	desc = description->desc;

	put_value(buffer, desc->natts);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		put_value(buffer, att->attname);
		put_value(buffer, att->atttypid);
		put_value(buffer, att->atttypmod);
		put_value(buffer, att->attcollation);
	}
}

static RowDescription *
get_description(TransferReader *reader)
{
	TupleDesc	desc;
	int			natts;

	get_value(reader, natts);
	desc = CreateTemplateTupleDesc(natts);
	for (int i = 0; i < natts; i++)
	{
		NameData	name;
		Oid			type;
		int32		typmod;
		Oid			collation;

		get_value(reader, name);
		get_value(reader, type);
		get_value(reader, typmod);
		get_value(reader, collation);
		TupleDescInitEntry(desc, i + 1, NameStr(name), type, typmod, 0);
		TupleDescInitEntryCollation(desc, i + 1, collation);
	}
	return row_description_create(desc);
}

/* A set of columns, as a list of integers. */
static void
put_columns(StringInfo buffer, const Bitmapset *columns)
{
	List	   *list = NIL;
	int			column = -1;

	while ((column = bms_next_member(columns, column)) >= 0)
		list = lappend_int(list, column);
	put_node(buffer, list);
}

static Bitmapset *
get_columns(TransferReader *reader)
{
	Bitmapset  *columns = NULL;
	ListCell   *lc;

	foreach(lc, (List *) get_node(reader))
		columns = bms_add_member(columns, lfirst_int(lc));
	return columns;
}

/*
 * Append a request to a buffer.
 */
void
transfer_write_request(StringInfo buffer, const PeekRequest *request)
{
	const PeekKeySet *keys = &request->keys;

	put_value(buffer, keys->width);
	put_value(buffer, keys->count);
	put_values(buffer, keys->width, keys->count, keys->types, keys->values);
	put_bound(buffer, &request->lower);
	put_bound(buffer, &request->upper);
	put_value(buffer, request->matches_nothing);
	put_node(buffer, request->quals);
	put_columns(buffer, request->used_columns);
	put_description(buffer, request->description);
	put_bytes(buffer, request->columns,
			  request->description->desc->natts * sizeof(AttrNumber));
	put_value(buffer, request->whole_row);
	put_value(buffer, request->num_sort_keys);
	for (int i = 0; i < request->num_sort_keys; i++)
	{
		const PeekSortKey *key = &request->sort_keys[i];

		put_node(buffer, key->expr);
		put_value(buffer, key->sort_operator);
		put_value(buffer, key->collation);
		put_value(buffer, key->nulls_first);
	}
	put_value(buffer, request->row_limit);
	put_value(buffer, request->row_offset);
	put_value(buffer, request->backward);
}

/*
 * The request that was written, in the current context.
 */
PeekRequest *
transfer_read_request(char *data, Size size)
{
	PeekRequest *request = palloc0(sizeof(PeekRequest));
	TransferReader reader = {data, data + size};
	int			natts;

	get_value(&reader, request->keys.width);
	get_value(&reader, request->keys.count);
	get_values(&reader, request->keys.width, request->keys.count,
			   &request->keys.types, &request->keys.values);
	get_bound(&reader, &request->lower);
	get_bound(&reader, &request->upper);
	get_value(&reader, request->matches_nothing);
	request->quals = get_node(&reader);
	request->used_columns = get_columns(&reader);
	request->description = get_description(&reader);
	natts = request->description->desc->natts;
	request->columns = palloc(natts * sizeof(AttrNumber) + 1);
	get_bytes(&reader, request->columns, natts * sizeof(AttrNumber));
	get_value(&reader, request->whole_row);
	get_value(&reader, request->num_sort_keys);
	request->sort_keys = palloc0(request->num_sort_keys *
								 sizeof(PeekSortKey) + 1);
	for (int i = 0; i < request->num_sort_keys; i++)
	{
		PeekSortKey *key = &request->sort_keys[i];

		key->expr = get_node(&reader);
		get_value(&reader, key->sort_operator);
		get_value(&reader, key->collation);
		get_value(&reader, key->nulls_first);
	}
	get_value(&reader, request->row_limit);
	get_value(&reader, request->row_offset);
	get_value(&reader, request->backward);
	return request;
}
