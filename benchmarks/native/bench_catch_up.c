/*
 * bench_catch_up: what does a reader that catches up cost the appender?
 *
 *   --appender 0|1   one blocking append after another to the log "hot", which is trimmed as it goes
 *   --reader 0|1     replays the log "bench" (bench_read --mode prepare made it) again and again
 *   --pace N         the reader sleeps so as to read no more than N payload bytes a second; 0: as fast as it can
 */
#include "bench_log.h"
#include <pthread.h>
#include <stdatomic.h>

typedef struct catching_up {
	wk_log *log;
	uint64_t pace;
	atomic_bool stop;
	uint64_t bytes;
	uint64_t elapsed_ns;
} catching_up;

static void sleep_until(uint64_t at_ns) {
	struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000U), .tv_nsec = (long)(at_ns % 1000000000U)};
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static wk_reader *reader_at_start(wk_log *log) {
	wk_read_options options;
	wk_read_options_init(&options);
	wk_error error = {0};
	wk_reader *reader = NULL;
	bench_check(wk_reader_open(log, &options, &reader, &error), &error, "open a reader");
	return reader;
}

static void *catch_up(void *context) {
	catching_up *self = context;
	wk_error error = {0};
	uint64_t start = bench_now_ns();
	wk_reader *reader = reader_at_start(self->log);
	while (!atomic_load(&self->stop)) {
		wk_batch *batch = NULL;
		wk_status status = wk_reader_next(reader, SIZE_MAX, 1 << 20, UINT64_MAX, &batch, &error);
		if (status == WK_END) {
			wk_reader_release(reader);
			reader = reader_at_start(self->log);
			continue;
		}
		bench_check(status, &error, "read");
		size_t count = 0;
		const wk_record *record = wk_batch_records(batch, &count);
		for (size_t i = 0; i < count; i++)
			self->bytes += record[i].size;
		wk_batch_release(batch);
		if (self->pace != 0)
			sleep_until(start + (uint64_t)((double)self->bytes / (double)self->pace * 1e9));
	}
	wk_reader_release(reader);
	self->elapsed_ns = bench_now_ns() - start;
	return NULL;
}

static void append_for(bench_log *bench, double seconds, bench_samples *samples) {
	uint8_t payload[1024];
	bench_fill(payload, sizeof payload);
	wk_append_options options;
	wk_append_options_init(&options);
	wk_error error = {0};
	uint64_t end = bench_now_ns() + (uint64_t)(seconds * 1e9);
	for (uint64_t before = bench_now_ns(); before < end; before = bench_now_ns()) {
		wk_position at;
		bench_check(wk_writer_append(bench->writer, payload, sizeof payload, &options, &at, &error), &error, "append");
		bench_samples_add(samples, bench_now_ns() - before);
		bench_log_accepted(bench, sizeof payload, &at);
	}
}

int main(int argc, char **argv) {
	const char *directory = bench_text(argc, argv, "dir", NULL);
	double seconds = strtod(bench_text(argc, argv, "seconds", "2"), NULL);
	bool appends = bench_number(argc, argv, "appender", 1) != 0, reads = bench_number(argc, argv, "reader", 1) != 0;
	wk_namespace *ns = bench_namespace_open(argc, argv);
	catching_up reader = {.log = bench_log_named(ns, "bench", NULL), .pace = bench_number(argc, argv, "pace", 0)};
	bench_samples samples;
	bench_samples_init(&samples, BENCH_SAMPLES_MAX);
	bench_log hot;
	if (appends) {
		bench_log_open(&hot, ns, "hot", 32 << 20);
		bench_log_load(&hot, 128 << 20, 1024); /* so that the first file and its growth are not in the cell */
	}

	bench_usage from = bench_usage_now(directory);
	pthread_t thread;
	if (reads && pthread_create(&thread, NULL, catch_up, &reader) != 0)
		bench_die("cannot start the reader");
	if (appends)
		append_for(&hot, seconds, &samples);
	else
		sleep_until(bench_now_ns() + (uint64_t)(seconds * 1e9));
	atomic_store(&reader.stop, true);
	if (reads)
		pthread_join(thread, NULL);
	bench_usage to = bench_usage_now(directory);

	printf("{");
	bench_print_usage(&from, &to);
	bench_print_quantiles(&samples);
	printf("\"reader_rate\": %.1f, \"rate\": %.1f}\n",
	       reads ? (double)reader.bytes / ((double)reader.elapsed_ns / 1e9) : 0.0,
	       (double)samples.count / bench_seconds(&from, &to));
	if (appends)
		bench_log_close(&hot);
	wk_log_release(reader.log);
	bench_namespace_close(ns);
	free(samples.ns);
	return 0;
}
