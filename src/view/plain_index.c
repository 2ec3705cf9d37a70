/*
 * plain_index.c
 *	  Indexes of tables that are written to below the level of SQL.
 *
 * That is done by the functions for system catalogs, whose indexes are on columns alone. One on expressions
 * would crash the process, a partial one get rows that it must not have, a deferrable or exclusion
 * constraint not be checked. Who owns aion's tables may have made such an index; then nothing is written.
 */
#include "postgres.h"

#include "nodes/execnodes.h"
#include "utils/rel.h"

#include "view/plain_index.h"

/* See plain_index.h. */
CatalogIndexState
plain_indexes_open(Relation rel)
{
	CatalogIndexState indexes = CatalogOpenIndexes(rel);

	for (int i = 0; i < indexes->ri_NumIndices; i++)
	{
		const IndexInfo *info = indexes->ri_IndexRelationInfo[i];
		Relation	index = indexes->ri_IndexRelationDescs[i];

		if (info->ii_Expressions != NIL || info->ii_Predicate != NIL || info->ii_ExclusionOps != NULL ||
			!index->rd_index->indimmediate)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("aion cannot maintain index \"%s\" on table \"%s\"",
							RelationGetRelationName(index), RelationGetRelationName(rel)),
					 errdetail("Tables of aion can have indexes on plain columns only."),
					 errhint("Drop the index.")));
	}
	return indexes;
}
