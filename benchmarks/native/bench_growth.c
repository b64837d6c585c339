/*
 * bench_growth: what does one more 128-byte entry cost when there is already much of something? One point of a curve a
 * run.
 *
 *   --axis entries   one log that already holds --amount entries
 *   --axis logs      appends go round --amount logs; records of one log share an entry where they can
 *   --axis entries_of_logs
 *                    the same with each record in an entry of its own, so that all points do the same work
 *   --axis segments  one log that already has --amount log segments; of 256 KiB, so that they may be many, and a few
 * more begin while it is measured
 *
 * Prints the CPU of the process for each of --measure entries appended with 1024 in flight.
 */
#include "bench_log.h"

enum { SIZE = 128, WINDOW = 1024, SEGMENT_BYTES = 256 * 1024 };

typedef struct logs {
	wk_log **log;
	wk_writer **writer;
	uint64_t count;
} logs;

static logs logs_open(wk_namespace *ns, uint64_t count, const wk_log_options *options) {
	logs all = {.log = bench_allocate(count * sizeof(wk_log *)),
	            .writer = bench_allocate(count * sizeof(wk_writer *)),
	            .count = count};
	for (uint64_t i = 0; i < count; i++) {
		char name[32];
		snprintf(name, sizeof name, "log-%08" PRIu64, i);
		all.log[i] = bench_log_named(ns, name, options);
		all.writer[i] = bench_writer(all.log[i]);
	}
	return all;
}

static uint64_t segments_of(wk_log *log) {
	wk_log_info info;
	wk_error error = {0};
	bench_check(wk_log_describe(log, &info, &error), &error, "describe");
	return info.segments_count;
}

static void append_round(wk_namespace *ns, logs *all, uint64_t entries, bool alone) {
	uint8_t payload[SIZE];
	bench_fill(payload, SIZE);
	bench_ring ring;
	bench_ring_init(&ring, ns, WINDOW);
	for (uint64_t i = 0; i < entries; i++)
		(alone ? bench_ring_submit_alone : bench_ring_submit)(&ring, all->writer[i % all->count], payload, SIZE);
	bench_ring_release(&ring);
}

int main(int argc, char **argv) {
	const char *axis = bench_text(argc, argv, "axis", NULL), *directory = bench_text(argc, argv, "dir", NULL);
	uint64_t amount = bench_number(argc, argv, "amount", 10000), measure = bench_number(argc, argv, "measure", 200000);
	bool alone = strcmp(axis, "entries_of_logs") == 0;
	bool of_entries = strcmp(axis, "entries") == 0, of_logs = strcmp(axis, "logs") == 0 || alone;
	bool of_segments = strcmp(axis, "segments") == 0;
	if (!of_entries && !of_logs && !of_segments)
		bench_die("--axis %s: entries, logs, entries_of_logs or segments", axis);
	wk_log_options options;
	wk_log_options_init(&options);
	if (of_segments)
		options.segment_bytes = SEGMENT_BYTES;
	wk_namespace *ns = bench_namespace_open(argc, argv);
	logs all = logs_open(ns, of_logs ? amount : 1, &options);
	if (of_entries)
		append_round(ns, &all, amount, alone);
	if (of_logs)
		append_round(ns, &all, 2 * amount, alone); /* each log has its first segment and is no longer new */
	if (of_segments) {
		bench_log loaded = {.ns = ns, .log = all.log[0], .writer = all.writer[0]};
		bench_log_load(&loaded, amount * SEGMENT_BYTES, 1024);
	}
	append_round(ns, &all, measure / 10, alone); /* the same loop, so that caches are as warm at every point */

	uint64_t segments_before = segments_of(all.log[0]);
	bench_usage from = bench_usage_now(directory);
	append_round(ns, &all, measure, alone);
	bench_usage to = bench_usage_now(directory);
	uint64_t segments_after = segments_of(all.log[0]);
	if (of_segments) /* the middle of what there was while it was measured */
		amount = (segments_before + segments_after) / 2;
	printf("{");
	bench_print_usage(&from, &to);
	printf("\"amount\": %" PRIu64 ", \"entries\": %" PRIu64
	       ", \"cpu_ns_per_entry\": %.2f, \"machine_cpu_ns_per_entry\": %.2f}\n",
	       amount, measure, (double)(to.process_cpu_ns - from.process_cpu_ns) / (double)measure,
	       (double)(to.machine_cpu_ns - from.machine_cpu_ns) / (double)measure);
	wk_error error = {0};
	for (uint64_t i = 0; i < all.count; i++) {
		bench_check(wk_writer_close(all.writer[i], UINT64_MAX, &error), &error, "close the writer");
		wk_log_release(all.log[i]);
	}
	free(all.log);
	free(all.writer);
	bench_namespace_close(ns);
	return 0;
}
