/*
 * test_threads.c: many threads on one directory for some seconds (the argument, default 5), on both backends and with
 * every way to sync: appends of every kind (appenders.h), writers that fence each other, readers, followers, truncation,
 * cursors, logs that come, go and change their names, in files so small that rolling, sealing, recycling, moving and
 * snapshots never stop. Everything acknowledged is checked while it runs, once it rests, and after the directory was
 * opened again.
 */
#include "appenders.h"

enum {
	KEPT = 3000, /* records of a log that truncation leaves */
	IN_FLIGHT_BYTES = 256 * 1024,
	MEMTABLE_BYTES = 256 * 1024,
	CACHE_BYTES = 64 * 1024,
	RANGE_BYTES = 4096, /* what may be is paged out */
	BLOCK_BYTES = 64 * 1024,
};

static char path[64];

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
	options->range_bytes = RANGE_BYTES;
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
