/*
 * test_kills.c: a writer is killed with SIGKILL at random moments, again and again, on one directory.
 *
 *	test_kills [KILLS [SEED]]
 *
 * The writer is this program run again. Its threads append, each to a log of its own, records whose bytes follow from
 * log and sequence id: one by one, in batches, large and small, deferred; now and then they truncate. After each call
 * that returned a thread says so through a pipe. After each kill this process opens the directory and checks that
 *  - everything acknowledged is there, and so is everything that an earlier look has seen;
 *  - sequence ids are dense, and every record has its own bytes;
 *  - what was truncated stays truncated, and nothing after it is missing;
 *  - the number of journal files stays within a bound: what nobody needs is recycled or goes.
 *
 * Files are small, so that they are sealed and recycled; both backends take turns. A cycle in which the writer
 * acknowledged nothing is void, and at most half may be.
 */
#include "check.h"
#include "expected_records.h"
#include "walkeeper/log.h"
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAYLOAD_MAX = 96 * 1024, BATCH_MAX = 40, KILLS_DEFAULT = 25, DELAY_MAX_US = 30000, REPORTS_MAX = 400 };
enum { THREADS = 4, KEPT = 200, JOURNAL_FILES_MAX = 100 };

typedef struct report { /* what a thread of the writer says: everything below is durable, or truncated */
	uint64_t log;
	int64_t acknowledged;
	int64_t truncated;
} report;

static size_t size_of(size_t log, int64_t sequence_id) {
	uint64_t seed = ((uint64_t)sequence_id * 2 + 1) * THREADS + log;
	uint64_t kind = check_random(&seed) % 100, size = check_random(&seed);
	return (size_t)(kind < 70 ? size % 200 : kind < 98 ? size % 5000 : size % PAYLOAD_MAX);
}

static void fill(size_t log, int64_t sequence_id, uint8_t *payload) {
	uint64_t seed = (uint64_t)sequence_id * THREADS + log;
	check_random_bytes(&seed, payload, size_of(log, sequence_id));
}

static const uint8_t *payload_of_record(size_t log, int64_t sequence_id) {
	static uint8_t payload[PAYLOAD_MAX];
	fill(log, sequence_id, payload);
	return payload;
}

static wk_namespace *open_directory(const char *path, uint64_t cycle) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.backend = cycle % 2 == 0 ? WK_BACKEND_AUTO : WK_BACKEND_PSYNC;
	options.file_size_min = 64 * 1024;
	options.file_size_max = 512 * 1024;
	wk_namespace *ns = NULL;
	wk_error error;
	if (wk_open(path, &options, &ns, &error) != WK_OK) {
		printf("%s\n", error.text);
		check_failed(__FILE__, __LINE__, "the directory opens after a kill");
	}
	return ns;
}

static wk_log *open_log(wk_namespace *ns, size_t i) {
	char name[] = "kills-0";
	name[sizeof name - 2] = (char)('0' + i);
	wk_log *log = NULL;
	CHECK_EQ(wk_log_open(ns, name, strlen(name), true, NULL, &log, NULL), WK_OK);
	return log;
}

static void truncate_before(wk_log *log, int64_t sequence_id) {
	wk_position at;
	CHECK_EQ(wk_log_find(log, WK_FIND_SEQUENCE_ID, sequence_id, NULL, &at, NULL), WK_OK);
	CHECK_EQ(wk_log_truncate(log, &at.dlsn, false, NULL), WK_OK);
}

/* ---- the writer: appends until it is killed ---- */

static void say(const report *said) {
	if (write(STDOUT_FILENO, said, sizeof *said) != sizeof *said)
		_exit(0); /* whoever listened has gone */
}

typedef struct appender {
	pthread_t thread;
	wk_log *log;
	size_t number; /* of its log */
	uint64_t seed;
	uint8_t bytes[BATCH_MAX * PAYLOAD_MAX];
} appender;

static int64_t append_batch(appender *a, wk_writer *writer, int64_t next, size_t count,
                            const wk_append_options *options) {
	uint32_t sizes[BATCH_MAX];
	size_t size = 0;
	for (size_t i = 0; i < count; i++) {
		fill(a->number, next + (int64_t)i, a->bytes + size);
		sizes[i] = (uint32_t)size_of(a->number, next + (int64_t)i);
		size += sizes[i];
	}
	wk_position first, last;
	uint64_t ticket;
	CHECK_EQ(wk_writer_append_many(writer, a->bytes, sizes, count, NULL, options, true, &first, &last, &ticket, NULL),
	         WK_OK);
	CHECK_EQ(first.sequence_id, next);
	CHECK_EQ(last.sequence_id, next + (int64_t)count - 1);
	return last.sequence_id + 1;
}

static void truncate_some(appender *a, report *said) {
	int64_t before = said->acknowledged - (int64_t)(check_random(&a->seed) % 100);
	if (before <= said->truncated)
		return;
	wk_log_info info;
	CHECK_EQ(wk_log_describe(a->log, &info, NULL), WK_OK);
	if (before > info.first.sequence_id)
		truncate_before(a->log, before);
	said->truncated = before;
}

static void *append_for_ever(void *context) {
	appender *a = context;
	wk_writer *writer = NULL;
	CHECK_EQ(wk_writer_open(a->log, &writer, NULL), WK_OK);
	wk_position next;
	wk_writer_next(writer, &next);
	wk_append_options options;
	wk_append_options_init(&options);
	report said = {.log = a->number, .acknowledged = next.sequence_id};
	for (;;) {
		uint64_t what = check_random(&a->seed) % 100;
		if (what < 2 && said.acknowledged > 100) {
			truncate_some(a, &said);
		} else {
			options.durability = what < 20 ? WK_DEFERRED : WK_SYNC;
			size_t count = what < 60 ? 1 : (size_t)(1 + check_random(&a->seed) % BATCH_MAX);
			int64_t accepted = append_batch(a, writer, said.acknowledged, count, &options);
			if (options.durability == WK_DEFERRED) /* accepted is not acknowledged until the flush */
				CHECK_EQ(wk_writer_flush(writer, UINT64_MAX, NULL, NULL), WK_OK);
			said.acknowledged = accepted;
		}
		say(&said);
	}
	return NULL;
}

_Noreturn static void write_until_killed(const char *path, uint64_t cycle, uint64_t seed) {
	static appender appenders[THREADS];
	wk_namespace *ns = open_directory(path, cycle);
	for (size_t i = 0; i < THREADS; i++) {
		appender *a = &appenders[i];
		a->log = open_log(ns, i);
		a->number = i;
		a->seed = check_random(&seed);
		CHECK_EQ(pthread_create(&a->thread, NULL, append_for_ever, a), 0);
	}
	for (;;)
		pause();
}

/* ---- the one who kills, and checks ---- */

static pid_t start_writer(const char *self, const char *path, uint64_t cycle, uint64_t seed, int *reports) {
	int ends[2];
	CHECK_EQ(pipe(ends), 0);
	fflush(stdout);
	pid_t writer = fork();
	CHECK(writer >= 0);
	if (writer == 0) {
		char numbers[2][24];
		snprintf(numbers[0], sizeof numbers[0], "%llu", (unsigned long long)cycle);
		snprintf(numbers[1], sizeof numbers[1], "%llu", (unsigned long long)seed);
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		execl(self, self, "--write", path, numbers[0], numbers[1], (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	*reports = ends[0];
	return writer;
}

static bool hear(int reports, report known[THREADS]) {
	report heard;
	ssize_t size = read(reports, &heard, sizeof heard);
	if (size == 0)
		return false;
	if (size != sizeof heard) { /* not a report: the writer's complaint */
		fwrite(&heard, 1, size > 0 ? (size_t)size : 0, stdout);
		check_failed(__FILE__, __LINE__, "the writer goes on until it is killed");
	}
	CHECK(heard.log < THREADS);
	report *last = &known[heard.log];
	last->acknowledged = heard.acknowledged;
	if (heard.truncated > last->truncated)
		last->truncated = heard.truncated;
	return true;
}

/* Returns how many reports there were. */
static unsigned kill_at_random(pid_t writer, int reports, uint64_t *seed, report known[THREADS]) {
	unsigned heard = 0, until = (unsigned)(check_random(seed) % REPORTS_MAX);
	while (heard < until && hear(reports, known))
		heard++;
	struct timespec delay = {.tv_nsec = (long)(check_random(seed) % DELAY_MAX_US) * 1000};
	if (check_random(seed) % 2 == 0)
		nanosleep(&delay, NULL);
	CHECK_EQ(kill(writer, SIGKILL), 0);
	while (hear(reports, known))
		heard++;
	int status;
	CHECK_EQ(waitpid(writer, &status, 0), writer);
	if (WIFEXITED(status))
		printf("the writer ended with exit status %d\n", WEXITSTATUS(status));
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGKILL);
	close(reports);
	return heard;
}

static void check_log(wk_namespace *ns, size_t i, report *known) {
	const payload_rule rule = {i, size_of, payload_of_record};
	wk_log *log = open_log(ns, i);
	wk_log_info info;
	CHECK_EQ(wk_log_describe(log, &info, NULL), WK_OK);
	CHECK(info.next.sequence_id >= known->acknowledged);
	CHECK(info.first.sequence_id >= known->truncated);
	CHECK(info.first.sequence_id <= info.next.sequence_id);
	CHECK_EQ(info.count, info.next.sequence_id - info.first.sequence_id);
	check_records(log, &info, &rule);
	*known = (report){.acknowledged = info.next.sequence_id, .truncated = info.first.sequence_id};
	if (info.count > KEPT) {
		known->truncated = info.next.sequence_id - KEPT;
		truncate_before(log, known->truncated);
	}
	wk_log_release(log);
}

static unsigned journal_files(const char *path) {
	char folder[96];
	snprintf(folder, sizeof folder, "%s/journal", path);
	unsigned count = 0;
	DIR *directory = opendir(folder);
	CHECK(directory != NULL);
	for (const struct dirent *one; (one = readdir(directory)) != NULL;)
		count += strstr(one->d_name, ".wkj") != NULL;
	closedir(directory);
	return count;
}

static void nothing_acknowledged_is_lost(const char *path, uint64_t cycle, report known[THREADS]) {
	wk_namespace *ns = open_directory(path, cycle);
	for (size_t i = 0; i < THREADS; i++)
		check_log(ns, i, &known[i]);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
}

int main(int argc, char **argv) {
	if (argc == 5 && strcmp(argv[1], "--write") == 0)
		write_until_killed(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
	uint64_t kills = argc > 1 ? strtoull(argv[1], NULL, 10) : KILLS_DEFAULT;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : check_seed((uint64_t)time(NULL));
	printf("seed %llu\n", (unsigned long long)seed);
	char path[] = "kills-XXXXXX", directory[64], command[96];
	CHECK(mkdtemp(path) != NULL);
	snprintf(directory, sizeof directory, "%s/wal", path);

	check_test_name = "nothing_acknowledged_is_lost";
	report known[THREADS] = {0};
	uint64_t void_count = 0;
	unsigned files_max = 0;
	for (uint64_t cycle = 0; cycle < kills; cycle++) {
		int reports;
		pid_t writer = start_writer(argv[0], directory, cycle, check_random(&seed), &reports);
		void_count += kill_at_random(writer, reports, &seed, known) == 0;
		nothing_acknowledged_is_lost(directory, cycle + 1, known);
		unsigned files = journal_files(directory);
		files_max = files > files_max ? files : files_max;
		CHECK(files <= JOURNAL_FILES_MAX);
	}
	int64_t acknowledged = 0, truncated = 0;
	for (size_t i = 0; i < THREADS; i++) {
		acknowledged += known[i].acknowledged;
		truncated += known[i].truncated;
	}
	printf("%llu kills, %llu of them void; %d threads, %lld records acknowledged, %lld truncated; at most %u journal "
	       "files\n",
	       (unsigned long long)kills, (unsigned long long)void_count, THREADS, (long long)acknowledged,
	       (long long)truncated, files_max);
	CHECK(void_count * 2 <= kills);
	snprintf(command, sizeof command, "rm -r %s", path);
	CHECK_EQ(system(command), 0);
	check_tests_count++;
	return check_done();
}
