/*
 * block_memory.c
 *	  Memory for the block codec in the server.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "store/block_memory.h"

static void *
codec_alloc(void *ctx, size_t size)
{
	return MemoryContextAllocHuge(ctx, size);
}

static void
codec_free(void *ctx, void *ptr)
{
	pfree(ptr);
}

CodecMemory
block_memory(MemoryContext context)
{
	CodecMemory memory = {codec_alloc, codec_free, context};

	return memory;
}
