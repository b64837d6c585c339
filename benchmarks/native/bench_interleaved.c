/*
 * bench_interleaved: how fast is one of many ledgers read back that were written at the same time?
 *
 *   --ledgers N --entries N --size N   so many ledgers, with so many entries of so many bytes each, written in turn
 *   --read N                           so many of them are read, each whole, one after the other
 *   --sort-memory N                    as the option; --wait N: seconds until the mover must be done
 *
 * Two stores in --dir: in one all the ledgers, an entry of each in turn; in the other those that are read alone, one
 * written after the other. Each is opened anew before it is read, so that nothing of it is in memory; files are read with
 * direct I/O. What came later, --behind bytes of another ledger, stands behind all of them: what was written last is in
 * the journal's active file, which is neither sealed nor sorted, and a bookie has it in its memtable. Before the mover sorted, after it, and beside it the lone ledgers; `whole` is one ledger with the entries
 * of all that are read, which is what a disk gives when the size of a ledger does not matter. Medians of five rounds.
 */
#include "bench_log.h"
#include "walkeeper/ledger.h"

enum { ROUNDS = 5, BATCH = 256, READ_ENTRIES = 1024, READ_BYTES = 1 << 20 };
static const char KEY[] = "12345678901234567890";

typedef struct shape {
	int64_t ledgers, entries;
	uint32_t size;
} shape;

static void put_be64(uint8_t *at, uint64_t value) {
	for (int i = 0; i < 8; i++)
		at[i] = (uint8_t)(value >> (56 - 8 * i));
}

static wk_namespace *open_store(int argc, char **argv, const char *name, uint64_t sort_memory) {
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", bench_text(argc, argv, "dir", NULL), name);
	wk_open_options options;
	bench_open_options(argc, argv, &options);
	options.kind = WK_KIND_LEDGERS;
	options.sort_memory = sort_memory;
	options.sort_wait_ns = 1000000000;
	wk_error error = {0};
	wk_namespace *ns = NULL;
	bench_check(wk_open(path, &options, &ns, &error), &error, "open");
	return ns;
}

static void close_store(wk_namespace *ns) {
	wk_error error = {0};
	bench_check(wk_close(ns, UINT64_MAX, &error), &error, "close");
}

/* in_turn: an entry of each ledger, then the next one of each; otherwise one ledger after the other. */
static void fill(wk_namespace *ns, const shape *of, bool in_turn) {
	uint8_t *bytes = bench_allocate((size_t)BATCH * of->size);
	bench_fill(bytes, (size_t)BATCH * of->size);
	wk_add adds[BATCH];
	uint64_t total = (uint64_t)of->ledgers * (uint64_t)of->entries;
	wk_error error = {0};
	for (uint64_t done = 0; done < total;) {
		size_t count = 0;
		for (; count < BATCH && done < total; count++, done++) {
			uint64_t major = done / (uint64_t)(in_turn ? of->ledgers : of->entries),
			         minor = done % (uint64_t)(in_turn ? of->ledgers : of->entries);
			uint8_t *at = bytes + count * of->size;
			put_be64(at, in_turn ? minor : major);
			put_be64(at + 8, in_turn ? major : minor);
			adds[count] = (wk_add){.bytes = at, .size = of->size, .key = KEY, .key_size = sizeof KEY - 1};
		}
		bench_check(wk_ledger_add(ns, adds, count, UINT64_MAX, done == total, &error), &error, "add");
	}
	free(bytes);
}

static void fill_behind(wk_namespace *ns, uint64_t size) {
	enum { LATER = 64 * 1024 };
	uint8_t *bytes = bench_allocate(LATER);
	bench_fill(bytes, LATER);
	wk_error error = {0};
	for (uint64_t id = 0; id < size / LATER; id++) {
		put_be64(bytes, 1u << 30);
		put_be64(bytes + 8, id);
		wk_add add = {.bytes = bytes, .size = LATER, .key = KEY, .key_size = sizeof KEY - 1};
		bench_check(wk_ledger_add(ns, &add, 1, UINT64_MAX, (id + 1) * LATER >= size, &error), &error, "add");
	}
	free(bytes);
}

static void make_store(int argc, char **argv, const char *name, const shape *of, bool in_turn) {
	wk_namespace *ns = open_store(argc, argv, name, UINT64_MAX);
	fill(ns, of, in_turn);
	fill_behind(ns, bench_number(argc, argv, "behind", 192 << 20));
	close_store(ns);
}

/* Bytes a second: every `step`-th ledger, `count` of them, each whole. */
static double catch_up(wk_namespace *ns, int64_t count, int64_t step, int64_t entries) {
	wk_error error = {0};
	uint64_t bytes = 0, start = bench_now_ns();
	for (int64_t i = 0; i < count; i++) {
		for (int64_t next = 0; next < entries;) {
			wk_entry_batch *batch = NULL;
			bench_check(wk_ledger_read(ns, i * step, next, READ_ENTRIES, READ_BYTES, &batch, &error), &error, "read");
			size_t found = 0;
			const wk_stored_entry *read = wk_entry_batch_entries(batch, &found);
			for (size_t e = 0; e < found; e++)
				bytes += read[e].size;
			if (read[0].entry_id != next)
				bench_die("entry %" PRId64 " of ledger %" PRId64 " is missing", next, i * step);
			next = read[found - 1].entry_id + 1;
			wk_entry_batch_release(batch);
		}
	}
	return (double)bytes / ((double)(bench_now_ns() - start) / 1e9);
}

static double read_anew(int argc, char **argv, const char *name, int64_t count, int64_t step, int64_t entries) {
	wk_namespace *ns = open_store(argc, argv, name, UINT64_MAX);
	double rate = catch_up(ns, count, step, entries);
	close_store(ns);
	return rate;
}

/* Until a few seconds pass without a byte more. */
static uint64_t wait_for_the_mover(wk_namespace *ns, uint64_t seconds) {
	wk_stats stats;
	uint64_t before = 0, quiet = 0;
	for (uint64_t waited = 0; quiet < 15; waited++) {
		if (waited > seconds)
			bench_die("the mover is not done after %" PRIu64 " seconds", seconds);
		nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
		wk_namespace_stats(ns, &stats);
		quiet = stats.sorted_bytes == before ? quiet + 1 : 0;
		before = stats.sorted_bytes;
	}
	return before;
}

static double median(double rates[ROUNDS]) {
	for (int i = 1; i < ROUNDS; i++)
		for (int at = i; at > 0 && rates[at] < rates[at - 1]; at--) {
			double swapped = rates[at];
			rates[at] = rates[at - 1];
			rates[at - 1] = swapped;
		}
	return rates[ROUNDS / 2];
}

int main(int argc, char **argv) {
	shape all = {.ledgers = (int64_t)bench_number(argc, argv, "ledgers", 1000),
	             .entries = (int64_t)bench_number(argc, argv, "entries", 512),
	             .size = (uint32_t)bench_number(argc, argv, "size", 1024)};
	int64_t count = (int64_t)bench_number(argc, argv, "read", 100);
	if (count == 0 || count > all.ledgers || all.size < WK_LEDGER_ENTRY_MIN || all.entries == 0)
		bench_die("at least one ledger is read, and not more than there are; entries have 16 bytes or more");
	shape alone = {.ledgers = count, .entries = all.entries, .size = all.size},
	      whole = {.ledgers = 1, .entries = count * all.entries, .size = all.size};
	int64_t step = all.ledgers / count;

	make_store(argc, argv, "alone", &alone, false);
	make_store(argc, argv, "whole", &whole, false);
	make_store(argc, argv, "interleaved", &all, true);

	double before = read_anew(argc, argv, "interleaved", count, step, all.entries);
	wk_namespace *ns = open_store(argc, argv, "interleaved", bench_number(argc, argv, "sort-memory", 0));
	uint64_t sorted = wait_for_the_mover(ns, bench_number(argc, argv, "wait", 300));
	close_store(ns);
	double after[ROUNDS], lone[ROUNDS], one[ROUNDS];
	for (int i = 0; i < ROUNDS; i++) { /* in turn: what else the machine does meets all of them */
		after[i] = read_anew(argc, argv, "interleaved", count, step, all.entries);
		lone[i] = read_anew(argc, argv, "alone", count, 1, all.entries);
		one[i] = read_anew(argc, argv, "whole", 1, 1, whole.entries);
	}
	double sorts = median(after), alone_rate = median(lone), whole_rate = median(one);
	printf("{\"before\": %.0f, \"after\": %.0f, \"alone\": %.0f, \"whole\": %.0f, \"sorted_bytes\": %" PRIu64
	       ", \"before_to_alone\": %.3f, \"after_to_alone\": %.3f, \"after_to_whole\": %.3f}\n",
	       before, sorts, alone_rate, whole_rate, sorted, before / alone_rate, sorts / alone_rate, sorts / whole_rate);
	return 0;
}
