/*
 * codec_encode.c
 *	  Writing side of the block codec: gathering rows, choosing the encoding
 *	  of each column, LZ4, and the block around it all.
 *
 * The encoder collects each column in one growing buffer.  At the end every
 * encoding that may suit a column is tried, LZ4 included, and the smallest
 * kept; column_examine rules most of them out beforehand.
 *
 * After a failure the encoder can be reset or destroyed, but not gone on with.
 */
#include <lz4.h>

#include "store/codec_format.h"

/* First sizes of buffers; they double from there. */
#define FIRST_BYTES		1024

/* LZ4 must save one byte in so many, or the body is stored as it is. */
#define LZ4_MIN_SAVING	32

/* So much of the widest column tells whether LZ4 will do that. */
#define SAMPLE_BYTES	(16 * 1024)

/* A growing array of bytes. */
typedef struct Buffer
{
	uint8_t    *data;
	size_t		len;
	size_t		capacity;
} Buffer;

typedef struct ColumnBuilder
{
	int32_t		width;
	uint32_t	nnulls;
	Buffer		values;
	Buffer		lengths;		/* uint32_t each; variable only */
	Buffer		nulls;			/* bitmap; empty until the first NULL */
} ColumnBuilder;

struct BlockEncoder
{
	CodecMemory mem;
	int			ncols;
	int			next_col;		/* whose value comes next */
	uint32_t	nrows;			/* complete ones */
	size_t		bytes;
	Buffer		codes;			/* scratch: dictionary codes of a column */
	Buffer		body;			/* scratch: a body being tried ... */
	Buffer		packed;			/* ... what LZ4 makes of it ... */
	Buffer		best;			/* ... and the best of those tried */
	Buffer		block;			/* scratch: stored columns */
	ColumnBuilder columns[];
};

/* What has been found best for a column; its bytes are in encoder->best. */
typedef struct Choice
{
	ColumnEncoding encoding;
	bool		lz4;
	size_t		body_len;
} Choice;

/* ---- buffers ---- */

/* Have room for len bytes; keeps what the buffer holds. */
static CodecStatus
buffer_reserve(Buffer *buffer, size_t len, const CodecMemory *mem)
{
	size_t		capacity = buffer->capacity > 0 ? buffer->capacity : FIRST_BYTES;
	uint8_t    *data;

	if (len <= buffer->capacity)
		return CODEC_OK;
	while (capacity < len)
		capacity *= 2;
	data = mem->alloc(mem->ctx, capacity);
	if (data == NULL)
		return CODEC_NO_MEMORY;
	if (buffer->data != NULL)
	{
		memcpy(data, buffer->data, buffer->len);
		mem->free(mem->ctx, buffer->data);
	}
	buffer->data = data;
	buffer->capacity = capacity;
	return CODEC_OK;
}

/* Append len bytes; zeros if bytes is NULL. */
static CodecStatus
buffer_append(Buffer *buffer, const void *bytes, size_t len,
			  const CodecMemory *mem)
{
	CodecStatus status = CODEC_OK;

	/* a little more, so that data is never NULL */
	if (buffer->len + len >= buffer->capacity)
		status = buffer_reserve(buffer, buffer->len + len + 1, mem);
	if (status != CODEC_OK)
		return status;
	if (bytes != NULL)
		memcpy(buffer->data + buffer->len, bytes, len);
	else
		memset(buffer->data + buffer->len, 0, len);
	buffer->len += len;
	return CODEC_OK;
}

/* Give the memory back. */
static void
buffer_free(Buffer *buffer, const CodecMemory *mem)
{
	if (buffer->data != NULL)
		mem->free(mem->ctx, buffer->data);
	memset(buffer, 0, sizeof(*buffer));
}

/* Exchange two buffers. */
static void
buffer_swap(Buffer *a, Buffer *b)
{
	Buffer		swap = *a;

	*a = *b;
	*b = swap;
}

/* ---- rows ---- */

/* An encoder whose columns have no width yet; NULL if there is no memory. */
static BlockEncoder *
new_encoder(int ncols, const CodecMemory *mem)
{
	size_t		size = sizeof(BlockEncoder) + (size_t) ncols * sizeof(ColumnBuilder);
	BlockEncoder *encoder = mem->alloc(mem->ctx, size);

	if (encoder == NULL)
		return NULL;
	memset(encoder, 0, size);
	encoder->mem = *mem;
	encoder->ncols = ncols;
	return encoder;
}

/*
 * An encoder for rows of ncols columns; NULL if there is no memory or a width
 * or the number of columns is out of range.  descs is not kept.
 */
BlockEncoder *
block_encoder_create(int ncols, const BlockColumnDesc *descs,
					 const CodecMemory *mem)
{
	BlockEncoder *encoder;

	if (ncols < 0 || ncols > BLOCK_MAX_COLUMNS)
		return NULL;
	for (int col = 0; col < ncols; col++)
	{
		if (!width_is_valid(descs[col].width))
			return NULL;
	}
	encoder = new_encoder(ncols, mem);
	for (int col = 0; col < ncols && encoder != NULL; col++)
		encoder->columns[col].width = descs[col].width;
	return encoder;
}

/* Note whether the row at hand is NULL in this column. */
static CodecStatus
add_null_bit(BlockEncoder *encoder, ColumnBuilder *column, bool is_null)
{
	size_t		size = bitmap_size(encoder->nrows + 1);
	CodecStatus status = CODEC_OK;

	if (!is_null && column->nulls.len == 0)
		return CODEC_OK;
	if (column->nulls.len < size)
	{
		encoder->bytes += size - column->nulls.len;
		status = buffer_append(&column->nulls, NULL, size - column->nulls.len,
							   &encoder->mem);
	}
	if (status == CODEC_OK && is_null)
	{
		column->nulls.data[encoder->nrows / 8] |=
			(uint8_t) (1 << (encoder->nrows % 8));
		column->nnulls++;
	}
	return status;
}

/*
 * Add a value to a column of fixed width.  A NULL repeats the value before it,
 * and those at the beginning the first value there is: that compresses best.
 */
static CodecStatus
add_fixed(BlockEncoder *encoder, ColumnBuilder *column, const void *value)
{
	const size_t width = (size_t) column->width;
	Buffer	   *values = &column->values;
	bool		first = column->nnulls == encoder->nrows;
	CodecStatus status;

	/* now, since value may be about to point into the buffer */
	status = buffer_reserve(values, values->len + width + 1, &encoder->mem);
	if (status != CODEC_OK)
		return status;
	if (value == NULL && encoder->nrows > 0)
		value = values->data + values->len - width;
	else if (value != NULL && first)
	{
		for (size_t at = 0; at < values->len; at += width)
			memcpy(values->data + at, value, width);
	}
	return buffer_append(values, value, width, &encoder->mem);
}

/* Add a value, or NULL, to a column of variable length. */
static CodecStatus
add_variable(BlockEncoder *encoder, ColumnBuilder *column, const void *value,
			 uint32_t len)
{
	CodecStatus status = buffer_append(&column->lengths, &len, sizeof(len),
									   &encoder->mem);

	/* by a value of no bytes too, so that there is a buffer */
	if (status == CODEC_OK)
		status = buffer_append(&column->values, value, len, &encoder->mem);
	return status;
}

/*
 * Add the value of the next column, NULL for an SQL NULL; a row is complete
 * with its last column.  len is looked at for columns of variable length only.
 * CODEC_TOO_LARGE if the block would become larger than a block may be.
 */
CodecStatus
block_encoder_add(BlockEncoder *encoder, int col, const void *value, size_t len)
{
	ColumnBuilder *column;
	bool		variable;
	CodecStatus status;

	if (col != encoder->next_col || col >= encoder->ncols)
		return CODEC_MISUSE;
	column = &encoder->columns[col];
	variable = column->width == BLOCK_VARIABLE;
	if (!variable)
		len = (size_t) column->width;
	else if (value == NULL)
		len = 0;
	if (encoder->nrows >= BLOCK_MAX_ROWS || len > BLOCK_MAX_BYTES ||
		encoder->bytes + len + sizeof(uint32_t) > BLOCK_MAX_BYTES)
		return CODEC_TOO_LARGE;

	status = variable
		? add_variable(encoder, column, value, (uint32_t) len)
		: add_fixed(encoder, column, value);
	if (status == CODEC_OK)
		status = add_null_bit(encoder, column, value == NULL);
	if (status != CODEC_OK)
		return status;
	encoder->bytes += len + (variable ? sizeof(uint32_t) : 0);
	if (encoder->bytes > BLOCK_MAX_BYTES)
		return CODEC_TOO_LARGE;
	if (++encoder->next_col == encoder->ncols)
	{
		encoder->next_col = 0;
		encoder->nrows++;
	}
	return CODEC_OK;
}

/* How many complete rows are held. */
uint32_t
block_encoder_rows(const BlockEncoder *encoder)
{
	return encoder->nrows;
}

/* How many bytes of values, their lengths and their NULL bits are held. */
size_t
block_encoder_bytes(const BlockEncoder *encoder)
{
	return encoder->bytes;
}

/* Forget all rows; buffers are kept for the next ones. */
void
block_encoder_reset(BlockEncoder *encoder)
{
	for (int col = 0; col < encoder->ncols; col++)
	{
		ColumnBuilder *column = &encoder->columns[col];

		column->nnulls = 0;
		column->values.len = 0;
		column->lengths.len = 0;
		column->nulls.len = 0;
	}
	encoder->next_col = 0;
	encoder->nrows = 0;
	encoder->bytes = 0;
}

/* Free the encoder and all that it holds. */
void
block_encoder_destroy(BlockEncoder *encoder)
{
	CodecMemory mem = encoder->mem;

	for (int col = 0; col < encoder->ncols; col++)
	{
		buffer_free(&encoder->columns[col].values, &mem);
		buffer_free(&encoder->columns[col].lengths, &mem);
		buffer_free(&encoder->columns[col].nulls, &mem);
	}
	buffer_free(&encoder->codes, &mem);
	buffer_free(&encoder->body, &mem);
	buffer_free(&encoder->packed, &mem);
	buffer_free(&encoder->best, &mem);
	buffer_free(&encoder->block, &mem);
	mem.free(mem.ctx, encoder);
}

/* ---- LZ4 ---- */

/* What LZ4 makes of a body is worth storing if it is shorter than this. */
size_t
body_packed_limit(size_t body_len)
{
	return body_len - body_len / LZ4_MIN_SAVING;
}

/*
 * Write what LZ4 makes of a body to packed, if that is shorter than limit
 * bytes, and return its length; 0 if it isn't.  How long it may be does not
 * change what it is.
 */
size_t
body_compress(const uint8_t *body, size_t body_len, size_t limit,
			  uint8_t *packed)
{
	int			packed_len;

	if (limit <= 1)
		return 0;
	packed_len = LZ4_compress_default((const char *) body, (char *) packed,
									  (int) body_len, (int) limit - 1);
	return packed_len > 0 ? (size_t) packed_len : 0;
}

bool
block_encoder_shrinks(const BlockEncoder *encoder)
{
	const Buffer *most = NULL;
	uint8_t		packed[SAMPLE_BYTES];

	for (int col = 0; col < encoder->ncols; col++)
		if (most == NULL || encoder->columns[col].values.len > most->len)
			most = &encoder->columns[col].values;
	return most != NULL &&
		(most->len <= SAMPLE_BYTES ||
		 body_compress(most->data + (most->len - SAMPLE_BYTES) / 2, SAMPLE_BYTES,
					   body_packed_limit(SAMPLE_BYTES), packed) > 0);
}

/* ---- choosing an encoding ---- */

/*
 * Try an encoding, and keep its bytes in encoder->best if it takes fewer than
 * the choice so far.  A choice of ENCODING_NULLS is none yet.
 */
static CodecStatus
try_encoding(BlockEncoder *encoder, const ColumnData *column,
			 const ColumnShape *shape, ColumnEncoding encoding, bool compress,
			 Choice *choice)
{
	Buffer	   *best = &encoder->best;
	bool		none = choice->encoding == ENCODING_NULLS;
	size_t		limit = none ? SIZE_MAX : best->len;
	size_t		body_len = column_pack(column, shape, encoding,
									   encoder->body.data);
	size_t		packed_limit = compress ? body_packed_limit(body_len) : 0;
	size_t		packed_len;
	CodecStatus status;

	if (packed_limit > limit)
		packed_limit = limit;
	encoder->packed.len = 0;
	status = buffer_reserve(&encoder->packed, packed_limit, &encoder->mem);
	if (status != CODEC_OK)
		return status;
	packed_len = body_compress(encoder->body.data, body_len, packed_limit,
							   encoder->packed.data);
	if (packed_len == 0 && body_len >= limit)
		return CODEC_OK;

	buffer_swap(best, packed_len > 0 ? &encoder->packed : &encoder->body);
	best->len = packed_len > 0 ? packed_len : body_len;
	encoder->body.len = 0;
	choice->encoding = encoding;
	choice->lz4 = packed_len > 0;
	choice->body_len = body_len;
	return buffer_reserve(&encoder->body, column_body_bound(column),
						  &encoder->mem);
}

/*
 * Can this encoding be written, and is it worth a try?  What comes earlier in
 * ColumnEncoding wins where sizes are equal.
 */
static bool
encoding_suits(const ColumnData *column, const ColumnShape *shape,
			   ColumnEncoding encoding, bool compress)
{
	bool		narrow = shape->range_bytes > 0;

	if (shape->constant)
		return encoding == ENCODING_CONSTANT;
	switch (encoding)
	{
		case ENCODING_DICTIONARY:
			return shape->ndistinct > 0;
		case ENCODING_PLAIN:
			return !narrow;
		case ENCODING_SHUFFLE:
			return compress && !narrow && column->width > 1;
		case ENCODING_RANGE:
			return narrow;
		case ENCODING_DELTA:
			return shape->delta_bytes > 0 &&
				(compress || shape->delta_bytes < shape->range_bytes);
		default:
			return false;
	}
}

/* Leave the smallest form of a column in encoder->best. */
static CodecStatus
choose_encoding(BlockEncoder *encoder, const ColumnData *column, bool compress,
				Choice *choice)
{
	ColumnShape shape;
	CodecStatus status;

	memset(choice, 0, sizeof(*choice));
	encoder->best.len = 0;
	if (column->nnulls == column->nrows)
		return CODEC_OK;

	status = buffer_reserve(&encoder->codes, column->nrows, &encoder->mem);
	if (status == CODEC_OK)
		status = buffer_reserve(&encoder->body, column_body_bound(column),
								&encoder->mem);
	if (status != CODEC_OK)
		return status;
	shape.codes = encoder->codes.data;
	column_examine(column, &shape);
	for (ColumnEncoding encoding = ENCODING_CONSTANT;
		 encoding <= ENCODING_DELTA && status == CODEC_OK; encoding++)
	{
		if (encoding_suits(column, &shape, encoding, compress))
			status = try_encoding(encoder, column, &shape, encoding, compress,
								  choice);
	}
	return status;
}

/* ---- the block ---- */

/* Write a column's entry in the directory. */
static void
put_entry(uint8_t *entry, const ColumnData *column, const Choice *choice,
		  size_t offset, size_t stored_len)
{
	bool		some_nulls = column->nnulls > 0 &&
		column->nnulls < column->nrows;

	entry[0] = (uint8_t) choice->encoding;
	entry[1] = (uint8_t) ((some_nulls ? COLUMN_HAS_NULLS : 0) |
						  (choice->lz4 ? COLUMN_LZ4 : 0));
	put_number(entry + 2, column->width == BLOCK_VARIABLE ? COLUMN_VARIABLE
			   : (uint64_t) column->width, 2);
	put_number(entry + 4, offset, 4);
	put_number(entry + 8, stored_len, 4);
	put_number(entry + 12, choice->body_len, 4);
}

/* Append one column to encoder->block, and fill in its entry there. */
static CodecStatus
finish_column(BlockEncoder *encoder, int col, bool compress)
{
	const ColumnBuilder *builder = &encoder->columns[col];
	Buffer	   *block = &encoder->block;
	ColumnData	column;
	Choice		choice;
	CodecStatus status;
	size_t		offset = block->len;

	column.width = builder->width;
	column.nrows = encoder->nrows;
	column.nnulls = builder->nnulls;
	column.values = builder->values.data;
	column.nbytes = builder->values.len;
	column.lengths = builder->width == BLOCK_VARIABLE
		? (const uint32_t *) builder->lengths.data : NULL;
	column.nulls = builder->nnulls > 0 ? builder->nulls.data : NULL;

	status = choose_encoding(encoder, &column, compress, &choice);
	if (status == CODEC_OK && encoder->best.len > 0)
		status = buffer_append(block, encoder->best.data, encoder->best.len,
							   &encoder->mem);
	if (status == CODEC_OK)
		put_entry(block->data + entry_offset(col), &column, &choice, offset,
				  block->len - offset);
	return status;
}

/*
 * Encode the rows held.  *block becomes their block, of *len bytes, which the
 * caller frees; the encoder is ready for the next rows.  A row must not be
 * half added.  No rows make a block too.
 */
CodecStatus
block_encoder_finish(BlockEncoder *encoder, bool compress, void **block,
					 size_t *len)
{
	Buffer	   *buffer = &encoder->block;
	CodecStatus status;

	*block = NULL;
	*len = 0;
	if (encoder->next_col != 0)
		return CODEC_MISUSE;

	buffer->len = 0;
	status = buffer_append(buffer, NULL, entry_offset(encoder->ncols),
						   &encoder->mem);
	for (int col = 0; col < encoder->ncols && status == CODEC_OK; col++)
		status = finish_column(encoder, col, compress);
	if (status != CODEC_OK)
		return status;

	put_number(buffer->data, BLOCK_MAGIC, 4);
	put_number(buffer->data + 4, encoder->nrows, 4);
	put_number(buffer->data + 8, buffer->len, 4);
	put_number(buffer->data + 12, (uint64_t) encoder->ncols, 2);

	*block = encoder->mem.alloc(encoder->mem.ctx, buffer->len);
	if (*block == NULL)
		return CODEC_NO_MEMORY;
	memcpy(*block, buffer->data, buffer->len);
	*len = buffer->len;
	block_encoder_reset(encoder);
	return CODEC_OK;
}

/* ---- rows that another process is to encode ---- */

/*
 * What saved rows begin with; a SavedColumn for each column follows, then of
 * each its values, its lengths and its bitmap, as they are in its buffers.
 */
typedef struct SavedRows
{
	uint32_t	nrows;
	int32_t		ncols;
} SavedRows;

typedef struct SavedColumn
{
	int32_t		width;
	uint32_t	nnulls;
	uint32_t	values_len;
	uint32_t	lengths_len;
	uint32_t	nulls_len;
} SavedColumn;

/* Length of the part that is before the values. */
static size_t
saved_head(int ncols)
{
	return sizeof(SavedRows) + (size_t) ncols * sizeof(SavedColumn);
}

/* How many bytes block_encoder_save will write. */
size_t
block_encoder_saved_size(const BlockEncoder *encoder)
{
	size_t		size = saved_head(encoder->ncols);

	for (int col = 0; col < encoder->ncols; col++)
		size += encoder->columns[col].values.len +
			encoder->columns[col].lengths.len + encoder->columns[col].nulls.len;
	return size;
}

/* Append the bytes of a buffer, of which there may be none. */
static uint8_t *
save_buffer(const Buffer *buffer, uint8_t *to)
{
	if (buffer->len > 0)
		memcpy(to, buffer->data, buffer->len);
	return to + buffer->len;
}

/*
 * Write the rows held to saved, instead of encoding them; the encoder is ready
 * for the next rows.  A row must not be half added.
 */
CodecStatus
block_encoder_save(BlockEncoder *encoder, void *saved)
{
	SavedRows	rows = {encoder->nrows, encoder->ncols};
	uint8_t    *entry = (uint8_t *) saved + sizeof(rows);
	uint8_t    *to = (uint8_t *) saved + saved_head(encoder->ncols);

	if (encoder->next_col != 0)
		return CODEC_MISUSE;
	memcpy(saved, &rows, sizeof(rows));
	for (int col = 0; col < encoder->ncols; col++)
	{
		const ColumnBuilder *builder = &encoder->columns[col];
		SavedColumn column = {builder->width, builder->nnulls,
			(uint32_t) builder->values.len, (uint32_t) builder->lengths.len,
			(uint32_t) builder->nulls.len};

		memcpy(entry, &column, sizeof(column));
		entry += sizeof(column);
		to = save_buffer(&builder->values, to);
		to = save_buffer(&builder->lengths, to);
		to = save_buffer(&builder->nulls, to);
	}
	block_encoder_reset(encoder);
	return CODEC_OK;
}

/* Are there as many bytes of everything as a column of so many rows has? */
static bool
saved_column_is_valid(const SavedColumn *column, uint32_t nrows)
{
	bool		variable = column->width == BLOCK_VARIABLE;

	return width_is_valid(column->width) && column->nnulls <= nrows &&
		column->lengths_len == (variable ? nrows * sizeof(uint32_t) : 0) &&
		(variable ||
		 column->values_len == (uint64_t) nrows * (uint32_t) column->width) &&
		column->nulls_len == (column->nnulls > 0 ? bitmap_size(nrows) : 0);
}

/* Put saved bytes into the buffers of a column. */
static CodecStatus
restore_column(BlockEncoder *encoder, int col, const SavedColumn *column,
			   const uint8_t *from)
{
	ColumnBuilder *builder = &encoder->columns[col];
	CodecStatus status = buffer_append(&builder->values, from,
									   column->values_len, &encoder->mem);

	from += column->values_len;
	if (status == CODEC_OK && column->lengths_len > 0)
		status = buffer_append(&builder->lengths, from, column->lengths_len,
							   &encoder->mem);
	from += column->lengths_len;
	if (status == CODEC_OK && column->nulls_len > 0)
		status = buffer_append(&builder->nulls, from, column->nulls_len,
							   &encoder->mem);
	builder->nnulls = column->nnulls;
	return status;
}

/* An encoder that holds the rows; *encoder is set, or NULL, in any case. */
static CodecStatus
restore_rows(const uint8_t *saved, size_t saved_len, const CodecMemory *mem,
			 BlockEncoder **encoder)
{
	SavedRows	rows;
	const uint8_t *from = saved;
	size_t		left;
	CodecStatus status = CODEC_OK;

	*encoder = NULL;
	if (saved_len < sizeof(rows))
		return CODEC_CORRUPT;
	memcpy(&rows, saved, sizeof(rows));
	if (rows.ncols < 0 || rows.ncols > BLOCK_MAX_COLUMNS ||
		rows.nrows > BLOCK_MAX_ROWS || saved_len < saved_head(rows.ncols))
		return CODEC_CORRUPT;
	*encoder = new_encoder(rows.ncols, mem);
	if (*encoder == NULL)
		return CODEC_NO_MEMORY;
	(*encoder)->nrows = rows.nrows;
	from += saved_head(rows.ncols);
	left = saved_len - saved_head(rows.ncols);
	for (int col = 0; col < rows.ncols && status == CODEC_OK; col++)
	{
		SavedColumn column;
		uint64_t	len;

		memcpy(&column, saved + saved_head(col), sizeof(column));
		len = (uint64_t) column.values_len + column.lengths_len +
			column.nulls_len;
		if (len > left || !saved_column_is_valid(&column, rows.nrows))
			return CODEC_CORRUPT;
		(*encoder)->columns[col].width = column.width;
		status = restore_column(*encoder, col, &column, from);
		from += len;
		left -= len;
	}
	return status == CODEC_OK && left > 0 ? CODEC_CORRUPT : status;
}

/*
 * Encode saved rows as block_encoder_finish would have done, had they not been
 * saved.  *block is the caller's to free.  On failure nothing remains.
 */
CodecStatus
block_encode_saved(const void *saved, size_t saved_len, bool compress,
				   const CodecMemory *mem, void **block, size_t *len)
{
	BlockEncoder *encoder;
	CodecStatus status = restore_rows(saved, saved_len, mem, &encoder);

	*block = NULL;
	*len = 0;
	if (status == CODEC_OK)
		status = block_encoder_finish(encoder, compress, block, len);
	if (encoder != NULL)
		block_encoder_destroy(encoder);
	return status;
}
