/*
 * codec_table.h
 *	  Rows to make blocks of, for the programs that test the codec.
 *
 * A Table holds the rows that go into a block; whatever comes out is compared
 * with it value by value.
 */
#ifndef AION_CODEC_TABLE_H
#define AION_CODEC_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/codec.h"

#define MAX_COLUMNS		8

/* How the values of a column come about. */
typedef enum Pattern
{
	PATTERN_RANDOM,				/* all bytes random */
	PATTERN_CONSTANT,
	PATTERN_FEW,				/* 300 at most, so a dictionary, nearly or not */
	PATTERN_STEPS,				/* multiples of a step, near each other */
	PATTERN_RISING,				/* each a little above the one before */
	PATTERN_EXTREME,			/* greatest and least integers */
	PATTERN_WRAPPING,			/* rising beyond the greatest, from the least */
	PATTERN_SPREAD,				/* multiples of 3, more than half the range apart */
	PATTERN_COUNT
} Pattern;

typedef struct Value
{
	uint8_t    *bytes;			/* NULL for an SQL NULL */
	uint32_t	len;
} Value;

typedef struct Table
{
	int			ncols;
	uint32_t	nrows;
	BlockColumnDesc descs[MAX_COLUMNS];
	Value	   *values;			/* row by row */
} Table;

/* Of all random numbers; the first argument, if there is one. */
extern uint64_t seed;
extern void take_seed(int argc, char **argv);

/* Memory that counts, and fails on demand. */
extern const CodecMemory memory;
extern long allocs_left;		/* until requests fail; -1: never */
extern long live_allocs;

extern Value value_of(const void *bytes, size_t len);
extern Value make_value(Pattern pattern, int32_t width, uint32_t row,
						uint32_t k);
extern Table make_table(int ncols, uint32_t nrows);
extern Table make_table_of_edge_size(int i);
extern void free_table(Table *table);
extern CodecStatus add_rows(BlockEncoder *encoder, const Table *table);
extern void *encode_table(const Table *table, bool compress, size_t *len,
						  CodecStatus *status);
extern bool same_table(const void *block, size_t len, const Table *table,
					   CodecStatus *status);
extern bool same_columns(const void *block, size_t len, const Table *table,
						 BlockColumns columns, CodecStatus *status);

#endif							/* AION_CODEC_TABLE_H */
