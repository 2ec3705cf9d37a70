/*
 * set_aside.h
 *	  Reading aion.set_aside by id, without SPI.
 */
#ifndef AION_SET_ASIDE_H
#define AION_SET_ASIDE_H

#include "postgres.h"
#include "utils/snapshot.h"

#include "store/event.h"

typedef struct SetAsideTable SetAsideTable;

/* Takes AccessShareLock; NULL: the extension is not there. To be closed, but after an error. */
extern SetAsideTable *set_aside_open(Snapshot snapshot);
extern void set_aside_close(SetAsideTable *table);

/* The stream of an event; InvalidOid: there is no such event. */
extern Oid	set_aside_stream(SetAsideTable *table, int64 id);

/* The packed event as a MAXALIGNed palloc'd copy; NULL: there is no such event. Errors out if it is damaged. */
extern Event *set_aside_event(SetAsideTable *table, int64 id);

#endif							/* AION_SET_ASIDE_H */
