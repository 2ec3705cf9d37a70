/*
 * test_saved.c
 *	  Rows that are saved and encoded elsewhere: the very block that the encoder
 *	  would have made of them, and what is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "store/codec.h"
#include "codec_table.h"
#include "tap.h"

/* Save a table's rows; the encoder is left with none. */
static void *
save_rows(BlockEncoder *encoder, const Table *table, size_t *len)
{
	void	   *saved = NULL;

	if (add_rows(encoder, table) == CODEC_OK)
	{
		*len = block_encoder_saved_size(encoder);
		saved = malloc(*len);
		if (block_encoder_save(encoder, saved) != CODEC_OK ||
			block_encoder_rows(encoder) != 0 || block_encoder_bytes(encoder) != 0)
		{
			free(saved);
			saved = NULL;
		}
	}
	return saved;
}

/* Is the block of a table's saved rows that of its rows? */
static bool
same_saved(BlockEncoder *encoder, const Table *table, bool compress)
{
	CodecStatus status;
	size_t		block_len = 0;
	size_t		saved_len = 0;
	size_t		len = 0;
	void	   *block = encode_table(table, compress, &block_len, &status);
	void	   *saved = save_rows(encoder, table, &saved_len);
	void	   *other = NULL;
	bool		same;

	same = block != NULL && saved != NULL &&
		block_encode_saved(saved, saved_len, compress, &memory, &other,
						   &len) == CODEC_OK &&
		len == block_len && memcmp(block, other, len) == 0;
	memory.free(NULL, block);
	memory.free(NULL, other);
	free(saved);
	return same;
}

static void
test_same(void)
{
	int			bad = 0;

	for (int i = 0; i < 500; i++)
	{
		Table		table = make_table_of_edge_size(i);
		BlockEncoder *encoder = block_encoder_create(table.ncols, table.descs,
													 &memory);

		/* twice, so that what an encoder held before does not show */
		bad += !same_saved(encoder, &table, true);
		bad += !same_saved(encoder, &table, false);
		block_encoder_destroy(encoder);
		free_table(&table);
	}
	ok(bad == 0, "random tables, encoded elsewhere");
}

static void
test_edges(void)
{
	Table		table = {0, 0, {{0, 0}}, NULL};
	BlockEncoder *encoder = block_encoder_create(0, NULL, &memory);

	ok(same_saved(encoder, &table, true), "no columns");
	block_encoder_destroy(encoder);

	table = (Table) {2, 0, {{BLOCK_VARIABLE, 8}, {4, 4}}, NULL};
	encoder = block_encoder_create(2, table.descs, &memory);
	ok(same_saved(encoder, &table, true), "no rows");
	table.nrows = 1;
	table.values = calloc(2, sizeof(Value));
	ok(same_saved(encoder, &table, true), "one row of NULLs");
	table.values[0] = value_of("", 0);
	ok(same_saved(encoder, &table, true), "one empty string");
	block_encoder_destroy(encoder);
	free_table(&table);
}

/* Every shorter piece of saved rows, and a longer one, is refused. */
static void
test_refused(void)
{
	Table		table = make_table(3, 50);
	BlockEncoder *encoder = block_encoder_create(3, table.descs, &memory);
	size_t		saved_len = 0;
	size_t		len;
	uint8_t    *saved = save_rows(encoder, &table, &saved_len);
	void	   *block = NULL;
	int			taken = 0;

	for (size_t piece = 0; piece < saved_len; piece++)
		taken += block_encode_saved(saved, piece, true, &memory, &block,
									&len) != CODEC_CORRUPT || block != NULL;
	ok(taken == 0, "rows that are cut off");
	saved = realloc(saved, saved_len + 1);
	ok(block_encode_saved(saved, saved_len + 1, true, &memory, &block,
						  &len) == CODEC_CORRUPT, "rows with more behind them");
	for (allocs_left = 0;; allocs_left++)
	{
		long		allowed = allocs_left;
		CodecStatus status = block_encode_saved(saved, saved_len, true, &memory,
												&block, &len);

		allocs_left = allowed;
		if (status == CODEC_OK)
			break;
		taken += status != CODEC_NO_MEMORY || block != NULL;
	}
	allocs_left = -1;
	ok(taken == 0, "no memory");
	memory.free(NULL, block);
	block_encoder_destroy(encoder);
	free(saved);
	free_table(&table);

	encoder = block_encoder_create(2, table.descs, &memory);
	(void) block_encoder_add(encoder, 0, NULL, 0);
	ok(block_encoder_save(encoder, &len) == CODEC_MISUSE, "half a row");
	block_encoder_destroy(encoder);
}

/* Another seed may be given. */
int
main(int argc, char **argv)
{
	take_seed(argc, argv);
	test_same();
	test_edges();
	test_refused();
	ok(live_allocs == 0, "no memory lost");
	return tap_done();
}
