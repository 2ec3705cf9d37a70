/*
 * fuzz_codec.c
 *	  Entry point for a fuzzer: decodes whatever bytes it is given.
 *
 * With clang: clang -fsanitize=fuzzer,address,undefined -I../../src
 * fuzz_codec.c ../../src/store/codec_*.c -llz4.  test_codec drives it too, with
 * damaged blocks.  A find is a crash, a sanitizer's report or an abort here.
 */
#include <stdlib.h>
#include <string.h>

#include "store/codec.h"
#include "fuzz_codec.h"

/* No input may ask for more memory than this at once: enough for its size. */
#define ALLOC_LIMIT		(64 << 20)

/* Keeps the reads of decoded values from being optimised away. */
static volatile uint8_t sink;

static void *
limited_alloc(void *ctx, size_t size)
{
	(void) ctx;
	return size > ALLOC_LIMIT ? NULL : malloc(size);
}

static void
limited_free(void *ctx, void *ptr)
{
	(void) ctx;
	free(ptr);
}

/* Read a run of bytes, for the sanitizer to see. */
static void
touch(const uint8_t *bytes, size_t len)
{
	uint8_t		sum = 0;

	for (size_t i = 0; i < len; i++)
		sum ^= bytes[i];
	sink = sum;
}

/* Read all that a decoded column promises. */
static void
touch_column(const DecodedColumn *column, const BlockColumnDesc *desc,
			 uint32_t nrows)
{
	uint32_t	align = desc->align < 4 ? 4 : (uint32_t) desc->align;
	const size_t budget = 1 << 20;
	size_t		read = 0;

	if (column->nulls != NULL)
		touch(column->nulls, (nrows + 7) / 8);
	if (column->all_null)
		return;
	if (desc->width > 0)
	{
		touch(column->values, (size_t) nrows * (size_t) desc->width);
		return;
	}
	for (uint32_t row = 0; row < nrows; row++)
	{
		const uint8_t *value = column->values + column->offsets[row];
		uint32_t	len = column->lengths[row];

		if (column->offsets[row] % align != 0)
			abort();
		if (len > 0)
			touch(value + len - 1, 1);
		/* rows may share values, so their sum knows no bound */
		if (read < budget)
			touch(value, len);
		read += len;
	}
}

/* Decode every column, as what the block says it is and as what it isn't. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int32_t widths[] = {BLOCK_VARIABLE, 1, 4, 8, 24};
	CodecMemory mem = {limited_alloc, limited_free, NULL};
	BlockDecoder decoder;

	if (block_decoder_open(&decoder, data, size, &mem) != CODEC_OK)
		return 0;
	for (int col = 0; col < block_decoder_columns(&decoder); col++)
	{
		const uint8_t *width = data + 16 + 16 * (size_t) col + 2;
		BlockColumnDesc desc = {widths[col % 5], 1 << (col % 4)};

		for (int attempt = 0; attempt < 2; attempt++)
		{
			DecodedColumn column;

			if (block_decoder_column(&decoder, col, &desc, &column) == CODEC_OK)
			{
				touch_column(&column, &desc, block_decoder_rows(&decoder));
				block_column_free(&decoder, &column);
			}
			desc.width = width[0] | width[1] << 8;
			if (desc.width == UINT16_MAX)
				desc.width = BLOCK_VARIABLE;
		}
	}
	return 0;
}
