/*
 * accounted.h
 *	  The set of transactions that accounting has taken into account.
 *
 * Accounting works by snapshot (PgQ's idea): a pass takes a snapshot and
 * counts what it shows and the previous one did not. The set that a pass has
 * accounted for is therefore a snapshot itself, kept as pg_snapshot in
 * aion.stream_state and compared by the full id of the *top-level* transaction
 * that inserted an event, whether it then committed being the business of
 * whoever found the event in the first place.
 */
#ifndef AION_ACCOUNTED_H
#define AION_ACCOUNTED_H

#include "postgres.h"
#include "access/transam.h"
#include "utils/snapshot.h"

typedef struct Accounted
{
	FullTransactionId xmin;		/* all before are in */
	FullTransactionId xmax;		/* none from here on is in */
	int			nxip;			/* in between, these (ascending) are not in */
	FullTransactionId xip[FLEXIBLE_ARRAY_MEMBER];
} Accounted;

/* True if events of top-level transaction "top", if committed, are accounted for. */
extern bool accounted_contains(const Accounted *set, FullTransactionId top);

/* What "snapshot" (MVCC, not taken during recovery) shows. Palloc'd. */
extern Accounted *accounted_from_snapshot(Snapshot snapshot);

extern Accounted *accounted_copy(const Accounted *set);

/* Conversion from and to the text form of pg_snapshot. Palloc'd. */
extern Accounted *accounted_from_text(const char *text);
extern char *accounted_to_text(const Accounted *set);

#endif							/* AION_ACCOUNTED_H */
