/*
 * bench_growth: what does one more 128-byte entry cost when there is already much of something? One point of a curve a
 * run.
 *
 *   --axis entries   one log that already holds --amount entries
 *   --axis logs      appends go round --amount logs
 *   --axis segments  one log that already has --amount log segments
 *
 * Prints the CPU of the process for each of --measure entries appended with 1024 in flight.
 */
#include "bench_log.h"

enum { SIZE = 128, WINDOW = 1024, SEGMENT_BYTES = 64 * 1024 };

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

static void append_round(wk_namespace *ns, logs *all, uint64_t entries) {
	uint8_t payload[SIZE];
	bench_fill(payload, SIZE);
	bench_ring ring;
	bench_ring_init(&ring, ns, WINDOW);
	for (uint64_t i = 0; i < entries; i++)
		bench_ring_submit(&ring, all->writer[i % all->count], payload, SIZE);
	bench_ring_release(&ring);
}

int main(int argc, char **argv) {
	const char *axis = bench_text(argc, argv, "axis", NULL);
	uint64_t amount = bench_number(argc, argv, "amount", 10000), measure = bench_number(argc, argv, "measure", 200000);
	wk_log_options options;
	wk_log_options_init(&options);
	uint64_t logs_count = 1, before_entries = 0;
	if (strcmp(axis, "entries") == 0) {
		before_entries = amount;
	} else if (strcmp(axis, "logs") == 0) {
		logs_count = amount;
		before_entries = 2 * amount; /* each log has its first segment and is no longer new */
	} else if (strcmp(axis, "segments") == 0) {
		options.segment_bytes = SEGMENT_BYTES;
		before_entries = amount * (SEGMENT_BYTES / SIZE);
	} else {
		bench_die("--axis %s: entries, logs or segments", axis);
	}
	wk_namespace *ns = bench_namespace_open(argc, argv);
	logs all = logs_open(ns, logs_count, &options);
	append_round(ns, &all, before_entries);
	append_round(ns, &all, measure / 10); /* the same loop, so that caches are as warm at every point */

	bench_usage from = bench_usage_now(bench_text(argc, argv, "dir", NULL));
	append_round(ns, &all, measure);
	bench_usage to = bench_usage_now(bench_text(argc, argv, "dir", NULL));
	wk_log_info info;
	wk_error error = {0};
	bench_check(wk_log_describe(all.log[0], &info, &error), &error, "describe");
	printf("{");
	bench_print_usage(&from, &to);
	printf("\"entries\": %" PRIu64 ", \"segments_of_first\": %" PRIu64
	       ", \"cpu_ns_per_entry\": %.2f, \"machine_cpu_ns_per_entry\": %.2f}\n",
	       measure, info.segments_count, (double)(to.process_cpu_ns - from.process_cpu_ns) / (double)measure,
	       (double)(to.machine_cpu_ns - from.machine_cpu_ns) / (double)measure);
	for (uint64_t i = 0; i < logs_count; i++) {
		bench_check(wk_writer_close(all.writer[i], UINT64_MAX, &error), &error, "close the writer");
		wk_log_release(all.log[i]);
	}
	free(all.log);
	free(all.writer);
	bench_namespace_close(ns);
	return 0;
}
