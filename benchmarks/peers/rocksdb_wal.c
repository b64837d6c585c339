/*
 * rocksdb_wal: RocksDB's write-ahead log through its C API, one 1 KiB value a synced write, with real threads.
 *
 *   --dir D --threads 1 --size 1024 --seconds 2 --pipelined 1 --recycle 2
 *
 * --recycle 0  RocksDB as it comes
 * --recycle 1  recycle_log_file_num set, the recovery mode left alone: RocksDB 7.8 then does not recycle, and does not
 * say so
 * --recycle 2  log files really recycled; the driver looks into RocksDB's LOG to be sure
 *
 * For 1 and 2 warm-up fills and retires some log files first, and the memtable is so large that no flush falls into the
 * measured phase.
 */
#include "../native/bench.h"
#include <pthread.h>
#include <rocksdb/c.h>

enum { AS_IT_COMES = 0, AS_ASKED = 1, REALLY = 2 }; /* --recycle */
enum { MEMTABLE_BYTES = 256 << 20, RECYCLED_FILES = 4, LOG_FILE_BYTES = 128 << 20 };

typedef struct writer {
	pthread_t thread;
	rocksdb_t *db;
	uint64_t deadline_ns;
	uint64_t key; /* first key of this thread; each writes its own, rising: the memtable's best case */
	uint64_t records;
	size_t size;
	const char *value;
	bench_samples samples;
} writer;

static void check(char *error, const char *what) {
	if (error != NULL)
		bench_die("rocksdb %s: %s", what, error);
}

static void put(rocksdb_t *db, const rocksdb_writeoptions_t *options, uint64_t key, const char *value, size_t size) {
	uint64_t big_endian = __builtin_bswap64(key);
	char *error = NULL;
	rocksdb_put(db, options, (const char *)&big_endian, sizeof big_endian, value, size, &error);
	check(error, "put");
}

static void *write_in_thread(void *context) {
	writer *self = context;
	rocksdb_writeoptions_t *options = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(options, 1);
	for (uint64_t before = bench_now_ns(); before < self->deadline_ns;) {
		put(self->db, options, self->key + self->records, self->value, self->size);
		uint64_t after = bench_now_ns();
		bench_samples_add(&self->samples, after - before);
		self->records++;
		before = after;
	}
	rocksdb_writeoptions_destroy(options);
	return NULL;
}

/* RocksDB writes the options it really uses to its LOG. */
static void check_recycling(const char *directory) {
	char path[4096], line[512];
	snprintf(path, sizeof path, "%s/LOG", directory);
	FILE *log = fopen(path, "r");
	if (log == NULL)
		bench_die("cannot read %s", path);
	unsigned files = 0;
	while (fgets(line, sizeof line, log) != NULL) {
		const char *found = strstr(line, "Options.recycle_log_file_num:");
		if (found != NULL)
			sscanf(found, "Options.recycle_log_file_num: %u", &files);
	}
	fclose(log);
	if (files == 0)
		bench_die("RocksDB turned log recycling off: this cell would not be the tuned one");
}

/* Makes log files to recycle: unsynced writes, then a flush, which retires the log file. */
static void make_old_logs(rocksdb_t *db, const char *value, size_t size) {
	rocksdb_writeoptions_t *options = rocksdb_writeoptions_create();
	rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
	rocksdb_flushoptions_set_wait(flush, 1);
	for (int file = 0; file < RECYCLED_FILES; file++) {
		for (uint64_t i = 0; i < LOG_FILE_BYTES / size; i++)
			put(db, options, i, value, size);
		char *error = NULL;
		rocksdb_flush(db, flush, &error);
		check(error, "flush");
	}
	rocksdb_flushoptions_destroy(flush);
	rocksdb_writeoptions_destroy(options);
	sync(); /* or the first measured sync pays for the old log's dirty pages */
}

int main(int argc, char **argv) {
	const char *directory = bench_text(argc, argv, "dir", NULL);
	uint32_t threads = (uint32_t)bench_number(argc, argv, "threads", 1);
	size_t size = bench_number(argc, argv, "size", 1024);
	uint64_t recycle = bench_number(argc, argv, "recycle", REALLY);
	char *value = bench_allocate(size);
	bench_fill(value, size);

	rocksdb_options_t *options = rocksdb_options_create();
	rocksdb_options_set_create_if_missing(options, 1);
	rocksdb_options_set_compression(options, rocksdb_no_compression);
	rocksdb_options_set_enable_pipelined_write(options, bench_number(argc, argv, "pipelined", 1) != 0);
	if (recycle != AS_IT_COMES) {
		rocksdb_options_set_recycle_log_file_num(options, RECYCLED_FILES);
		rocksdb_options_set_write_buffer_size(options, MEMTABLE_BYTES);
		rocksdb_options_set_disable_auto_compactions(options, 1);
	}
	/* RocksDB 7.8 turns recycling off without a word under every other recovery mode (its pull request 6351). */
	if (recycle == REALLY)
		rocksdb_options_set_wal_recovery_mode(options, rocksdb_skip_any_corrupted_records_recovery);
	char *error = NULL;
	rocksdb_t *db = rocksdb_open(options, directory, &error);
	check(error, "open");
	if (recycle == REALLY)
		check_recycling(directory);
	if (recycle != AS_IT_COMES)
		make_old_logs(db, value, size);

	writer *writers = bench_allocate(threads * sizeof *writers);
	bench_samples all;
	bench_samples_init(&all, BENCH_SAMPLES_MAX);
	bench_usage from = bench_usage_now(directory);
	uint64_t deadline_ns = from.wall_ns + (uint64_t)(strtod(bench_text(argc, argv, "seconds", "2"), NULL) * 1e9);
	for (uint32_t i = 0; i < threads; i++) {
		writers[i] = (writer){
		    .db = db, .deadline_ns = deadline_ns, .key = (uint64_t)(i + 1) << 32, .size = size, .value = value};
		bench_samples_init(&writers[i].samples, BENCH_SAMPLES_MAX / threads);
		if (pthread_create(&writers[i].thread, NULL, write_in_thread, &writers[i]) != 0)
			bench_die("cannot start thread %u", i);
	}
	uint64_t records = 0;
	for (uint32_t i = 0; i < threads; i++) {
		pthread_join(writers[i].thread, NULL);
		records += writers[i].records;
	}
	bench_usage to = bench_usage_now(directory);
	for (uint32_t i = 0; i < threads; i++) {
		for (size_t s = 0; s < writers[i].samples.count; s++)
			bench_samples_add(&all, writers[i].samples.ns[s]);
		free(writers[i].samples.ns);
	}
	printf("{");
	bench_print_usage(&from, &to);
	bench_print_quantiles(&all);
	printf("\"records\": %" PRIu64 ", \"rate\": %.1f}\n", records, (double)records / bench_seconds(&from, &to));
	rocksdb_close(db);
	rocksdb_options_destroy(options);
	free(writers);
	free(all.ns);
	free(value);
	return 0;
}
