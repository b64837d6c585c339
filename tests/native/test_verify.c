/*
 * test_verify.c: wk_verify_directory: a whole directory is clean, and what was never acknowledged is no damage; progress
 * and pace.
 */
#include "verified_directory.h"
#include <time.h>

/* ---- whole ---- */

TEST(a_directory_closed_in_order_is_clean) {
	make();
	wk_verify_report report = verify(WK_OK);
	CHECK_EQ(report.damaged, 0);
	CHECK_EQ(report.torn_tail_bytes, 0);
	CHECK_EQ(report.first_damage[0], 0);
	CHECK_EQ(report.blocks, 4 * BLOCKS_A_FILE + count_blocks(active));
	CHECK(report.entries >= report.blocks - 5); /* confirm blocks have none */
	CHECK(report.files >= 6);                   /* the superblock, five with blocks, perhaps the next one */
	CHECK(report.bytes >= 5 * SMALL_FILE_SIZE);
	remove_tree(path);
}

TEST(what_is_not_there_is_said_to_be_so) {
	wk_verify_report report;
	wk_error error = {0};
	CHECK_EQ(wk_verify_directory("/tmp/walkeeper-no-such-directory", 0, NULL, NULL, &report, &error), WK_NOT_FOUND);
	CHECK(strstr(error.text, "does not exist") != NULL);
	path = temporary();
	CHECK_EQ(wk_verify_directory(path, 0, NULL, NULL, &report, &error), WK_NOT_FOUND);
	CHECK(strstr(error.text, "no superblock") != NULL);
	remove_tree(path);
}

/* ---- what is no damage ---- */

/* Where the last block of the active file stands. */
static size_t last_block(size_t *size_of_it) {
	size_t size, last = 0;
	uint8_t *bytes = read_file(below(path, active), &size);
	wk_block_header header;
	for (size_t at = 0; wk_block_decode(bytes + at, size - at, &header) == WK_OK; at += header.size) {
		last = at;
		*size_of_it = header.size;
	}
	free(bytes);
	return last;
}

TEST(a_torn_tail_is_no_damage) {
	make();
	size_t size = 0, at = last_block(&size);
	flip_bit(below(path, active), at + 90);
	wk_verify_report report = verify(WK_OK);
	CHECK_EQ(report.torn_tail_bytes, size);
	CHECK_EQ(report.damaged, 0);
	remove_tree(path);
}

TEST(an_unfinished_last_file_is_no_damage) {
	make();
	size_t size = 0, at = last_block(&size);
	CHECK_EQ(truncate(below(path, active), (off_t)(at + 512)), 0); /* a file that lost its end to a power cut */
	wk_verify_report report = verify(WK_OK);
	CHECK(report.torn_tail_bytes > 0);
	remove_tree(path);
}

TEST(the_bytes_of_prepared_files_do_not_matter) {
	make();
	size_t size;
	uint8_t *bytes = read_file(below(path, sealed), &size);
	write_file(below(path, "journal/prepared-0000000000000077.wkp"), bytes, size); /* as recycling leaves it */
	write_file(below(path, "journal/0000000000000200.wkj"), bytes, size); /* and named, before its first block */
	free(bytes);
	CHECK_EQ(verify(WK_OK).torn_tail_bytes, 0);
	remove_tree(path);
}

TEST(files_between_that_were_recycled_are_no_damage_and_others_are_missed) {
	make();
	CHECK_EQ(unlink(below(path, files[2])), 0);
	CHECK(strstr(verify(WK_DAMAGED).first_damage, "a file is missing") != NULL);
	remove_tree(path);
	make();
	wk_namespace *ns = open_small(path);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	wk_position next;
	wk_writer_next(writer, &next);
	CHECK_EQ(wk_log_truncate(log, &next.dlsn, false, NULL), WK_OK);
	close_all(ns, log, writer);
	verify(WK_OK);
	CHECK(access(below(path, files[2]), F_OK) != 0 || unlink(below(path, files[2])) == 0);
	verify(WK_OK);
	remove_tree(path);
}

/* ---- pace ---- */

typedef struct progress {
	uint64_t calls, done, total;
	uint64_t stop_after; /* calls; 0: never */
} progress;

static bool note(void *context, uint64_t done, uint64_t total) {
	progress *p = context;
	CHECK(done >= p->done && done <= total);
	p->calls++;
	p->done = done;
	p->total = total;
	return p->stop_after == 0 || p->calls < p->stop_after;
}

TEST(progress_grows_up_to_the_total) {
	make();
	progress p = {0};
	wk_verify_report report;
	CHECK_EQ(wk_verify_directory(path, 0, note, &p, &report, NULL), WK_OK);
	CHECK(p.calls > 5);
	CHECK(p.total >= 5 * SMALL_FILE_SIZE);
	CHECK_EQ(p.done, p.total);
	p = (progress){.stop_after = 3};
	CHECK_EQ(wk_verify_directory(path, 0, note, &p, &report, NULL), WK_INTERRUPTED);
	CHECK_EQ(p.calls, 3);
	remove_tree(path);
}

static double seconds(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

TEST(a_rate_is_kept) {
	make();
	wk_verify_report report;
	double begin = seconds();
	CHECK_EQ(wk_verify_directory(path, 1000000, NULL, NULL, &report, NULL), WK_OK);
	CHECK(seconds() - begin >= (double)report.bytes / 1e6 * 0.9);
	remove_tree(path);
}

static bool until_half_a_second_is_over(void *context, uint64_t done, uint64_t total) {
	(void)done;
	(void)total;
	return seconds() < *(double *)context + 0.5;
}

/* A signal that comes just before a sleep begins is noticed behind it, and not when the pace allows the next read. */
TEST(a_slow_one_can_be_stopped_while_it_sleeps) {
	make();
	wk_verify_report report;
	double begin = seconds();
	CHECK_EQ(wk_verify_directory(path, 100, until_half_a_second_is_over, &begin, &report, NULL), WK_INTERRUPTED);
	CHECK(seconds() - begin < 10);
	remove_tree(path);
}

int main(void) {
	RUN(a_directory_closed_in_order_is_clean);
	RUN(what_is_not_there_is_said_to_be_so);
	RUN(a_torn_tail_is_no_damage);
	RUN(an_unfinished_last_file_is_no_damage);
	RUN(the_bytes_of_prepared_files_do_not_matter);
	RUN(files_between_that_were_recycled_are_no_damage_and_others_are_missed);
	RUN(progress_grows_up_to_the_total);
	RUN(a_rate_is_kept);
	RUN(a_slow_one_can_be_stopped_while_it_sleeps);
	return check_done();
}
