/*
 * extension.h
 *	  aion's own schema objects: finding them, and writing to them with their
 *	  owner's rights.
 */
#ifndef AION_EXTENSION_H
#define AION_EXTENSION_H

#include "postgres.h"
#include "access/genam.h"
#include "catalog/dependency.h"
#include "catalog/objectaddress.h"
#include "utils/rel.h"

/* OID of relation "name" in schema aion; InvalidOid if there is none (any more). */
extern Oid	extension_relation(const char *name);
extern Oid	extension_owner(void);

/* True if the extension is installed in this database. Two cached look-ups. */
extern bool extension_installed(void);

/* What extension_begin() saved. */
typedef struct ExtensionSave
{
	Oid			user;
	int			sec_context;
	int			guc_level;
	bool		pushed;			/* a snapshot */
} ExtensionSave;

/*
 * Between these two the process acts as the owner of aion's tables,
 * search_path and the defaults for new tables are pinned, and SPI is connected
 * with an active snapshot. On an error the (sub)transaction's abort undoes all
 * that.
 */
extern void extension_begin(ExtensionSave *save);
extern void extension_end(const ExtensionSave *save);

/* Runs one statement of the caller's text, which must say what it expects. */
extern void extension_execute(const char *sql, int expected);

/* Is a dependency, of an object as a whole, recorded? And: records it unless it is; true: it was not. */
extern bool extension_depends(const ObjectAddress *depender, const ObjectAddress *referenced,
							  DependencyType type);
extern bool extension_record_dependency(const ObjectAddress *depender, const ObjectAddress *referenced,
										DependencyType type);

/* Sets a parameter until AtEOXact_GUC() of the current nest level. */
extern void extension_pin(const char *name, const char *value);

/*
 * Pins all settings that types' input and output functions look at; undone by
 * AtEOXact_GUC().
 */
extern int	extension_pin_output(void);

/*
 * Opens aion.<table> and scans its rows with column att = stream, seen by a
 * new snapshot.
 */
typedef struct ExtensionScan
{
	Relation	rel;
	SysScanDesc scan;
	LOCKMODE	lockmode;
} ExtensionScan;

extern bool extension_scan_begin(ExtensionScan *scan, const char *table, const char *index,
								 AttrNumber att, Oid stream, LOCKMODE lockmode);
extern HeapTuple extension_scan_next(ExtensionScan *scan);
extern void extension_scan_end(ExtensionScan *scan);

#endif							/* AION_EXTENSION_H */
