/*
 * codec_pack.c
 *	  Writing side of the block codec: the values of one column as the body of
 *	  an encoding, and what there is to know before choosing one.
 *
 * column_examine looks at the values; column_pack writes the body of one
 * encoding that the shape allows.  Choosing, LZ4 and the block around it are
 * in codec_encode.c.  No function here allocates or fails.
 */
#include "store/codec_format.h"

/* Slots of the hash table that finds dictionary entries; a power of two. */
#define DICTIONARY_SLOTS	1024

/* ---- examination ---- */

/* Is row NULL? */
static inline bool
row_is_null(const ColumnData *column, uint32_t row)
{
	return column->nulls != NULL &&
		(column->nulls[row / 8] & (1 << (row % 8))) != 0;
}

/* The bytes of a row's value. */
static inline uint32_t
row_length(const ColumnData *column, uint32_t row)
{
	return column->lengths != NULL ? column->lengths[row]
		: (uint32_t) column->width;
}

/* Do the two runs of len bytes agree? */
static inline bool
same_bytes(const uint8_t *a, const uint8_t *b, size_t len)
{
	return memcmp(a, b, len) == 0;
}

/* A hash of some bytes, good enough for a table that is mostly empty. */
static uint32_t
hash_bytes(const uint8_t *p, size_t len)
{
	const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t	hash = len;
	uint64_t	word;

	for (; len >= sizeof(word); p += sizeof(word), len -= sizeof(word))
	{
		memcpy(&word, p, sizeof(word));
		hash = (hash ^ word) * factor;
		hash ^= hash >> 32;
	}
	if (len > 0)
	{
		word = 0;
		memcpy(&word, p, len);
		hash = (hash ^ word) * factor;
	}
	return (uint32_t) (hash >> 40);
}

/*
 * The code of the value at offset, entered in the dictionary if it is new; -1
 * if there is no room left for it.  slots holds codes plus one.
 */
static int
dictionary_code(const ColumnData *column, ColumnShape *shape, uint16_t *slots,
				size_t offset, uint32_t len)
{
	const uint8_t *value = column->values + offset;
	uint32_t	slot = hash_bytes(value, len);

	for (;; slot++)
	{
		int			code;

		slot &= DICTIONARY_SLOTS - 1;
		code = slots[slot] - 1;
		if (code < 0)
			break;
		if (shape->entry_lens[code] == len &&
			same_bytes(column->values + shape->entries[code], value, len))
			return code;
	}
	if (shape->ndistinct == DICTIONARY_MAX)
		return -1;
	shape->entries[shape->ndistinct] = offset;
	shape->entry_lens[shape->ndistinct] = len;
	slots[slot] = (uint16_t) ++shape->ndistinct;
	return shape->ndistinct - 1;
}

/*
 * Fill in the dictionary and the code of each row, or find that there are too
 * many values.  A NULL gets the code of the row before it.
 */
static void
examine_distinct(const ColumnData *column, ColumnShape *shape)
{
	uint16_t	slots[DICTIONARY_SLOTS] = {0};
	size_t		offset = 0;
	int			code = 0;

	shape->ndistinct = 0;
	for (uint32_t row = 0; row < column->nrows; row++)
	{
		uint32_t	len = row_length(column, row);

		if (!row_is_null(column, row))
		{
			code = dictionary_code(column, shape, slots, offset, len);
			if (code < 0)
			{
				shape->ndistinct = 0;
				return;
			}
		}
		shape->codes[row] = (uint8_t) code;
		offset += len;
	}
}

/* How many bytes of 1, 2, 4 or 8 a number needs. */
static int
number_bytes(uint64_t number)
{
	if (number <= UINT8_MAX)
		return 1;
	if (number <= UINT16_MAX)
		return 2;
	return number <= UINT32_MAX ? 4 : 8;
}

/* The greatest common divisor, which 0 leaves as it is. */
static uint64_t
greatest_common_divisor(uint64_t a, uint64_t b)
{
	while (b != 0)
	{
		uint64_t	remainder = a % b;

		a = b;
		b = remainder;
	}
	return a;
}

/*
 * The difference of two values in steps.  It wraps around at the width, but
 * then step is 1.
 */
static inline int64_t
delta_between(int64_t previous, int64_t value, int32_t width, uint64_t step)
{
	uint64_t	difference = (uint64_t) value - (uint64_t) previous;
	int64_t		delta;

	if (width == 2)
		delta = (int16_t) (uint16_t) difference;
	else if (width == 4)
		delta = (int32_t) (uint32_t) difference;
	else
		delta = (int64_t) difference;
	return step == 1 ? delta : delta / (int64_t) step;
}

/* 0, -1, 1, -2, ... as 0, 1, 2, 3, ... */
static inline uint64_t
zigzag(int64_t number)
{
	return ((uint64_t) number << 1) ^ (number < 0 ? UINT64_MAX : 0);
}

/*
 * Find the least value, the greatest step that leads from it to all others,
 * and how many bytes the numbers of RANGE and DELTA then take.
 */
static void
examine_integers(const ColumnData *column, ColumnShape *shape)
{
	const int32_t width = column->width;
	const uint64_t spread_max = UINT64_MAX >> (64 - 8 * width + 1);
	const uint8_t *p = column->values;
	int64_t		first = load_integer(p, width);
	int64_t		previous = first;
	int64_t		minimum = first;
	int64_t		maximum = first;
	uint64_t	divisor = 0;
	uint64_t	largest = 0;

	for (uint32_t row = 0; row < column->nrows; row++, p += width)
	{
		int64_t		value = load_integer(p, width);
		uint64_t	distance = value < first
			? (uint64_t) first - (uint64_t) value
			: (uint64_t) value - (uint64_t) first;

		minimum = value < minimum ? value : minimum;
		maximum = value > maximum ? value : maximum;
		if (divisor != 1 && distance != 0 &&
			(divisor == 0 || distance % divisor != 0))
			divisor = greatest_common_divisor(distance, divisor);
	}

	/* a difference that wraps around is no multiple of anything */
	shape->minimum = (uint64_t) minimum;
	shape->step = (uint64_t) maximum - (uint64_t) minimum;
	shape->step = shape->step > spread_max || divisor == 0 ? 1 : divisor;

	for (p = column->values; p < column->values + column->nbytes; p += width)
	{
		int64_t		value = load_integer(p, width);

		/* the bits of all numbers together need as much room as the greatest */
		largest |= zigzag(delta_between(previous, value, width, shape->step));
		previous = value;
	}
	shape->delta_bytes = number_bytes(largest);
	shape->range_bytes = number_bytes(((uint64_t) maximum - (uint64_t) minimum) /
									  shape->step);
	if (shape->range_bytes >= width)
		shape->range_bytes = 0;
}

/*
 * Learn what column_pack and the choice of an encoding need to know.  Not for
 * columns that are NULL throughout.  shape->codes has room for every row.
 */
void
column_examine(const ColumnData *column, ColumnShape *shape)
{
	uint32_t	first = 0;

	while (row_is_null(column, first))
		first++;
	shape->sample = column->lengths != NULL ? 0 : (size_t) first * column->width;
	shape->sample_len = row_length(column, first);
	shape->range_bytes = 0;
	shape->delta_bytes = 0;

	if (column->lengths == NULL)
	{
		shape->constant = same_bytes(column->values,
									 column->values + column->width,
									 column->nbytes - column->width);
		shape->ndistinct = shape->constant ? 1 : 0;
		if (shape->constant)
			return;
		if (is_integer_width(column->width))
			examine_integers(column, shape);
		/* a code of a byte gains nothing on values that need no more */
		if (column->width == 1 || shape->range_bytes == 1)
			return;
	}
	examine_distinct(column, shape);
	shape->constant = shape->ndistinct == 1;
}

/* ---- bodies ---- */

/* Room for the body of any encoding of this column. */
size_t
column_body_bound(const ColumnData *column)
{
	return bitmap_size(column->nrows) + column->nbytes +
		(size_t) column->nrows * 5 + 64;
}

/*
 * Write the lengths of n values, n > 0, in as few bytes each as they allow.
 * Returns the end of what is written.
 */
static uint8_t *
pack_lengths(uint8_t *p, const uint32_t *lengths, uint32_t n)
{
	uint32_t	bits = 0;
	bool		same = true;
	int			bytes;

	for (uint32_t i = 0; i < n; i++)
	{
		bits |= lengths[i];
		same &= lengths[i] == lengths[0];
	}
	bytes = same ? 0 : number_bytes(bits);
	*p++ = (uint8_t) bytes;
	if (same)
	{
		put_number(p, lengths[0], 4);
		return p + 4;
	}
	for (int plane = 0; plane < bytes; plane++)
		for (uint32_t i = 0; i < n; i++)
			*p++ = (uint8_t) (lengths[i] >> (8 * plane));
	return p;
}

/* Copy len bytes to p; returns the end of what is written. */
static uint8_t *
pack_bytes(uint8_t *p, const uint8_t *bytes, size_t len)
{
	memcpy(p, bytes, len);
	return p + len;
}

/* The body of DICTIONARY, after the bitmap. */
static uint8_t *
pack_dictionary(uint8_t *p, const ColumnData *column, const ColumnShape *shape)
{
	*p++ = (uint8_t) (shape->ndistinct - 1);
	if (column->lengths != NULL)
		p = pack_lengths(p, shape->entry_lens, (uint32_t) shape->ndistinct);
	for (int i = 0; i < shape->ndistinct; i++)
		p = pack_bytes(p, column->values + shape->entries[i],
					   shape->entry_lens[i]);
	return pack_bytes(p, shape->codes, column->nrows);
}

/* The body of SHUFFLE, after the bitmap. */
static uint8_t *
pack_shuffle(uint8_t *p, const ColumnData *column)
{
	const uint8_t *end = column->values + column->nbytes;

	for (int32_t byte = 0; byte < column->width; byte++)
		for (const uint8_t *v = column->values + byte; v < end;
			 v += column->width)
			*p++ = *v;
	return p;
}

/* The body of RANGE or DELTA, after the bitmap. */
static uint8_t *
pack_integers(uint8_t *p, const ColumnData *column, const ColumnShape *shape,
			  bool delta)
{
	const int32_t width = column->width;
	const uint32_t n = column->nrows;
	const int	bytes = delta ? shape->delta_bytes : shape->range_bytes;
	const uint8_t *v = column->values;
	int64_t		previous = load_integer(v, width);

	put_number(p, delta ? (uint64_t) previous : shape->minimum, width);
	put_number(p + width, shape->step, width);
	p += 2 * width;
	*p++ = (uint8_t) bytes;
	for (uint32_t i = 0; i < n; i++, v += width)
	{
		int64_t		value = load_integer(v, width);
		uint64_t	number = delta
			? zigzag(delta_between(previous, value, width, shape->step))
			: ((uint64_t) value - shape->minimum) / shape->step;

		for (int plane = 0; plane < bytes; plane++)
			p[(size_t) plane * n + i] = (uint8_t) (number >> (8 * plane));
		previous = value;
	}
	return p + (size_t) bytes * n;
}

/*
 * Write the body of an encoding that suits the shape into column_body_bound
 * bytes, and return its length.  Not for NULLS, which has no body.
 */
size_t
column_pack(const ColumnData *column, const ColumnShape *shape,
			ColumnEncoding encoding, uint8_t *body)
{
	uint8_t    *p = body;

	if (column->nnulls > 0)
		p = pack_bytes(p, column->nulls, bitmap_size(column->nrows));
	switch (encoding)
	{
		case ENCODING_NULLS:
		case ENCODING_OMITTED:
			break;
		case ENCODING_CONSTANT:
			p = pack_bytes(p, column->values + shape->sample,
						   shape->sample_len);
			break;
		case ENCODING_DICTIONARY:
			p = pack_dictionary(p, column, shape);
			break;
		case ENCODING_PLAIN:
			if (column->lengths != NULL)
				p = pack_lengths(p, column->lengths, column->nrows);
			p = pack_bytes(p, column->values, column->nbytes);
			break;
		case ENCODING_SHUFFLE:
			p = pack_shuffle(p, column);
			break;
		case ENCODING_RANGE:
			p = pack_integers(p, column, shape, false);
			break;
		case ENCODING_DELTA:
			p = pack_integers(p, column, shape, true);
			break;
	}
	return (size_t) (p - body);
}
