/*
 * codec_transcode.c
 *	  A block as another block of the same values, without LZ4 or with it.
 *
 * A block that is about to be read is decompressed beforehand, one that was
 * written in haste is compressed when there is time.  Encodings stay as they
 * are, so nothing here looks into a body.  A compressed block that is
 * decompressed and compressed again has its own bytes; one that was encoded
 * without compression need not get those that it would have had with it, as
 * the encoder then tries more encodings and compares what LZ4 makes of them.
 *
 * As for the decoder, nothing in a block is believed.  What is wrong with the
 * body of a column may show only when the result is decoded.
 */
#include "store/codec_format.h"

/*
 * How many bytes the block takes with each column's body, or else its stored
 * bytes, in it once.  Looks at every entry: columns can be found afterwards.
 */
static CodecStatus
laid_out_size(const BlockDecoder *decoder, bool bodies, size_t *size)
{
	size_t		total = 0;

	for (int col = 0; col < decoder->ncols; col++)
	{
		StoredColumn column;
		CodecStatus status = find_column(decoder, col, &column);

		if (status != CODEC_OK)
			return status;
		/* columns may claim the same stored bytes, which then multiply */
		total += bodies ? column.body_len : column.stored_len;
		if (total > BODY_MAX)
			return CODEC_CORRUPT;
	}
	*size = entry_offset(decoder->ncols) + total;
	return CODEC_OK;
}

/* Write the body of a column; its length is known. */
static CodecStatus
write_body(StoredColumn *column, uint8_t *to)
{
	CodecStatus status = CODEC_OK;

	if (column->lz4)
		status = body_decompress(column, to);
	else
		memcpy(to, column->stored, column->stored_len);
	column->lz4 = false;
	column->stored_len = column->body_len;
	return status;
}

/* Write a column compressed, if it is or if that pays; it needs no more room. */
static void
write_packed(StoredColumn *column, uint8_t *to)
{
	size_t		packed_len = 0;

	if (!column->lz4)
		packed_len = body_compress(column->stored, column->body_len,
								   body_packed_limit(column->body_len), to);
	if (packed_len == 0)
		memcpy(to, column->stored, column->stored_len);
	else
	{
		column->lz4 = true;
		column->stored_len = packed_len;
	}
}

/*
 * Lay the columns of an open block out in to, one after the other, under a
 * directory that says so.  On success *len is the length, at most what
 * laid_out_size found.
 */
static CodecStatus
lay_out(const BlockDecoder *decoder, bool compress, uint8_t *to, size_t *len)
{
	size_t		at = entry_offset(decoder->ncols);

	memcpy(to, decoder->data, at);
	for (int col = 0; col < decoder->ncols; col++)
	{
		uint8_t    *entry = to + entry_offset(col);
		StoredColumn column;
		CodecStatus status = find_column(decoder, col, &column);

		if (status == CODEC_OK && compress)
			write_packed(&column, to + at);
		else if (status == CODEC_OK)
			status = write_body(&column, to + at);
		if (status != CODEC_OK)
			return status;
		entry[1] = (uint8_t) ((column.has_nulls ? COLUMN_HAS_NULLS : 0) |
							  (column.lz4 ? COLUMN_LZ4 : 0));
		put_number(entry + 4, at, 4);
		put_number(entry + 8, column.stored_len, 4);
		at += column.stored_len;
	}
	put_number(to + 8, at, 4);
	*len = at;
	return CODEC_OK;
}

/* Both ways: see block_decompress and block_compress. */
static CodecStatus
transcode(const void *data, size_t data_len, bool compress,
		  const CodecMemory *mem, void **block, size_t *len)
{
	BlockDecoder decoder;
	size_t		size = 0;
	CodecStatus status;

	*block = NULL;
	*len = 0;
	status = block_decoder_open(&decoder, data, data_len, mem);
	if (status == CODEC_OK)
		status = laid_out_size(&decoder, !compress, &size);
	if (status != CODEC_OK)
		return status;

	*block = mem->alloc(mem->ctx, size);
	if (*block == NULL)
		return CODEC_NO_MEMORY;
	status = lay_out(&decoder, compress, *block, len);
	if (status != CODEC_OK)
	{
		mem->free(mem->ctx, *block);
		*block = NULL;
	}
	return status;
}

/*
 * How long the block will be that block_decompress makes of this one.  Reads
 * the directory alone.
 */
CodecStatus
block_decompressed_size(const void *data, size_t data_len, size_t *size)
{
	const CodecMemory none = {NULL, NULL, NULL};
	BlockDecoder decoder;
	CodecStatus status;

	*size = 0;
	status = block_decoder_open(&decoder, data, data_len, &none);
	if (status == CODEC_OK)
		status = laid_out_size(&decoder, true, size);
	return status;
}

/*
 * Make a block of the same values in which no column is compressed, so that
 * reading it costs no LZ4.  mem is asked once, for block_decompressed_size
 * bytes; they are *block, of *len bytes, which the caller frees.  On failure
 * nothing remains.
 */
CodecStatus
block_decompress(const void *data, size_t data_len, const CodecMemory *mem,
				 void **block, size_t *len)
{
	return transcode(data, data_len, false, mem, block, len);
}

/*
 * Make a block of the same values in which every column is compressed that the
 * encoder would compress.  mem is asked once, for no more bytes than the
 * columns of this block take; *block is the caller's to free, and the first
 * *len of its bytes are the block.  On failure nothing remains.
 */
CodecStatus
block_compress(const void *data, size_t data_len, const CodecMemory *mem,
			   void **block, size_t *len)
{
	return transcode(data, data_len, true, mem, block, len);
}
