/*
 * block_memory.h
 *	  Memory for the block codec in the server.
 */
#ifndef AION_BLOCK_MEMORY_H
#define AION_BLOCK_MEMORY_H

#include "postgres.h"

#include "store/codec.h"

/* palloc in that context, without the 1 GB limit; errors out where there is none. */
extern CodecMemory block_memory(MemoryContext context);

#endif							/* AION_BLOCK_MEMORY_H */
