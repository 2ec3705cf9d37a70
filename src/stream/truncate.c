/*
 * truncate.c
 *	  TRUNCATE of streams.
 *
 * A stream is made as if new by giving it new, empty tables: the old ones are
 * dropped, its rows in aion's tables are replaced, the view layer is told. All
 * of that is catalog work of the truncating transaction, so a rollback or a
 * crash before its commit leaves the stream as it was. Shared memory is keyed
 * by the journal's OID: the old journal's entries become orphans at commit and
 * are forgotten by the scheduler; nothing has to be done about them here.
 *
 * As with the server's own TRUNCATE, a snapshot older than the truncating
 * transaction sees the stream empty afterwards.
 */
#include "postgres.h"

#include "utils/rel.h"

#include "stream/registry.h"

/*
 * ExecForeignTruncate: makes each stream in "rels" as if new. The caller (the
 * server) has checked privileges and holds AccessExclusiveLock on all of them.
 * "behavior" and "restart_seqs" concern foreign keys and sequences, which are
 * the server's business.
 */
void
stream_exec_truncate(List *rels, DropBehavior behavior, bool restart_seqs)
{
	ListCell   *cell;

	foreach(cell, rels)
	{
		Relation	rel = (Relation) lfirst(cell);
		Oid			relid = RelationGetRelid(rel);
		const StreamInfo *info = stream_lookup(relid, false);
		RegistryEntry entry;
		int64		width;

		stream_check_home(info);
		if (!info->has_storage || !registry_read(relid, &entry))
			continue;
		width = info->options.bucket_width > 0 ? info->options.bucket_width : entry.bucket_width;
		storage_replace(relid, &entry, width, info->options.durable);
		if (stream_truncate_hook != NULL)
			stream_truncate_hook(relid);
	}
}
