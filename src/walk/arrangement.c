/*-------------------------------------------------------------------------
 *
 * arrangement.c
 *	  A btree index and the table it leads to, opened and checked.
 *
 * Locks are taken as a query takes them: AccessShareLock on the table first,
 * then on the index, held to the end of the transaction.  What the name
 * resolved to before the lock is looked at again after it.
 *
 * Everything that makes an index unfit for a peek is refused here and only
 * here: its kind, its state, another session's temporary table, row-level
 * security.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/walk/arrangement.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "errors.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_relation.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "walk/arrangement.h"

#include "compat.h"

static void
error_wrong_kind(const char *name, const char *what, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("cannot peek at \"%s\"", name),
			 errdetail("\"%s\" is %s.", name, what),
			 errhint("%s", hint)));
}

/* What a relation is, for error messages. */
static const char *
relkind_words(char relkind)
{
	switch (relkind)
	{
		case RELKIND_TOASTVALUE:
			return "a TOAST table";
		case RELKIND_PARTITIONED_TABLE:
			return "a partitioned table";
		case RELKIND_PARTITIONED_INDEX:
			return "a partitioned index";
		case RELKIND_FOREIGN_TABLE:
			return "a foreign table";
		case RELKIND_VIEW:
			return "a view";
		case RELKIND_SEQUENCE:
			return "a sequence";
		case RELKIND_COMPOSITE_TYPE:
			return "a composite type";
		default:
			return "not a table";
	}
}

static const char *
relkind_hint(char relkind)
{
	switch (relkind)
	{
		case RELKIND_PARTITIONED_TABLE:
		case RELKIND_PARTITIONED_INDEX:
			return "Peek at an index of one of its partitions.";
		default:
			return "A btree index of a table or materialized view is wanted, or the table itself.";
	}
}

/* The names of a table's btree indexes, for a hint. */
static char *
list_btree_indexes(Relation heap)
{
	StringInfoData names;
	List	   *indexes = RelationGetIndexList(heap);
	ListCell   *lc;

	initStringInfo(&names);
	foreach(lc, indexes)
	{
		Oid			indexid = lfirst_oid(lc);
		HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(indexid));

		if (!HeapTupleIsValid(tuple))
			continue;
		if (((Form_pg_class) GETSTRUCT(tuple))->relam == BTREE_AM_OID)
			appendStringInfo(&names, "%s\"%s\"", names.len > 0 ? ", " : "",
							 NameStr(((Form_pg_class) GETSTRUCT(tuple))->relname));
		ReleaseSysCache(tuple);
	}
	return names.len > 0 ? names.data : NULL;
}

/*
 * A table means its primary key.  Unlike rd_pkindex, this also finds a
 * deferrable one: it can be walked like any other.
 */
static Oid
primary_key_of(Relation heap)
{
	List	   *indexes = RelationGetIndexList(heap);
	ListCell   *lc;
	char	   *names;

	foreach(lc, indexes)
	{
		Oid			indexid = lfirst_oid(lc);
		HeapTuple	tuple = SearchSysCache1(INDEXRELID,
											ObjectIdGetDatum(indexid));
		bool		primary;

		if (!HeapTupleIsValid(tuple))
			continue;
		primary = ((Form_pg_index) GETSTRUCT(tuple))->indisprimary;
		ReleaseSysCache(tuple);
		if (primary)
			return indexid;
	}

	names = list_btree_indexes(heap);
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("table \"%s\" has no primary key",
					RelationGetRelationName(heap)),
			 names ?
			 errhint("Name one of its btree indexes: %s.", names) :
			 errhint("It has no btree index either.")));
	return InvalidOid;			/* keep compiler quiet */
}

static void
check_table(Relation heap)
{
	const char *name = RelationGetRelationName(heap);
	char		relkind = heap->rd_rel->relkind;

	if (relkind != RELKIND_RELATION && relkind != RELKIND_MATVIEW)
		error_wrong_kind(name, relkind_words(relkind), relkind_hint(relkind));

	/* its pages may live in the other session's local buffers only */
	if (RELATION_IS_OTHER_TEMP(heap))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot peek at temporary table \"%s\" of another session",
						name)));

	/* as get_relation_info(): their pages are not there */
	if (!RelationIsPermanent(heap) && RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary or unlogged relations during recovery")));

	if (!RelationIsScannable(heap))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("materialized view \"%s\" has not been populated", name),
				 errhint("Use the REFRESH MATERIALIZED VIEW command.")));

	/*
	 * noError also when row_security is off: that setting asks for an error
	 * where policies would apply, and an error it is.
	 */
	if (check_enable_rls(RelationGetRelid(heap), InvalidOid, true) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot peek at table \"%s\" with row-level security",
						name),
				 errdetail("A walk of an index does not apply the policies of the table."),
				 errhint("peek_query applies them.")));
}

/*
 * A query takes its locks before its snapshot, a function after it.  A table
 * that was rewritten in between looks empty under the older snapshot, without
 * an error.  So if the table's row in pg_class is newer than the snapshot, the
 * version that the snapshot sees must have had the same file.
 *
 * Returns true if it had another.
 */
static bool
was_rewritten(Relation heap, Snapshot snapshot)
{
	HeapTuple	current = SearchSysCache1(RELOID,
										  ObjectIdGetDatum(RelationGetRelid(heap)));
	TransactionId xmin;
	Relation	pg_class;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	seen;
	bool		rewritten = false;

	if (!HeapTupleIsValid(current))
		error_no_such_arrangement(RelationGetRelid(heap));
	xmin = HeapTupleHeaderGetXmin(current->t_data);
	ReleaseSysCache(current);
	if (!TransactionIdIsNormal(xmin) ||
		TransactionIdIsCurrentTransactionId(xmin) ||
		!XidInMVCCSnapshot(xmin, snapshot))
		return false;

	pg_class = table_open(RelationRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(heap)));
	scan = systable_beginscan(pg_class, ClassOidIndexId, true, snapshot, 1,
							  &key);
	seen = systable_getnext(scan);
	if (HeapTupleIsValid(seen))
		rewritten = ((Form_pg_class) GETSTRUCT(seen))->relfilenode !=
			heap->rd_rel->relfilenode;
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);
	return rewritten;
}

/*
 * In READ COMMITTED the rows of a rewritten table are those that a statement
 * begun now would see.  Otherwise the transaction's snapshot is what was asked
 * for, and it cannot be served.
 */
bool
table_check_rewritten(Relation heap)
{
	if (!was_rewritten(heap, GetActiveSnapshot()))
		return false;
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" was rewritten after the snapshot of this transaction",
						RelationGetRelationName(heap)),
				 errhint("Repeat the transaction.")));
	return true;
}

static void
check_index(Relation index)
{
	const char *name = RelationGetRelationName(index);
	Form_pg_index form = index->rd_index;
	const char *state = NULL;

	if (index->rd_rel->relam != BTREE_AM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("index \"%s\" is not a btree index", name),
				 errdetail("Its access method is \"%s\".",
						   get_am_name(index->rd_rel->relam))));

	if (!form->indislive)
		state = "It is being dropped.";
	else if (!form->indisready)
		state = "It is not ready: its build has not finished, or has failed.";
	else if (!form->indisvalid)
		state = "It is not valid: its build has not finished, or has failed.";

	/* as the planner passes over it, see get_relation_info() */
	else if (form->indcheckxmin &&
			 !TransactionIdPrecedes(HeapTupleHeaderGetXmin(index->rd_indextuple->t_data),
									TransactionXmin))
		state = "It is newer than this transaction's snapshot, and some rows of that snapshot may be missing in it.";

	if (state != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" cannot be used", name),
				 errdetail_internal("%s", state)));
}

/*
 * Describe the key columns, and collect the table's columns that the walk
 * reads by itself: its order depends on every key column, its rows on the
 * predicate, whatever columns are returned.
 */
static void
describe_columns(Arrangement *arrangement)
{
	Relation	index = arrangement->index;
	TupleDesc	heap_desc = RelationGetDescr(arrangement->heap);
	List	   *exprs = RelationGetIndexExpressions(index);
	ListCell   *next_expr = list_head(exprs);
	Bitmapset  *read_columns = NULL;

	arrangement->num_columns = IndexRelationGetNumberOfKeyAttributes(index);
	arrangement->columns = palloc0(arrangement->num_columns *
								   sizeof(ArrangementColumn));

	for (int i = 0; i < arrangement->num_columns; i++)
	{
		ArrangementColumn *column = &arrangement->columns[i];
		AttrNumber	attno = index->rd_index->indkey.values[i];
		Oid			type;

		if (attno != 0)
		{
			type = TupleDescAttr(heap_desc, attno - 1)->atttypid;
			read_columns = bms_add_member(read_columns,
										  attno - FirstLowInvalidHeapAttributeNumber);
		}
		else
		{
			if (next_expr == NULL)
				elog(ERROR, "too few entries in indexprs list of index %u",
					 RelationGetRelid(index));
			column->expr = (Node *) lfirst(next_expr);
			next_expr = lnext(exprs, next_expr);
			type = exprType(column->expr);
		}

		column->table_attno = attno;
		column->type = getBaseType(type);
		column->opfamily = index->rd_opfamily[i];
		column->opcintype = index->rd_opcintype[i];
		column->collation = index->rd_indcollation[i];
		column->descending = (index->rd_indoption[i] & INDOPTION_DESC) != 0;
	}

	pull_varattnos((Node *) exprs, 1, &read_columns);
	pull_varattnos((Node *) RelationGetIndexPredicate(index), 1, &read_columns);
	arrangement->read_columns = read_columns;
}

/*
 * Open the arrangement that relid names: an index, or a table, which means
 * its primary key.  Throws unless it can be peeked at by the current role;
 * privileges on columns are the request's to check, as they depend on it.
 *
 * The result lives in the current context; arrangement_close() it.
 */
Arrangement *
arrangement_open(Oid relid)
{
	Arrangement *arrangement = palloc0(sizeof(Arrangement));
	char		relkind = get_rel_relkind(relid);
	Oid			heapid;
	Oid			indexid;

	switch (relkind)
	{
		case '\0':
			error_no_such_arrangement(relid);
			break;
		case RELKIND_INDEX:
			indexid = relid;
			heapid = IndexGetRelation(relid, true);
			if (!OidIsValid(heapid))
				error_no_such_arrangement(relid);
			break;
		case RELKIND_RELATION:
		case RELKIND_MATVIEW:
			heapid = relid;
			indexid = InvalidOid;
			break;
		default:
			error_wrong_kind(get_rel_name(relid), relkind_words(relkind),
							 relkind_hint(relkind));
			pg_unreachable();
	}

	arrangement->heap = try_relation_open(heapid, AccessShareLock);
	if (arrangement->heap == NULL)
		error_no_such_arrangement(relid);
	check_table(arrangement->heap);
	arrangement->wants_new_snapshot = table_check_rewritten(arrangement->heap);

	if (!OidIsValid(indexid))
		indexid = primary_key_of(arrangement->heap);
	arrangement->index = try_relation_open(indexid, AccessShareLock);
	if (arrangement->index == NULL ||
		arrangement->index->rd_rel->relkind != RELKIND_INDEX ||
		arrangement->index->rd_index->indrelid != heapid)
		error_no_such_arrangement(indexid);
	check_index(arrangement->index);

	describe_columns(arrangement);
	return arrangement;
}

/*
 * Throw unless the current role may SELECT these columns of the table (offset
 * as in permission checks).
 */
void
arrangement_check_select(const Arrangement *arrangement, Bitmapset *columns)
{
	ParseState *pstate = make_parsestate(NULL);
	RangeTblEntry *rte =
		addRangeTableEntryForRelation(pstate, arrangement->heap,
									  AccessShareLock, NULL, false,
									  false)->p_rte;

	*range_table_selected_columns(pstate, rte) = bms_copy(columns);
	check_range_table_permissions(pstate);
	free_parsestate(pstate);
}

/* Close the relations; their locks stay to the end of the transaction. */
void
arrangement_close(Arrangement *arrangement)
{
	relation_close(arrangement->index, NoLock);
	relation_close(arrangement->heap, NoLock);
}

/* The name of a key column (from 0), for messages. */
char *
arrangement_column_name(const Arrangement *arrangement, int column)
{
	return pstrdup(NameStr(TupleDescAttr(RelationGetDescr(arrangement->index),
										 column)->attname));
}
