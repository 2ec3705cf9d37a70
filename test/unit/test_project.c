/*
 * test_project.c
 *	  Blocks of some columns alone: the same values, no more fetched than it
 *	  takes, and what is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "store/codec.h"
#include "codec_table.h"
#include "tap.h"

/* A block in memory, and how much of it was fetched. */
typedef struct Source
{
	const uint8_t *block;
	size_t		len;
	size_t		fetched;
	int			fetches;
	bool		outside;
} Source;

static void
fetch(void *arg, size_t from, size_t len, void *to)
{
	Source	   *source = arg;

	source->fetches++;
	source->fetched += len;
	if (from > source->len || len > source->len - from)
	{
		source->outside = true;
		memset(to, 0, len);
	}
	else
		memcpy(to, source->block + from, len);
}

static void
drop(void *block)
{
	if (block != NULL)
		memory.free(NULL, block);
}

static CodecStatus
project(Source *source, const void *block, size_t len, BlockColumns columns, void **out, size_t *out_len)
{
	BlockSlices slices = {fetch, source, len};

	*source = (Source) {block, len, 0, 0, false};
	return block_project(&slices, columns, &memory, out, out_len);
}

/* Where a column's bytes are, from its entry. */
static uint32_t
stored_len(const void *block, int col)
{
	uint32_t	len;

	memcpy(&len, (const uint8_t *) block + 16 + 16 * (size_t) col + 8, sizeof(len));
	return len;
}

/* Projects a table's block to columns: true if all is as it should be; *made says whether there was a projection. */
static bool
projects(const Table *table, BlockColumns columns, bool compress, bool *made)
{
	Source		source;
	CodecStatus status;
	size_t		len;
	size_t		out_len;
	size_t		plain_len = 0;
	size_t		head = 16 + 16 * (size_t) table->ncols;
	size_t		kept = 0;
	void	   *block = encode_table(table, compress, &len, &status);
	void	   *out;
	void	   *plain = NULL;
	bool		fine = project(&source, block, len, columns, &out, &out_len) == CODEC_OK && !source.outside;

	for (int col = 0; col < table->ncols; col++)
		if ((columns >> col & 1) != 0)
			kept += stored_len(block, col);
	*made = out != NULL;
	if (out == NULL)
		fine = fine && out_len == 0 && kept > (len - head) / 2 && source.fetched <= 16 + head;
	else
	{
		fine = fine && kept <= (len - head) / 2 && out_len == head + kept && source.fetched == 16 + head + kept &&
			same_columns(out, out_len, table, columns, &status) &&
			block_decompress(out, out_len, &memory, &plain, &plain_len) == CODEC_OK &&
			same_columns(plain, plain_len, table, columns, &status);
	}
	drop(plain);
	drop(out);
	drop(block);
	return fine;
}

static void
test_random(void)
{
	int			bad = 0;
	int			projections = 0;
	bool		made;

	for (int i = 0; i < 1000; i++)
	{
		Table		table = make_table(i % MAX_COLUMNS + 1, (uint32_t) (random_u64(&seed) % 1000));

		bad += !projects(&table, random_u64(&seed), i % 2 == 0, &made);
		projections += made;
		free_table(&table);
	}
	ok(bad == 0 && projections > 200, "random tables, some of their columns");
}

/* A block of 70 columns of one row. */
static void
test_many(void)
{
	enum
	{
		COLUMNS = 70
	};
	BlockColumnDesc descs[COLUMNS];
	BlockEncoder *encoder;
	BlockDecoder decoder;
	Source		source;
	void	   *block;
	void	   *out;
	size_t		len;
	size_t		out_len;
	int			bad = 0;

	for (int i = 0; i < COLUMNS; i++)
		descs[i] = (BlockColumnDesc) {4, 4};
	encoder = block_encoder_create(COLUMNS, descs, &memory);
	for (int32_t i = 0; i < COLUMNS; i++)
		bad += block_encoder_add(encoder, i, &i, sizeof(i)) != CODEC_OK;
	bad += block_encoder_finish(encoder, false, &block, &len) != CODEC_OK;
	block_encoder_destroy(encoder);

	bad += project(&source, block, len, UINT64_C(1) << 63 | 1 << 7, &out, &out_len) != CODEC_OK;
	ok(bad == 0 && out != NULL && source.fetches == 4, "columns next to each other are fetched at once");
	bad = block_decoder_open(&decoder, out, out_len, &memory) != CODEC_OK || block_decoder_columns(&decoder) != COLUMNS;
	for (int32_t i = 0; i < COLUMNS; i++)
	{
		DecodedColumn column;
		CodecStatus status = block_decoder_column(&decoder, i, &descs[i], &column);

		if (i == 7 || i >= 63)
			bad += status != CODEC_OK || memcmp(column.values, &i, sizeof(i)) != 0;
		else
			bad += status != CODEC_CORRUPT;

		block_column_free(&decoder, &column);
	}
	ok(bad == 0, "the last bit stands for all columns from there on");
	drop(out);
	drop(block);
}

/* Random damage: nothing outside is fetched, and what comes out can be decoded or is refused. */
static void
test_damage(void)
{
	int			bad = 0;
	int			refused = 0;

	for (int i = 0; i < 3000; i++)
	{
		Table		table = make_table(i % 4 + 2, (uint32_t) (random_u64(&seed) % 200));
		CodecStatus status;
		Source		source;
		size_t		len;
		size_t		out_len;
		uint8_t    *block = encode_table(&table, true, &len, &status);
		void	   *out;

		for (int k = 0; k < 1 + i % 3; k++)
			block[random_u64(&seed) % (16 + 16 * (size_t) table.ncols)] = (uint8_t) random_u64(&seed);
		status = project(&source, block, len, random_u64(&seed), &out, &out_len);
		bad += source.outside || (status != CODEC_OK && out != NULL);
		refused += status != CODEC_OK;
		if (out != NULL)
			(void) same_table(out, out_len, &table, &status);
		drop(out);
		drop(block);
		free_table(&table);
	}
	ok(bad == 0 && refused > 100, "damaged blocks");
}

static void
test_refused(void)
{
	Table		table = make_table(3, 100);
	CodecStatus status;
	Source		source;
	size_t		len;
	size_t		out_len;
	uint8_t    *block = encode_table(&table, true, &len, &status);
	void	   *out;

	ok(project(&source, block, 15, 1, &out, &out_len) == CODEC_NOT_A_BLOCK && out == NULL, "too short");
	ok(project(&source, block, len - 1, 1, &out, &out_len) == CODEC_CORRUPT && out == NULL, "of another length");
	ok(project(&source, block, 20, 1, &out, &out_len) == CODEC_CORRUPT && out == NULL, "without its directory");
	allocs_left = 0;
	ok(project(&source, block, len, 1, &out, &out_len) == CODEC_NO_MEMORY && out == NULL, "no memory");
	allocs_left = -1;
	drop(block);
	free_table(&table);
	ok(live_allocs == 0, "no memory is left behind");
}

int
main(int argc, char **argv)
{
	take_seed(argc, argv);
	test_random();
	test_many();
	test_damage();
	test_refused();
	return tap_done();
}
