/*
 * held_locks.c
 *	  Does the current transaction itself hold a lock that would make the workers wait?
 *
 * Who waits for the workers while they wait for him waits in vain, and the
 * server's deadlock detector can't see it. Looked at are the stream, the relations of its views,
 * and what their queries name, through views; not what functions use.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "rewrite/rewriteHandler.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat.h"
#include "view/view_internal.h"

/* A search for such a lock. */
typedef struct HeldLockSearch
{
	List	   *seen;			/* OIDs of relations that were looked at */
	Oid			found;
} HeldLockSearch;

/* True if this transaction's locks on the relation don't let others have "mode". */
static bool
holds_against(Oid relid, LOCKMODE mode)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, IsSharedRelation(relid) ? InvalidOid : MyDatabaseId, relid);
	for (LOCKMODE held = AccessShareLock; held <= AccessExclusiveLock; held++)
		if (DoLockModesConflict(held, mode) && LockHeldByMe(&tag, held, false))
			return true;
	return false;
}

static bool search_query(Node *node, HeldLockSearch *search);

/* Looks into the query of a view, unless someone else is changing it. */
static bool
search_view(Oid view, HeldLockSearch *search)
{
	Relation	rel;
	bool		found = false;

	if (!ConditionalLockRelationOid(view, AccessShareLock))
		return false;
	rel = try_relation_open(view, NoLock);
	if (rel != NULL && rel->rd_rel->relkind == RELKIND_VIEW && rel->rd_rules != NULL)
		found = search_query((Node *) get_view_query(rel), search);
	if (rel != NULL)
		relation_close(rel, NoLock);
	UnlockRelationOid(view, AccessShareLock);
	return found;
}

/* Looks at a relation that workers lock in "mode". */
static bool
search_relation(Oid relid, LOCKMODE mode, HeldLockSearch *search)
{
	if (list_member_oid(search->seen, relid))
		return false;
	search->seen = lappend_oid(search->seen, relid);
	if (holds_against(relid, mode))
	{
		search->found = relid;
		return true;
	}
	return get_rel_relkind(relid) == RELKIND_VIEW && search_view(relid, search);
}

/* Looks at the relations that a query names. */
static bool
search_query(Node *node, HeldLockSearch *search)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		const RangeTblEntry *entry = (RangeTblEntry *) node;

		return entry->rtekind == RTE_RELATION &&
			search_relation(entry->relid, AccessShareLock, search);
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, search_query, search, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, search_query, search);
}

/* See view.h. */
Oid
view_held_lock(Oid relid)
{
	ViewRow    *row = view_row_read(relid);
	List	   *rows = row != NULL ? list_make1(row) : view_rows_of_stream(relid);
	HeldLockSearch search = {NIL, InvalidOid};
	ListCell   *lc;

	if (search_relation(row != NULL ? row->stream : relid, AccessShareLock, &search))
		return search.found;
	foreach(lc, rows)
	{
		row = lfirst(lc);
		if (view_created_here(row->view))
			continue;			/* the workers don't know it */
		if (search_relation(row->results, RowExclusiveLock, &search) ||
			search_relation(row->view, VIEW_ENTRY_LOCK, &search) ||
			search_relation(row->definition, AccessShareLock, &search))
			return search.found;
	}
	return InvalidOid;
}
