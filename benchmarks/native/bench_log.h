/*
 * bench_log.h: a namespace with one log and its writer, opened from a driver's arguments; and the trimming that keeps
 * its journal recycled.
 */
#ifndef BENCH_LOG_H
#define BENCH_LOG_H
#include "bench.h"
#include "walkeeper/log.h"

typedef struct bench_log {
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer;
	/* Trimming: at every `trim_bytes` of payload what lies before the last mark is truncated; 0 lets the journal grow.
	 */
	uint64_t trim_bytes;
	uint64_t since_mark;
	bool marked;
	wk_dlsn mark;
} bench_log;

static inline void bench_check(wk_status status, const wk_error *error, const char *what) {
	if (status != WK_OK)
		bench_die("%s: %s (%d); %s", what, wk_status_text(status), status, error == NULL ? "" : error->text);
}

static inline void bench_open_options(int argc, char **argv, wk_open_options *options) {
	wk_open_options_init(options);
	options->backend = (uint32_t)bench_number(argc, argv, "backend", options->backend);
	options->sync_method = (uint32_t)bench_number(argc, argv, "sync-method", options->sync_method);
	options->blocks_in_flight = (uint32_t)bench_number(argc, argv, "blocks-in-flight", options->blocks_in_flight);
	options->block_size_max = bench_number(argc, argv, "block-size-max", options->block_size_max);
	options->in_flight_bytes = bench_number(argc, argv, "in-flight-bytes", options->in_flight_bytes);
	options->memtable_bytes = bench_number(argc, argv, "memtable-bytes", options->memtable_bytes);
	options->cache_bytes = bench_number(argc, argv, "cache-bytes", options->cache_bytes);
	options->ignore_footers = bench_number(argc, argv, "ignore-footers", 0) != 0;
}

static inline wk_namespace *bench_namespace_open(int argc, char **argv) {
	wk_open_options options;
	bench_open_options(argc, argv, &options);
	wk_error error = {0};
	wk_namespace *ns = NULL;
	bench_check(wk_open(bench_text(argc, argv, "dir", NULL), &options, &ns, &error), &error, "open");
	return ns;
}

/* `options` may be NULL. */
static inline wk_log *bench_log_named(wk_namespace *ns, const char *name, const wk_log_options *options) {
	wk_error error = {0};
	wk_log *log = NULL;
	bench_check(wk_log_open(ns, name, strlen(name), true, options, &log, &error), &error, "open a log");
	return log;
}

static inline wk_writer *bench_writer(wk_log *log) {
	wk_error error = {0};
	wk_writer *writer = NULL;
	bench_check(wk_writer_open(log, &writer, &error), &error, "open a writer");
	return writer;
}

static inline void bench_log_open(bench_log *bench, wk_namespace *ns, const char *name, uint64_t trim_bytes) {
	*bench = (bench_log){.ns = ns, .trim_bytes = trim_bytes};
	bench->log = bench_log_named(ns, name, NULL);
	bench->writer = bench_writer(bench->log);
}

/* Tells the trimming that `size` payload bytes were accepted, the last of them at `at`. Truncates in the caller, as an
 * application would. */
static inline void bench_log_accepted(bench_log *bench, uint64_t size, const wk_position *at) {
	bench->since_mark += size;
	if (bench->trim_bytes == 0 || bench->since_mark < bench->trim_bytes)
		return;
	wk_error error = {0};
	if (bench->marked)
		bench_check(wk_log_truncate(bench->log, &bench->mark, false, &error), &error, "truncate");
	/* The mark is truncated to one round later: by then it has long been durable. */
	bench->mark = at->dlsn;
	bench->marked = true;
	bench->since_mark = 0;
}

/* Appends `bytes` in batches of 256 KiB, each waited for. */
static inline void bench_log_load(bench_log *bench, uint64_t bytes, uint32_t size) {
	uint32_t count = size < 256 * 1024 ? 256 * 1024 / size : 1;
	uint8_t *payload = bench_allocate((size_t)count * size);
	uint32_t *sizes = bench_allocate(count * sizeof *sizes);
	bench_fill(payload, (size_t)count * size);
	for (uint32_t i = 0; i < count; i++)
		sizes[i] = size;
	wk_append_options options;
	wk_append_options_init(&options);
	for (uint64_t done = 0; done < bytes; done += (uint64_t)count * size) {
		wk_position first, last;
		uint64_t ticket;
		wk_error error = {0};
		bench_check(wk_writer_append_many(bench->writer, payload, sizes, count, NULL, &options, true, &first, &last,
		                                  &ticket, &error),
		            &error, "load");
		bench_log_accepted(bench, (uint64_t)count * size, &last);
	}
	free(payload);
	free(sizes);
}

/* Brings a trimmed log to its steady state: files of full size, and each new one a recycled one. */
static inline void bench_log_warm(bench_log *bench) {
	if (bench->trim_bytes == 0)
		return;
	/* A GiB at least: files first grow to their full size, and the pool to what the trimming needs. */
	enum { STEP = 64 << 20, STEPS_MIN = 16, STEPS_MAX = 32, RECYCLED_ENOUGH = 8 };
	wk_stats stats;
	for (int step = 0; step < STEPS_MAX; step++) {
		bench_log_load(bench, STEP, 1024);
		wk_namespace_stats(bench->ns, &stats);
		if (step + 1 >= STEPS_MIN && stats.recycled_files >= RECYCLED_ENOUGH)
			return;
	}
	fprintf(stderr, "warning: only %" PRIu64 " files were recycled in %d MiB of warm-up\n", stats.recycled_files,
	        STEPS_MAX * (STEP >> 20));
}

/* Records submitted and not yet known durable: at most `window`. */
typedef struct bench_ring {
	wk_namespace *ns;
	uint64_t *tickets;
	uint64_t window;
	uint64_t submitted;
	uint64_t durable; /* tickets up to this one need no wait */
} bench_ring;

static inline void bench_ring_init(bench_ring *ring, wk_namespace *ns, uint64_t window) {
	*ring = (bench_ring){.ns = ns, .tickets = bench_allocate(window * sizeof(uint64_t)), .window = window};
}

static inline void bench_ring_wait(bench_ring *ring, uint64_t ticket) {
	if (ticket <= ring->durable)
		return;
	wk_error error = {0};
	bench_check(wk_namespace_wait(ring->ns, ticket, UINT64_MAX, &error), &error, "wait");
	ring->durable = wk_namespace_durable(ring->ns);
}

/* Where the next record's ticket goes; waits for the oldest where the window is full. */
static inline uint64_t *bench_ring_slot(bench_ring *ring) {
	uint64_t *ticket = &ring->tickets[ring->submitted % ring->window];
	if (ring->submitted >= ring->window)
		bench_ring_wait(ring, *ticket);
	return ticket;
}

/* Submits one record. */
static inline void bench_ring_submit(bench_ring *ring, wk_writer *writer, const void *payload, size_t size) {
	uint64_t *ticket = bench_ring_slot(ring);
	wk_append_options options;
	wk_append_options_init(&options);
	wk_error error = {0};
	bench_check(wk_writer_submit(writer, payload, size, &options, NULL, ticket, &error), &error, "submit");
	ring->submitted++;
}

/* The same in an entry of its own: a batch of one. */
static inline void bench_ring_submit_alone(bench_ring *ring, wk_writer *writer, const void *payload, size_t size) {
	uint64_t *ticket = bench_ring_slot(ring);
	wk_append_options options;
	wk_append_options_init(&options);
	options.atomic = true;
	uint32_t sizes[] = {(uint32_t)size};
	wk_position first, last;
	wk_error error = {0};
	bench_check(wk_writer_append_many(writer, payload, sizes, 1, NULL, &options, false, &first, &last, ticket, &error),
	            &error, "submit alone");
	ring->submitted++;
}

/* Waits for all that was submitted. */
static inline void bench_ring_release(bench_ring *ring) {
	for (uint64_t i = 0; i < ring->window && i < ring->submitted; i++)
		bench_ring_wait(ring, ring->tickets[i]);
	free(ring->tickets);
}

static inline void bench_print_stats(const wk_stats *from, const wk_stats *to) {
	static const char *const backends[] = {"auto", "io_uring", "psync"};
	static const char *const methods[] = {"probe", "dsync", "write_then_sync"};
	printf("\"appended_bytes\": %" PRIu64 ", \"written_bytes\": %" PRIu64 ", \"blocks\": %" PRIu64
	       ", \"syncs\": %" PRIu64 ", \"recycled_files\": %" PRIu64 ", \"compacted_bytes\": %" PRIu64
	       ", \"blocks_in_flight\": %u, \"backend\": \"%s\", \"sync_method\": \"%s\", ",
	       to->appended_bytes - from->appended_bytes, to->written_bytes - from->written_bytes,
	       to->blocks_count - from->blocks_count, to->syncs_count - from->syncs_count,
	       to->recycled_files - from->recycled_files, to->compacted_bytes - from->compacted_bytes, to->blocks_in_flight,
	       to->backend < 3 ? backends[to->backend] : "?", to->sync_method < 3 ? methods[to->sync_method] : "?");
}

static inline void bench_log_close(bench_log *bench) {
	wk_error error = {0};
	bench_check(wk_writer_close(bench->writer, UINT64_MAX, &error), &error, "close the writer");
	wk_log_release(bench->log);
}

static inline void bench_namespace_close(wk_namespace *ns) {
	wk_error error = {0};
	bench_check(wk_close(ns, UINT64_MAX, &error), &error, "close");
}
#endif
