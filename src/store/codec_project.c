/*
 * codec_project.c
 *	  A block as one of some of its columns alone.
 *
 * A reader of few columns need not have the others: what is fetched of a block
 * are its directory and the stored bytes of those columns, from wherever they
 * lie.  What comes out is a block like any other, but that the columns that
 * were left out can't be decoded.  It is for memory, never for a file.
 *
 * As for the decoder, nothing in a block is believed.
 */
#include "store/codec_format.h"

/* Is column col among these? */
static bool
is_kept(BlockColumns columns, int col)
{
	int			bit = col < BLOCK_COLUMNS_LAST ? col : BLOCK_COLUMNS_LAST;

	return (columns >> bit & 1) != 0;
}

/* The directory, with the header before it; its length is checked.  The caller frees *head, set or NULL. */
static CodecStatus
fetch_head(const BlockSlices *slices, const CodecMemory *mem, uint8_t **head, int *ncols)
{
	uint8_t		header[BLOCK_HEADER_SIZE];
	size_t		len;

	*head = NULL;
	if (slices->len < BLOCK_HEADER_SIZE)
		return CODEC_NOT_A_BLOCK;
	slices->fetch(slices->arg, 0, BLOCK_HEADER_SIZE, header);
	if (get_number(header, 4) != BLOCK_MAGIC)
		return CODEC_NOT_A_BLOCK;
	*ncols = (int) get_number(header + 12, 2);
	len = entry_offset(*ncols);
	if (len > slices->len)
		return CODEC_CORRUPT;
	*head = mem->alloc(mem->ctx, len);
	if (*head == NULL)
		return CODEC_NO_MEMORY;
	slices->fetch(slices->arg, 0, len, *head);
	return CODEC_OK;
}

/* How many bytes the columns that are kept take, each of which is looked at. */
static CodecStatus
kept_size(const BlockDecoder *decoder, BlockColumns columns, size_t *size)
{
	*size = 0;
	for (int col = 0; col < decoder->ncols; col++)
	{
		StoredColumn column;
		CodecStatus status = find_column(decoder, col, &column);

		if (status != CODEC_OK)
			return status;
		if (is_kept(columns, col))
			*size += column.stored_len;
		if (*size > BODY_MAX)
			return CODEC_CORRUPT;
	}
	return CODEC_OK;
}

/* Fetches what is kept behind the directory in to, columns that lie next to each other at once. */
static void
fetch_kept(const BlockSlices *slices, const uint8_t *head, int ncols, BlockColumns columns, uint8_t *to)
{
	size_t		at = entry_offset(ncols);
	size_t		from = 0;		/* of what is to be fetched, which has its place before at */
	size_t		len = 0;

	for (int col = 0; col < ncols; col++)
	{
		const uint8_t *entry = head + entry_offset(col);
		uint8_t    *kept = to + entry_offset(col);
		size_t		offset = (size_t) get_number(entry + 4, 4);
		size_t		stored_len = (size_t) get_number(entry + 8, 4);

		if (!is_kept(columns, col))
		{
			kept[0] = ENCODING_OMITTED;
			kept[1] = 0;
			memset(kept + 4, 0, BLOCK_ENTRY_SIZE - 4);
			continue;
		}
		put_number(kept + 4, at, 4);
		if (len > 0 && offset != from + len)
		{
			slices->fetch(slices->arg, from, len, to + at - len);
			len = 0;
		}
		if (len == 0)
			from = offset;
		len += stored_len;
		at += stored_len;
	}
	if (len > 0)
		slices->fetch(slices->arg, from, len, to + at - len);
	put_number(to + 8, at, 4);
}

/*
 * Make a block of the columns that bits of "columns" say: bit i for column i,
 * the last bit for all from there on.  *block is the caller's to free.
 *
 * If they are not worth it, that is if they take more than half of the block,
 * *block is NULL with CODEC_OK: the whole block is better read.  *block is NULL
 * on failure, too.
 */
CodecStatus
block_project(const BlockSlices *slices, BlockColumns columns, const CodecMemory *mem,
			  void **block, size_t *len)
{
	BlockDecoder decoder;
	uint8_t    *head;
	size_t		head_len = 0;
	size_t		kept = 0;
	CodecStatus status;

	*block = NULL;
	*len = 0;
	memset(&decoder, 0, sizeof(decoder));
	status = fetch_head(slices, mem, &head, &decoder.ncols);
	if (status == CODEC_OK)
	{
		/* the stored bytes are elsewhere, but find_column() only checks where they would be */
		decoder.data = head;
		decoder.len = slices->len;
		head_len = entry_offset(decoder.ncols);
		if (get_number(head + 8, 4) != slices->len)
			status = CODEC_CORRUPT;
		else
			status = kept_size(&decoder, columns, &kept);
	}
	if (status == CODEC_OK && kept <= (slices->len - head_len) / 2)
	{
		*block = mem->alloc(mem->ctx, head_len + kept);
		if (*block == NULL)
			status = CODEC_NO_MEMORY;
		else
		{
			memcpy(*block, head, head_len);
			fetch_kept(slices, head, decoder.ncols, columns, *block);
			*len = head_len + kept;
		}
	}
	if (head != NULL)
		mem->free(mem->ctx, head);
	return status;
}
