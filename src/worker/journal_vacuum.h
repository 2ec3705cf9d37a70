/*
 * journal_vacuum.h
 *	  VACUUM of journals after destages.
 */
#ifndef AION_JOURNAL_VACUUM_H
#define AION_JOURNAL_VACUUM_H

#include "postgres.h"

/* An unknown number of bytes, at least as many as make a VACUUM worth it. */
#define JOURNAL_VACUUM_ANY PG_INT64_MAX

/* So many bytes of the journal are dead now, as far as known. */
extern void journal_vacuum_note(Oid journal, int64 bytes);

/*
 * Vacuums the journal if its dead bytes outweigh "live" ones and the last time
 * is long enough ago; or once after a while of quiet, to give the file's end back. Outside any transaction. Returns the ms after which to
 * call again for that reason, -1: none. Errors out.
 */
extern long journal_vacuum(Oid journal, int64 live);

#endif							/* AION_JOURNAL_VACUUM_H */
