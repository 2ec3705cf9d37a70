/*
 * test_codec.c
 *	  Round trips through the block codec, its limits, and damaged blocks.
 *
 * Built with sanitizers, which are half of the test.
 */
#include <stdlib.h>
#include <string.h>

#include "store/codec.h"
#include "codec_table.h"
#include "fuzz_codec.h"
#include "tap.h"

/* ---- round trips ---- */

static bool
round_trip(const Table *table, bool compress, size_t *len)
{
	CodecStatus status;
	void	   *block = encode_table(table, compress, len, &status);
	bool		same = block != NULL && same_table(block, *len, table, &status);

	if (block != NULL)
		memory.free(NULL, block);
	return same;
}

static void
test_round_trips(void)
{
	int			bad = 0;
	int			larger = 0;

	for (int i = 0; i < 1500; i++)
	{
		Table		table = make_table_of_edge_size(i);
		size_t		raw_len = 0;
		size_t		len = 0;

		bad += !round_trip(&table, false, &raw_len);
		bad += !round_trip(&table, true, &len);
		larger += len > raw_len;
		free_table(&table);
	}
	ok(bad == 0, "random tables come back as they were");
	ok(larger == 0, "LZ4 never makes a block larger");
}

/* One column of the same pattern and size, and the size of its block. */
static size_t
column_size(Pattern pattern, int32_t width, uint32_t k, bool compress)
{
	Table		table = {1, 4000, {{width, 8}}, NULL};
	size_t		len = 0;

	table.values = calloc(table.nrows, sizeof(Value));
	for (uint32_t row = 0; row < table.nrows; row++)
		table.values[row] = make_value(pattern, width, row, k);
	if (!round_trip(&table, compress, &len))
		len = SIZE_MAX;
	free_table(&table);
	return len;
}

static void
test_sizes(void)
{
	ok(column_size(PATTERN_CONSTANT, 8, 5, false) == 32 + 8, "a constant");
	ok(column_size(PATTERN_CONSTANT, BLOCK_VARIABLE, 50, false) < 32 + 64,
	   "a constant of variable length");
	ok(column_size(PATTERN_FEW, 8, 299, false) <= 4000 * 8 + 32 &&
	   column_size(PATTERN_FEW, 16, 199, false) == 32 + 1 + 200 * 16 + 4000,
	   "a dictionary of fixed width");
	ok(column_size(PATTERN_FEW, BLOCK_VARIABLE, 255, false) <
	   4000 + 256 * 66 + 100, "a dictionary of variable length");
	ok(column_size(PATTERN_STEPS, 8, 777, false) == 32 + 17 + 4000 * 2,
	   "multiples of a step");
	ok(column_size(PATTERN_RISING, 8, 5, true) < 4000 * 3 / 2,
	   "rising numbers");
	ok(column_size(PATTERN_EXTREME, 8, 0, false) < 4000 + 100 &&
	   column_size(PATTERN_EXTREME, 4, 0, false) < 4000 + 100,
	   "extreme numbers");
	ok(column_size(PATTERN_WRAPPING, 8, 0, true) < 4000 / 2 &&
	   column_size(PATTERN_WRAPPING, 4, 0, true) < 4000 / 2 &&
	   column_size(PATTERN_WRAPPING, 2, 0, true) < 4000 / 2,
	   "numbers that wrap around");
	ok(column_size(PATTERN_SPREAD, 8, 0, true) < 4000 * 4,
	   "numbers too far apart for a step");
	ok(column_size(PATTERN_RANDOM, 8, 0, true) == 4000 * 8 + 32,
	   "random bytes are stored as they are");
}

static void
test_edges(void)
{
	Table		table = {0, 0, {{0, 0}}, NULL};
	size_t		len;
	uint8_t    *large = calloc(3 << 20, 1);

	ok(round_trip(&table, true, &len) && len == 16, "no columns");

	table = (Table) {2, 1, {{BLOCK_VARIABLE, 8}, {4, 4}}, NULL};
	table.values = calloc(2, sizeof(Value));
	ok(round_trip(&table, true, &len), "one row of NULLs");
	table.values[0] = value_of("", 0);
	ok(round_trip(&table, true, &len) && round_trip(&table, false, &len),
	   "one empty string");
	free_table(&table);

	table = (Table) {1, 300, {{BLOCK_VARIABLE, 1}}, NULL};
	table.values = calloc(300, sizeof(Value));
	for (uint32_t row = 0; row < 300; row++)
		table.values[row] = value_of(large, row % 3 ? 0 : row * 7);
	ok(round_trip(&table, true, &len), "empty strings among others");
	free_table(&table);

	for (size_t i = 0; i < 3 << 20; i++)
		large[i] = (uint8_t) (i % 1000 < 500 ? random_u64(&seed) : 'a');
	table = (Table) {1, 3, {{BLOCK_VARIABLE, 4}}, NULL};
	table.values = calloc(3, sizeof(Value));
	table.values[0] = value_of(large, 3 << 20);
	table.values[2] = value_of(large + 5, 2 << 20);
	ok(round_trip(&table, true, &len) && len < 5 << 20, "large values");
	free_table(&table);
	free(large);
}

/* ---- the interface ---- */

static void
test_limits(void)
{
	BlockColumnDesc desc = {1, 1};
	BlockColumnDesc bad = {0, 1};
	BlockColumnDesc two[] = {{BLOCK_VARIABLE, 4}, {4, 4}};
	BlockEncoder *encoder = block_encoder_create(1, &desc, &memory);
	CodecStatus status = CODEC_OK;
	void	   *block;
	size_t		len;

	ok(block_encoder_create(1, &bad, &memory) == NULL &&
	   block_encoder_create(-1, &desc, &memory) == NULL, "bad descriptions");

	for (uint32_t row = 0; row < BLOCK_MAX_ROWS && status == CODEC_OK; row++)
		status = block_encoder_add(encoder, 0, &row, 1);
	ok(status == CODEC_OK && block_encoder_rows(encoder) == BLOCK_MAX_ROWS &&
	   block_encoder_bytes(encoder) == BLOCK_MAX_ROWS, "as many rows as may be");
	ok(block_encoder_add(encoder, 0, "x", 1) == CODEC_TOO_LARGE, "one more");
	status = block_encoder_finish(encoder, true, &block, &len);
	ok(status == CODEC_OK && block_encoder_rows(encoder) == 0 &&
	   block_encoder_bytes(encoder) == 0, "an encoder is empty when finished");
	memory.free(NULL, block);
	block_encoder_destroy(encoder);

	encoder = block_encoder_create(2, two, &memory);
	ok(block_encoder_add(encoder, 1, "1234", 4) == CODEC_MISUSE &&
	   block_encoder_add(encoder, 2, "1234", 4) == CODEC_MISUSE &&
	   block_encoder_add(encoder, 0, "1234", 4) == CODEC_OK &&
	   block_encoder_finish(encoder, true, &block, &len) == CODEC_MISUSE,
	   "columns come in order, and rows are whole");
	ok(block_encoder_add(encoder, 1, NULL, 0) == CODEC_OK &&
	   block_encoder_add(encoder, 0, "x", (size_t) BLOCK_MAX_BYTES) == CODEC_TOO_LARGE &&
	   block_encoder_add(encoder, 0, "x", SIZE_MAX - 2) == CODEC_TOO_LARGE,
	   "values too large");
	block_encoder_reset(encoder);
	ok(block_encoder_rows(encoder) == 0 && block_encoder_bytes(encoder) == 0,
	   "reset");
	block_encoder_destroy(encoder);
	ok(live_allocs == 0, "nothing left behind");
}

static void
test_reuse(void)
{
	BlockEncoder *encoder = NULL;
	int			bad = 0;
	Table		table = make_table(MAX_COLUMNS, 500);

	encoder = block_encoder_create(table.ncols, table.descs, &memory);
	for (int i = 0; i < 20; i++)
	{
		void	   *block;
		size_t		len;
		CodecStatus status;

		table.nrows = i % 2 ? 500 : 13;
		bad += add_rows(encoder, &table) != CODEC_OK;
		bad += block_encoder_finish(encoder, true, &block, &len) != CODEC_OK;
		bad += !same_table(block, len, &table, &status);
		memory.free(NULL, block);
	}
	block_encoder_destroy(encoder);
	table.nrows = 500;
	free_table(&table);
	ok(bad == 0, "one encoder, many blocks");
}

static void
test_mismatch(void)
{
	Table		table = {1, 1, {{8, 8}}, NULL};
	BlockColumnDesc other = {4, 4};
	BlockColumnDesc crooked = {8, 3};
	BlockColumnDesc empty = {0, 8};
	BlockDecoder decoder;
	DecodedColumn column;
	CodecStatus status;
	size_t		len;
	void	   *block;

	table.values = calloc(1, sizeof(Value));
	table.values[0] = value_of("12345678", 8);
	block = encode_table(&table, true, &len, &status);
	status = block_decoder_open(&decoder, block, len, &memory);
	ok(status == CODEC_OK &&
	   block_decoder_column(&decoder, 0, &other, &column) == CODEC_MISMATCH &&
	   block_decoder_column(&decoder, 1, &table.descs[0], &column) == CODEC_MISUSE &&
	   block_decoder_column(&decoder, -1, &table.descs[0], &column) == CODEC_MISUSE &&
	   block_decoder_column(&decoder, 0, &crooked, &column) == CODEC_MISUSE &&
	   block_decoder_column(&decoder, 0, &empty, &column) == CODEC_MISUSE,
	   "columns asked for in the wrong way");
	ok(block_decoder_open(&decoder, "AIB2, but no block", 18, &memory) ==
	   CODEC_NOT_A_BLOCK &&
	   block_decoder_open(&decoder, block, 15, &memory) == CODEC_NOT_A_BLOCK &&
	   block_decoder_open(&decoder, block, len - 1, &memory) == CODEC_CORRUPT,
	   "what is no block");
	for (int i = CODEC_OK; i <= CODEC_MISMATCH; i++)
		if (codec_status_text((CodecStatus) i) == NULL)
			status = CODEC_MISUSE;
	ok(status == CODEC_OK, "every status has a text");
	memory.free(NULL, block);
	free_table(&table);
}

static void
test_out_of_memory(void)
{
	Table		table = make_table(MAX_COLUMNS, 600);
	long		failures = 0;
	int			bad = 0;

	for (long n = 0;; n++)
	{
		CodecStatus status;
		size_t		len;
		void	   *block;
		bool		same;

		allocs_left = n;
		block = encode_table(&table, true, &len, &status);
		same = block != NULL && same_table(block, len, &table, &status);
		allocs_left = -1;
		if (block != NULL)
			memory.free(NULL, block);
		bad += live_allocs != 0;
		if (same)
			break;
		bad += status != CODEC_NO_MEMORY;
		failures++;
	}
	ok(bad == 0 && failures > 10, "running out of memory at every point");
	free_table(&table);
}

/* ---- damage ---- */

/* Some change to a block; the copy has room for its len bytes exactly. */
static size_t
damage(uint8_t *copy, size_t len, int kind)
{
	int			flips = (int) (random_u64(&seed) % 4) + 1;
	size_t		reach = kind == 0 ? len : kind == 1 && len > 144 ? 144 : len;

	for (int i = 0; i < flips; i++)
		copy[random_u64(&seed) % reach] = random_u64(&seed) % 3
			? (uint8_t) random_u64(&seed) : 0xff;
	if (kind == 2)
	{
		len = 16 + random_u64(&seed) % (len - 15);
		for (int i = 0; i < 4; i++)
			copy[8 + i] = (uint8_t) (len >> (8 * i));
	}
	else if (kind == 3)
		len = random_u64(&seed) % len;
	return len;
}

/* Is this block, of the table's first column, found to be corrupt? */
static bool
is_corrupt(const Table *table, const void *block, size_t len)
{
	BlockDecoder decoder;
	DecodedColumn column;
	CodecStatus status = block_decoder_open(&decoder, block, len, &memory);

	if (status == CODEC_OK)
		status = block_decoder_column(&decoder, 0, &table->descs[0], &column);
	if (status == CODEC_OK)
		block_column_free(&decoder, &column);
	return status == CODEC_CORRUPT;
}

/* What must be noticed, not only survived. */
static void
test_noticed_damage(void)
{
	static const int32_t widths[] = {2, 4, 8, 16, BLOCK_VARIABLE};
	int			bad = 0;

	for (int i = 0; i < 5; i++)
	{
		Table		table = {1, 600, {{widths[i], 8}}, NULL};
		CodecStatus status;
		size_t		len;
		uint8_t    *block;

		table.values = calloc(table.nrows, sizeof(Value));
		for (uint32_t row = 0; row < table.nrows; row++)
			table.values[row] = value_of(row % 3 == 0 ? "\0\0zyzyzyzyzyzyz" :
										 row % 3 == 1 ? "\1\200bbbbbbbbbbbbbb" :
										 "\3\100cabacabacabac", 16);
		block = encode_table(&table, false, &len, &status);
		/* 2 is a dictionary; its last byte is a code */
		bad += block[16] != 2;
		block[len - 1] = 3;
		bad += !is_corrupt(&table, block, len);
		block[len - 1] = 2;
		bad += is_corrupt(&table, block, len);
		/* rows that don't fit the body; rows beyond the limit */
		block[4]++;
		bad += !is_corrupt(&table, block, len);
		block[6] = 0x10;
		block[16] = 1;
		bad += !is_corrupt(&table, block, len);
		memory.free(NULL, block);
		free_table(&table);
	}
	ok(bad == 0, "codes and rows out of range are noticed");
}

static void
test_damage(void)
{
	for (int i = 0; i < 300; i++)
	{
		Table		table = make_table((int) (random_u64(&seed) % MAX_COLUMNS) + 1,
									   (uint32_t) (random_u64(&seed) % 300));
		CodecStatus status;
		size_t		len;
		uint8_t    *block = encode_table(&table, i % 3 != 0, &len, &status);

		for (int j = 0; j < 60; j++)
		{
			uint8_t    *copy = malloc(len);
			uint8_t    *exact;
			size_t		new_len;

			memcpy(copy, block, len);
			new_len = damage(copy, len, j % 4);
			exact = malloc(new_len + (new_len == 0));
			memcpy(exact, copy, new_len);
			LLVMFuzzerTestOneInput(exact, new_len);
			free(exact);
			free(copy);
		}
		memory.free(NULL, block);
		free_table(&table);
	}
	ok(true, "damaged blocks do no harm");

	for (int i = 0; i < 20000; i++)
	{
		uint8_t		bytes[200] = "AIB1";
		size_t		len = 16 + random_u64(&seed) % (sizeof(bytes) - 15);

		for (size_t k = 4; k < len; k++)
			bytes[k] = (uint8_t) (random_u64(&seed) >> (random_u64(&seed) % 64));
		memcpy(bytes + 8, (uint8_t[]) {(uint8_t) len, 0, 0, 0}, 4);
		memcpy(bytes + 12, (uint8_t[]) {(uint8_t) (i % 3), 0, 0, 0}, 4);
		if (i % 2)
			memcpy(bytes + 5, (uint8_t[]) {0, 0, 0}, 3);
		LLVMFuzzerTestOneInput(bytes, len);
	}
	ok(true, "random bytes do no harm");
}

/* Another seed may be given. */
int
main(int argc, char **argv)
{
	take_seed(argc, argv);
	test_round_trips();
	test_sizes();
	test_edges();
	test_limits();
	test_reuse();
	test_mismatch();
	test_out_of_memory();
	test_noticed_damage();
	test_damage();
	ok(live_allocs == 0, "no memory lost");
	return tap_done();
}
