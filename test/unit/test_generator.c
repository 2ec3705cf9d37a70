/*
 * test_generator.c
 *	  The benchmark's events against known answers: random numbers, delays,
 *	  payload, and checksums over the rows of each workload, all of which
 *	  stand for a definition that another generator implements, too.
 */
#include <inttypes.h>
#include <string.h>

#include "events.h"
#include "tap.h"

static bool
random_numbers_are(const uint64_t *expected, int count)
{
	for (int n = 0; n < count; n++)
		if (paper_random(0, n) != expected[n])
			return false;
	return true;
}

/* How many of the first million records are 0, 1, ... windows late, if that many have closed. */
static bool
delays_are(int past, const int *expected)
{
	PaperRun	run = {find_workload("average"), 1000, 1000000, past, LATENESS_PAPER};
	int			counts[PAPER_MAX_PAST + 1] = {0};

	for (int64_t n = 0; n < run.records; n++)
		counts[windows_late(&run, n, past)]++;
	return memcmp(counts, expected, (past + 1) * sizeof(int)) == 0;
}

/* Rows as text, "number|arrival|time|columns", hashed each by itself: the order does not matter. */
static void
check_rows(const char *name, int rate, int seconds, int late, uint32_t checksum)
{
	PaperRun	run = {find_workload(name), rate, (int64_t) rate * seconds, 3, LATENESS_PAPER};
	uint32_t	sum = 0;
	int			late_rows = 0;

	for (int64_t n = 0; n < run.records; n++)
	{
		Record		record = paper_record(&run, n);
		char		row[3 * 24 + PAPER_MAX_COLUMNS];
		size_t		length = sprintf(row, "%" PRId64 "|%" PRId64 "|%" PRId64 "|", n, record.arrival, record.time);
		uint32_t	hash = 0;

		length += run.workload->columns(row + length, n, rate, '|');
		for (size_t i = 0; i < length; i++)
			hash = hash * 31 + (unsigned char) row[i];
		sum += hash;
		late_rows += record.late;
	}
	printf("# %s: %d late, checksum %08" PRIx32 "\n", name, late_rows, sum);
	ok(late_rows == late && sum == checksum, name);
}

int
main(void)
{
	static const uint64_t numbers[] = {UINT64_C(0xef510a826cc4185b), UINT64_C(0x9b7ce5b94b0e186d),
		UINT64_C(0xa9c221410299b717), UINT64_C(0x564dceca5a278449)};
	static const int delays_1[] = {801078, 198922};
	static const int delays_3[] = {703998, 174115, 80067, 41820};
	static const int delays_10[] = {662388, 163522, 75008, 39452, 22408, 13664, 8693, 5943, 4072, 2819, 2031};
	char		payload[41] = "";

	ok(random_numbers_are(numbers, 4), "random numbers");
	ok(delays_are(1, delays_1), "delays with one past window");
	ok(delays_are(3, delays_3), "delays with three past windows");
	ok(delays_are(10, delays_10), "delays with ten past windows");
	paper_payload(payload, 0, 40);
	ok(strcmp(payload, "K3UWqzY0or1tAtDWghefZIi4zbVjDvTk8wyE3I2P") == 0, "payload");
	check_rows("average", 1000, 200, 50580, 0x5d4c18a8);
	check_rows("bigrams", 500, 300, 37935, 0x67332454);
	check_rows("stock", 1000, 300, 75892, 0xe09389c2);
	check_rows("reports", 1000, 600, 177519, 0x9f8cac09);
	return tap_done();
}
