/*
 * test_transcode.c
 *	  From block to block, without LZ4 and with it: the same values, the same
 *	  bytes as the encoder's, and what is refused.
 *
 * Random damage is test_codec's part, by way of the fuzzer.
 */
#include <stdlib.h>
#include <string.h>

#include "store/codec.h"
#include "codec_table.h"
#include "tap.h"

/* Are these the same bytes, and as many? */
static bool
same_block(const void *a, size_t a_len, const void *b, size_t b_len)
{
	return a != NULL && b != NULL && a_len == b_len && memcmp(a, b, a_len) == 0;
}

/* The entry of a column in a block's directory. */
static const uint8_t *
entry_of(const void *block, int col)
{
	return (const uint8_t *) block + 16 + 16 * (size_t) col;
}

/* Is no column of the block compressed? */
static bool
is_plain(const void *block, int ncols)
{
	for (int col = 0; col < ncols; col++)
		if ((entry_of(block, col)[1] & 2) != 0)
			return false;
	return true;
}

/*
 * Decompress a block of the table and compress the outcome: do both hold the
 * table, and are they, or become, the same bytes where they have to?
 */
static bool
transcodes(const void *block, size_t len, const Table *table, bool lz4)
{
	void	   *plain = NULL;
	void	   *packed = NULL;
	void	   *back = NULL;
	size_t		plain_len = 0;
	size_t		packed_len = 0;
	size_t		back_len = 0;
	size_t		size = 0;
	CodecStatus status;
	bool		fine;

	/* each may ask for memory once */
	allocs_left = 3;
	fine = block_decompressed_size(block, len, &size) == CODEC_OK &&
		block_decompress(block, len, &memory, &plain, &plain_len) == CODEC_OK &&
		block_compress(plain, plain_len, &memory, &packed,
					   &packed_len) == CODEC_OK &&
		block_decompress(packed, packed_len, &memory, &back,
						 &back_len) == CODEC_OK;
	allocs_left = -1;
	fine = fine && size == plain_len && is_plain(plain, table->ncols) &&
		same_table(plain, plain_len, table, &status) &&
		same_table(packed, packed_len, table, &status) &&
		same_block(plain, plain_len, back, back_len) &&
		(lz4 ? same_block(packed, packed_len, block, len)
		 : same_block(plain, plain_len, block, len));
	memory.free(NULL, plain);
	memory.free(NULL, packed);
	memory.free(NULL, back);
	return fine;
}

/* Encode a table, with LZ4 and without: do both blocks transcode? */
static bool
both_transcode(const Table *table)
{
	bool		fine = true;

	for (int compress = 0; compress < 2 && fine; compress++)
	{
		CodecStatus status;
		size_t		len;
		void	   *block = encode_table(table, compress, &len, &status);

		fine = transcodes(block, len, table, compress);
		memory.free(NULL, block);
	}
	return fine;
}

static void
test_transcoding(void)
{
	int			bad = 0;

	for (int i = 0; i < 500; i++)
	{
		Table		table = make_table_of_edge_size(i);

		bad += !both_transcode(&table);
		free_table(&table);
	}
	ok(bad == 0, "random tables, decompressed and compressed again");
}

static void
test_edges(void)
{
	Table		table = {0, 0, {{0, 0}}, NULL};

	ok(both_transcode(&table), "no columns");

	table = (Table) {2, 0, {{BLOCK_VARIABLE, 8}, {4, 4}}, NULL};
	ok(both_transcode(&table), "no rows");

	table.nrows = 1;
	table.values = calloc(2, sizeof(Value));
	ok(both_transcode(&table), "one row of NULLs");
	table.values[0] = value_of("", 0);
	ok(both_transcode(&table), "one empty string");
	free_table(&table);
}

/* How many columns of each encoding the encoder compressed; NULLS has no body. */
static long compressed[7];

/*
 * Are a column's stored bytes the same in two blocks?  The directory says where
 * they begin, then how many they are.
 */
static bool
same_stored(const uint8_t *a, const uint8_t *b, int col)
{
	uint32_t	a_place[2];
	uint32_t	b_place[2];

	memcpy(a_place, entry_of(a, col) + 4, sizeof(a_place));
	memcpy(b_place, entry_of(b, col) + 4, sizeof(b_place));
	return entry_of(a, col)[1] == entry_of(b, col)[1] &&
		same_block(a + a_place[0], a_place[1], b + b_place[0], b_place[1]);
}

/*
 * Compress a block that was encoded without: is every column that has the same
 * encoding in the block encoded with LZ4 just what it is there?  *same counts
 * blocks that are the same throughout.
 */
static bool
compresses_as_encoder(const Table *table, int *same)
{
	CodecStatus status;
	size_t		raw_len;
	size_t		best_len;
	size_t		len = 0;
	void	   *raw = encode_table(table, false, &raw_len, &status);
	void	   *best = encode_table(table, true, &best_len, &status);
	void	   *packed = NULL;
	int			alike = 0;
	bool		fine = block_compress(raw, raw_len, &memory, &packed,
									  &len) == CODEC_OK &&
		same_table(packed, len, table, &status) &&
		len <= raw_len && len >= best_len;

	for (int col = 0; col < table->ncols && fine; col++)
	{
		const uint8_t *entry = entry_of(best, col);

		compressed[entry[0]] += entry[0] == 0 || (entry[1] & 2) != 0;
		if (entry_of(packed, col)[0] != entry[0])
			continue;
		fine = same_stored(packed, best, col);
		alike++;
	}
	if (alike == table->ncols)
	{
		fine = fine && same_block(packed, len, best, best_len);
		(*same)++;
	}
	memory.free(NULL, raw);
	memory.free(NULL, best);
	memory.free(NULL, packed);
	return fine;
}

static void
test_compress(void)
{
	int			bad = 0;
	int			same = 0;
	int			missing = 0;

	for (int i = 0; i < 400; i++)
	{
		Table		table = make_table(i % 4 + 1,
									   (uint32_t) (random_u64(&seed) % 1000));

		bad += !compresses_as_encoder(&table, &same);
		free_table(&table);
	}
	ok(bad == 0 && same > 100,
	   "compressed later, a column of the same encoding has the same bytes");
	for (int encoding = 0; encoding < 7; encoding++)
		missing += compressed[encoding] == 0;
	ok(missing == 0, "every encoding has been among them");
}

/* ---- what is refused ---- */

/* Do all three functions say this of a block, and leave nothing? */
static bool
all_refuse(const void *block, size_t len, CodecStatus status)
{
	void	   *out = &seed;
	void	   *other = &seed;
	size_t		out_len = 1;
	size_t		size = 1;

	return block_decompressed_size(block, len, &size) == status && size == 0 &&
		block_decompress(block, len, &memory, &out, &out_len) == status &&
		out == NULL && out_len == 0 &&
		block_compress(block, len, &memory, &other, &out_len) == status &&
		other == NULL && out_len == 0;
}

/* Is a block of one column refused when this byte of its entry is changed? */
static bool
refused_with(const uint8_t *block, size_t len, int at, uint8_t byte)
{
	uint8_t    *copy = malloc(len);
	bool		refused;

	memcpy(copy, block, len);
	copy[16 + at] = byte;
	refused = all_refuse(copy, len, CODEC_CORRUPT);
	free(copy);
	return refused;
}

/* Does block_decompress alone refuse a block whose body is of another length? */
static bool
refused_later_with(const uint8_t *block, size_t len, int change)
{
	uint8_t    *copy = malloc(len);
	void	   *out = &seed;
	size_t		out_len;
	size_t		size;
	bool		refused;

	memcpy(copy, block, len);
	copy[16 + 12] = (uint8_t) (copy[16 + 12] + change);
	refused = block_decompressed_size(copy, len, &size) == CODEC_OK &&
		block_decompress(copy, len, &memory, &out, &out_len) == CODEC_CORRUPT &&
		out == NULL && out_len == 0;
	free(copy);
	return refused;
}

static void
test_refused(void)
{
	Table		table = {1, 100, {{16, 8}}, NULL};
	CodecStatus status;
	size_t		len;
	size_t		out_len;
	uint8_t    *block;
	void	   *out = &seed;

	table.values = calloc(table.nrows, sizeof(Value));
	for (uint32_t row = 0; row < table.nrows; row++)
		table.values[row] = value_of(row % 3 ? "ababababababab.." :
									 "xyxyxyxyxyxyxy..", 16);
	block = encode_table(&table, true, &len, &status);
	ok(!is_plain(block, 1) && !all_refuse(block, len, CODEC_CORRUPT) &&
	   refused_with(block, len, 0, 8) && refused_with(block, len, 1, 6) &&
	   refused_with(block, len, 1, 0) && refused_with(block, len, 7, 1) &&
	   refused_with(block, len, 8, 255) && refused_with(block, len, 12, 0) &&
	   refused_with(block, len, 13, 200) && refused_with(block, len, 15, 255),
	   "entries that can't be true");
	ok(refused_later_with(block, len, 1) && refused_later_with(block, len, -1),
	   "bodies that aren't as long as they should be");
	ok(all_refuse(block, 15, CODEC_NOT_A_BLOCK) &&
	   all_refuse(block, len - 1, CODEC_CORRUPT) &&
	   all_refuse("AIB2, but no block", 18, CODEC_NOT_A_BLOCK),
	   "what is no block isn't made one");
	allocs_left = 0;
	ok(block_decompress(block, len, &memory, &out, &out_len) == CODEC_NO_MEMORY &&
	   out == NULL &&
	   block_compress(block, len, &memory, &out, &out_len) == CODEC_NO_MEMORY &&
	   out == NULL, "no memory for another block");
	allocs_left = -1;
	memory.free(NULL, block);
	free_table(&table);
	ok(live_allocs == 0, "nothing left behind by what failed");
}

/*
 * A block, to be freed by free, of ncols columns that all claim the same
 * stored bytes.
 */
static uint8_t *
make_overlapping(int ncols, uint32_t stored_len, uint32_t body_len,
				 uint8_t flags, size_t *len)
{
	uint32_t	head = 16 + 16 * (uint32_t) ncols;
	uint32_t	total = head + stored_len;
	uint32_t	nrows = stored_len;
	uint8_t    *block = calloc(total, 1);

	memcpy(block, "AIB1", 4);
	memcpy(block + 4, &nrows, 4);
	memcpy(block + 8, &total, 4);
	memcpy(block + 12, &ncols, 2);
	for (int col = 0; col < ncols; col++)
	{
		uint32_t	numbers[] = {head, stored_len, body_len};
		uint8_t    *entry = block + 16 + 16 * col;

		entry[0] = 3;
		entry[1] = flags;
		entry[2] = 1;
		memcpy(entry + 4, numbers, sizeof(numbers));
	}
	*len = total;
	return block;
}

static void
test_overlapping(void)
{
	size_t		len;
	size_t		out_len = 0;
	uint8_t    *block = make_overlapping(65535, 16400, 16400, 0, &len);
	void	   *out = NULL;

	ok(all_refuse(block, len, CODEC_CORRUPT),
	   "columns that share bytes make no block beyond the limit");
	free(block);
	block = make_overlapping(65535, 100, 25000, 2, &len);
	ok(block_decompressed_size(block, len, &out_len) == CODEC_CORRUPT &&
	   block_decompress(block, len, &memory, &out, &out_len) == CODEC_CORRUPT,
	   "nor do those that LZ4 would make large");
	free(block);
	block = make_overlapping(3, 100, 100, 0, &len);
	ok(block_decompress(block, len, &memory, &out, &out_len) == CODEC_OK &&
	   out_len == 16 + 3 * (16 + 100), "but within the limit they are copied");
	memory.free(NULL, out);
	free(block);
}

/* Another seed may be given. */
int
main(int argc, char **argv)
{
	take_seed(argc, argv);
	test_transcoding();
	test_edges();
	test_compress();
	test_refused();
	test_overlapping();
	ok(live_allocs == 0, "no memory lost");
	return tap_done();
}
