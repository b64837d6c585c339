/*
 * test_follower.c: another process reads a directory while this one writes it (storage rules 26 and 27).
 *
 *	test_follower [RECORDS]
 *
 * The writer appends, rolls through many small files and truncates behind the follower. The follower sees every record once, in order, and
 * none that the writer did not know durable.
 */
#include "check.h"
#include "walkeeper/log.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORDS_DEFAULT = 20000, PAYLOAD_MAX = 900, TRUNCATE_EVERY = 4000, KEPT = 8000 };

static char directory[64];

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
	options.file_size_max = 512 * 1024;
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
		if (i % 7 == 0)
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

TEST(sees_every_record_of_a_live_writer) {
	wk_namespace *ns = open_directory(false);
	wk_log *log = open_log(ns, true);
	write_records(log, 0, 100, 0, -1);
	int ends[2];
	CHECK_EQ(pipe(ends), 0);
	fflush(stdout);
	char self[256] = {0};
	CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
	pid_t child = fork();
	if (child == 0) {
		char records[24], said[12];
		snprintf(records, sizeof records, "%lld", (long long)records_wanted);
		snprintf(said, sizeof said, "%d", ends[1]);
		close(ends[0]);
		execl(self, self, "--follow", directory, records, said, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	write_records(log, 100, records_wanted, records_wanted, ends[0]);
	int64_t said;
	while (read(ends[0], &said, sizeof said) > 0)
		;
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(ends[0]);
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

int main(int argc, char **argv) {
	if (argc == 5 && strcmp(argv[1], "--follow") == 0) {
		check_test_name = "the follower";
		snprintf(directory, sizeof directory, "%s", argv[2]);
		follow(atoll(argv[3]), atoi(argv[4]));
	}
	records_wanted = argc > 1 ? atoll(argv[1]) : RECORDS_DEFAULT;
	char base[] = "follower-XXXXXX";
	CHECK(mkdtemp(base) != NULL);
	snprintf(directory, sizeof directory, "%s/wal", base);
	RUN(sees_every_record_of_a_live_writer);
	RUN(reads_a_directory_that_nobody_writes);
	char command[128];
	snprintf(command, sizeof command, "rm -rf %s", base);
	CHECK_EQ(system(command), 0);
	return check_done();
}
