/*
 * wal_flush.h
 *	  Bulk writes' WAL, flushed while they go on.
 */
#ifndef AION_WAL_FLUSH_H
#define AION_WAL_FLUSH_H

#include "postgres.h"

/*
 * To be called after "bytes" were written to tables: now and then wakes the WAL writer to flush them, and does not
 * wait for it. Has no part in durability, which is the commit's.
 */
extern void wal_flush_soon(Size bytes);

#endif							/* AION_WAL_FLUSH_H */
