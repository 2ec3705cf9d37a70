/*
 * plain_index.h
 *	  Indexes of tables that are written to below the level of SQL.
 */
#ifndef AION_PLAIN_INDEX_H
#define AION_PLAIN_INDEX_H

#include "postgres.h"
#include "catalog/indexing.h"

/* CatalogOpenIndexes(); errors out if CatalogTupleInsertWithInfo() can't maintain one of them. */
extern CatalogIndexState plain_indexes_open(Relation rel);

#endif							/* AION_PLAIN_INDEX_H */
