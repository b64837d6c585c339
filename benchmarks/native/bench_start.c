/*
 * bench_start: how long until the first append?
 *
 *   --mode fill      makes a journal of --bytes, says "filled", and goes on appending until it is killed
 *   --mode start     opens what a killed process left, appends once, prints the times, and goes on appending until it
 * is killed
 *                    (--linger 0: closes instead); --ignore-footers 1 scans every block
 *   --mode fresh     the first append on a directory that does not exist yet
 */
#include "bench_log.h"

/* The load under which the process dies: 64 records of 1 KiB in flight, never confirmed. */
__attribute__((noreturn)) static void append_until_killed(bench_log *bench) {
	enum { WINDOW = 64, SIZE = 1024 };
	uint8_t payload[SIZE];
	bench_fill(payload, SIZE);
	bench_ring ring;
	bench_ring_init(&ring, bench->ns, WINDOW);
	for (;;)
		bench_ring_submit(&ring, bench->writer, payload, SIZE);
}

static void fill(int argc, char **argv) {
	wk_namespace *ns = bench_namespace_open(argc, argv);
	bench_log bench;
	bench_log_open(&bench, ns, "bench", 0);
	bench_log_load(&bench, bench_number(argc, argv, "bytes", 1U << 30),
	               (uint32_t)bench_number(argc, argv, "size", 1024));
	wk_stats stats;
	wk_namespace_stats(ns, &stats);
	printf("{\"written_bytes\": %" PRIu64 ", \"journal_files\": %" PRIu64 ", \"records\": %" PRIu64 "}\n",
	       stats.written_bytes, stats.journal_files, stats.appended_records);
	fflush(stdout);
	append_until_killed(&bench);
}

static void first_append(int argc, char **argv, bool linger) {
	uint8_t payload[1024];
	bench_fill(payload, sizeof payload);
	wk_append_options options;
	wk_append_options_init(&options);
	wk_error error = {0};
	uint64_t start = bench_now_ns();
	wk_namespace *ns = bench_namespace_open(argc, argv);
	uint64_t opened = bench_now_ns();
	bench_log bench;
	bench_log_open(&bench, ns, "bench", 0);
	wk_position at;
	bench_check(wk_writer_append(bench.writer, payload, sizeof payload, &options, &at, &error), &error, "append");
	uint64_t appended = bench_now_ns();
	wk_recovery_report report;
	wk_namespace_recovery(ns, &report);
	printf("{\"open_ns\": %" PRIu64 ", \"first_append_ns\": %" PRIu64 ", \"lock_wait_ns\": %" PRIu64
	       ", \"recovery_ns\": %" PRIu64 ", \"bytes_scanned\": %" PRIu64 ", \"files_scanned\": %" PRIu64
	       ", \"footers_read\": %" PRIu64 ", \"cut_bytes\": %" PRIu64 ", \"sequence_id\": %" PRId64 "}\n",
	       opened - start, appended - start - report.lock_wait_ns, report.lock_wait_ns, report.elapsed_ns,
	       report.bytes_scanned, report.files_scanned, report.footers_read, report.cut_bytes, at.sequence_id);
	fflush(stdout);
	if (linger)
		append_until_killed(&bench);
	bench_log_close(&bench);
	bench_namespace_close(ns);
}

int main(int argc, char **argv) {
	const char *mode = bench_text(argc, argv, "mode", "fresh");
	if (strcmp(mode, "fill") == 0)
		fill(argc, argv);
	else if (strcmp(mode, "start") == 0)
		first_append(argc, argv, bench_number(argc, argv, "linger", 1) != 0);
	else if (strcmp(mode, "fresh") == 0)
		first_append(argc, argv, false);
	else
		bench_die("--mode %s: fill, start or fresh", mode);
	return 0;
}
