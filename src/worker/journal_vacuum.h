/*
 * journal_vacuum.h
 *	  Makes room in journals after destages.
 */
#ifndef AION_JOURNAL_VACUUM_H
#define AION_JOURNAL_VACUUM_H

#include "postgres.h"

/*
 * Prunes what jobs have emptied, as far as nobody can see it any more. Vacuums the journal if what it takes that for
 * outweighs "live" bytes and the last time is long enough ago; or once after a while, to give the file's end back if
 * it is long. Outside any transaction. Returns the ms after which to call again for that, -1: no need. Errors out.
 */
extern long journal_vacuum(Oid journal, int64 live);

#endif							/* AION_JOURNAL_VACUUM_H */
