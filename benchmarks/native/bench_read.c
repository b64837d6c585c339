/*
 * bench_read: how fast is a log replayed?
 *
 *   --mode prepare   appends --bytes of --size records at --window and closes
 *   --mode replay    reads the log from its start to its end, --max-bytes a call
 */
#include "bench_log.h"

static void prepare(int argc, char **argv) {
	uint64_t bytes = bench_number(argc, argv, "bytes", 1U << 30);
	uint32_t size = (uint32_t)bench_number(argc, argv, "size", 1024);
	uint64_t window = bench_number(argc, argv, "window", 64);
	uint8_t *payload = bench_allocate(size);
	bench_fill(payload, size);
	wk_namespace *ns = bench_namespace_open(argc, argv);
	bench_log bench;
	bench_log_open(&bench, ns, "bench", 0);
	uint64_t records = bytes / size;
	bench_ring ring;
	bench_ring_init(&ring, ns, window);
	for (uint64_t i = 0; i < records; i++)
		bench_ring_submit(&ring, bench.writer, payload, size);
	bench_ring_release(&ring);
	wk_stats stats;
	wk_namespace_stats(ns, &stats);
	bench_log_close(&bench);
	bench_namespace_close(ns);
	printf("{\"records\": %" PRIu64 ", \"blocks\": %" PRIu64 ", \"written_bytes\": %" PRIu64
	       ", \"disk_bytes\": %" PRIu64 "}\n",
	       records, stats.blocks_count, stats.written_bytes, stats.disk_bytes);
	free(payload);
}

static void replay(int argc, char **argv) {
	const char *directory = bench_text(argc, argv, "dir", NULL);
	size_t max_bytes = bench_number(argc, argv, "max-bytes", 1 << 20);
	wk_namespace *ns = bench_namespace_open(argc, argv);
	wk_log *log = bench_log_named(ns, "bench", NULL);
	wk_read_options options;
	wk_read_options_init(&options);
	wk_error error = {0};
	bench_usage from = bench_usage_now(directory);
	wk_reader *reader = NULL;
	bench_check(wk_reader_open(log, &options, &reader, &error), &error, "open a reader");
	uint64_t records = 0, bytes = 0, expected = 0;
	uint8_t seen = 0;
	for (;;) {
		wk_batch *batch = NULL;
		wk_status status = wk_reader_next(reader, SIZE_MAX, max_bytes, UINT64_MAX, &batch, &error);
		if (status == WK_END)
			break;
		bench_check(status, &error, "read");
		size_t count = 0;
		const wk_record *record = wk_batch_records(batch, &count);
		for (size_t i = 0; i < count; i++) {
			if (record[i].kind != WK_RECORD_DATA || (uint64_t)record[i].at.sequence_id != expected++)
				bench_die("record %" PRIu64 " is missing", expected - 1);
			seen ^= record[i].payload[0]; /* an application looks at every record at least once */
			bytes += record[i].size;
		}
		records += count;
		wk_batch_release(batch);
	}
	bench_usage to = bench_usage_now(directory);
	printf("{");
	bench_print_usage(&from, &to);
	printf("\"records\": %" PRIu64 ", \"payload_bytes\": %" PRIu64 ", \"payload_rate\": %.1f, \"seen\": %u}\n", records,
	       bytes, (double)bytes / bench_seconds(&from, &to), seen);
	wk_reader_release(reader);
	wk_log_release(log);
	bench_namespace_close(ns);
}

int main(int argc, char **argv) {
	const char *mode = bench_text(argc, argv, "mode", "replay");
	if (strcmp(mode, "prepare") == 0)
		prepare(argc, argv);
	else if (strcmp(mode, "replay") == 0)
		replay(argc, argv);
	else
		bench_die("--mode %s: prepare or replay", mode);
	return 0;
}
