/*
 * bench_memory: what does an idle log cost? Makes --logs logs with --records records each, all handles released, and
 * tells the memory before and after each of the two counts: what malloc holds (glibc counts it), what is resident, and
 * what the engine says.
 */
#include "bench_log.h"
#include <malloc.h>

typedef struct memory {
	uint64_t logs;
	uint64_t malloc_bytes;
	uint64_t resident_bytes;
	uint64_t engine_bytes;  /* catalogue, ledgers, index */
	uint64_t bounded_bytes; /* memtable, cache and what is in flight: limited by options, not by the number of logs */
} memory;

/* Until the background work is done: a compaction under way holds what it copies, and says nothing of idle logs. */
static void wait_until_quiet(wk_namespace *ns) {
	enum { LOOK_US = 100 * 1000, QUIET_LOOKS = 20, LOOKS_MAX = 600 };
	uint64_t before = UINT64_MAX;
	for (int quiet = 0, looks = 0; quiet < QUIET_LOOKS && looks < LOOKS_MAX; looks++) {
		wk_stats stats;
		wk_namespace_stats(ns, &stats);
		uint64_t now = stats.written_bytes + stats.compacted_bytes + stats.recycled_files;
		quiet = now == before ? quiet + 1 : 0;
		before = now;
		usleep(LOOK_US);
	}
}

static memory memory_now(wk_namespace *ns) {
	wait_until_quiet(ns);
	wk_stats stats;
	wk_namespace_stats(ns, &stats);
	struct mallinfo2 heap = mallinfo2();
	uint64_t pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	if (file == NULL || fscanf(file, "%*u %" SCNu64, &pages) != 1)
		bench_die("cannot read /proc/self/statm");
	fclose(file);
	return (memory){.logs = stats.logs_count,
	                .malloc_bytes = heap.uordblks + heap.hblkhd,
	                .resident_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE),
	                .engine_bytes = stats.memory_logs,
	                .bounded_bytes = stats.memory_memtable + stats.memory_cache + stats.memory_in_flight};
}

static void make_logs(wk_namespace *ns, uint64_t from, uint64_t to, uint64_t records) {
	wk_append_options options;
	wk_append_options_init(&options);
	wk_error error = {0};
	for (uint64_t i = from; i < to; i++) {
		char name[40]; /* 31 characters: the longest name the row speaks of */
		snprintf(name, sizeof name, "an-idle-log-%019" PRIu64, i);
		wk_log *log = bench_log_named(ns, name, NULL);
		if (records != 0) {
			wk_writer *writer = bench_writer(log);
			uint64_t ticket;
			for (uint64_t r = 0; r < records; r++)
				bench_check(wk_writer_submit(writer, "0123456789abcdef", 16, &options, NULL, &ticket, &error), &error,
				            "submit");
			bench_check(wk_writer_close(writer, UINT64_MAX, &error), &error, "close the writer");
		}
		wk_log_release(log);
	}
}

/* What options limit is full before anything is measured: it grows with use, not with logs. */
static void fill_caches(wk_namespace *ns) {
	enum { RECORDS = 300, SIZE = 64 * 1024 };
	static uint8_t payload[SIZE];
	wk_log *log = bench_log_named(ns, "what-fills-the-memtable", NULL);
	wk_writer *writer = bench_writer(log);
	wk_append_options options;
	wk_append_options_init(&options);
	wk_error error = {0};
	for (int i = 0; i < RECORDS; i++)
		bench_check(wk_writer_append(writer, payload, sizeof payload, &options, NULL, &error), &error, "append");
	bench_check(wk_writer_close(writer, UINT64_MAX, &error), &error, "close the writer");
	wk_log_release(log);
}

static void print_memory(const char *name, const memory *at) {
	printf("\"%s\": {\"logs\": %" PRIu64 ", \"malloc_bytes\": %" PRIu64 ", \"resident_bytes\": %" PRIu64
	       ", \"engine_bytes\": %" PRIu64 ", \"bounded_bytes\": %" PRIu64 "}",
	       name, at->logs, at->malloc_bytes, at->resident_bytes, at->engine_bytes, at->bounded_bytes);
}

int main(int argc, char **argv) {
	uint64_t few = bench_number(argc, argv, "few", 1000), many = bench_number(argc, argv, "many", 100000);
	uint64_t records = bench_number(argc, argv, "records", 1);
	wk_namespace *ns = bench_namespace_open(argc, argv);
	fill_caches(ns);
	make_logs(ns, 0, few, records);
	memory at_few = memory_now(ns);
	uint64_t start = bench_now_ns();
	make_logs(ns, few, many, records);
	uint64_t elapsed = bench_now_ns() - start;
	memory at_many = memory_now(ns);
	printf("{");
	print_memory("few", &at_few);
	printf(", ");
	print_memory("many", &at_many);
	printf(", \"make_log_ns\": %" PRIu64 "}\n", elapsed / (many - few));
	bench_namespace_close(ns);
	return 0;
}
