/*
 * fuzz_codec.c
 *	  Entry point for a fuzzer: decodes whatever bytes it is given, and makes
 *	  other blocks of them.
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

/* Rows may share their bytes, so that those of all together know no bound. */
#define READ_BUDGET		(1 << 20)

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
		if (read < READ_BUDGET)
			touch(value, len);
		read += len;
	}
}

/* What the block says that a column is. */
static BlockColumnDesc
own_desc(const uint8_t *data, int col)
{
	const uint8_t *width = data + 16 + 16 * (size_t) col + 2;
	BlockColumnDesc desc = {width[0] | width[1] << 8, 1 << (col % 4)};

	if (desc.width == UINT16_MAX)
		desc.width = BLOCK_VARIABLE;
	return desc;
}

/* Decode every column, as what the block says it is and as what it isn't. */
static void
decode_columns(const BlockDecoder *decoder)
{
	static const int32_t widths[] = {BLOCK_VARIABLE, 1, 4, 8, 24};

	for (int col = 0; col < block_decoder_columns(decoder); col++)
	{
		BlockColumnDesc descs[] = {own_desc(decoder->data, col),
		{widths[col % 5], 1 << (col % 4)}};

		for (int attempt = 0; attempt < 2; attempt++)
		{
			DecodedColumn column;

			if (block_decoder_column(decoder, col, &descs[attempt],
									 &column) != CODEC_OK)
				continue;
			touch_column(&column, &descs[attempt], block_decoder_rows(decoder));
			block_column_free(decoder, &column);
		}
	}
}

/* Do two decoded columns agree? */
static bool
same_column(const DecodedColumn *a, const DecodedColumn *b,
			const BlockColumnDesc *desc, uint32_t nrows)
{
	size_t		read = 0;

	if (a->all_null != b->all_null || (a->nulls == NULL) != (b->nulls == NULL) ||
		(a->nulls != NULL && memcmp(a->nulls, b->nulls, (nrows + 7) / 8) != 0))
		return false;
	if (a->all_null)
		return true;
	if (desc->width > 0)
		return memcmp(a->values, b->values,
					  (size_t) nrows * (size_t) desc->width) == 0;
	for (uint32_t row = 0; row < nrows && read < READ_BUDGET; row++)
	{
		if (a->lengths[row] != b->lengths[row] ||
			memcmp(a->values + a->offsets[row], b->values + b->offsets[row],
				   a->lengths[row]) != 0)
			return false;
		read += a->lengths[row];
	}
	return true;
}

/* Abort if a block made of another doesn't read as that does. */
static void
compare_blocks(const BlockDecoder *decoder, const void *made, size_t len)
{
	BlockDecoder other;
	uint32_t	nrows = block_decoder_rows(decoder);

	if (block_decoder_open(&other, made, len, &decoder->mem) != CODEC_OK ||
		block_decoder_rows(&other) != nrows ||
		block_decoder_columns(&other) != block_decoder_columns(decoder))
		abort();
	for (int col = 0; col < block_decoder_columns(decoder); col++)
	{
		BlockColumnDesc desc = own_desc(decoder->data, col);
		DecodedColumn a;
		DecodedColumn b;
		CodecStatus status_a = block_decoder_column(decoder, col, &desc, &a);
		CodecStatus status_b = block_decoder_column(&other, col, &desc, &b);

		if (status_a != status_b && status_a != CODEC_NO_MEMORY &&
			status_b != CODEC_NO_MEMORY)
			abort();
		if (status_a == CODEC_OK && status_b == CODEC_OK &&
			!same_column(&a, &b, &desc, nrows))
			abort();
		block_column_free(decoder, &a);
		block_column_free(&other, &b);
	}
}

/* Compress a block made by block_decompress; it must come back from that. */
static void
compress_again(const void *plain, size_t len, const CodecMemory *mem)
{
	void	   *packed;
	void	   *back;
	size_t		packed_len;
	size_t		back_len;

	if (block_compress(plain, len, mem, &packed, &packed_len) != CODEC_OK ||
		block_decompress(packed, packed_len, mem, &back, &back_len) != CODEC_OK ||
		packed_len > len || back_len != len || memcmp(back, plain, len) != 0)
		abort();
	free(back);
	free(packed);
}

/* Make other blocks of an open one. */
static void
transcode(const BlockDecoder *decoder)
{
	const CodecMemory *mem = &decoder->mem;
	void	   *block;
	size_t		len;
	size_t		announced;

	if (block_compress(decoder->data, decoder->len, mem, &block,
					   &len) == CODEC_OK)
	{
		compare_blocks(decoder, block, len);
		free(block);
	}
	if (block_decompress(decoder->data, decoder->len, mem, &block,
						 &len) != CODEC_OK)
		return;
	if (block_decompressed_size(decoder->data, decoder->len,
								&announced) != CODEC_OK || announced != len)
		abort();
	compare_blocks(decoder, block, len);
	compress_again(block, len, mem);
	free(block);
}

/* Try all that reads a block. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CodecMemory mem = {limited_alloc, limited_free, NULL};
	BlockDecoder decoder;

	if (block_decoder_open(&decoder, data, size, &mem) != CODEC_OK)
		return 0;
	decode_columns(&decoder);
	transcode(&decoder);
	return 0;
}
