/*
 * test_threads.c: many threads on one directory for some seconds (the argument, default 5), on both backends and with every way to sync: appends of
 * every kind, writers that fence each other, readers, followers, truncation, cursors, logs that come, go and change their
 * names, in files so small that rolling, sealing, recycling, moving and snapshots never stop. Everything acknowledged is
 * checked while it runs, once it rests, and after the directory was opened again.
 *
 * A record says which appender wrote it and its number there; the rest of its bytes follow from the two. A number is used
 * again only if its append was definitely not written.
 */
#include "small_directory.h"
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

enum {
	LOGS = 2,
	APPENDERS = 6,
	NUMBERS_MAX = 300000,
	SIZE_MAX_ = 3000,
	BATCH_MAX = 40,
	KEPT = 3000, /* records of a log that truncation leaves */
	STUCK_SECONDS = 60,
	IN_FLIGHT_BYTES = 256 * 1024,
	MEMTABLE_BYTES = 256 * 1024,
	CACHE_BYTES = 64 * 1024,
	BLOCK_BYTES = 64 * 1024,
};

typedef struct head {
	uint32_t appender, number;
} head;

typedef struct shared_log {
	const char *name;
	wk_log *log;
	pthread_rwlock_t lock; /* of writer */
	wk_writer *writer;
	_Atomic int64_t promised; /* sequence id behind the last record known durable */
} shared_log;

typedef struct appender {
	uint32_t id;
	shared_log *log;
	uint32_t numbers;
	int64_t *acknowledged; /* sequence id by number, -1: not known to be durable */
} appender;

static char path[64];
static wk_namespace *ns;
static shared_log logs[LOGS];
static appender appenders[APPENDERS];
static _Atomic bool stop;

/* ---- threads, and the watchdog over them ---- */

enum { THREADS_MAX = 40 };
static struct {
	const char *name;
	pthread_t thread;
	_Atomic uint64_t steps;
	_Atomic bool done;
} threads[THREADS_MAX];
static int threads_count;
static __thread int self;

typedef void *(*thread_body)(void *);
typedef struct start_of_thread {
	thread_body body;
	void *context;
	int index;
} start_of_thread;

static void *begin_thread(void *context) {
	start_of_thread start = *(start_of_thread *)context;
	free(context);
	self = start.index;
	start.body(start.context);
	atomic_store(&threads[self].done, true);
	return NULL;
}

static void start_thread(const char *name, thread_body body, void *context) {
	start_of_thread *start = malloc(sizeof *start);
	CHECK(start != NULL && threads_count < THREADS_MAX);
	*start = (start_of_thread){body, context, threads_count};
	threads[threads_count].name = name;
	atomic_store(&threads[threads_count].steps, 0);
	atomic_store(&threads[threads_count].done, false);
	CHECK_EQ(pthread_create(&threads[threads_count++].thread, NULL, begin_thread, start), 0);
}

static bool goes_on(void) {
	atomic_fetch_add(&threads[self].steps, 1);
	return !atomic_load(&stop);
}

static void nap_us(long us) {
	struct timespec time = {us / 1000000, us % 1000000 * 1000};
	nanosleep(&time, NULL);
}

/* For so many seconds, then until all are done: every thread must take a step now and then. */
static void watch(int seconds) {
	uint64_t seen[THREADS_MAX];
	int since[THREADS_MAX];
	memset(seen, 0, sizeof seen);
	memset(since, 0, sizeof since);
	for (int second = 0, left = 1; left > 0; second++) {
		nap_us(1000000);
		if (second >= seconds)
			atomic_store(&stop, true);
		left = 0;
		for (int i = 0; i < threads_count; i++) {
			uint64_t steps = atomic_load(&threads[i].steps);
			bool done = atomic_load(&threads[i].done);
			left += !done;
			since[i] = done || steps != seen[i] ? 0 : since[i] + 1;
			seen[i] = steps;
			if (since[i] >= STUCK_SECONDS) {
				printf("thread %d (%s) has not moved for %d s\n", i, threads[i].name, since[i]);
				fflush(stdout);
				abort();
			}
		}
	}
	for (int i = 0; i < threads_count; i++)
		CHECK_EQ(pthread_join(threads[i].thread, NULL), 0);
	threads_count = 0;
}

static bool one_of(wk_status status, const wk_error *error, const wk_status *allowed) {
	for (; *allowed != WK_OK; allowed++)
		if (status == *allowed)
			return true;
	printf("status %d: %s\n", (int)status, error->text);
	return false;
}
/* A status that this race may end in, or WK_OK. */
#define MAY_BE(status, error, ...) \
	CHECK((status) == WK_OK || one_of((status), (error), (const wk_status[]){__VA_ARGS__, WK_OK}))

/* ---- records ---- */

static size_t record_size(uint32_t id, uint32_t number) {
	uint64_t seed = (uint64_t)id << 32 | number;
	uint64_t kind = check_random(&seed) % 10, size = check_random(&seed);
	return sizeof(head) + (size_t)(kind < 8 ? size % 100 : size % (SIZE_MAX_ - sizeof(head)));
}

static size_t make_record(uint32_t id, uint32_t number, uint8_t *bytes) {
	size_t size = record_size(id, number);
	uint64_t seed = ((uint64_t)id << 32 | number) + 99;
	check_random_bytes(&seed, bytes, size);
	head h = {id, number};
	memcpy(bytes, &h, sizeof h);
	return size;
}

static head check_record(const wk_record *record) {
	head h = {0};
	CHECK_EQ(record->kind, WK_RECORD_DATA);
	CHECK(record->size >= sizeof h);
	memcpy(&h, record->payload, sizeof h);
	uint8_t expected[SIZE_MAX_];
	CHECK(h.appender < APPENDERS);
	CHECK_EQ(record->size, make_record(h.appender, h.number, expected));
	CHECK(memcmp(record->payload, expected, record->size) == 0);
	return h;
}

/* ---- appenders ---- */

static void promise(shared_log *log, int64_t next) {
	int64_t before = atomic_load(&log->promised);
	while (before < next && !atomic_compare_exchange_weak(&log->promised, &before, next))
		;
}

static void acknowledge(appender *a, uint32_t first_number, size_t count, int64_t first_id) {
	for (size_t i = 0; i < count; i++)
		a->acknowledged[first_number + i] = first_id + (int64_t)i;
}

/* What a failed append means for its numbers: used up if it may have been written. */
static void give_up(appender *a, size_t count, wk_status status, const wk_error *error) {
	MAY_BE(status, error, WK_FENCED, WK_TIMEOUT, WK_WOULD_BLOCK);
	if (error->outcome_unknown)
		a->numbers += (uint32_t)count;
}

static bool full(const appender *a) {
	return a->numbers + BATCH_MAX >= NUMBERS_MAX;
}

static void append_single(appender *a, uint64_t *seed) {
	uint8_t bytes[SIZE_MAX_];
	uint32_t number = a->numbers;
	size_t size = make_record(a->id, number, bytes);
	wk_append_options options;
	wk_append_options_init(&options);
	options.durability = a->id % 3 == 1 ? WK_DEFERRED : WK_SYNC;
	uint64_t luck = check_random(seed) % 50;
	options.timeout_ns = luck == 0 ? 0 : luck < 5 ? 100000 : UINT64_MAX;
	wk_position at;
	wk_error error = {0};
	wk_status status = wk_writer_append(a->log->writer, bytes, size, &options, &at, &error);
	if (status != WK_OK) {
		give_up(a, 1, status, &error);
		return;
	}
	a->numbers++;
	if (options.durability == WK_SYNC) {
		promise(a->log, at.sequence_id + 1);
		acknowledge(a, number, 1, at.sequence_id);
	} else if (check_random(seed) % 20 == 0) {
		status = wk_writer_flush(a->log->writer, UINT64_MAX, NULL, &error);
		MAY_BE(status, &error, WK_FENCED);
		acknowledge(a, number, status == WK_OK, at.sequence_id);
	}
}

static void append_batch(appender *a, uint64_t *seed) {
	uint8_t *bytes = malloc(BATCH_MAX * SIZE_MAX_);
	uint32_t sizes[BATCH_MAX], first_number = a->numbers;
	size_t count = 1 + check_random(seed) % BATCH_MAX, size = 0;
	for (size_t i = 0; i < count; i++)
		size += sizes[i] = (uint32_t)make_record(a->id, first_number + (uint32_t)i, bytes + size);
	wk_append_options options;
	wk_append_options_init(&options);
	options.atomic = check_random(seed) % 2 == 0;
	wk_position first, last;
	uint64_t ticket;
	wk_error error = {0};
	wk_status status = wk_writer_append_many(a->log->writer, bytes, sizes, count, NULL, &options, true, &first, &last,
	                                         &ticket, &error);
	if (status == WK_OK) {
		CHECK_EQ(last.sequence_id, first.sequence_id + (int64_t)count - 1);
		CHECK(!options.atomic || last.dlsn.entry_id == first.dlsn.entry_id);
		a->numbers += (uint32_t)count;
		promise(a->log, last.sequence_id + 1);
		acknowledge(a, first_number, count, first.sequence_id);
	} else {
		give_up(a, count, status, &error);
	}
	free(bytes);
}

/* Several in flight, then the wait; sometimes by the eventfd. */
static void submit_some(appender *a, uint64_t *seed) {
	uint8_t bytes[SIZE_MAX_];
	uint64_t ticket = 0;
	int64_t next = 0;
	uint32_t first_number = a->numbers, count = 1 + (uint32_t)(check_random(seed) % 20), accepted = 0;
	int64_t ids[20];
	wk_error error = {0};
	wk_status status = WK_OK;
	for (; accepted < count && status == WK_OK; accepted += status == WK_OK) {
		size_t size = make_record(a->id, first_number + accepted, bytes);
		wk_position at;
		status = wk_writer_submit(a->log->writer, bytes, size, NULL, &at, &ticket, &error);
		if (status == WK_OK)
			ids[accepted] = at.sequence_id;
		next = status == WK_OK ? at.sequence_id + 1 : next;
	}
	a->numbers += accepted;
	if (status != WK_OK)
		give_up(a, 1, status, &error);
	if (accepted == 0)
		return;
	if (a->id == APPENDERS - 1 && check_random(seed) % 2 == 0) { /* one thread, as there is one eventfd */
		int fd = wk_namespace_eventfd(ns);
		wk_namespace_arm(ns, ticket);
		struct pollfd wanted = {.fd = fd, .events = POLLIN};
		while (wk_namespace_durable(ns) < ticket) {
			CHECK_EQ(poll(&wanted, 1, STUCK_SECONDS * 1000), 1);
			uint64_t value;
			CHECK(read(fd, &value, sizeof value) == sizeof value);
			wk_namespace_arm(ns, ticket);
		}
	} else {
		check_ok(wk_namespace_wait(ns, ticket, UINT64_MAX, &error), &error, "the wait");
	}
	promise(a->log, next);
	for (uint32_t i = 0; i < accepted; i++)
		a->acknowledged[first_number + i] = ids[i];
}

static void *append_on(void *context) {
	appender *a = context;
	uint64_t seed = a->id + 1;
	while (goes_on() && !full(a)) {
		pthread_rwlock_rdlock(&a->log->lock);
		a->id < 2 ? append_single(a, &seed) : a->id < 4 ? append_batch(a, &seed) : submit_some(a, &seed);
		pthread_rwlock_unlock(&a->log->lock);
	}
	return NULL;
}

static void *fence(void *context) {
	for (uint64_t seed = 5; goes_on();) {
		shared_log *log = &logs[check_random(&seed) % LOGS];
		wk_writer *old, *fresh = NULL;
		wk_error error = {0};
		nap_us(20000);
		check_ok(wk_writer_open(log->log, &fresh, &error), &error, "the writer opens");
		pthread_rwlock_wrlock(&log->lock);
		old = log->writer;
		log->writer = fresh;
		pthread_rwlock_unlock(&log->lock);
		check_ok(wk_writer_close(old, UINT64_MAX, &error), &error, "the fenced writer closes");
	}
	return context;
}

/* ---- readers ---- */

/* Reads until nothing more is there: dense, whole records; how many. */
static int64_t read_on(wk_reader *reader, int64_t *next, uint64_t timeout_ns, bool *lost) {
	int64_t total = 0;
	for (;;) {
		wk_batch *batch;
		wk_error error = {0};
		wk_status status = wk_reader_next(reader, 500, 128 * 1024, timeout_ns, &batch, &error);
		*lost = status == WK_TRUNCATED;
		if (status != WK_OK) {
			MAY_BE(status, &error, WK_END, WK_TIMEOUT, WK_TRUNCATED);
			return total;
		}
		size_t count;
		const wk_record *records = wk_batch_records(batch, &count);
		CHECK(count > 0);
		for (size_t i = 0; i < count; i++, total++) {
			CHECK(*next < 0 || records[i].at.sequence_id == *next);
			*next = records[i].at.sequence_id + 1;
			check_record(&records[i]);
		}
		wk_batch_release(batch);
	}
}

static void *read_from_start(void *context) {
	shared_log *log = context;
	while (goes_on()) {
		int64_t promised = atomic_load(&log->promised), next = -1;
		wk_reader *reader = NULL;
		wk_error error = {0};
		bool lost;
		check_ok(wk_reader_open(log->log, NULL, &reader, &error), &error, "the reader opens");
		int64_t total = read_on(reader, &next, 0, &lost);
		CHECK(lost || total == 0 || next >= promised); /* what was acknowledged before it looked is there */
		wk_reader_release(reader);
		nap_us(3000);
	}
	return NULL;
}

static void *follow(void *context) {
	shared_log *log = context;
	wk_reader *reader = NULL;
	int64_t next = -1;
	while (goes_on()) {
		wk_error error = {0};
		wk_read_options options;
		wk_read_options_init(&options);
		options.follow = true;
		options.from = WK_FROM_END;
		if (reader == NULL)
			check_ok(wk_reader_open(log->log, &options, &reader, &error), &error, "the follower opens");
		bool lost;
		read_on(reader, &next, 500000, &lost);
		if (lost) {
			wk_reader_release(reader);
			reader = NULL;
			next = -1;
		}
	}
	if (reader != NULL)
		wk_reader_release(reader);
	return NULL;
}

/* How this round opens the directory. */
static struct {
	uint32_t backend, sync_method, blocks_in_flight;
	uint64_t commit_wait_ns;
} round_options;

static void set_small(wk_open_options *options) {
	wk_open_options_init(options);
	options->backend = round_options.backend;
	options->sync_method = round_options.sync_method;
	options->blocks_in_flight = round_options.blocks_in_flight;
	options->commit_wait_ns = round_options.commit_wait_ns;
	options->file_size_min = 64 * 1024;
	options->file_size_max = 256 * 1024;
	options->in_flight_bytes = IN_FLIGHT_BYTES;
	options->memtable_bytes = MEMTABLE_BYTES;
	options->cache_bytes = CACHE_BYTES;
	options->block_size_max = BLOCK_BYTES;
	options->deferred_delay_ns = 5000000;
	options->confirm_delay_ns = 3000000;
	options->minor_interval_ns = 50000000;
	options->major_interval_ns = 200000000;
}

/* As another process would: its own engine, nothing shared but the files. */
static void *follow_the_directory(void *context) {
	while (goes_on()) {
		wk_open_options options;
		set_small(&options);
		options.read_only = true;
		wk_namespace *other = NULL;
		wk_error error = {0};
		wk_status status = wk_open(path, &options, &other, &error);
		check_ok(status, &error, "the follower opens"); /* however fast the files are recycled under it */
		for (size_t i = 0; i < LOGS; i++) {
			int64_t next = -1;
			wk_log *log = NULL;
			wk_reader *reader = NULL;
			check_ok(wk_log_open(other, "first", 5, false, NULL, &log, &error), &error, "its log opens");
			check_ok(wk_reader_open(log, NULL, &reader, &error), &error, "its reader opens");
			{
				wk_batch *batch;
				while ((status = wk_reader_next(reader, 100, 64 * 1024, 0, &batch, &error)) == WK_OK) {
					size_t count;
					const wk_record *records = wk_batch_records(batch, &count);
					for (size_t k = 0; k < count; k++) {
						CHECK(next < 0 || records[k].at.sequence_id == next);
						next = records[k].at.sequence_id + 1;
						check_record(&records[k]);
					}
					wk_batch_release(batch);
				}
				MAY_BE(status, &error, WK_END, WK_TRUNCATED);
				wk_reader_release(reader);
			}
			if (log != NULL)
				wk_log_release(log);
		}
		check_ok(wk_close(other, UINT64_MAX, &error), &error, "the follower closes");
		nap_us(20000);
	}
	return context;
}

/* ---- everything else ---- */

static void *truncate_behind(void *context) {
	for (uint64_t seed = (uint64_t)(uintptr_t)context; goes_on(); nap_us(10000)) {
		shared_log *log = &logs[check_random(&seed) % LOGS];
		wk_log_info info;
		wk_error error = {0};
		check_ok(wk_log_describe(log->log, &info, &error), &error, "the log is described");
		CHECK_EQ(info.next.sequence_id, info.last.sequence_id + 1);
		CHECK(info.count == 0 || info.first.sequence_id + info.count == info.next.sequence_id);
		if (info.count < KEPT)
			continue;
		wk_position at;
		wk_status status = wk_log_find(log->log, WK_FIND_SEQUENCE_ID,
		                               info.last.sequence_id - KEPT / 2 - (int64_t)(check_random(&seed) % (KEPT / 2)),
		                               NULL, &at, &error);
		MAY_BE(status, &error, WK_TRUNCATED);
		if (status == WK_OK)
			check_ok(wk_log_truncate(log->log, &at.dlsn, true, &error), &error, "the truncation");
	}
	return NULL;
}

/* Two threads use the same few names. */
static void *come_and_go(void *context) {
	for (uint64_t seed = (uint64_t)(uintptr_t)context; goes_on();) {
		char name[16], other[16];
		snprintf(name, sizeof name, "guest-%d", (int)(check_random(&seed) % 4));
		snprintf(other, sizeof other, "guest-%d", (int)(check_random(&seed) % 4));
		wk_log_options options;
		wk_log_options_init(&options);
		options.codec = (uint32_t)(check_random(&seed) % 3);
		wk_log *log = NULL;
		wk_writer *writer = NULL;
		wk_error error = {0};
		check_ok(wk_log_open(ns, name, strlen(name), true, &options, &log, &error), &error, "the guest opens");
		wk_status status = wk_writer_open(log, &writer, &error);
		MAY_BE(status, &error, WK_DELETED);
		for (int i = 0; i < 5 && status == WK_OK; i++) {
			uint8_t bytes[SIZE_MAX_];
			size_t size = make_record(0, (uint32_t)i, bytes);
			wk_append_options how;
			wk_append_options_init(&how);
			how.durability = i % 2 == 0 ? WK_SYNC : WK_DEFERRED;
			status = wk_writer_append(writer, bytes, size, &how, NULL, &error);
			MAY_BE(status, &error, WK_FENCED, WK_DELETED, WK_END_OF_STREAM);
		}
		if (status == WK_OK && check_random(&seed) % 4 == 0) {
			status = wk_writer_end_of_stream(writer, &error);
			MAY_BE(status, &error, WK_FENCED, WK_DELETED, WK_END_OF_STREAM);
		}
		status = wk_log_rename(ns, name, strlen(name), other, strlen(other), &error);
		MAY_BE(status, &error, WK_NOT_FOUND, WK_EXISTS);
		status = wk_log_delete(ns, name, strlen(name), &error);
		MAY_BE(status, &error, WK_NOT_FOUND);
		if (writer != NULL)
			check_ok(wk_writer_close(writer, UINT64_MAX, &error), &error, "the guest's writer closes");
		wk_log_release(log);
	}
	return NULL;
}

static void *change_a_name(void *context) {
	const char *from = logs[1].name, *to = "another-name";
	while (goes_on()) {
		wk_error error = {0};
		check_ok(wk_log_rename(ns, from, strlen(from), to, strlen(to), &error), &error, "the rename");
		const char *swap = from;
		from = to;
		to = swap;
		nap_us(500);
	}
	if (from != logs[1].name)
		CHECK_EQ(wk_log_rename(ns, from, strlen(from), logs[1].name, strlen(logs[1].name), NULL), WK_OK);
	return context;
}

static void *move_cursors(void *context) {
	for (uint64_t seed = (uint64_t)(uintptr_t)context; goes_on();) {
		shared_log *log = &logs[check_random(&seed) % LOGS];
		char name[16];
		snprintf(name, sizeof name, "cursor-%d", (int)(check_random(&seed) % 3));
		wk_log_info info;
		wk_position at;
		wk_error error = {0};
		check_ok(wk_log_describe(log->log, &info, &error), &error, "the log is described");
		wk_status status = wk_cursor_set(log->log, name, strlen(name), &info.last, &error);
		if (info.last.sequence_id >= 0)
			MAY_BE(status, &error, WK_INVALID, WK_TRUNCATED);
		status = wk_cursor_get(log->log, name, strlen(name), &at, &error);
		MAY_BE(status, &error, WK_NOT_FOUND);
		if (check_random(&seed) % 10 == 0) {
			status = wk_cursor_delete(log->log, name, strlen(name), &error);
			MAY_BE(status, &error, WK_NOT_FOUND);
		}
	}
	return NULL;
}

static void check_limits(void) {
	wk_stats stats;
	wk_namespace_stats(ns, &stats);
	CHECK(!stats.failed);
	CHECK(stats.memory_in_flight <= IN_FLIGHT_BYTES + BATCH_MAX * SIZE_MAX_); /* one append is always let in */
	CHECK(stats.memory_memtable <= MEMTABLE_BYTES + MEMTABLE_BYTES / 10);
	CHECK(stats.memory_cache <= CACHE_BYTES + CACHE_BYTES / 10);
}

static void *look_around(void *context) {
	for (uint64_t durable = 0; goes_on(); nap_us(1000)) {
		check_limits();
		char *names = NULL;
		size_t size;
		uint64_t count;
		wk_error error = {0};
		check_ok(wk_log_names(ns, "", 0, &names, &size, &count, &error), &error, "the names");
		CHECK(count >= LOGS);
		wk_free(names);
		for (size_t i = 0; i < LOGS; i++) {
			wk_segment_info segments[8];
			check_ok(wk_log_segments(logs[i].log, 0, segments, 8, &(size_t){0}, &error), &error, "the segments");
		}
		uint64_t now = wk_namespace_durable(ns);
		CHECK(now >= durable);
		durable = now;
	}
	return context;
}

/* A second handle on the same engine: what was deferred through it is durable when it is closed. */
static void *open_again(void *context) {
	while (goes_on()) {
		wk_namespace *second = NULL;
		wk_log *log = NULL;
		wk_writer *writer = NULL;
		wk_error error = {0};
		check_ok(wk_open(path, NULL, &second, &error), &error, "the second handle");
		check_ok(wk_log_open(second, "mine", 4, true, NULL, &log, &error), &error, "its log");
		check_ok(wk_writer_open(log, &writer, &error), &error, "its writer");
		wk_append_options how;
		wk_append_options_init(&how);
		how.durability = WK_DEFERRED;
		uint64_t ticket = 0;
		check_ok(wk_writer_submit(writer, "x", 1, &how, NULL, &ticket, &error), &error, "its append");
		check_ok(wk_close(second, UINT64_MAX, &error), &error, "the second handle closes");
		CHECK(wk_namespace_durable(ns) >= ticket);
		CHECK_EQ(wk_writer_close(writer, UINT64_MAX, NULL), WK_OK);
		wk_log_release(log);
		nap_us(5000);
	}
	return context;
}

/* ---- before and after ---- */

static void open_directory(void) {
	wk_open_options options;
	set_small(&options);
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the directory opens");
	for (size_t i = 0; i < LOGS; i++) {
		wk_log_options how;
		wk_log_options_init(&how);
		how.segment_bytes = 64 * 1024;
		how.codec = i == 0 ? WK_CODEC_NONE : WK_CODEC_LZ4;
		check_ok(wk_log_open(ns, logs[i].name, strlen(logs[i].name), true, &how, &logs[i].log, &error), &error,
		         "the log opens");
	}
}

static void close_directory(void) {
	for (size_t i = 0; i < LOGS; i++)
		wk_log_release(logs[i].log);
	wk_error error = {0};
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the directory closes");
}

/* Every record is whole and dense; every acknowledged one that was not truncated is where it was said to be. */
static void check_everything(void) {
	for (size_t i = 0; i < LOGS; i++) {
		wk_log_info info;
		wk_error error = {0};
		check_ok(wk_log_describe(logs[i].log, &info, &error), &error, "the log is described");
		CHECK(info.next.sequence_id >= atomic_load(&logs[i].promised));
		uint64_t expected = 0, found = 0;
		for (size_t k = 0; k < APPENDERS; k++)
			for (uint32_t n = 0; appenders[k].log == &logs[i] && n < appenders[k].numbers; n++)
				expected += appenders[k].acknowledged[n] >= info.first.sequence_id;
		wk_reader *reader = NULL;
		check_ok(wk_reader_open(logs[i].log, NULL, &reader, &error), &error, "the reader opens");
		int64_t next = info.first.sequence_id;
		wk_batch *batch;
		wk_status status;
		while ((status = wk_reader_next(reader, 1000, 1 << 20, 0, &batch, &error)) == WK_OK) {
			size_t count;
			const wk_record *records = wk_batch_records(batch, &count);
			for (size_t r = 0; r < count; r++, next++) {
				CHECK_EQ(records[r].at.sequence_id, next);
				head h = check_record(&records[r]);
				CHECK(h.number < appenders[h.appender].numbers && appenders[h.appender].log == &logs[i]);
				int64_t acknowledged = appenders[h.appender].acknowledged[h.number];
				CHECK(acknowledged == -1 || acknowledged == next);
				found += acknowledged == next;
			}
			wk_batch_release(batch);
		}
		CHECK_EQ(status, WK_END);
		CHECK_EQ(next, info.next.sequence_id);
		CHECK_EQ(found, expected);
		wk_reader_release(reader);
	}
}

static void prepare(void) {
	strcpy(path, temporary());
	for (size_t i = 0; i < LOGS; i++) {
		logs[i] = (shared_log){.name = i == 0 ? "first" : "second"};
		pthread_rwlock_init(&logs[i].lock, NULL);
	}
	for (uint32_t i = 0; i < APPENDERS; i++) {
		free(appenders[i].acknowledged);
		appenders[i] = (appender){
		    .id = i, .log = &logs[i % LOGS], .acknowledged = malloc(NUMBERS_MAX * sizeof(int64_t))};
		CHECK(appenders[i].acknowledged != NULL);
		for (uint32_t n = 0; n < NUMBERS_MAX; n++)
			appenders[i].acknowledged[n] = -1;
	}
	atomic_store(&stop, false);
}

static void start_all(void) {
	for (size_t i = 0; i < APPENDERS; i++)
		start_thread("append", append_on, &appenders[i]);
	start_thread("fence", fence, NULL);
	for (size_t i = 0; i < LOGS; i++) {
		start_thread("read", read_from_start, &logs[i]);
		start_thread("follow", follow, &logs[i]);
		start_thread("truncate", truncate_behind, (void *)(uintptr_t)(i + 1));
		start_thread("come and go", come_and_go, (void *)(uintptr_t)(i + 1));
		start_thread("cursors", move_cursors, (void *)(uintptr_t)(i + 1));
	}
	start_thread("rename", change_a_name, NULL);
	start_thread("look", look_around, NULL);
	start_thread("open again", open_again, NULL);
	start_thread("follow the directory", follow_the_directory, NULL);
}

static void report(void) {
	wk_stats stats;
	wk_namespace_stats(ns, &stats);
	printf(
	    "%llu records, %llu blocks, %llu files recycled, %llu bytes moved, %llu files, %llu KiB of memory for logs\n",
	    (unsigned long long)stats.appended_records, (unsigned long long)stats.blocks_count,
	    (unsigned long long)stats.recycled_files, (unsigned long long)stats.compacted_bytes,
	    (unsigned long long)(stats.journal_files + stats.entry_logs), (unsigned long long)stats.memory_logs / 1024);
	CHECK_EQ(stats.memory_in_flight, 0);
	CHECK(stats.recycled_files > 0);
}

static int seconds = 5;

static void run(uint32_t backend, uint32_t sync_method, uint32_t blocks_in_flight, uint64_t commit_wait_ns) {
	round_options.backend = backend;
	round_options.sync_method = sync_method;
	round_options.blocks_in_flight = blocks_in_flight;
	round_options.commit_wait_ns = commit_wait_ns;
	prepare();
	open_directory();
	for (size_t i = 0; i < LOGS; i++)
		CHECK_EQ(wk_writer_open(logs[i].log, &logs[i].writer, NULL), WK_OK);
	start_all();
	watch(seconds);
	for (size_t i = 0; i < LOGS; i++)
		CHECK_EQ(wk_writer_close(logs[i].writer, UINT64_MAX, NULL), WK_OK);
	report();
	check_everything();
	close_directory();
	open_directory();
	check_everything();
	close_directory();
	remove_tree(path);
}

TEST(many_threads_on_a_ring) {
	run(WK_BACKEND_URING, WK_SYNC_DSYNC, 2, 0);
}
TEST(many_threads_without_a_ring) {
	run(WK_BACKEND_PSYNC, WK_SYNC_DSYNC, 8, 0);
}
TEST(many_threads_where_a_sync_follows_the_writes) {
	run(WK_BACKEND_AUTO, WK_SYNC_WRITE_THEN_SYNC, 3, 0);
}
TEST(many_threads_that_wait_for_company) {
	run(WK_BACKEND_AUTO, WK_SYNC_DSYNC, 1, 300000);
}

static bool ring_is_allowed(void) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.backend = WK_BACKEND_URING;
	wk_namespace *probe = NULL;
	strcpy(path, temporary());
	bool allowed = wk_open(path, &options, &probe, NULL) == WK_OK && wk_close(probe, UINT64_MAX, NULL) == WK_OK;
	remove_tree(path);
	return allowed;
}

int main(int argc, char **argv) {
	if (argc > 1)
		seconds = atoi(argv[1]);
	seconds = (seconds + 3) / 4;
	if (ring_is_allowed())
		RUN(many_threads_on_a_ring);
	RUN(many_threads_without_a_ring);
	RUN(many_threads_where_a_sync_follows_the_writes);
	RUN(many_threads_that_wait_for_company);
	return check_done();
}
