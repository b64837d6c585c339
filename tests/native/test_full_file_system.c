/*
 * test_full_file_system.c: a real file system of 24 MiB fills up (storage rule 15): appends are refused, everything else
 * goes on, nothing acknowledged is lost, and appends come back by themselves, whoever makes room. Needs root, for the
 * mount; skipped elsewhere.
 */
#include "small_directory.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <time.h>

enum { THREADS = 4, PATIENCE_MS = 20000, LARGEST = 1000 * 1024 };

static char image[64], place[64], directory[80], ballast[80];
static wk_namespace *ns;
static wk_log *log_;
static wk_writer *writer;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t largest;
static int64_t promised; /* sequence id behind the last record known durable */

static void run_command(const char *format, const char *a, const char *b) {
	char command[300];
	snprintf(command, sizeof command, format, a, b);
	if (system(command) != 0)
		SKIP("no mount of a small file system here");
}

static void mount_ext(const char *type) {
	strcpy(place, temporary());
	snprintf(image, sizeof image, "%s.img", place);
	run_command("truncate -s 24M %s", image, "");
	run_command("mkfs.%s -q -F -m 0 %s 2>/dev/null", type, image);
	run_command("mount -o loop %s %s 2>/dev/null", image, place);
}

static void mount_tmpfs(int kib) {
	char size[32];
	snprintf(size, sizeof size, "size=%dk", kib);
	strcpy(place, temporary());
	image[0] = 0;
	if (mount("none", place, "tmpfs", 0, size) != 0)
		SKIP("no mount of a small file system here");
}

/* Also where a test fails. */
static void unmount(void) {
	umount2(place, MNT_DETACH);
	rmdir(place);
	unlink(image);
}

static void open_it(uint64_t file_size_min) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = file_size_min;
	wk_error error = {0};
	check_ok(wk_open(directory, &options, &ns, &error), &error, "the directory opens");
	log_ = log_named(ns, "log");
	writer = writer_of(log_);
}

static wk_status put(size_t size, wk_error *error) {
	static uint8_t bytes[LARGEST];
	wk_position at;
	wk_status status = wk_writer_append(writer, bytes, size, NULL, &at, error);
	if (status != WK_OK)
		return status;
	pthread_mutex_lock(&lock);
	promised = at.sequence_id + 1 > promised ? at.sequence_id + 1 : promised;
	pthread_mutex_unlock(&lock);
	return WK_OK;
}

/* Appends until it is refused. */
static void *append_until_full(void *context) {
	uint64_t seed = (uint64_t)(uintptr_t)context;
	wk_error error = {0};
	wk_status status;
	do
		status = put(check_random(&seed) % largest, &error);
	while (status == WK_OK);
	if (status != WK_NO_SPACE)
		check_ok(status, &error, "the append");
	CHECK(!error.outcome_unknown);
	return NULL;
}

static void fill_up(uint64_t seed) {
	pthread_t threads[THREADS];
	for (uint64_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, append_until_full, (void *)(uintptr_t)(seed * THREADS + i)), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	wk_stats stats;
	wk_namespace_stats(ns, &stats);
	CHECK(!stats.failed);
}

static wk_log_info describe(void) {
	wk_log_info info;
	wk_error error = {0};
	check_ok(wk_log_describe(log_, &info, &error), &error, "the log is described");
	return info;
}

static void everything_promised_is_there(void) {
	wk_log_info info = describe();
	wk_reader *reader = NULL;
	wk_batch *batch;
	wk_error error = {0};
	wk_status status;
	int64_t next = info.first.sequence_id;
	check_ok(wk_reader_open(log_, NULL, &reader, &error), &error, "the reader opens");
	while ((status = wk_reader_next(reader, 100, 1 << 20, 0, &batch, &error)) == WK_OK) {
		size_t count;
		const wk_record *records = wk_batch_records(batch, &count);
		for (size_t i = 0; i < count; i++)
			CHECK_EQ(records[i].at.sequence_id, next++);
		wk_batch_release(batch);
	}
	if (status != WK_END)
		check_ok(status, &error, "reading to the end");
	wk_reader_release(reader);
	CHECK(next >= promised);
}

static void appends_come_back(void) {
	wk_error error = {0};
	wk_status status = WK_NO_SPACE;
	for (int waited = 0; status == WK_NO_SPACE && waited < PATIENCE_MS; waited += 20) {
		status = put(100, &error);
		nap_ms(20);
	}
	check_ok(status, &error, "appends come back");
}

static void truncate_most(void) {
	wk_log_info info = describe();
	wk_position at;
	wk_error error = {0};
	check_ok(wk_log_find(log_, WK_FIND_SEQUENCE_ID, info.first.sequence_id + info.count * 7 / 8, NULL, &at, &error),
	         &error, "finding");
	check_ok(wk_cursor_set(log_, "cursor", 6, &at, &error), &error, "a cursor on a full disk");
	check_ok(wk_log_truncate(log_, &at.dlsn, true, &error), &error, "truncating on a full disk");
}

static void make_ballast(size_t size) {
	int fd = open(ballast, O_CREAT | O_WRONLY, 0600);
	CHECK(fd >= 0 && posix_fallocate(fd, 0, (off_t)size) == 0 && close(fd) == 0);
}

static void try_it(uint64_t file_size_min) {
	snprintf(directory, sizeof directory, "%s/wal", place);
	snprintf(ballast, sizeof ballast, "%s/ballast", place);
	promised = 0;
	largest = LARGEST;
	make_ballast(6 * 1024 * 1024);
	open_it(file_size_min);
	for (uint64_t round = 0; round < 4; round++) {
		fill_up(round);
		everything_promised_is_there();
		truncate_most();
		appends_come_back();
	}
	fill_up(9);
	CHECK_EQ(unlink(ballast), 0); /* somebody else makes room */
	appends_come_back();
	fill_up(10);
	close_all(ns, log_, writer);
	open_it(file_size_min); /* the disk is still full */
	everything_promised_is_there();
	truncate_most();
	appends_come_back();
	everything_promised_is_there();
	wk_error error = {0};
	check_ok(wk_log_delete(ns, "log", 3, &error), &error, "deleting");
	close_all(ns, log_, writer);
	unmount();
}

TEST(a_full_tmpfs_with_files_of_1_mib) {
	mount_tmpfs(24 * 1024);
	try_it(1024 * 1024);
}

TEST(a_full_ext4_with_files_of_1_mib) {
	mount_ext("ext4");
	try_it(1024 * 1024);
}

/* Nothing can be kept back there: each file is written before it is used. */
TEST(a_full_file_system_without_fallocate) {
	mount_ext("ext3");
	try_it(1024 * 1024);
}

TEST(a_full_ext4_with_files_of_64_kib) {
	mount_ext("ext4");
	try_it(64 * 1024);
}

TEST(a_full_ext4_with_files_of_4_mib) {
	mount_ext("ext4");
	try_it(4 * 1024 * 1024);
}

/* A page more each time, until some are left over: what the process stores to is there, or is not stored to. */
TEST(a_directory_is_made_on_the_last_pages_of_a_disk) {
	int opened = 0, refused = 0;
	for (int kib = 16; opened < 8; kib += 4) {
		wk_open_options options;
		wk_open_options_init(&options);
		options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
		wk_error error = {0};
		mount_tmpfs(kib);
		snprintf(directory, sizeof directory, "%s/wal", place);
		wk_status status = wk_open(directory, &options, &ns, &error);
		if (status != WK_NO_SPACE)
			check_ok(status, &error, "the directory opens");
		refused += status != WK_OK;
		opened += status == WK_OK;
		for (int again = 0; status == WK_OK && again < 2; again++) {
			check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the directory closes");
			if (again == 0)
				check_ok(wk_open(directory, &options, &ns, &error), &error, "the directory opens again");
		}
		unmount();
	}
	CHECK(refused > 0);
}

int main(void) {
	if (geteuid() != 0)
		SKIP("mounting needs root");
	atexit(unmount);
	RUN(a_full_tmpfs_with_files_of_1_mib);
	RUN(a_full_ext4_with_files_of_1_mib);
	RUN(a_full_ext4_with_files_of_4_mib);
	RUN(a_full_file_system_without_fallocate);
	RUN(a_full_ext4_with_files_of_64_kib);
	RUN(a_directory_is_made_on_the_last_pages_of_a_disk);
	return check_done();
}
