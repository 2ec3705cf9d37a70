/*
 * block_output.h
 *	  Blocks between the encoder of a writer and its table.
 */
#ifndef AION_BLOCK_OUTPUT_H
#define AION_BLOCK_OUTPUT_H

#include "postgres.h"

#include "store/codec.h"

/* The row of a block, but for its bytes. */
typedef struct BlockOutputRow
{
	int64		bucket;
	int64		first;
	int64		last;
	int32		nevents;
	int32		raw_bytes;
} BlockOutputRow;

typedef struct BlockOutput BlockOutput;

/* Allocates in a context of its own below the current one, whose reset also ends what is under way. */
extern BlockOutput *block_output_begin(BlockEncoder *encoder, bool compress);
extern void block_output_end(BlockOutput *output);

/* Takes the encoder's rows. "last": nothing comes after them. */
extern CodecStatus block_output_put(BlockOutput *output, const BlockOutputRow *row, bool last);

/*
 * The next block in order, for the caller to free; *data is NULL if there is none, or if it need not be
 * waited for. "all": whatever has been put.
 */
extern CodecStatus block_output_get(BlockOutput *output, bool all, BlockOutputRow *row,
									bytea **data);

#endif							/* AION_BLOCK_OUTPUT_H */
