/*
 * bench_append: how fast are appends? One cell a run.
 *
 *   --mode lone      one blocking append after another: latency
 *   --mode window    one thread, --window records submitted and not yet known durable
 *   --mode many      append_many of --batch records, each call waited for
 *   --mode threads   --threads blocking appenders of one writer
 *   --dir D --size 1024 --seconds 2 --trim 67108864 (0: the journal grows) --bytes-max 0 (no limit)
 */
#include "bench_log.h"
#include <pthread.h>

typedef struct append_cell {
	bench_log bench;
	bench_samples samples;
	uint32_t size;
	uint64_t deadline_ns;
	uint64_t bytes_max;
	uint64_t records;
	uint8_t *payload;
} append_cell;

static bool over(const append_cell *cell, uint64_t now) {
	return now >= cell->deadline_ns || (cell->bytes_max != 0 && cell->records * cell->size >= cell->bytes_max);
}

static void append_lone(append_cell *cell) {
	wk_append_options options;
	wk_append_options_init(&options);
	wk_error error = {0};
	for (uint64_t before = bench_now_ns(); !over(cell, before);) {
		wk_position at;
		bench_check(wk_writer_append(cell->bench.writer, cell->payload, cell->size, &options, &at, &error), &error,
		            "append");
		uint64_t after = bench_now_ns();
		bench_samples_add(&cell->samples, after - before);
		cell->records++;
		bench_log_accepted(&cell->bench, cell->size, &at);
		before = bench_now_ns();
	}
}

typedef struct in_flight {
	uint64_t ticket;
	uint64_t submitted_ns;
} in_flight;

/* A ring of `window` records: fill it, wait for the oldest, take out all that became durable with it. */
static void append_window(append_cell *cell, uint32_t window) {
	in_flight *ring = bench_allocate(window * sizeof *ring);
	wk_append_options options;
	wk_append_options_init(&options);
	wk_error error = {0};
	uint64_t head = 0, tail = 0, now = bench_now_ns();
	for (bool ending = false; !ending || head != tail;) {
		ending = ending || over(cell, now);
		while (!ending && tail - head < window) {
			wk_position at;
			in_flight *next = &ring[tail % window];
			next->submitted_ns = now;
			bench_check(
			    wk_writer_submit(cell->bench.writer, cell->payload, cell->size, &options, &at, &next->ticket, &error),
			    &error, "submit");
			tail++;
			bench_log_accepted(&cell->bench, cell->size, &at);
		}
		if (head == tail)
			break;
		bench_check(wk_namespace_wait(cell->bench.ns, ring[head % window].ticket, UINT64_MAX, &error), &error, "wait");
		uint64_t durable = wk_namespace_durable(cell->bench.ns);
		now = bench_now_ns();
		for (; head != tail && ring[head % window].ticket <= durable; head++) {
			bench_samples_add(&cell->samples, now - ring[head % window].submitted_ns);
			cell->records++;
		}
	}
	free(ring);
}

static void append_many(append_cell *cell, uint32_t batch) {
	uint8_t *bytes = bench_allocate((size_t)batch * cell->size);
	uint32_t *sizes = bench_allocate(batch * sizeof *sizes);
	bench_fill(bytes, (size_t)batch * cell->size);
	for (uint32_t i = 0; i < batch; i++)
		sizes[i] = cell->size;
	wk_append_options options;
	wk_append_options_init(&options);
	wk_error error = {0};
	for (uint64_t before = bench_now_ns(); !over(cell, before);) {
		wk_position first, last;
		uint64_t ticket;
		bench_check(wk_writer_append_many(cell->bench.writer, bytes, sizes, batch, NULL, &options, true, &first, &last,
		                                  &ticket, &error),
		            &error, "append_many");
		bench_samples_add(&cell->samples, bench_now_ns() - before);
		cell->records += batch;
		bench_log_accepted(&cell->bench, (uint64_t)batch * cell->size, &last);
		before = bench_now_ns();
	}
	free(bytes);
	free(sizes);
}

typedef struct appender {
	pthread_t thread;
	append_cell *cell;
	bench_samples samples;
	uint64_t records;
	bool trims; /* one of them truncates for all */
} appender;

static void *append_in_thread(void *context) {
	appender *self = context;
	append_cell *cell = self->cell;
	wk_append_options options;
	wk_append_options_init(&options);
	wk_error error = {0};
	for (uint64_t before = bench_now_ns(); before < cell->deadline_ns;) {
		wk_position at;
		bench_check(wk_writer_append(cell->bench.writer, cell->payload, cell->size, &options, &at, &error), &error,
		            "append");
		uint64_t after = bench_now_ns();
		bench_samples_add(&self->samples, after - before);
		self->records++;
		if (self->trims) /* it stands for its fellows: they all move at about its pace */
			bench_log_accepted(&cell->bench, self->records == 1 ? 0 : cell->size, &at);
		before = after;
	}
	return NULL;
}

static void append_threads(append_cell *cell, uint32_t threads) {
	appender *appenders = bench_allocate(threads * sizeof *appenders);
	cell->bench.trim_bytes /= threads;
	for (uint32_t i = 0; i < threads; i++) {
		appenders[i].cell = cell;
		appenders[i].trims = i == 0;
		/* All share one array's size: 64 times 16 MiB would be a gigabyte of samples. */
		bench_samples_init(&appenders[i].samples, BENCH_SAMPLES_MAX / threads);
		if (pthread_create(&appenders[i].thread, NULL, append_in_thread, &appenders[i]) != 0)
			bench_die("cannot start thread %u", i);
	}
	for (uint32_t i = 0; i < threads; i++) {
		pthread_join(appenders[i].thread, NULL);
		cell->records += appenders[i].records;
		for (size_t s = 0; s < appenders[i].samples.count; s++)
			bench_samples_add(&cell->samples, appenders[i].samples.ns[s]);
		free(appenders[i].samples.ns);
	}
	free(appenders);
}

int main(int argc, char **argv) {
	const char *mode = bench_text(argc, argv, "mode", "lone");
	const char *directory = bench_text(argc, argv, "dir", NULL);
	append_cell cell = {.size = (uint32_t)bench_number(argc, argv, "size", 1024),
	                    .bytes_max = bench_number(argc, argv, "bytes-max", 0)};
	cell.payload = bench_allocate(cell.size);
	bench_fill(cell.payload, cell.size);
	bench_samples_init(&cell.samples, BENCH_SAMPLES_MAX);
	wk_namespace *ns = bench_namespace_open(argc, argv);
	bench_log_open(&cell.bench, ns, "bench", bench_number(argc, argv, "trim", 64 << 20));
	bench_log_warm(&cell.bench);

	wk_stats before, after;
	wk_namespace_stats(ns, &before);
	bench_usage from = bench_usage_now(directory);
	cell.deadline_ns = from.wall_ns + (uint64_t)(strtod(bench_text(argc, argv, "seconds", "2"), NULL) * 1e9);
	if (strcmp(mode, "lone") == 0)
		append_lone(&cell);
	else if (strcmp(mode, "window") == 0)
		append_window(&cell, (uint32_t)bench_number(argc, argv, "window", 64));
	else if (strcmp(mode, "many") == 0)
		append_many(&cell, (uint32_t)bench_number(argc, argv, "batch", 1024));
	else if (strcmp(mode, "threads") == 0)
		append_threads(&cell, (uint32_t)bench_number(argc, argv, "threads", 64));
	else
		bench_die("--mode %s: lone, window, many or threads", mode);
	bench_usage to = bench_usage_now(directory);
	wk_namespace_stats(ns, &after);

	printf("{");
	bench_print_usage(&from, &to);
	bench_print_quantiles(&cell.samples);
	bench_print_stats(&before, &after);
	printf("\"records\": %" PRIu64 ", \"rate\": %.1f, \"payload_rate\": %.1f}\n", cell.records,
	       (double)cell.records / bench_seconds(&from, &to),
	       (double)cell.records * cell.size / bench_seconds(&from, &to));
	bench_log_close(&cell.bench);
	bench_namespace_close(ns);
	free(cell.samples.ns);
	free(cell.payload);
	return 0;
}
