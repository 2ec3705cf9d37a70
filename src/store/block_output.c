/*
 * block_output.c
 *	  Blocks between the encoder of a writer and its table.
 *
 * Rows are handed to a serializer while the writer collects the next ones, and
 * come back as blocks, which leave in the order in which their rows came.
 * A few are under way at a time. When there are no more to be had, the
 * writer makes blocks himself, of what no serializer has begun; so with one that is slow, or
 * stopped, or with none, all gets done.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "store/block_memory.h"
#include "store/block_output.h"
#include "store/serialize.h"
#include "store/yield.h"

#define MAX_PENDING 4

/* So long a serializer may take for a block while the writer has nothing else to do. */
#define PATIENCE_MS 200

typedef struct PendingBlock
{
	BlockOutputRow row;
	bytea	   *data;			/* NULL: not encoded yet; then: */
	char	   *saved;			/* the rows */
	uint32		saved_length;
	uint64		task;			/* of a serializer; 0: none */
} PendingBlock;

struct BlockOutput
{
	BlockEncoder *encoder;
	bool		compress;
	MemoryContext context;
	MemoryContextCallback callback;
	int			n;
	PendingBlock blocks[MAX_PENDING];	/* the oldest first */
};

static void
forget_tasks(void *arg)
{
	BlockOutput *output = arg;

	for (int i = 0; i < output->n; i++)
		if (output->blocks[i].task != 0)
			serialize_forget(output->blocks[i].task);
	output->n = 0;
}

BlockOutput *
block_output_begin(BlockEncoder *encoder, bool compress)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "aion block output",
												  ALLOCSET_DEFAULT_SIZES);
	BlockOutput *output = MemoryContextAllocZero(context, sizeof(BlockOutput));

	output->encoder = encoder;
	output->compress = compress;
	output->context = context;
	output->callback.func = forget_tasks;
	output->callback.arg = output;
	MemoryContextRegisterResetCallback(context, &output->callback);
	return output;
}

void
block_output_end(BlockOutput *output)
{
	MemoryContextDelete(output->context);
}

/* Makes the codec's block a varlena. */
static bytea *
as_bytea(BlockOutput *output, void *block, size_t length)
{
	bytea	   *data = MemoryContextAllocHuge(output->context, VARHDRSZ + length);

	SET_VARSIZE(data, VARHDRSZ + length);
	memcpy(VARDATA(data), block, length);
	pfree(block);
	return data;
}

/* Encodes rows that were saved. */
static CodecStatus
encode_saved(BlockOutput *output, PendingBlock *pending)
{
	CodecMemory memory = block_memory(output->context);
	void	   *block;
	size_t		length;
	CodecStatus status;

	pending->task = 0;
	status = block_encode_saved(pending->saved, pending->saved_length, output->compress,
								&memory, &block, &length);
	if (status == CODEC_OK)
	{
		pending->data = as_bytea(output, block, length);
		pfree(pending->saved);
	}
	return status;
}

/* Hands the encoder's rows to a serializer. */
static CodecStatus
hand_over(BlockOutput *output, PendingBlock *pending)
{
	CodecStatus status;

	pending->saved_length = block_encoder_saved_size(output->encoder);
	pending->saved = MemoryContextAlloc(output->context, pending->saved_length);
	status = block_encoder_save(output->encoder, pending->saved);
	if (status != CODEC_OK)
		return status;
	output->n++;
	pending->task = serialize_compress(pending->saved, pending->saved_length);
	return pending->task == 0 ? encode_saved(output, pending) : CODEC_OK;
}

CodecStatus
block_output_put(BlockOutput *output, const BlockOutputRow *row, bool last)
{
	PendingBlock *pending = &output->blocks[output->n];
	void	   *block;
	size_t		length;
	CodecStatus status;

	Assert(output->n < MAX_PENDING);
	memset(pending, 0, sizeof(PendingBlock));
	pending->row = *row;
	/*
	 * Beside the last one there is nothing to be done at the same time; and what does not shrink is encoded about as fast as
	 * it is handed over.
	 */
	if (output->compress && !last &&
		serialize_can_compress(block_encoder_saved_size(output->encoder)) &&
		block_encoder_shrinks(output->encoder))
		return hand_over(output, pending);
	status = block_encoder_finish(output->encoder, output->compress, &block, &length);
	if (status == CODEC_OK)
	{
		pending->data = as_bytea(output, block, length);
		output->n++;
	}
	return status;
}

/* Takes the block of a task if it is done. */
static bool
collect(BlockOutput *output, PendingBlock *pending)
{
	MemoryContext old = MemoryContextSwitchTo(output->context);

	pending->data = serialize_collect(pending->task);
	MemoryContextSwitchTo(old);
	if (pending->data == NULL)
		return false;
	pending->task = 0;
	pfree(pending->saved);
	return true;
}

/* Encodes the first rows that no serializer has begun on; *found: there are such. */
static CodecStatus
encode_unbegun(BlockOutput *output, bool *found)
{
	*found = false;
	for (int i = 0; i < output->n; i++)
	{
		PendingBlock *pending = &output->blocks[i];

		if (pending->task == 0 || !serialize_take_back(pending->task))
			continue;
		*found = true;
		return encode_saved(output, pending);
	}
	return CODEC_OK;
}

/* Sees that the oldest block is there: does what there is to do here, then waits. */
static CodecStatus
complete_oldest(BlockOutput *output)
{
	PendingBlock *oldest = &output->blocks[0];
	TimestampTz begun = 0;		/* of waiting */

	while (oldest->data == NULL && !collect(output, oldest))
	{
		long		left = PATIENCE_MS;
		bool		found;
		CodecStatus status = encode_unbegun(output, &found);

		if (status != CODEC_OK)
			return status;
		if (found)
			continue;
		if (begun == 0)
			begun = GetCurrentTimestamp();
		else
			left -= (GetCurrentTimestamp() - begun) / 1000;
		if (left <= 0 || left > PATIENCE_MS)
		{
			serialize_forget(oldest->task);
			return encode_saved(output, oldest);
		}
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, left,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		store_yield();
	}
	return CODEC_OK;
}

CodecStatus
block_output_get(BlockOutput *output, bool all, BlockOutputRow *row, bytea **data)
{
	PendingBlock *oldest = &output->blocks[0];
	CodecStatus status = CODEC_OK;

	*data = NULL;
	if (output->n == 0)
		return CODEC_OK;
	if (all || output->n == MAX_PENDING)
		status = complete_oldest(output);
	else if (oldest->data == NULL)
		(void) collect(output, oldest);
	if (status != CODEC_OK || oldest->data == NULL)
		return status;
	*row = oldest->row;
	*data = oldest->data;
	memmove(oldest, oldest + 1, --output->n * sizeof(PendingBlock));
	return CODEC_OK;
}
