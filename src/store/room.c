/*
 * room.c
 *	  Blocks of heaps in which this process has deleted rows, until others can be put there.
 *
 * Jobs delete as much from a stream's tables as they put into others, or more; were it left to autovacuum, which comes once in a
 * minute, the tables would be a multiple of what they have to hold, and grow where memory, the file system and WAL take a
 * new block harder than one that is there. So the blocks are pruned, mostly while they are still in shared buffers, or
 * just before they are needed.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/freespace.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "store/prune.h"
#include "store/room.h"
#include "store/yield.h"

#define PAUSE_MS 200
#define MAX_BLOCKS (64 * 1024)	/* of one relation; then it is for VACUUM */
#define MAX_LEFT 16				/* so many blocks that cannot be pruned yet: nor can later ones */
#define FEW_ROOMS 64			/* are not looked through for relations that are gone */

typedef struct Room
{
	Oid			relid;			/* hash key */
	BlockNumber *blocks;		/* to be pruned: those from "done" on */
	int			n;
	int			done;
	int			capacity;
	TimestampTz next;			/* not before: somebody may still see what was deleted */
	int64		lost;			/* since room_make() was called last */
} Room;

static HTAB *rooms = NULL;
static long many_rooms = FEW_ROOMS;

static void
forget_gone(void)
{
	HASH_SEQ_STATUS status;
	Room	   *room;

	hash_seq_init(&status, rooms);
	while ((room = hash_seq_search(&status)) != NULL)
	{
		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(room->relid)))
			continue;
		if (room->blocks)
			pfree(room->blocks);
		hash_search(rooms, &room->relid, HASH_REMOVE, NULL);
	}
	many_rooms = Max(FEW_ROOMS, hash_get_num_entries(rooms) * 2);
}

/* The room of a relation, made if need be. */
static Room *
find_room(Oid relid)
{
	Room	   *room;
	bool		found;

	if (rooms == NULL)
	{
		HASHCTL		ctl;

		memset(&ctl, 0, sizeof(ctl));
		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(Room);
		rooms = hash_create("aion rooms", FEW_ROOMS, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	if (hash_get_num_entries(rooms) >= many_rooms)
		forget_gone();
	room = hash_search(rooms, &relid, HASH_ENTER, &found);
	if (!found)
		memset((char *) room + sizeof(Oid), 0, sizeof(Room) - sizeof(Oid));
	return room;
}

void
room_note(Relation rel, BlockNumber block)
{
	Room	   *room = find_room(RelationGetRelid(rel));

	if (room->n > room->done && room->blocks[room->n - 1] == block)
		return;
	if (room->n - room->done >= MAX_BLOCKS)
	{
		room->lost += BLCKSZ;
		return;
	}
	if (room->n == room->capacity)
	{
		int			capacity = Max(64, (room->n - room->done) * 2);
		BlockNumber *blocks = MemoryContextAlloc(TopMemoryContext, sizeof(BlockNumber) * capacity);

		if (room->blocks)
		{
			memcpy(blocks, room->blocks + room->done, sizeof(BlockNumber) * (room->n - room->done));
			pfree(room->blocks);
		}
		room->blocks = blocks;
		room->capacity = capacity;
		room->n -= room->done;
		room->done = 0;
	}
	room->blocks[room->n++] = block;
}

void
room_note_lost(Relation rel, int64 bytes)
{
	find_room(RelationGetRelid(rel))->lost += bytes;
}

/*
 * Prunes; blocks that cannot be pruned yet stay in the list. Nobody adds to it meanwhile: what goes first between two
 * blocks reads only.
 */
static void
prune_blocks(Room *room, Relation rel, int wanted)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);
	BlockNumber first = InvalidBlockNumber;
	BlockNumber last = 0;
	BlockNumber left[MAX_LEFT];
	int			nleft = 0;

	while (room->done < room->n && wanted > 0 && nleft < MAX_LEFT)
	{
		BlockNumber block = room->blocks[room->done];

		CHECK_FOR_INTERRUPTS();
		store_yield();
		room->done++;
		/* of a file that was truncated or rewritten since: any other block is as good, or not there */
		if (block >= nblocks)
			continue;
		if (prune_block(rel, block, &room->lost))
			left[nleft++] = block;
		else
			wanted--;
		first = Min(first, block);
		last = Max(last, block);
	}
	room->done -= nleft;
	memcpy(room->blocks + room->done, left, sizeof(BlockNumber) * nleft);
	if (nleft > 0)
		room->next = GetCurrentTimestamp() + PAUSE_MS * INT64CONST(1000);
	if (first != InvalidBlockNumber)
		FreeSpaceMapVacuumRange(rel, first, last + 1);
}

long
room_due(Oid relid)
{
	Room	   *room = rooms ? hash_search(rooms, &relid, HASH_FIND, NULL) : NULL;
	TimestampTz now;

	if (room == NULL || room->n == room->done)
		return -1;
	now = GetCurrentTimestamp();
	/* or the clock was set back */
	if (room->next <= now || room->next > now + PAUSE_MS * INT64CONST(1000))
		return 0;
	return (room->next - now) / 1000 + 1;
}

void
room_make(Relation rel, int wanted, int64 *lost)
{
	Room	   *room = find_room(RelationGetRelid(rel));

	if (room_due(room->relid) == 0)
		prune_blocks(room, rel, wanted);
	if (lost)
	{
		*lost += room->lost;
		room->lost = 0;
	}
}
