/*
 * test_follower.c: another process reads a directory while this one writes it (storage rules 26 and 27).
 *
 *	test_follower [RECORDS]
 *
 * The writer appends, rolls through many small files and truncates behind the follower. The follower sees every record
 * once, in order, and none that the writer did not know durable.
 *
 * Another writer does not care how far its follower is, and recycles thousands of files while that looks elsewhere. What
 * the follower asks for is there, or was truncated; it never sees damage, and neither its memory nor its descriptors grow.
 */
#include "check.h"
#include "engine/follower/shared_page.h"
#include "walkeeper/log.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	RECORDS_DEFAULT = 20000,
	PAYLOAD_MAX = 900,
	TRUNCATE_EVERY = 4000,
	KEPT = 8000,
	RECYCLED_WANTED = 3000,
	KEPT_IN_A_HURRY = 600,
	LONE_FILES_MAX = 1,                                           /* the superblock */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* they keep what was freed for a while */
	GROWTH_MAX_KIB = 512 * 1024,
#else
	GROWTH_MAX_KIB = 24 * 1024,
#endif
	DROSS_MAX = 128, /* files that a follower may remember besides twice those that are there */
};

static char directory[256];
static uint64_t largest_file = 512 * 1024;
static int64_t sync_every = 7;

static size_t size_of(int64_t sequence_id) {
	return (size_t)(8 + sequence_id * 131 % (PAYLOAD_MAX - 8));
}

static void fill(int64_t sequence_id, uint8_t *payload) {
	memset(payload, (int)(sequence_id % 251), size_of(sequence_id));
	memcpy(payload, &sequence_id, sizeof sequence_id);
}

static wk_namespace *open_directory(bool read_only) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.read_only = read_only;
	options.file_size_min = 64 * 1024;
	options.file_size_max = largest_file;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	if (wk_open(directory, &options, &ns, &error) != WK_OK) {
		printf("%s\n", error.text);
		check_failed(__FILE__, __LINE__, "the directory opens");
	}
	return ns;
}

static wk_log *open_log(wk_namespace *ns, bool create) {
	wk_log *log = NULL;
	CHECK_EQ(wk_log_open(ns, "followed", 8, create, NULL, &log, NULL), WK_OK);
	return log;
}

static void truncate_before(wk_log *log, int64_t sequence_id) {
	wk_position at;
	CHECK_EQ(wk_log_find(log, WK_FIND_SEQUENCE_ID, sequence_id, NULL, &at, NULL), WK_OK);
	CHECK_EQ(wk_log_truncate(log, &at.dlsn, false, NULL), WK_OK);
}

static void write_records(wk_log *log, int64_t from, int64_t to, int64_t records, int heard) {
	wk_writer *writer = NULL;
	CHECK_EQ(wk_writer_open(log, &writer, NULL), WK_OK);
	uint8_t payload[PAYLOAD_MAX];
	uint64_t ticket = 0;
	for (int64_t i = from; i < to; i++) {
		fill(i, payload);
		if (i % sync_every == 0)
			CHECK_EQ(wk_writer_append(writer, payload, size_of(i), NULL, NULL, NULL), WK_OK);
		else
			CHECK_EQ(wk_writer_submit(writer, payload, size_of(i), NULL, NULL, &ticket, NULL), WK_OK);
		if (i % TRUNCATE_EVERY == TRUNCATE_EVERY - 1 && i > KEPT && records > 0) {
			/* only behind the follower, who says how far it is */
			int64_t read_to = 0;
			while (read_to < i - KEPT)
				CHECK_EQ(read(heard, &read_to, sizeof read_to), (ssize_t)sizeof read_to);
			truncate_before(log, i - KEPT);
		}
	}
	CHECK_EQ(wk_writer_close(writer, UINT64_MAX, NULL), WK_OK);
}

_Noreturn static void follow(int64_t records, int said) {
	wk_namespace *ns = open_directory(true);
	wk_log *log = open_log(ns, false);
	wk_read_options options;
	wk_read_options_init(&options);
	options.follow = true;
	wk_reader *reader = NULL;
	CHECK_EQ(wk_reader_open(log, &options, &reader, NULL), WK_OK);
	uint8_t expected[PAYLOAD_MAX];
	int64_t next = 0;
	while (next < records) {
		wk_batch *batch;
		wk_error error = {0};
		wk_status status = wk_reader_next(reader, 500, 1 << 20, 20000000000u, &batch, &error);
		if (status != WK_OK) {
			printf("at %lld: %s\n", (long long)next, error.text);
			check_failed(__FILE__, __LINE__, "the follower goes on");
		}
		size_t count;
		const wk_record *found = wk_batch_records(batch, &count);
		for (size_t i = 0; i < count; i++, next++) {
			CHECK_EQ(found[i].at.sequence_id, next);
			CHECK_EQ(found[i].size, size_of(next));
			fill(next, expected);
			CHECK(memcmp(found[i].payload, expected, size_of(next)) == 0);
		}
		wk_batch_release(batch);
		if (write(said, &next, sizeof next) != sizeof next)
			break;
	}
	wk_reader_release(reader);
	wk_log_release(log);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	exit(0);
}

static int64_t records_wanted = RECORDS_DEFAULT;

/* ---- a writer that does not wait ---- */

static long resident_kib(void) {
	FILE *file = fopen("/proc/self/status", "r");
	CHECK(file != NULL);
	char line[256];
	long kib = 0;
	while (fgets(line, sizeof line, file) != NULL)
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	fclose(file);
	CHECK(kib > 0);
	return kib;
}

/* Descriptors of this process below the directory, and whether one is of a file that has another name now, or none. */
static int open_files(bool *let_go) {
	DIR *list = opendir("/proc/self/fd");
	CHECK(list != NULL);
	int count = 0;
	*let_go = false;
	for (struct dirent *each; (each = readdir(list)) != NULL;) {
		char path[300], target[300] = {0};
		snprintf(path, sizeof path, "/proc/self/fd/%s", each->d_name);
		if (readlink(path, target, sizeof target - 1) < 0 || strstr(target, "/wal/") == NULL)
			continue;
		count++;
		*let_go |= strstr(target, "(deleted)") != NULL || strstr(target, "prepared-") != NULL;
	}
	closedir(list);
	return count;
}

static uint64_t files_there(void) {
	uint64_t count = 0;
	static const char *const folders[] = {"journal", "entries"};
	for (int i = 0; i < 2; i++) {
		char path[300];
		snprintf(path, sizeof path, "%s/%s", directory, folders[i]);
		DIR *list = opendir(path);
		CHECK(list != NULL);
		while (readdir(list) != NULL)
			count++;
		closedir(list);
	}
	return count;
}

static void check_status(wk_status status, const wk_error *error, const char *what) {
	bool expected = status == WK_OK || status == WK_END || status == WK_TIMEOUT || status == WK_TRUNCATED;
	if (!expected)
		printf("%s: status %d: %s\n", what, (int)status, error->text);
	CHECK(expected);
}

/* Up to `most` records from *next on, dense and whole; a nap between batches lets the writer pass. */
static wk_status read_some(wk_reader *reader, int64_t *next, int64_t most, long nap) {
	uint8_t expected[PAYLOAD_MAX];
	wk_error error = {0};
	wk_status status = WK_OK;
	for (int64_t left = most; left > 0 && status == WK_OK;) {
		wk_batch *batch;
		status = wk_reader_next(reader, 1 + (size_t)left % 90, 1 << 20, 20000000, &batch, &error);
		check_status(status, &error, "reading");
		if (status != WK_OK)
			break;
		size_t count;
		const wk_record *records = wk_batch_records(batch, &count);
		for (size_t i = 0; i < count; i++, left--) {
			CHECK(*next < 0 || records[i].at.sequence_id == *next);
			*next = records[i].at.sequence_id + 1;
			CHECK_EQ(records[i].size, size_of(*next - 1));
			fill(*next - 1, expected);
			CHECK(memcmp(records[i].payload, expected, records[i].size) == 0);
		}
		wk_batch_release(batch);
		if (nap > 0)
			nap_ms(nap);
	}
	return status;
}

static void read_anywhere(wk_log *log, uint64_t *seed, uint64_t *truncated) {
	wk_log_info info;
	wk_error error = {0};
	wk_status status = wk_log_describe(log, &info, &error);
	check_status(status, &error, "describing");
	CHECK_EQ(status, WK_OK);
	nap_ms((long)(check_random(seed) % 3) * 7);
	wk_read_options options;
	wk_read_options_init(&options);
	int64_t next = info.first.sequence_id + (int64_t)(check_random(seed) % (uint64_t)(info.count + 1));
	wk_position at;
	status = wk_log_find(log, WK_FIND_SEQUENCE_ID, next, NULL, &at, &error);
	check_status(status, &error, "finding");
	CHECK(status != WK_OK || at.sequence_id == next);
	options.from = WK_FROM_SEQUENCE_ID;
	options.value = next;
	wk_reader *reader = NULL;
	if (status == WK_OK)
		status = wk_reader_open(log, &options, &reader, &error);
	check_status(status, &error, "opening a reader");
	if (reader != NULL) {
		status = read_some(reader, &next, 500, (long)(check_random(seed) % 4) * 5);
		wk_reader_release(reader);
	}
	*truncated += status == WK_TRUNCATED;
}

/* One open for the whole time. Ends when the other side of `go` is closed. */
_Noreturn static void be_overtaken(int go) {
	wk_namespace *ns = open_directory(true);
	wk_log *log = open_log(ns, false);
	uint64_t seed = 17, truncated = 0, rounds = 0, most_there = 0;
	wk_read_options options;
	wk_read_options_init(&options);
	options.follow = true;
	wk_reader *slow = NULL;
	int64_t slow_next = -1;
	long resident = 0, most = 0;
	CHECK_EQ(fcntl(go, F_SETFL, O_NONBLOCK), 0);
	char byte;
	while (read(go, &byte, 1) != 0) {
		read_anywhere(log, &seed, &truncated);
		if (slow == NULL)
			CHECK_EQ(wk_reader_open(log, &options, &slow, NULL), WK_OK);
		if (read_some(slow, &slow_next, 200, 0) == WK_TRUNCATED) {
			wk_reader_release(slow);
			slow = NULL;
			slow_next = -1;
			truncated++;
		}
		bool let_go;
		int files = open_files(&let_go);
		CHECK(files <= LONE_FILES_MAX);
		CHECK(!let_go);
		uint64_t there = files_there();
		most_there = there > most_there ? there : most_there;
		wk_stats stats;
		wk_namespace_stats(ns, &stats);
		CHECK(stats.journal_files + stats.entry_logs <= 2 * most_there + DROSS_MAX);
		long now = resident_kib();
		if (++rounds == 3)
			resident = now;
		most = now > most ? now : most;
	}
	printf("%llu rounds, truncated under the reader %llu times, %ld KiB, at most %ld KiB\n", (unsigned long long)rounds,
	       (unsigned long long)truncated, resident, most);
	CHECK(rounds > 3 && truncated > 0);
	CHECK(most <= resident + GROWTH_MAX_KIB);
	if (slow != NULL)
		wk_reader_release(slow);
	wk_log_release(log);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	exit(0);
}

static pid_t start_again(const char *role, int keep, int drop) {
	fflush(stdout);
	char self[256] = {0};
	CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
	pid_t child = fork();
	if (child == 0) {
		char records[24], end[12];
		snprintf(records, sizeof records, "%lld", (long long)records_wanted);
		snprintf(end, sizeof end, "%d", keep);
		close(drop);
		execl(self, self, role, directory, records, end, (char *)NULL);
		_exit(127);
	}
	close(keep);
	return child;
}

static void wait_for(pid_t child) {
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(sees_every_record_of_a_live_writer) {
	wk_namespace *ns = open_directory(false);
	wk_log *log = open_log(ns, true);
	write_records(log, 0, 100, 0, -1);
	int ends[2];
	CHECK_EQ(pipe(ends), 0);
	pid_t child = start_again("--follow", ends[1], ends[0]);
	write_records(log, 100, records_wanted, records_wanted, ends[0]);
	int64_t said;
	while (read(ends[0], &said, sizeof said) > 0)
		;
	wait_for(child);
	close(ends[0]);
	wk_log_release(log);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
}

TEST(is_overtaken_again_and_again_and_never_sees_damage) {
	largest_file = 64 * 1024;
	sync_every = 200;
	wk_namespace *ns = open_directory(false);
	wk_log *log = open_log(ns, true);
	write_records(log, 0, 1000, 0, -1);
	int ends[2];
	CHECK_EQ(pipe(ends), 0);
	pid_t child = start_again("--be-overtaken", ends[0], ends[1]);
	wk_stats stats;
	time_t begin = time(NULL);
	int64_t next = 1000;
	do {
		write_records(log, next, next + 400, 0, -1);
		next += 400;
		truncate_before(log, next - KEPT_IN_A_HURRY);
		nap_ms(next % 8000 == 0 ? 50 : 2);
		wk_namespace_stats(ns, &stats);
		CHECK_EQ(waitpid(child, NULL, WNOHANG), 0);
	} while (stats.recycled_files < RECYCLED_WANTED && time(NULL) - begin < 120);
	CHECK(stats.recycled_files >= RECYCLED_WANTED);
	close(ends[1]);
	wait_for(child);
	wk_log_release(log);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
}

/* In one process, as two engines: what handles mean while the view under them is replaced. */
TEST(handles_stay_what_they_are_when_the_directory_is_looked_at_anew) {
	wk_namespace *ns = open_directory(false), *other = NULL;
	wk_log *log = open_log(ns, true), *doomed = NULL, *kept, *gone;
	CHECK_EQ(wk_log_open(ns, "doomed", 6, true, NULL, &doomed, NULL), WK_OK);
	write_records(log, 0, 500, 0, -1);
	other = open_directory(true);
	kept = open_log(other, false);
	CHECK_EQ(wk_log_open(other, "doomed", 6, false, NULL, &gone, NULL), WK_OK);
	wk_reader *reader = NULL;
	CHECK_EQ(wk_reader_open(kept, NULL, &reader, NULL), WK_OK);
	int64_t read_to = -1;
	CHECK_EQ(read_some(reader, &read_to, 10, 0), WK_OK);
	CHECK_EQ(wk_log_delete(ns, "doomed", 6, NULL), WK_OK);
	CHECK_EQ(wk_log_rename(ns, "followed", 8, "renamed", 7, NULL), WK_OK);
	wk_stats stats;
	int64_t next = 500;
	do { /* until every file that the follower knows is another one */
		write_records(log, next, next + 400, 0, -1);
		next += 400;
		truncate_before(log, next - 100);
		wk_namespace_stats(ns, &stats);
	} while (stats.recycled_files < 40);
	wk_log_info info;
	wk_error error = {0};
	CHECK_EQ(wk_log_describe(gone, &info, &error), WK_DELETED);
	CHECK_EQ(wk_log_describe(kept, &info, &error), WK_OK);
	CHECK_EQ(info.next.sequence_id, next);
	CHECK_EQ(info.first.sequence_id, next - 100);
	wk_status status;
	while ((status = read_some(reader, &read_to, 10, 0)) == WK_OK)
		; /* what it had read ahead, at most */
	CHECK_EQ(status, WK_TRUNCATED);
	wk_log *again = NULL;
	CHECK_EQ(wk_log_open(other, "followed", 8, false, NULL, &again, NULL), WK_NOT_FOUND);
	CHECK_EQ(wk_log_open(other, "renamed", 7, false, NULL, &again, NULL), WK_OK);
	wk_log_release(again);
	wk_log_release(gone);
	CHECK_EQ(wk_log_rename(ns, "renamed", 7, "followed", 8, NULL), WK_OK);
	wk_reader_release(reader);
	wk_log_release(kept);
	CHECK_EQ(wk_close(other, UINT64_MAX, NULL), WK_OK);
	wk_log_release(doomed);
	wk_log_release(log);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
}

/* One that is never overtaken has seen every file there ever was, and forgets those that are gone all the same. */
TEST(forgets_the_files_that_are_gone_though_it_keeps_up) {
	largest_file = 64 * 1024;
	sync_every = 50;
	wk_namespace *ns = open_directory(false);
	wk_log *log = open_log(ns, true);
	write_records(log, 0, 100, 0, -1);
	wk_namespace *other = open_directory(true);
	wk_log *followed = open_log(other, false);
	uint64_t most_there = 0;
	wk_stats stats;
	int64_t next = 100;
	do { /* less than a file between two looks */
		write_records(log, next, next + 50, 0, -1);
		next += 50;
		if (next > 1000)
			truncate_before(log, next - 100);
		wk_log_info info;
		CHECK_EQ(wk_log_describe(followed, &info, NULL), WK_OK);
		CHECK_EQ(info.next.sequence_id, next);
		uint64_t there = files_there();
		most_there = there > most_there ? there : most_there;
		wk_namespace_stats(other, &stats);
		CHECK(stats.journal_files + stats.entry_logs <= 2 * most_there + DROSS_MAX);
		wk_namespace_stats(ns, &stats);
	} while (stats.recycled_files < 4 * DROSS_MAX);
	CHECK(2 * most_there + DROSS_MAX < stats.recycled_files); /* else the bound says nothing */
	wk_log_release(followed);
	CHECK_EQ(wk_close(other, UINT64_MAX, NULL), WK_OK);
	wk_log_release(log);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
}

/* The page says that block 10^6 is durable, and there is none: that stays so, and is damage. */
TEST(a_mismatch_that_stays_is_damage) {
	wk_namespace *ns = open_directory(false);
	wk_log *log = open_log(ns, true);
	write_records(log, 0, 100, 0, -1);
	wk_namespace *other = open_directory(true);
	wk_log *followed = open_log(other, false);
	wk_log_info info;
	CHECK_EQ(wk_log_describe(followed, &info, NULL), WK_OK);
	nap_ms(400); /* the confirm block is written, and nothing follows it */
	char path[300];
	snprintf(path, sizeof path, "%s/shared", directory);
	int fd = open(path, O_RDWR);
	CHECK(fd >= 0);
	wk_shared_page *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(page != MAP_FAILED);
	close(fd);
	uint64_t before = page->durable;
	__atomic_store_n(&page->durable, 1000000, __ATOMIC_RELEASE);
	wk_error error = {0};
	wk_status status = WK_OK;
	for (time_t begin = time(NULL); status == WK_OK && time(NULL) - begin < 20; nap_ms(50))
		status = wk_log_describe(followed, &info, &error);
	CHECK_EQ(page->durable, 1000000);
	CHECK_EQ(status, WK_DAMAGED);
	CHECK(strstr(error.text, "cannot be read") != NULL);
	__atomic_store_n(&page->durable, before, __ATOMIC_RELEASE);
	nap_ms(30);
	CHECK_EQ(wk_log_describe(followed, &info, &error), WK_OK);
	CHECK_EQ(info.next.sequence_id, 100);
	munmap(page, 4096);
	wk_log_release(followed);
	CHECK_EQ(wk_close(other, UINT64_MAX, NULL), WK_OK);
	wk_log_release(log);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
}

TEST(reads_a_directory_that_nobody_writes) {
	wk_namespace *ns = open_directory(true);
	wk_log *log = open_log(ns, false);
	wk_log_info info;
	CHECK_EQ(wk_log_describe(log, &info, NULL), WK_OK);
	CHECK_EQ(info.next.sequence_id, records_wanted);
	wk_writer *writer;
	CHECK_EQ(wk_writer_open(log, &writer, NULL), WK_READ_ONLY);
	wk_log_release(log);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
}

static char base[200];

static void new_directory(void) {
	const char *temporary = getenv("TMPDIR");
	snprintf(base, sizeof base, "%s/walkeeper-follower-XXXXXX", temporary != NULL ? temporary : "/tmp");
	CHECK(mkdtemp(base) != NULL);
	snprintf(directory, sizeof directory, "%s/wal", base);
}

static void clean_up(void) {
	char command[256];
	snprintf(command, sizeof command, "rm -rf '%s'", base);
	CHECK_EQ(system(command), 0);
}

int main(int argc, char **argv) {
	if (argc == 5 && argv[1][0] == '-') {
		check_test_name = "the follower";
		snprintf(directory, sizeof directory, "%s", argv[2]);
		records_wanted = atoll(argv[3]);
		if (strcmp(argv[1], "--follow") == 0)
			follow(records_wanted, atoi(argv[4]));
		largest_file = 64 * 1024;
		be_overtaken(atoi(argv[4]));
	}
	records_wanted = argc > 1 ? atoll(argv[1]) : RECORDS_DEFAULT;
	new_directory();
	RUN(sees_every_record_of_a_live_writer);
	RUN(reads_a_directory_that_nobody_writes);
	clean_up();
	new_directory();
	RUN(is_overtaken_again_and_again_and_never_sees_damage);
	clean_up();
	new_directory();
	RUN(forgets_the_files_that_are_gone_though_it_keeps_up);
	clean_up();
	new_directory();
	RUN(handles_stay_what_they_are_when_the_directory_is_looked_at_anew);
	clean_up();
	new_directory();
	RUN(a_mismatch_that_stays_is_damage);
	clean_up();
	return check_done();
}
