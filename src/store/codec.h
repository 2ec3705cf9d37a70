/*
 * codec.h
 *	  The block codec: a set of events, column by column, as compressed bytes.
 *
 * A block holds the values of some rows and knows nothing of types: a column
 * has values of a fixed width, or of variable length.  It compresses each
 * column on its own, so that a reader decodes only those it needs, and it may
 * have fewer columns than the table has by now.  Values are copied as the
 * bytes that they are in memory; whoever calls flattens pointers first.
 *
 * Needs LZ4 and the C library only.  Where blocks are stored, under which
 * snapshot they are visible, and which columns they stand for is not known
 * here.  The format is described in codec_format.h.
 */
#ifndef AION_CODEC_H
#define AION_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most that a block holds: rows, and bytes of values and their lengths. */
#define BLOCK_MAX_ROWS		(1 << 20)
#define BLOCK_MAX_BYTES		(1000u << 20)
#define BLOCK_MAX_COLUMNS	UINT16_MAX
#define BLOCK_MAX_WIDTH		32767

/* BlockColumnDesc.width of a column whose values differ in length. */
#define BLOCK_VARIABLE		(-1)

typedef struct BlockColumnDesc
{
	int32_t		width;			/* > 0: bytes of each value; or BLOCK_VARIABLE */
	int32_t		align;			/* 1, 2, 4 or 8; of decoded variable values */
} BlockColumnDesc;

/*
 * Where memory comes from.  alloc returns memory aligned to 8 bytes; it may
 * return NULL, which ends in CODEC_NO_MEMORY, or not return at all: then the
 * encoder or column at hand is only good for throwing its memory away.  One
 * request may exceed 1 GB.
 */
typedef struct CodecMemory
{
	void	   *(*alloc) (void *ctx, size_t size);
	void		(*free) (void *ctx, void *ptr);
	void	   *ctx;
} CodecMemory;

typedef enum CodecStatus
{
	CODEC_OK,
	CODEC_NO_MEMORY,
	CODEC_TOO_LARGE,			/* exceeds one of the BLOCK_MAX_ limits */
	CODEC_MISUSE,				/* the caller broke a rule of this interface */
	CODEC_NOT_A_BLOCK,			/* not a block, or of an unknown version */
	CODEC_CORRUPT,				/* a block, but its contents contradict */
	CODEC_MISMATCH				/* the column's width isn't the one asked for */
} CodecStatus;

extern const char *codec_status_text(CodecStatus status);

/* ---- writing ---- */

typedef struct BlockEncoder BlockEncoder;

extern BlockEncoder *block_encoder_create(int ncols,
										  const BlockColumnDesc *descs,
										  const CodecMemory *mem);
extern CodecStatus block_encoder_add(BlockEncoder *encoder, int col,
									 const void *value, size_t len);
extern uint32_t block_encoder_rows(const BlockEncoder *encoder);
extern size_t block_encoder_bytes(const BlockEncoder *encoder);

/* Whether it is likely that LZ4 makes the rows shorter, from a sample of the column that takes most. */
extern bool block_encoder_shrinks(const BlockEncoder *encoder);
extern CodecStatus block_encoder_finish(BlockEncoder *encoder, bool compress,
										void **block, size_t *len);
extern void block_encoder_reset(BlockEncoder *encoder);
extern void block_encoder_destroy(BlockEncoder *encoder);

/* ---- rows that another process is to encode ---- */

/*
 * Saved rows are the encoder's own memory, copied: for a process of the same
 * program, never for a file.  What becomes of them is the block that the
 * encoder would have made, byte for byte.
 */
extern size_t block_encoder_saved_size(const BlockEncoder *encoder);
extern CodecStatus block_encoder_save(BlockEncoder *encoder, void *saved);
extern CodecStatus block_encode_saved(const void *saved, size_t saved_len,
									  bool compress, const CodecMemory *mem,
									  void **block, size_t *len);

/* ---- from block to block, without LZ4 or with it ---- */

extern CodecStatus block_decompressed_size(const void *data, size_t data_len,
										   size_t *size);
extern CodecStatus block_decompress(const void *data, size_t data_len,
									const CodecMemory *mem,
									void **block, size_t *len);
extern CodecStatus block_compress(const void *data, size_t data_len,
								  const CodecMemory *mem,
								  void **block, size_t *len);

/* ---- to a block of some columns ---- */

/*
 * Sets of columns, for blocks in memory: bit i is column i, the last bit all
 * from there on.
 */
typedef uint64_t BlockColumns;

#define BLOCK_COLUMNS_LAST	63
#define BLOCK_COLUMNS_ALL	UINT64_MAX

/* A block of len bytes that need not be in memory; fetch may not return at all. */
typedef struct BlockSlices
{
	void		(*fetch) (void *arg, size_t from, size_t len, void *to);
	void	   *arg;
	size_t		len;
} BlockSlices;

extern CodecStatus block_project(const BlockSlices *slices, BlockColumns columns,
								 const CodecMemory *mem,
								 void **block, size_t *len);

/* ---- reading ---- */

/* Opened on a block that must stay in place and unchanged; owns nothing. */
typedef struct BlockDecoder
{
	const uint8_t *data;
	size_t		len;
	uint32_t	nrows;
	int			ncols;
	CodecMemory mem;
} BlockDecoder;

/*
 * One column of all rows; to be freed with block_column_free.
 *
 * Fixed width: row i is at values + i * width, whatever its alignment: a type
 * whose width is no multiple of that is better stored as variable.  Variable:
 * row i is the lengths[i] bytes at values + offsets[i], aligned as asked for,
 * but to 4 bytes at least; rows may share their bytes, so don't write to them.
 * Either way values is aligned to 8 bytes.  Where a row is NULL its bit is set
 * in nulls, and its value is some valid one, of no meaning.
 *
 * If every row is NULL there are no values: all pointers but nulls are NULL.
 */
typedef struct DecodedColumn
{
	uint8_t    *values;
	uint32_t   *offsets;		/* variable only */
	uint32_t   *lengths;		/* variable only */
	uint8_t    *nulls;			/* a bit for each row, lowest first; or NULL */
	bool		all_null;
} DecodedColumn;

extern CodecStatus block_decoder_open(BlockDecoder *decoder, const void *data,
									  size_t len, const CodecMemory *mem);
extern uint32_t block_decoder_rows(const BlockDecoder *decoder);
extern int	block_decoder_columns(const BlockDecoder *decoder);
extern CodecStatus block_decoder_column(const BlockDecoder *decoder, int col,
										const BlockColumnDesc *desc,
										DecodedColumn *out);
extern void block_column_free(const BlockDecoder *decoder,
							  DecodedColumn *column);

/* Is row NULL in this column? */
static inline bool
block_column_is_null(const DecodedColumn *column, uint32_t row)
{
	return column->nulls != NULL &&
		(column->nulls[row / 8] & (1 << (row % 8))) != 0;
}

#endif							/* AION_CODEC_H */
