/*
 * test_lost_lock.c: somebody removes or replaces files of a directory while a process writes it. No second process can
 * write beside it; where one can all the same, as everything was replaced, the first one is told before it acknowledges.
 *
 * Each writer has an io of its own, so that the two share nothing in this process: they are as two processes.
 */
#include "engine/directory/directory.h"
#include "engine/directory/handles.h"
#include "engine/engine.h"
#include "engine/follower/follower.h"
#include "engine/manual.h"
#include "sim/faulty.h"
#include "small_directory.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/file.h>

enum { BEFORE = 5, FILE_RECORDS = SMALL_FILE_SIZE / 4096 };

typedef struct process {
	wk_io *io;
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer;
} process;

static char place[64];
static char journal[100]; /* a directory for the journal alone; empty: there is none */
static bool is_manual;    /* nobody looks by himself whether the directory is still his */

static const struct wk_io_operations *plain;
static struct wk_io_operations hooked;
static process *writes_meanwhile;

static void append(process *p, int records);

/* Recovery is over: the second one is about to say on the page that it is there. */
static int open_and_let_it_write(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	size_t size = strlen(path);
	bool is_page = size > 7 && strcmp(path + size - 7, "/shared") == 0;
	if (is_page && (flags & WK_IO_WRITE) != 0 && writes_meanwhile != NULL) {
		append(writes_meanwhile, 1);
		writes_meanwhile = NULL;
	}
	return plain->open(io, path, flags, file);
}

static wk_status try_open(process *p, wk_error *error) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = is_manual ? WK_OPEN_MANUAL : 0;
	options.journal = journal[0] != 0 ? journal : NULL;
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.lock_timeout_ns = 1;
	*p = (process){0};
	*error = (wk_error){0};
	CHECK_EQ(wk_io_psync_new(&p->io), 0);
	if (writes_meanwhile != NULL) {
		plain = p->io->operations;
		hooked = *plain;
		hooked.open = open_and_let_it_write;
		p->io->operations = &hooked;
	}
	return wk_open_on(p->io, place, &options, &p->ns, error);
}

static process must_open(void) {
	process p;
	wk_error error;
	check_ok(try_open(&p, &error), &error, "the directory opens");
	p.log = log_named(p.ns, "log");
	p.writer = writer_of(p.log);
	return p;
}

static void must_not_open(const char *why) {
	process p;
	wk_error error;
	CHECK_EQ(try_open(&p, &error), WK_LOCKED);
	if (strstr(error.text, why) == NULL)
		printf("%s\n", error.text);
	CHECK(strstr(error.text, why) != NULL);
	p.io->operations->destroy(p.io);
}

static void must_close(process *p) {
	close_all(p->ns, p->log, p->writer);
	p->io->operations->destroy(p->io);
}

/* Of a journal that failed. */
static void close_in_vain(process *p) {
	wk_writer_close(p->writer, UINT64_MAX, NULL);
	wk_log_release(p->log);
	wk_close(p->ns, UINT64_MAX, NULL);
	p->io->operations->destroy(p->io);
}

static wk_status try_append(process *p, wk_error *error) {
	char payload[RECORD_SIZE];
	wk_position next, at;
	wk_append_options options;
	wk_append_options_init(&options);
	wk_writer_next(p->writer, &next);
	payload_of(next.sequence_id, payload);
	*error = (wk_error){0};
	return wk_writer_append(p->writer, payload, sizeof payload, &options, &at, error);
}

static void append(process *p, int records) {
	for (int i = 0; i < records; i++)
		append_one(p->writer);
}

/* Appends fail within so many, and go on to fail. How many did not. */
static int must_fail_within(process *p, int records, const char *why) {
	wk_error error = {0};
	int taken = 0;
	while (taken < records && try_append(p, &error) == WK_OK)
		taken++;
	CHECK(taken < records);
	CHECK_EQ(error.status, WK_FAILED);
	if (strstr(error.text, why) == NULL)
		printf("%s\n", error.text);
	CHECK(strstr(error.text, why) != NULL);
	CHECK(strstr(error.text, "is not this process's any more") != NULL);
	CHECK(strlen(error.text) < sizeof error.text - 1); /* it was not cut */
	CHECK_EQ(try_append(p, &error), WK_FAILED);
	return taken;
}

/* So many, and one more at most: that whose outcome nobody knew. */
static void holds_about(int records, int more) {
	process p = must_open();
	int64_t first, last;
	read_all(p.ns, &first, &last);
	CHECK_EQ(first, 0);
	CHECK(last >= records - 1 && last <= records - 1 + more);
	must_close(&p);
}

static void holds(int records) {
	holds_about(records, 0);
}

static void begin(void) {
	snprintf(place, sizeof place, "%s", temporary());
}

static void remove_file(const char *name) {
	CHECK_EQ(unlink(below(place, name)), 0);
}

/* The same bytes under the same name, in another file: as a restore or `rsync` leaves them. */
static void replace_file(const char *name) {
	static uint8_t bytes[1 << 16];
	int from = open(below(place, name), O_RDONLY);
	ssize_t size = read(from, bytes, sizeof bytes);
	CHECK(size > 0);
	close(from);
	remove_file(name);
	int to = open(below(place, name), O_WRONLY | O_CREAT | O_EXCL, 0666);
	CHECK_EQ(write(to, bytes, (size_t)size), size);
	close(to);
}

/* Another file is `lock` from now on, with this lock. */
static int take_another_lock(int way) {
	char made[128];
	snprintf(made, sizeof made, "%s", below(place, "made"));
	int file = open(made, O_RDWR | O_CREAT | O_EXCL, 0666);
	CHECK_EQ(flock(file, way | LOCK_NB), 0);
	CHECK_EQ(rename(made, below(place, "lock")), 0);
	return file;
}

/* ---- the file `lock` ---- */

TEST(without_the_file_lock_a_second_writer_is_refused_all_the_same) {
	begin();
	process first = must_open();
	append(&first, BEFORE);
	remove_file("lock");
	must_not_open("is open for writing in"); /* which process, only the file tells */
	append(&first, BEFORE);
	must_not_open("is open for writing in");
	must_close(&first);
	holds(2 * BEFORE);
	remove_tree(place);
}

TEST(a_file_lock_that_was_removed_is_made_anew) {
	begin();
	process first = must_open();
	remove_file("lock");
	append(&first, 2 * FILE_RECORDS);
	char holder[64];
	snprintf(holder, sizeof holder, "is open for writing in process %d:", (int)getpid());
	must_not_open(holder);
	int file = open(below(place, "lock"), O_RDWR);
	CHECK(flock(file, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK); /* for those that look at nothing else */
	close(file);
	must_close(&first);
	holds(2 * FILE_RECORDS);
	remove_tree(place);
}

TEST(a_writer_is_told_of_one_that_looks_at_the_file_lock_alone) {
	begin();
	process first = must_open();
	append(&first, BEFORE);
	int file = take_another_lock(LOCK_EX); /* as an earlier version would, where the file was removed */
	must_fail_within(&first, 2 * FILE_RECORDS, "its file `lock` was removed, and another process opened");
	close_in_vain(&first);
	close(file);
	remove_tree(place);
}

TEST(who_looks_at_the_lock_for_a_moment_stops_no_writer) {
	begin();
	process first = must_open();
	append(&first, BEFORE);
	int file = take_another_lock(LOCK_SH);
	append(&first, 2 * FILE_RECORDS);
	close(file);
	must_close(&first);
	holds(BEFORE + 2 * FILE_RECORDS);
	remove_tree(place);
}

/* Else it would sync what the writer has under way, and take that for durable. */
TEST(a_reader_knows_of_a_writer_without_the_file_lock) {
	begin();
	is_manual = true;
	process first = must_open();
	is_manual = false;
	append(&first, BEFORE);
	remove_file("lock");
	wk_open_options options;
	wk_open_options_init(&options);
	options.read_only = true;
	wk_namespace *ns = NULL;
	CHECK_EQ(wk_open(place, &options, &ns, NULL), WK_OK);
	CHECK(!wk_follower_is_alone(ns->engine));
	must_close(&first);
	CHECK(wk_follower_is_alone(ns->engine));
	close_all(ns, NULL, NULL);
	remove_tree(place);
}

/* ---- the superblock ---- */

TEST(a_writer_whose_superblock_was_removed_is_told_at_the_next_file) {
	begin();
	process first = must_open();
	append(&first, BEFORE);
	remove_file("superblock");
	must_fail_within(&first, 2 * FILE_RECORDS, "its file `superblock` was removed");
	close_in_vain(&first);
	remove_tree(place);
}

TEST(a_writer_whose_superblock_was_replaced_is_told_at_the_next_file) {
	begin();
	process first = must_open();
	append(&first, BEFORE);
	replace_file("superblock");
	must_not_open("is open for writing in process");
	int taken = must_fail_within(&first, 2 * FILE_RECORDS, "its file `superblock` was re");
	close_in_vain(&first);
	holds_about(BEFORE + taken, 1);
	remove_tree(place);
}

/* The second one says so on the page `shared`: the first acknowledges nothing more, not even in the file it has. */
TEST(of_two_writers_the_first_is_told_before_it_acknowledges) {
	begin();
	process first = must_open();
	append(&first, BEFORE);
	replace_file("superblock");
	replace_file("lock");
	process second = must_open();
	CHECK_EQ(must_fail_within(&first, 1, "its file `"), 0); /* either of the two */
	append(&second, BEFORE);
	must_close(&second);
	close_in_vain(&first);
	remove_tree(place);
}

TEST(what_is_acknowledged_while_a_second_writer_opens_is_not_written_over) {
	begin();
	is_manual = true;
	process first = must_open(), second;
	wk_error error;
	append(&first, BEFORE);
	replace_file("superblock");
	replace_file("lock");
	writes_meanwhile = &first;
	CHECK_EQ(try_open(&second, &error), WK_LOCKED);
	CHECK(strstr(error.text, "is written by another process: block ") != NULL);
	CHECK_EQ(error.holder_pid, -1);
	CHECK(writes_meanwhile == NULL);
	second.io->operations->destroy(second.io);
	must_fail_within(&first, 1, "its file `");
	close_in_vain(&first);
	is_manual = false;
	holds_about(BEFORE + 1, 1);
	remove_tree(place);
}

TEST(a_writer_is_told_when_it_closes) {
	begin();
	is_manual = true;
	process first = must_open();
	append(&first, BEFORE);
	replace_file("superblock");
	replace_file("lock");
	replace_file("shared");
	append(&first, 1);
	wk_error error = {0};
	wk_writer_close(first.writer, UINT64_MAX, NULL);
	wk_log_release(first.log);
	CHECK_EQ(wk_close(first.ns, UINT64_MAX, &error), WK_FAILED);
	CHECK(strstr(error.text, "its file `superblock` was replaced") != NULL);
	first.io->operations->destroy(first.io);
	is_manual = false;
	remove_tree(place);
}

/* Else it sleeps for ten seconds where nothing was appended for a while. */
TEST(the_first_block_behind_a_look_wakes_who_looks) {
	begin();
	is_manual = true;
	process first = must_open();
	append(&first, 1);
	wk_engine *engine = first.ns->engine;
	for (bool idle = false; !idle;)
		CHECK_EQ(wk_namespace_step(first.ns, &idle, NULL), WK_OK);
	CHECK_EQ(engine->looked_sequence, engine->durable);
	engine->keeper_due = false;
	append(&first, 1);
	CHECK(engine->keeper_due);
	must_close(&first);
	is_manual = false;
	remove_tree(place);
}

static pthread_t caller;
static wk_namespace *watched;
static _Atomic int pieces; /* of zeros, which the keeper writes */
static _Atomic bool goes_on, is_told_by_the_third;
static _Atomic uint64_t later_ns;

static uint64_t now_and_later(wk_io *io) {
	return plain->now(io) + later_ns;
}

static int64_t write_zeros_slowly(wk_io *io, wk_file *file, const void *buffer, size_t size, uint64_t offset,
                                  uint32_t flags) {
	bool zeros = size >= 64 * 1024 && memcmp(buffer, "WKJB", 4) != 0;
	if (zeros && !pthread_equal(pthread_self(), caller)) {
		is_told_by_the_third = is_told_by_the_third || (pieces == 2 && watched->engine->failed);
		pieces++;
		while (!goes_on)
			nap_ms(1);
	}
	return plain->pwrite(io, file, buffer, size, offset, flags);
}

/* It takes as long as the disk is slow and the file is large. */
TEST(who_prepares_a_file_looks_meanwhile) {
	begin();
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = 4 * 1024 * 1024;
	process first = {0};
	wk_error error = {0};
	CHECK_EQ(wk_io_psync_new(&first.io), 0);
	caller = pthread_self();
	plain = first.io->operations;
	hooked = *plain;
	hooked.now = now_and_later;
	hooked.pwrite = write_zeros_slowly;
	first.io->operations = &hooked;
	check_ok(wk_open_on(first.io, place, &options, &first.ns, &error), &error, "the directory opens");
	watched = first.ns;
	first.log = log_named(first.ns, "log");
	first.writer = writer_of(first.log);
	while (pieces < 1)
		nap_ms(1);
	append(&first, 1);
	replace_file("superblock");
	later_ns = 2000000000;
	goes_on = true;
	while (pieces < 3)
		nap_ms(1);
	close_in_vain(&first);
	CHECK(is_told_by_the_third);
	remove_tree(place);
}

TEST(a_writer_whose_directory_was_emptied_and_made_anew_is_told) {
	begin();
	process first = must_open();
	append(&first, BEFORE);
	char removed[100];
	snprintf(removed, sizeof removed, "%s-removed", place);
	CHECK_EQ(rename(place, removed), 0); /* what the first one makes meanwhile is made there */
	while (access(removed, F_OK) == 0)
		remove_tree(removed);
	CHECK_EQ(mkdir(place, 0777), 0);
	process second = must_open();
	append(&second, BEFORE);
	/* By its superblock; or by a journal file that it could not make, where that was gone before the superblock was. */
	wk_status status = WK_OK;
	wk_error error;
	for (int i = 0; i < 2 * FILE_RECORDS && status == WK_OK; i++)
		status = try_append(&first, &error);
	CHECK_EQ(status, WK_FAILED);
	close_in_vain(&first);
	append(&second, 2 * FILE_RECORDS);
	must_close(&second);
	holds(BEFORE + 2 * FILE_RECORDS);
	remove_tree(place);
}

TEST(a_writer_whose_journal_directory_was_taken_is_told) {
	begin();
	snprintf(journal, sizeof journal, "%s-journal", place);
	process first = must_open();
	append(&first, BEFORE);
	CHECK_EQ(unlink(below(journal, "owner")), 0);
	must_fail_within(&first, 2 * FILE_RECORDS, "the file `owner` of its journal directory was removed");
	close_in_vain(&first);
	remove_tree(journal);
	remove_tree(place);
	journal[0] = 0;
}

TEST(the_simulated_disk_keeps_a_second_writer_out_too) {
	wk_io *io;
	wk_error error = {0};
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = WK_OPEN_MANUAL;
	options.lock_timeout_ns = 1;
	CHECK_EQ(wk_faulty_new(1, &io), 0);
	wk_namespace *first = NULL, *second = NULL;
	check_ok(wk_open_on(io, "wal", &options, &first, &error), &error, "the directory opens");
	CHECK_EQ(io->operations->unlink(io, "wal/lock"), 0);
	CHECK_EQ(wk_open_on(io, "wal", &options, &second, &error), WK_LOCKED);
	CHECK_EQ(error.holder_pid, -1);
	wk_faulty_kill(wk_faulty_of(io));
	wk_abandon(first);
	check_ok(wk_open_on(io, "wal", &options, &second, &error), &error, "the directory opens behind a kill");
	check_ok(wk_close(second, UINT64_MAX, &error), &error, "the directory closes");
	io->operations->destroy(io);
}

/* A page that a copy by links has, too, is stored to by whoever writes the copy. */
TEST(a_page_of_another_directory_stops_no_writer) {
	begin();
	process first = must_open();
	append(&first, BEFORE);
	int page = open(below(place, "shared"), O_RDWR);
	uint64_t later = 1000;
	CHECK_EQ(pwrite(page, &later, sizeof later, 32), sizeof later);
	close(page);
	append(&first, 2 * FILE_RECORDS);
	must_close(&first);
	remove_tree(place);
}

int main(void) {
	RUN(without_the_file_lock_a_second_writer_is_refused_all_the_same);
	RUN(a_file_lock_that_was_removed_is_made_anew);
	RUN(a_writer_is_told_of_one_that_looks_at_the_file_lock_alone);
	RUN(who_looks_at_the_lock_for_a_moment_stops_no_writer);
	RUN(a_reader_knows_of_a_writer_without_the_file_lock);
	RUN(a_writer_whose_superblock_was_removed_is_told_at_the_next_file);
	RUN(a_writer_whose_superblock_was_replaced_is_told_at_the_next_file);
	RUN(of_two_writers_the_first_is_told_before_it_acknowledges);
	RUN(what_is_acknowledged_while_a_second_writer_opens_is_not_written_over);
	RUN(a_writer_is_told_when_it_closes);
	RUN(the_first_block_behind_a_look_wakes_who_looks);
	RUN(who_prepares_a_file_looks_meanwhile);
	RUN(a_writer_whose_directory_was_emptied_and_made_anew_is_told);
	RUN(a_writer_whose_journal_directory_was_taken_is_told);
	RUN(the_simulated_disk_keeps_a_second_writer_out_too);
	RUN(a_page_of_another_directory_stops_no_writer);
	return check_done();
}
