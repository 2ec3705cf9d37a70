/*
 * serialize.h
 *	  Tasks for the serializers: processes that compress and decompress blocks
 *	  for those who write and stage them.
 *
 * They save time and no more: whoever has posted a task can do it himself, or do
 * without, and does so when there is no serializer, no room, or no answer.
 */
#ifndef AION_SERIALIZE_H
#define AION_SERIALIZE_H

#include "postgres.h"

#include "store/area_internal.h"

typedef enum SerializeKind
{
	SERIALIZE_DECOMPRESS,		/* goes first: somebody is about to read */
	SERIALIZE_COMPRESS
} SerializeKind;

#define SERIALIZE_KINDS		2
#define SERIALIZE_PROCESSES	32	/* at most */

/* What serializers have done since the server's start. */
typedef struct SerializeTotals
{
	int64		tasks;
	int64		bytes;			/* not compressed */
} SerializeTotals;

/*
 * Set by the worker layer: sees that there is a serializer, if there may be one; false: there is none, and none
 * is coming. "idle": one waits for tasks already. Holds no LWLock.
 */
extern bool (*serialize_hook) (bool idle);

extern void serialize_shmem_request(void);
extern void serialize_shmem_startup(void);

/* ---- those who have tasks ---- */

/* True if rows that take so many bytes when saved are worth posting, and would find a serializer and room. */
extern bool serialize_can_compress(Size length);

/*
 * Posts rows that block_encoder_save() has written, to be made a compressed block. Returns a number, 0: there
 * is no room. Whoever has it calls one of the next three until one has ended the task; the latch of the
 * process is set when there is news of it.
 */
extern uint64 serialize_compress(const char *saved, uint32 length);

/* Ends a task that nobody has begun, or that has failed; else false. */
extern bool serialize_take_back(uint64 number);

/* Ends a task that is done, and returns the block, palloc'd; else NULL. */
extern bytea *serialize_collect(uint64 number);

/* Ends a task in whatever state; cannot fail. */
extern void serialize_forget(uint64 number);

/* Posts the copy of a block that has just been staged, if it is worth it. Nobody waits for that. */
extern void serialize_decompress(StreamSlot *slot, int64 bucket, int64 id, const char *data,
								 uint32 length);

/* ---- serializers ---- */

/*
 * Does one task, with memory of the current context; false: there is none, and the next one sets the
 * latch. Errors out; then serialize_abandon() is due.
 */
extern bool serialize_next(void);

/* When a serializer exits, or after an error: the task that it was at is given back. Cannot fail. */
extern void serialize_abandon(void);

/* ---- those who look ---- */

extern void serialize_totals(SerializeTotals totals[SERIALIZE_KINDS]);

#endif							/* AION_SERIALIZE_H */
