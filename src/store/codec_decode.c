/*
 * codec_decode.c
 *	  Reading side of the block codec.
 *
 * Blocks come from disk, so nothing in them is believed: whatever bytes a
 * block consists of, decoding it reads and writes no memory but its own, and
 * takes no more of it than a block of the largest size could need.  Bytes that
 * were changed may still decode to other values; there is no checksum.
 *
 * Here are the block, its directory and LZ4; codec_unpack.c reads the bodies.
 */
#include <lz4.h>

#include "store/codec_format.h"

/* LZ4 can't make more of a byte than this. */
#define LZ4_MAX_RATIO	255

/* A description of a status, for messages. */
const char *
codec_status_text(CodecStatus status)
{
	switch (status)
	{
		case CODEC_OK:
			return "no error";
		case CODEC_NO_MEMORY:
			return "out of memory";
		case CODEC_TOO_LARGE:
			return "block would be too large";
		case CODEC_MISUSE:
			return "block codec used in the wrong way";
		case CODEC_NOT_A_BLOCK:
			return "not a block, or of an unknown version";
		case CODEC_CORRUPT:
			return "block is corrupted";
		case CODEC_MISMATCH:
			return "block column has another width";
	}
	return "unknown error";
}

/* ---- the block and its directory ---- */

/*
 * Look at a block of len bytes, which stays the caller's.  Its directory is
 * known to be there afterwards; columns are looked at when they are decoded.
 */
CodecStatus
block_decoder_open(BlockDecoder *decoder, const void *data, size_t len,
				   const CodecMemory *mem)
{
	const uint8_t *header = data;

	memset(decoder, 0, sizeof(*decoder));
	if (len < BLOCK_HEADER_SIZE || get_number(header, 4) != BLOCK_MAGIC)
		return CODEC_NOT_A_BLOCK;
	decoder->data = header;
	decoder->len = len;
	decoder->nrows = (uint32_t) get_number(header + 4, 4);
	decoder->ncols = (int) get_number(header + 12, 2);
	decoder->mem = *mem;
	if (get_number(header + 8, 4) != len ||
		get_number(header + 14, 2) != 0 ||
		decoder->nrows > BLOCK_MAX_ROWS ||
		len < entry_offset(decoder->ncols))
		return CODEC_CORRUPT;
	return CODEC_OK;
}

/* How many rows the block has. */
uint32_t
block_decoder_rows(const BlockDecoder *decoder)
{
	return decoder->nrows;
}

/* How many columns the block has: perhaps fewer than the table has now. */
int
block_decoder_columns(const BlockDecoder *decoder)
{
	return decoder->ncols;
}

/*
 * Read the entry of a column, col being one of the block's.  The stored bytes
 * are known to be there afterwards, and the body to be no longer than they can
 * make it; what they are is not looked at.
 */
CodecStatus
find_column(const BlockDecoder *decoder, int col, StoredColumn *column)
{
	const uint8_t *entry = decoder->data + entry_offset(col);
	size_t		offset = (size_t) get_number(entry + 4, 4);

	column->encoding = (ColumnEncoding) entry[0];
	column->has_nulls = (entry[1] & COLUMN_HAS_NULLS) != 0;
	column->lz4 = (entry[1] & COLUMN_LZ4) != 0;
	column->stored_len = (size_t) get_number(entry + 8, 4);
	column->body_len = (size_t) get_number(entry + 12, 4);
	if (entry[0] > ENCODING_OMITTED ||
		(entry[1] & ~(COLUMN_HAS_NULLS | COLUMN_LZ4)) != 0 ||
		offset > decoder->len || column->stored_len > decoder->len - offset ||
		column->stored_len > BODY_MAX || column->body_len > BODY_MAX)
		return CODEC_CORRUPT;
	column->stored = decoder->data + offset;
	if (!column->lz4)
		return column->body_len == column->stored_len ? CODEC_OK : CODEC_CORRUPT;
	return column->body_len > 0 &&
		column->body_len / LZ4_MAX_RATIO <= column->stored_len
		? CODEC_OK : CODEC_CORRUPT;
}

/* Write the body of a column that LZ4 has compressed: body_len bytes. */
CodecStatus
body_decompress(const StoredColumn *column, uint8_t *body)
{
	int			len = LZ4_decompress_safe((const char *) column->stored,
										  (char *) body,
										  (int) column->stored_len,
										  (int) column->body_len);

	return len == (int) column->body_len ? CODEC_OK : CODEC_CORRUPT;
}

/*
 * Make the body of a column ready for reading.  body->owned is set, or NULL,
 * whatever is returned.
 */
static CodecStatus
open_body(const BlockDecoder *decoder, int col, const BlockColumnDesc *desc,
		  Body *body)
{
	const uint8_t *entry = decoder->data + entry_offset(col);
	uint32_t	width = (uint32_t) get_number(entry + 2, 2);
	StoredColumn column;
	CodecStatus status;

	memset(body, 0, sizeof(*body));
	if (desc->width == BLOCK_VARIABLE ? width != COLUMN_VARIABLE
		: (int64_t) width != desc->width)
		return CODEC_MISMATCH;
	status = find_column(decoder, col, &column);
	if (status != CODEC_OK)
		return status;

	body->encoding = column.encoding;
	body->has_nulls = column.has_nulls;
	body->at = column.stored;
	body->left = column.body_len;
	if (!column.lz4)
		return CODEC_OK;
	body->owned = decoder->mem.alloc(decoder->mem.ctx, column.body_len);
	if (body->owned == NULL)
		return CODEC_NO_MEMORY;
	body->at = body->owned;
	return body_decompress(&column, body->owned);
}

/* ---- columns ---- */

/* Decode all values of a column of fixed width, its bitmap being read. */
static CodecStatus
decode_fixed(const BlockDecoder *decoder, Body *body, size_t width,
			 DecodedColumn *out)
{
	const CodecMemory *mem = &decoder->mem;
	uint64_t	size = (uint64_t) decoder->nrows * width;

	if (size > BLOCK_MAX_BYTES)
		return CODEC_CORRUPT;
	/* here and below: never ask for no bytes at all */
	out->values = mem->alloc(mem->ctx, (size_t) size + 1);
	if (out->values == NULL)
		return CODEC_NO_MEMORY;
	return unpack_fixed(body, width, decoder->nrows, out->values);
}

/* Decode all values of a column of variable length, its bitmap being read. */
static CodecStatus
decode_variable(const BlockDecoder *decoder, Body *body, size_t align,
				DecodedColumn *out)
{
	const CodecMemory *mem = &decoder->mem;
	size_t		size = ((size_t) decoder->nrows + 1) * sizeof(uint32_t);

	out->offsets = mem->alloc(mem->ctx, size);
	out->lengths = mem->alloc(mem->ctx, size);
	if (out->offsets == NULL || out->lengths == NULL)
		return CODEC_NO_MEMORY;
	return unpack_variable(body, decoder->nrows, align, mem, out);
}

/* Make the bitmap: of ones if every row is NULL, else what the body says. */
static CodecStatus
decode_nulls(const BlockDecoder *decoder, Body *body, DecodedColumn *out)
{
	const size_t size = bitmap_size(decoder->nrows);
	const uint8_t *bitmap = NULL;

	out->all_null = body->encoding == ENCODING_NULLS;
	if (out->all_null)
	{
		if (body->left != 0 || body->has_nulls)
			return CODEC_CORRUPT;
	}
	else if (!body->has_nulls)
		return CODEC_OK;
	else if ((bitmap = body_take(body, size)) == NULL)
		return CODEC_CORRUPT;

	out->nulls = decoder->mem.alloc(decoder->mem.ctx, size + 1);
	if (out->nulls == NULL)
		return CODEC_NO_MEMORY;
	if (out->all_null)
		memset(out->nulls, 0xff, size);
	else
		memcpy(out->nulls, bitmap, size);
	return CODEC_OK;
}

/*
 * Decode a column of an open block.  On success the caller frees *out with
 * block_column_free; on failure *out is empty.
 */
CodecStatus
block_decoder_column(const BlockDecoder *decoder, int col,
					 const BlockColumnDesc *desc, DecodedColumn *out)
{
	Body		body;
	CodecStatus status;

	memset(out, 0, sizeof(*out));
	if (col < 0 || col >= decoder->ncols || !width_is_valid(desc->width) ||
		desc->align < 1 || desc->align > 8 || (desc->align & (desc->align - 1)) != 0)
		return CODEC_MISUSE;

	status = open_body(decoder, col, desc, &body);
	if (status == CODEC_OK)
		status = decode_nulls(decoder, &body, out);
	if (status == CODEC_OK && !out->all_null)
	{
		size_t		align = desc->align < 4 ? 4 : (size_t) desc->align;

		status = desc->width == BLOCK_VARIABLE
			? decode_variable(decoder, &body, align, out)
			: decode_fixed(decoder, &body, (size_t) desc->width, out);
	}
	if (body.owned != NULL)
		decoder->mem.free(decoder->mem.ctx, body.owned);
	if (status != CODEC_OK)
		block_column_free(decoder, out);
	return status;
}

/* Free what block_decoder_column allocated, and empty *column. */
void
block_column_free(const BlockDecoder *decoder, DecodedColumn *column)
{
	const CodecMemory *mem = &decoder->mem;
	void	   *parts[] = {column->values, column->offsets, column->lengths,
	column->nulls};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
	{
		if (parts[i] != NULL)
			mem->free(mem->ctx, parts[i]);
	}
	memset(column, 0, sizeof(*column));
}
