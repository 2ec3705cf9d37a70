/*
 * codec_table.c
 *	  Tables of random values, their blocks, and memory that counts.
 */
#include <stdlib.h>
#include <string.h>

#include "codec_table.h"
#include "tap.h"

uint64_t	seed = 42;

void
take_seed(int argc, char **argv)
{
	if (argc > 1)
		seed = strtoull(argv[1], NULL, 10);
	printf("# seed %llu\n", (unsigned long long) seed);
}

/* ---- memory that counts, and fails on demand ---- */

long		allocs_left = -1;
long		live_allocs;

static void *
test_alloc(void *ctx, size_t size)
{
	(void) ctx;
	if (allocs_left == 0)
		return NULL;
	if (allocs_left > 0)
		allocs_left--;
	live_allocs++;
	return malloc(size);
}

static void
test_free(void *ctx, void *ptr)
{
	(void) ctx;
	live_allocs--;
	free(ptr);
}

const CodecMemory memory = {test_alloc, test_free, NULL};

/* ---- tables ---- */

/* A value of these bytes. */
Value
value_of(const void *bytes, size_t len)
{
	Value		value = {malloc(len + 1), (uint32_t) len};

	memcpy(value.bytes, bytes, len);
	return value;
}

/* One value of up to 64 bytes, by the pattern; row and k vary it. */
Value
make_value(Pattern pattern, int32_t width, uint32_t row, uint32_t k)
{
	uint8_t		bytes[64];
	int64_t		number = 0;
	size_t		len = width > 0 ? (size_t) width
		: random_u64(&seed) % (sizeof(bytes) + 1);

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t) random_u64(&seed);
	switch (pattern)
	{
		case PATTERN_RANDOM:
			return value_of(bytes, len);
		case PATTERN_CONSTANT:
			number = k;
			break;
		case PATTERN_FEW:
			number = (int64_t) (random_u64(&seed) % (k % 300 + 1)) * 77777777777;
			break;
		case PATTERN_STEPS:
			number = (int64_t) (random_u64(&seed) % 5000) * (k | 1) - 77 * k;
			break;
		case PATTERN_RISING:
			number = (int64_t) row * 60 * k + (int64_t) (random_u64(&seed) % 9);
			break;
		case PATTERN_EXTREME:
			number = random_u64(&seed) & 1 ? INT64_MAX : INT64_MIN;
			if (width == 4 && row % 3)
				number = row % 2 ? INT32_MAX : INT32_MIN;
			break;
		case PATTERN_SPREAD:
			number = (int64_t) (3 * (row * UINT64_C(0x3523456789abcdef) &
									 (UINT64_MAX >> 2)) - (UINT64_C(3) << 61));
			break;
		default:
			number = (int64_t) (row * UINT64_C(0x2345234523450000) +
								random_u64(&seed) % (k % 3 + 1));
			if (width == 2 || width == 4)
				number = number >> (64 - 8 * width);
			break;
	}
	memset(bytes, 'x', sizeof(bytes));
	memcpy(bytes, &number, sizeof(number));
	if (width < 0)
		len = (size_t) (number < 0 ? 0 - (uint64_t) number : (uint64_t) number) %
			(k % sizeof(bytes) + 1);
	return value_of(bytes, len);
}

/* Rows of random columns, of random patterns, with NULLs or without. */
Table
make_table(int ncols, uint32_t nrows)
{
	static const int32_t widths[] = {1, 2, 4, 8, 4, 8, 3, 16, 24, 64,
	BLOCK_VARIABLE, BLOCK_VARIABLE, BLOCK_VARIABLE, BLOCK_VARIABLE};
	static const int null_percents[] = {0, 0, 0, 10, 90, 100};
	Table		table = {ncols, nrows, {{0, 0}}, NULL};

	table.values = calloc((size_t) nrows * (size_t) ncols + 1, sizeof(Value));
	for (int col = 0; col < ncols; col++)
	{
		Pattern		pattern = (Pattern) (random_u64(&seed) % PATTERN_COUNT);
		uint64_t	nulls = (uint64_t) null_percents[random_u64(&seed) % 6];
		uint32_t	k = (uint32_t) (random_u64(&seed) % 100000);

		table.descs[col].width = widths[random_u64(&seed) % 14];
		table.descs[col].align = 1 << (random_u64(&seed) % 4);
		for (uint32_t row = 0; row < nrows; row++)
			if (random_u64(&seed) % 100 >= nulls)
				table.values[row * (uint32_t) ncols + (uint32_t) col] =
					make_value(pattern, table.descs[col].width, row, k);
	}
	return table;
}

/* A table of random columns, with as many rows as something changes at; every twentieth may be large. */
Table
make_table_of_edge_size(int i)
{
	static const uint32_t sizes[] = {0, 1, 2, 7, 8, 9, 255, 256, 257, 1000, 3000};
	int			ncols = (int) (random_u64(&seed) % MAX_COLUMNS) + 1;

	return make_table(ncols, sizes[random_u64(&seed) % (i % 20 ? 9 : 11)]);
}

/* Free the values. */
void
free_table(Table *table)
{
	for (size_t i = 0; i < (size_t) table->nrows * (size_t) table->ncols; i++)
		free(table->values[i].bytes);
	free(table->values);
}

/* ---- there and back ---- */

/* Add the rows of a table to an encoder. */
CodecStatus
add_rows(BlockEncoder *encoder, const Table *table)
{
	const Value *value = table->values;
	CodecStatus status = CODEC_OK;

	for (uint32_t row = 0; row < table->nrows; row++)
		for (int col = 0; col < table->ncols && status == CODEC_OK; col++, value++)
			status = block_encoder_add(encoder, col, value->bytes, value->len);
	return status;
}

/* Encode a table; NULL, with *status set, if that fails. */
void *
encode_table(const Table *table, bool compress, size_t *len,
			 CodecStatus *status)
{
	BlockEncoder *encoder = block_encoder_create(table->ncols, table->descs,
												 &memory);
	void	   *block = NULL;

	*status = CODEC_NO_MEMORY;
	if (encoder == NULL)
		return NULL;
	*status = add_rows(encoder, table);
	if (*status == CODEC_OK)
		*status = block_encoder_finish(encoder, compress, &block, len);
	block_encoder_destroy(encoder);
	return block;
}

/* Is this what the table has in a column? */
static bool
same_column(const DecodedColumn *column, const Table *table, int col)
{
	const BlockColumnDesc *desc = &table->descs[col];
	uint32_t	align = desc->align < 4 ? 4 : (uint32_t) desc->align;

	if ((uintptr_t) column->values % 8 != 0)
		return false;
	for (uint32_t row = 0; row < table->nrows; row++)
	{
		const Value *value = &table->values[row * (uint32_t) table->ncols +
											(uint32_t) col];
		const uint8_t *bytes;

		if (block_column_is_null(column, row) != (value->bytes == NULL))
			return false;
		if (value->bytes == NULL)
			continue;
		if (column->all_null)
			return false;
		if (desc->width > 0)
			bytes = column->values + (size_t) row * (size_t) desc->width;
		else
		{
			bytes = column->values + column->offsets[row];
			if (column->lengths[row] != value->len ||
				column->offsets[row] % align != 0)
				return false;
		}
		if (memcmp(bytes, value->bytes, value->len) != 0)
			return false;
	}
	return true;
}

/* Does a block hold exactly the table? */
bool
same_table(const void *block, size_t len, const Table *table,
		   CodecStatus *status)
{
	return same_columns(block, len, table, BLOCK_COLUMNS_ALL, status);
}

/* Does it hold exactly these of its columns? */
bool
same_columns(const void *block, size_t len, const Table *table,
			 BlockColumns columns, CodecStatus *status)
{
	BlockDecoder decoder;
	bool		same = true;

	*status = block_decoder_open(&decoder, block, len, &memory);
	if (*status != CODEC_OK || block_decoder_rows(&decoder) != table->nrows ||
		block_decoder_columns(&decoder) != table->ncols)
		return false;
	for (int col = 0; col < table->ncols && same; col++)
	{
		DecodedColumn column;

		*status = block_decoder_column(&decoder, col, &table->descs[col],
									   &column);
		if ((columns >> col & 1) == 0)
		{
			same = *status == CODEC_CORRUPT;
			*status = CODEC_OK;
			continue;
		}
		if (*status != CODEC_OK)
			return false;
		same = same_column(&column, table, col);
		block_column_free(&decoder, &column);
	}
	return same;
}
