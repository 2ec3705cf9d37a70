/*
 * codec_unpack.c
 *	  Reading side of the block codec: the body of a column as its values.
 *
 * Mirrors codec_pack.c.  A body may hold any bytes whatever: every function
 * checks what it is about to read, and that it ends where the body does.
 *
 * Numbers come out of planes in strips of rows, so that what goes through
 * memory twice stays in the first-level cache.
 */
#include "store/codec_format.h"

/* Rows at a time between planes of bytes and values. */
#define STRIP_ROWS		256

/* Short values are copied as so many bytes, where there is room. */
#define COPY_SLACK		16

/* Are the planes of a value in memory those of the number that it is? */
#define LITTLE_ENDIAN_HOST	(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

/* ---- fixed width ---- */

/*
 * Values of 1, 2, 4 or 8 bytes from a table of DICTIONARY_MAX, by a code for
 * each row.  Returns the greatest code.
 */
#define DEFINE_EXPAND(type) \
static uint8_t \
expand_##type(uint8_t *out, const uint8_t *table, const uint8_t *codes, \
			  uint32_t n) \
{ \
	type		values[DICTIONARY_MAX]; \
	uint8_t		greatest = 0; \
	memcpy(values, table, sizeof(values)); \
	for (uint32_t i = 0; i < n; i++) \
	{ \
		greatest = codes[i] > greatest ? codes[i] : greatest; \
		memcpy(out + i * sizeof(type), &values[codes[i]], sizeof(type)); \
	} \
	return greatest; \
}
DEFINE_EXPAND(uint8_t)
DEFINE_EXPAND(uint16_t)
DEFINE_EXPAND(uint32_t)
DEFINE_EXPAND(uint64_t)

/* The same for any width; false if a code isn't below count. */
static bool
expand_any(uint8_t *out, const uint8_t *values, size_t width, int count,
		   const uint8_t *codes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++, out += width)
	{
		if (codes[i] >= count)
			return false;
		memcpy(out, values + codes[i] * width, width);
	}
	return true;
}

/* DICTIONARY for fixed widths. */
static CodecStatus
unpack_dictionary(Body *body, size_t width, uint32_t n, uint8_t *out)
{
	const uint8_t *count_byte = body_take(body, 1);
	int			count = count_byte != NULL ? *count_byte + 1 : 0;
	const uint8_t *values = body_take(body, count * width);
	const uint8_t *codes = body_take(body, n);
	uint8_t		table[DICTIONARY_MAX * sizeof(uint64_t)] = {0};
	uint8_t		greatest;

	if (count == 0 || values == NULL || codes == NULL || body->left != 0)
		return CODEC_CORRUPT;
	/* a table of full size: no code reaches beyond it */
	if (width <= sizeof(uint64_t))
		memcpy(table, values, count * width);
	switch (width)
	{
		case 1:
			greatest = expand_uint8_t(out, table, codes, n);
			break;
		case 2:
			greatest = expand_uint16_t(out, table, codes, n);
			break;
		case 4:
			greatest = expand_uint32_t(out, table, codes, n);
			break;
		case 8:
			greatest = expand_uint64_t(out, table, codes, n);
			break;
		default:
			return expand_any(out, values, width, count, codes, n)
				? CODEC_OK : CODEC_CORRUPT;
	}
	return greatest < count ? CODEC_OK : CODEC_CORRUPT;
}

/* CONSTANT for fixed widths. */
static CodecStatus
unpack_constant(Body *body, size_t width, uint32_t n, uint8_t *out)
{
	const uint8_t *value = body_take(body, width);
	size_t		total = n * width;
	size_t		done = width;

	if (value == NULL || body->left != 0)
		return CODEC_CORRUPT;
	if (n == 0)
		return CODEC_OK;
	memcpy(out, value, width);
	for (; done <= total - done; done *= 2)
		memcpy(out + done, out, done);
	memcpy(out + done, out, total - done);
	return CODEC_OK;
}

/*
 * Of n numbers in planes of 1, 2, 4 or 8 bytes each, those of some rows.
 */
static inline void
gather_numbers(const uint8_t *planes, uint32_t n, int bytes, uint32_t from,
			   uint32_t rows, uint64_t *out)
{
	const uint8_t *p = planes + from;
	const size_t s = n;

	switch (bytes)
	{
		case 1:
			for (uint32_t i = 0; i < rows; i++)
				out[i] = p[i];
			break;
		case 2:
			for (uint32_t i = 0; i < rows; i++)
				out[i] = p[i] | (uint64_t) p[s + i] << 8;
			break;
		case 4:
			for (uint32_t i = 0; i < rows; i++)
				out[i] = p[i] | (uint64_t) p[s + i] << 8 |
					(uint64_t) p[2 * s + i] << 16 |
					(uint64_t) p[3 * s + i] << 24;
			break;
		default:
			for (uint32_t i = 0; i < rows; i++)
				out[i] = p[i] | (uint64_t) p[s + i] << 8 |
					(uint64_t) p[2 * s + i] << 16 |
					(uint64_t) p[3 * s + i] << 24 |
					(uint64_t) p[4 * s + i] << 32 |
					(uint64_t) p[5 * s + i] << 40 |
					(uint64_t) p[6 * s + i] << 48 |
					(uint64_t) p[7 * s + i] << 56;
			break;
	}
}

/* Store numbers as integers of this machine, of 2, 4 or 8 bytes. */
static inline void
store_integers(uint8_t *out, size_t width, const uint64_t *numbers,
			   uint32_t rows)
{
	switch (width)
	{
		case 2:
			for (uint32_t i = 0; i < rows; i++)
			{
				uint16_t	value = (uint16_t) numbers[i];

				memcpy(out + i * sizeof(value), &value, sizeof(value));
			}
			break;
		case 4:
			for (uint32_t i = 0; i < rows; i++)
			{
				uint32_t	value = (uint32_t) numbers[i];

				memcpy(out + i * sizeof(value), &value, sizeof(value));
			}
			break;
		default:
			memcpy(out, numbers, rows * sizeof(uint64_t));
			break;
	}
}

/* Make values of the numbers of DELTA; the value before them is in *base. */
static inline void
add_deltas(uint64_t *numbers, uint32_t rows, uint64_t *base, uint64_t step)
{
	uint64_t	value = *base;

	for (uint32_t i = 0; i < rows; i++)
	{
		value += step * ((numbers[i] >> 1) ^ (0 - (numbers[i] & 1)));
		numbers[i] = value;
	}
	*base = value;
}

/* RANGE and DELTA. */
static CodecStatus
unpack_integers(Body *body, size_t width, uint32_t n, bool delta, uint8_t *out)
{
	const uint8_t *head = body_take(body, 2 * width + 1);
	uint64_t	numbers[STRIP_ROWS];
	uint64_t	base;
	uint64_t	step;
	int			bytes;

	if (head == NULL || !is_integer_width((int32_t) width))
		return CODEC_CORRUPT;
	base = get_number(head, (int) width);
	step = get_number(head + width, (int) width);
	bytes = head[2 * width];
	if ((bytes != 1 && !is_integer_width(bytes)) || (size_t) bytes > width ||
		body->left != (size_t) bytes * n)
		return CODEC_CORRUPT;

	for (uint32_t from = 0; from < n; from += STRIP_ROWS)
	{
		uint32_t	rows = n - from < STRIP_ROWS ? n - from : STRIP_ROWS;

		gather_numbers(body->at, n, bytes, from, rows, numbers);
		if (delta)
			add_deltas(numbers, rows, &base, step);
		else
		{
			for (uint32_t i = 0; i < rows; i++)
				numbers[i] = base + step * numbers[i];
		}
		store_integers(out + from * width, width, numbers, rows);
	}
	return CODEC_OK;
}

/* PLAIN for fixed widths. */
static CodecStatus
unpack_plain(Body *body, size_t width, uint32_t n, uint8_t *out)
{
	if (body->left != n * width)
		return CODEC_CORRUPT;
	memcpy(out, body->at, body->left);
	return CODEC_OK;
}

/* SHUFFLE: by way of numbers where those have the bytes in the same order. */
static CodecStatus
unpack_shuffle(Body *body, size_t width, uint32_t n, uint8_t *out)
{
	const uint8_t *p = body->at;

	if (body->left != n * width)
		return CODEC_CORRUPT;
	if (is_integer_width((int32_t) width) && LITTLE_ENDIAN_HOST)
	{
		uint64_t	numbers[STRIP_ROWS];

		for (uint32_t from = 0; from < n; from += STRIP_ROWS)
		{
			uint32_t	rows = n - from < STRIP_ROWS ? n - from : STRIP_ROWS;

			gather_numbers(p, n, (int) width, from, rows, numbers);
			store_integers(out + from * width, width, numbers, rows);
		}
		return CODEC_OK;
	}
	for (size_t byte = 0; byte < width; byte++)
		for (uint32_t i = 0; i < n; i++)
			out[i * width + byte] = *p++;
	return CODEC_OK;
}

/*
 * Read the values of n rows, of a fixed width each, into out: n * width bytes.
 * The body, whose bitmap has been read, must end with them.
 */
CodecStatus
unpack_fixed(Body *body, size_t width, uint32_t n, uint8_t *out)
{
	switch (body->encoding)
	{
		case ENCODING_CONSTANT:
			return unpack_constant(body, width, n, out);
		case ENCODING_DICTIONARY:
			return unpack_dictionary(body, width, n, out);
		case ENCODING_PLAIN:
			return unpack_plain(body, width, n, out);
		case ENCODING_SHUFFLE:
			return unpack_shuffle(body, width, n, out);
		case ENCODING_RANGE:
			return unpack_integers(body, width, n, false, out);
		case ENCODING_DELTA:
			return unpack_integers(body, width, n, true, out);
		default:
			return CODEC_CORRUPT;
	}
}

/* ---- variable length ---- */

/* Read n lengths as pack_lengths wrote them. */
static CodecStatus
read_lengths(Body *body, uint32_t n, uint32_t *lengths)
{
	const uint8_t *bytes = body_take(body, 1);
	const uint8_t *planes;

	if (bytes == NULL || *bytes == 3 || *bytes > 4)
		return CODEC_CORRUPT;
	planes = body_take(body, *bytes == 0 ? 4 : (size_t) *bytes * n);
	if (planes == NULL)
		return CODEC_CORRUPT;
	for (uint32_t i = 0; i < n; i++)
	{
		const uint8_t *p = planes + i;

		switch (*bytes)
		{
			case 0:
				lengths[i] = (uint32_t) get_number(planes, 4);
				break;
			case 1:
				lengths[i] = p[0];
				break;
			case 2:
				lengths[i] = p[0] | (uint32_t) p[n] << 8;
				break;
			default:
				lengths[i] = p[0] | (uint32_t) p[n] << 8 |
					(uint32_t) p[2 * (size_t) n] << 16 |
					(uint32_t) p[3 * (size_t) n] << 24;
				break;
		}
	}
	return CODEC_OK;
}

/*
 * Copy the next n values of a body, of these lengths, to new memory, each at
 * a multiple of align, and say where.
 */
static CodecStatus
copy_values(Body *body, uint32_t n, size_t align, const CodecMemory *mem,
			const uint32_t *lengths, uint32_t *offsets, uint8_t **values)
{
	uint64_t	total = 0;
	uint64_t	size = 0;

	for (uint32_t i = 0; i < n; i++)
	{
		offsets[i] = (uint32_t) size;
		total += lengths[i];
		size += (lengths[i] + align - 1) & ~(align - 1);
	}
	/* n and the rest of the body are small enough for offsets of 32 bits */
	if (total > body->left)
		return CODEC_CORRUPT;
	*values = mem->alloc(mem->ctx, size + COPY_SLACK);
	if (*values == NULL)
		return CODEC_NO_MEMORY;

	for (uint32_t i = 0; i < n; i++)
	{
		const uint32_t len = lengths[i];

		if (len <= COPY_SLACK && body->left >= COPY_SLACK)
			memcpy(*values + offsets[i], body->at, COPY_SLACK);
		else
			memcpy(*values + offsets[i], body->at, len);
		body_take(body, len);
	}
	return CODEC_OK;
}

/* DICTIONARY for variable length: rows share the values of the dictionary. */
static CodecStatus
unpack_shared(Body *body, uint32_t n, size_t align, const CodecMemory *mem,
			  DecodedColumn *out)
{
	uint32_t	lengths[DICTIONARY_MAX];
	uint32_t	offsets[DICTIONARY_MAX];
	const uint8_t *count_byte = body_take(body, 1);
	const uint8_t *codes;
	uint32_t	count;
	CodecStatus status;

	if (count_byte == NULL)
		return CODEC_CORRUPT;
	count = *count_byte + 1u;
	status = read_lengths(body, count, lengths);
	if (status == CODEC_OK)
		status = copy_values(body, count, align, mem, lengths, offsets,
							 &out->values);
	if (status != CODEC_OK)
		return status;
	codes = body_take(body, n);
	if (codes == NULL || body->left != 0)
		return CODEC_CORRUPT;
	for (uint32_t i = 0; i < n; i++)
	{
		if (codes[i] >= count)
			return CODEC_CORRUPT;
		out->offsets[i] = offsets[codes[i]];
		out->lengths[i] = lengths[codes[i]];
	}
	return CODEC_OK;
}

/* CONSTANT for variable length: the rest of the body is every row's value. */
static CodecStatus
unpack_single(Body *body, uint32_t n, const CodecMemory *mem,
			  DecodedColumn *out)
{
	uint32_t	len = (uint32_t) body->left;
	uint32_t	offset;
	CodecStatus status = copy_values(body, 1, 1, mem, &len, &offset,
									 &out->values);

	for (uint32_t i = 0; i < n && status == CODEC_OK; i++)
	{
		out->offsets[i] = offset;
		out->lengths[i] = len;
	}
	return status;
}

/*
 * Read the values of n rows, of variable length, into new memory, each at a
 * multiple of align; offsets and lengths of *out have room for them.  The
 * body, whose bitmap has been read, must end with them.
 */
CodecStatus
unpack_variable(Body *body, uint32_t n, size_t align, const CodecMemory *mem,
				DecodedColumn *out)
{
	CodecStatus status;

	switch (body->encoding)
	{
		case ENCODING_CONSTANT:
			return unpack_single(body, n, mem, out);
		case ENCODING_DICTIONARY:
			return unpack_shared(body, n, align, mem, out);
		case ENCODING_PLAIN:
			status = read_lengths(body, n, out->lengths);
			if (status == CODEC_OK)
				status = copy_values(body, n, align, mem, out->lengths,
									 out->offsets, &out->values);
			if (status == CODEC_OK && body->left != 0)
				status = CODEC_CORRUPT;
			return status;
		default:
			return CODEC_CORRUPT;
	}
}
