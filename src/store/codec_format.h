/*
 * codec_format.h
 *	  The format of a block, and what the two halves of the codec share.
 *
 * Private to codec_*.c.  All integers are unsigned, little-endian, unaligned.
 *
 *	 block	  0	 4	magic "AIB1"; the digit is the version
 *			  4	 4	rows
 *			  8	 4	length of the block in bytes
 *			 12	 2	columns
 *			 14	 2	zero
 *			 16		the directory: 16 bytes for each column
 *			 ...	the stored columns, where the directory says
 *
 *	 entry	  0	 1	encoding: a ColumnEncoding
 *			  1	 1	flags: COLUMN_HAS_NULLS, COLUMN_LZ4
 *			  2	 2	width of a value, or COLUMN_VARIABLE
 *			  4	 4	offset of the stored bytes from the start of the block
 *			  8	 4	how many are stored
 *			 12	 4	length of the body
 *
 * The body of a column is its stored bytes, or with COLUMN_LZ4 what LZ4 makes
 * of them.  With COLUMN_HAS_NULLS it begins with (rows + 7) / 8 bytes of
 * bitmap: bit i % 8 of byte i / 8 is set if row i is NULL.  Such a row has a
 * value like any other, which means nothing.  What follows depends on the
 * encoding ("planes of n, k bytes each" stands for n * k bytes: the lowest
 * byte of every number, then the next byte of every number, and so on):
 *
 *	 NULLS		nothing, and no bitmap: every row is NULL
 *	 CONSTANT	the one value of all rows, up to the end of the body
 *	 DICTIONARY	1 byte: how many values there are, less one; the values as in
 *				PLAIN; a byte for each row: which value it has
 *	 PLAIN		fixed width: the values.  Variable: 1 byte k, of 0, 1, 2, 4;
 *				if k is 0, 4 bytes: the length of every value, else the
 *				lengths, in planes of k bytes each; then the values
 *
 * and for fixed width only:
 *
 *	 SHUFFLE	the values, in planes of their bytes as they lie in memory
 *	 RANGE		base and step, a value's width each; 1 byte k, of 1, 2, 4, 8
 *				and not above the width; numbers r in planes of k bytes each:
 *				a value is base + step * r
 *	 DELTA		the same, but a value is the one before it, the base for the
 *				first, + step * d, where r is d in zigzag: 0, -1, 1, -2, ...
 *
 * RANGE and DELTA take values of 2, 4 or 8 bytes for integers of this machine;
 * sums wrap around.  CONSTANT, DICTIONARY, PLAIN and SHUFFLE take no view of
 * what the bytes mean.
 *
 * In memory, never in a file, there is one more (codec_project.c):
 *
 *	 OMITTED	nothing: what the column's values are is not known
 */
#ifndef AION_CODEC_FORMAT_H
#define AION_CODEC_FORMAT_H

#include <string.h>

#include "store/codec.h"

#define BLOCK_MAGIC			UINT32_C(0x31424941)	/* "AIB1" */
#define BLOCK_HEADER_SIZE	16
#define BLOCK_ENTRY_SIZE	16

#define COLUMN_VARIABLE		UINT16_MAX
#define COLUMN_HAS_NULLS	1
#define COLUMN_LZ4			2

typedef enum ColumnEncoding
{
	ENCODING_NULLS,
	ENCODING_CONSTANT,
	ENCODING_DICTIONARY,
	ENCODING_PLAIN,
	ENCODING_SHUFFLE,
	ENCODING_RANGE,
	ENCODING_DELTA,
	ENCODING_OMITTED
} ColumnEncoding;

/* One byte chooses among them. */
#define DICTIONARY_MAX		256

/*
 * No body is larger, nor are all bodies of a block together: the most that an
 * encoding adds to a column is the codes of DICTIONARY_MAX rows, no two alike.
 */
#define BODY_MAX		(BLOCK_MAX_BYTES + 16 * BLOCK_MAX_ROWS)

/* Can a column have this BlockColumnDesc.width? */
static inline bool
width_is_valid(int32_t width)
{
	return width == BLOCK_VARIABLE || (width > 0 && width <= BLOCK_MAX_WIDTH);
}

/* Size of the bitmap of so many rows. */
static inline size_t
bitmap_size(uint32_t nrows)
{
	return ((size_t) nrows + 7) / 8;
}

/* The low len bytes of a number, lowest first. */
static inline void
put_number(uint8_t *p, uint64_t number, int len)
{
	for (int i = 0; i < len; i++)
		p[i] = (uint8_t) (number >> (8 * i));
}

/* The reverse of put_number. */
static inline uint64_t
get_number(const uint8_t *p, int len)
{
	uint64_t	number = 0;

	for (int i = 0; i < len; i++)
		number |= (uint64_t) p[i] << (8 * i);
	return number;
}

/* ---- codec_pack.c: the values of one column as the body of an encoding ---- */

/*
 * The values of a column, end to end.  A NULL has no bytes in a column of
 * variable length, and the bytes of a neighbour in one of fixed width.
 */
typedef struct ColumnData
{
	int32_t		width;			/* > 0, or BLOCK_VARIABLE */
	uint32_t	nrows;
	uint32_t	nnulls;
	const uint8_t *values;
	size_t		nbytes;			/* of values */
	const uint32_t *lengths;	/* variable only */
	const uint8_t *nulls;		/* as in the format; NULL if nnulls is 0 */
} ColumnData;

/* What one look at the values tells about the encodings that suit them. */
typedef struct ColumnShape
{
	bool		constant;		/* all that are not NULL are equal */
	size_t		sample;			/* where one of them begins ... */
	size_t		sample_len;		/* ... and its length */

	int			ndistinct;		/* 0: more than DICTIONARY_MAX */
	size_t		entries[DICTIONARY_MAX];	/* where each begins in values */
	uint32_t	entry_lens[DICTIONARY_MAX];
	uint8_t    *codes;			/* of each row; room given by the caller */

	int			range_bytes;	/* k of RANGE; 0: doesn't fit */
	int			delta_bytes;	/* k of DELTA; 0: not integers */
	uint64_t	minimum;		/* base of RANGE */
	uint64_t	step;			/* of both */
} ColumnShape;

extern void column_examine(const ColumnData *column, ColumnShape *shape);
extern size_t column_body_bound(const ColumnData *column);
extern size_t column_pack(const ColumnData *column, const ColumnShape *shape,
						  ColumnEncoding encoding, uint8_t *body);

/* ---- codec_encode.c: a body, and what LZ4 makes of it ---- */

extern size_t body_packed_limit(size_t body_len);
extern size_t body_compress(const uint8_t *body, size_t body_len,
							size_t limit, uint8_t *packed);

/* ---- codec_decode.c: the way back, from the directory on ---- */

/* What the directory says of a column, as far as that can be true. */
typedef struct StoredColumn
{
	const uint8_t *stored;
	size_t		stored_len;
	size_t		body_len;
	ColumnEncoding encoding;
	bool		has_nulls;
	bool		lz4;
} StoredColumn;

/* The entry of a column in the directory of a block. */
static inline size_t
entry_offset(int col)
{
	return BLOCK_HEADER_SIZE + (size_t) col * BLOCK_ENTRY_SIZE;
}

extern CodecStatus find_column(const BlockDecoder *decoder, int col,
							   StoredColumn *column);
extern CodecStatus body_decompress(const StoredColumn *column, uint8_t *body);

/* ---- codec_unpack.c: the body of a column as its values ---- */

/* The body of a column, while it is being read. */
typedef struct Body
{
	const uint8_t *at;			/* what is to be read next */
	size_t		left;			/* and how much there is of it */
	uint8_t    *owned;			/* memory to be freed; or NULL */
	ColumnEncoding encoding;
	bool		has_nulls;
} Body;

extern CodecStatus unpack_fixed(Body *body, size_t width, uint32_t n,
								uint8_t *out);
extern CodecStatus unpack_variable(Body *body, uint32_t n, size_t align,
								   const CodecMemory *mem, DecodedColumn *out);

/* The next len bytes of a body, or NULL if it has not so many. */
static inline const uint8_t *
body_take(Body *body, size_t len)
{
	const uint8_t *taken = body->at;

	if (len > body->left)
		return NULL;
	body->at += len;
	body->left -= len;
	return taken;
}

/* ---- integers in memory ---- */

/* Is this a width that RANGE and DELTA take for an integer? */
static inline bool
is_integer_width(int32_t width)
{
	return width == 2 || width == 4 || width == 8;
}

/* An integer of this machine, sign-extended.  The width is an integer width. */
static inline int64_t
load_integer(const uint8_t *p, int32_t width)
{
	int16_t		i16;
	int32_t		i32;
	int64_t		i64;

	switch (width)
	{
		case 2:
			memcpy(&i16, p, sizeof(i16));
			return i16;
		case 4:
			memcpy(&i32, p, sizeof(i32));
			return i32;
		default:
			memcpy(&i64, p, sizeof(i64));
			return i64;
	}
}

#endif							/* AION_CODEC_FORMAT_H */
