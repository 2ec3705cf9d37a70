/*
 * access.h
 *	  What the current user may know of a stream or view, for functions that show or control them.
 */
#ifndef AION_ACCESS_H
#define AION_ACCESS_H

#include "postgres.h"
#include "nodes/parsenodes.h"

/* True if he has one of these privileges on a relation, or on a column of it. Takes no lock; false if it is gone. */
extern bool access_any(Oid relid, AclMode privileges);

/* True if inspection shows it to him: he has whatever privilege on it, or on a column of it. As above. */
extern bool access_visible(Oid relid);

#endif							/* AION_ACCESS_H */
