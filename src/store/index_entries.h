/*
 * index_entries.h
 *	  Entries in the indexes of a stream's tables, which are written below the
 *	  level of SQL.
 */
#ifndef AION_INDEX_ENTRIES_H
#define AION_INDEX_ENTRIES_H

#include "postgres.h"
#include "access/htup.h"
#include "utils/rel.h"

typedef struct IndexEntries IndexEntries;

/* In the current memory context. The caller has the table locked for writing. */
extern IndexEntries *index_entries_begin(Relation rel);

/* For a tuple that was inserted: its t_self says where. */
extern void index_entries_add(IndexEntries *entries, HeapTuple tuple);

extern void index_entries_end(IndexEntries *entries);

#endif							/* AION_INDEX_ENTRIES_H */
