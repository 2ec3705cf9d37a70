/*
 * wal_flush.c
 *	  Bulk writes' WAL, flushed while they go on.
 *
 * A commit waits until all WAL before it is on disk, also that of others. Left
 * alone, what a destage writes within a fraction of a second would be flushed by
 * the next INSERT or COPY that commits, and most of what a COPY writes by its own commit. The
 * WAL writer can do it meanwhile, but looks only each wal_writer_delay unless it is woken.
 */
#include "postgres.h"

#include "access/xlog.h"

#include "store/wal_flush.h"

#define WAKE_BYTES (256 * 1024)

void
wal_flush_soon(Size bytes)
{
	static Size written = 0;	/* since the WAL writer was last woken */

	written += bytes;
	if (written < WAKE_BYTES)
		return;
	written = 0;
	/* nothing, if the tables are not logged */
	if (!XLogRecPtrIsInvalid(XactLastRecEnd))
		XLogSetAsyncXactLSN(XactLastRecEnd);
}
