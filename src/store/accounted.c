/*
 * accounted.c
 *	  The set of transactions that accounting has taken into account.
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "store/accounted.h"
#include "store/area_internal.h"

bool
accounted_contains(const Accounted *set, FullTransactionId top)
{
	int			low = 0;
	int			high = set->nxip;

	if (FullTransactionIdPrecedes(top, set->xmin))
		return true;
	if (!FullTransactionIdPrecedes(top, set->xmax))
		return false;
	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (FullTransactionIdEquals(set->xip[middle], top))
			return false;
		if (FullTransactionIdPrecedes(set->xip[middle], top))
			low = middle + 1;
		else
			high = middle;
	}
	return true;
}

static Accounted *
accounted_alloc(int nxip)
{
	Accounted  *set = palloc(offsetof(Accounted, xip) + sizeof(FullTransactionId) * Max(nxip, 1));

	set->nxip = nxip;
	return set;
}

Accounted *
accounted_copy(const Accounted *set)
{
	Accounted  *copy = accounted_alloc(set->nxip);

	memcpy(copy, set, offsetof(Accounted, xip) + sizeof(FullTransactionId) * set->nxip);
	return copy;
}

static int
compare_full_xids(const void *a, const void *b)
{
	uint64		left = U64FromFullTransactionId(*(const FullTransactionId *) a);
	uint64		right = U64FromFullTransactionId(*(const FullTransactionId *) b);

	return left < right ? -1 : left > right;
}

/* The snapshot's xip array is complete as to top-level ids, which is all that is asked for. */
Accounted *
accounted_from_snapshot(Snapshot snapshot)
{
	Accounted  *set = accounted_alloc(snapshot->xcnt);

	Assert(!snapshot->takenDuringRecovery);
	set->xmin = area_full_xid(snapshot->xmin);
	set->xmax = area_full_xid(snapshot->xmax);
	for (int i = 0; i < set->nxip; i++)
		set->xip[i] = area_full_xid(snapshot->xip[i]);
	qsort(set->xip, set->nxip, sizeof(FullTransactionId), compare_full_xids);
	return set;
}

Accounted *
accounted_from_text(const char *text)
{
	Accounted  *set;
	int			commas = 0;
	char	   *end;

	for (const char *p = text; *p; p++)
		commas += *p == ',';
	set = accounted_alloc(commas + 1);
	set->nxip = 0;

	set->xmin = FullTransactionIdFromU64(strtoull(text, &end, 10));
	if (*end != ':')
		elog(ERROR, "malformed snapshot \"%s\"", text);
	set->xmax = FullTransactionIdFromU64(strtoull(end + 1, &end, 10));
	if (*end != ':')
		elog(ERROR, "malformed snapshot \"%s\"", text);
	for (end++; *end; end += *end == ',')
		set->xip[set->nxip++] = FullTransactionIdFromU64(strtoull(end, &end, 10));
	return set;
}

char *
accounted_to_text(const Accounted *set)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, UINT64_FORMAT ":" UINT64_FORMAT ":",
					 U64FromFullTransactionId(set->xmin), U64FromFullTransactionId(set->xmax));
	for (int i = 0; i < set->nxip; i++)
		appendStringInfo(&text, "%s" UINT64_FORMAT, i ? "," : "",
						 U64FromFullTransactionId(set->xip[i]));
	return text.data;
}
