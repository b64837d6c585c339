/* test_index.c: the index file and LastLogMark: what an open reads of them, and an index that cannot be used. */
/* ctest labels: one-thread */
#include "sim/faulty.h"
#include "two_logs.h"
#include <errno.h>

static uint32_t sealed_files(const directory *d) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < engine_of(d)->files_count; i++)
		count += engine_of(d)->files[i]->state == WK_FILE_SEALED && engine_of(d)->files[i]->end_offset > 0;
	return count;
}

static const char *index_path(const directory *d) {
	static char path[64];
	snprintf(path, sizeof path, "wal/index/%016llx.wki", (unsigned long long)engine_of(d)->superblock.index_generation);
	return path;
}

/* ---- what is read ---- */

TEST(an_open_after_300_files_reads_no_footer_below_the_mark) {
	directory d = new_directory(1);
	fill_files(&d, 300);
	uint32_t sealed = sealed_files(&d);
	CHECK(sealed >= 290);
	close_it(&d);
	uint64_t reads = wk_faulty_calls(d.disk, WK_FAULT_READ);
	wk_namespace *ns = NULL;
	wk_open_options options = small_files();
	CHECK_EQ(wk_open_on(d.io, "wal", &options, &ns, NULL), WK_OK);
	reads = wk_faulty_calls(d.disk, WK_FAULT_READ) - reads;
	d.ns = ns;
	CHECK_EQ(report_of(&d).footers_read, 0);
	CHECK(report_of(&d).files_scanned <= 1);
	/* Superblock, index, the active file's pages, the catalogue (footer pages and entries): far from two a file. */
	CHECK(reads <= 40);
	wk_abandon(ns);
	wk_faulty_kill(d.disk);
	options.ignore_footers = true;
	reads = wk_faulty_calls(d.disk, WK_FAULT_READ);
	CHECK_EQ(wk_open_on(d.io, "wal", &options, &ns, NULL), WK_OK);
	CHECK(wk_faulty_calls(d.disk, WK_FAULT_READ) - reads >= sealed);
	wk_abandon(ns);
	wk_faulty_kill(d.disk);
	open_it(&d);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

TEST(an_open_after_a_kill_reads_only_the_footers_above_the_mark) {
	directory d = new_directory(2);
	fill_files(&d, 100);
	uint64_t mark = engine_of(&d)->index.mark;
	uint32_t above = 0;
	for (uint32_t i = 0; i < engine_of(&d)->files_count; i++)
		above += engine_of(&d)->files[i]->state == WK_FILE_SEALED && engine_of(&d)->files[i]->id >= mark;
	CHECK(mark > 60);
	CHECK(above > 0 && above <= 32);
	kill_it(&d);
	open_it(&d);
	CHECK(report_of(&d).footers_read <= above);
	CHECK(report_of(&d).footers_read + 2 >= above);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

TEST(the_mark_never_moves_back) {
	directory d = new_directory(3);
	uint64_t mark = 0, generation = 0;
	for (int i = 0; i < 6; i++) {
		fill_files(&d, 20);
		truncate_to(&d, LOG, d.next[LOG] - 5 * RECORDS_A_FILE);
		CHECK(engine_of(&d)->superblock.replay_epoch >= mark);
		CHECK(engine_of(&d)->superblock.index_generation >= generation);
		mark = engine_of(&d)->superblock.replay_epoch;
		generation = engine_of(&d)->superblock.index_generation;
		i % 2 == 0 ? close_it(&d) : kill_it(&d);
		open_it(&d);
		CHECK(engine_of(&d)->superblock.replay_epoch >= mark);
	}
	CHECK(mark > 0);
	close_it(&d);
	destroy(&d);
}

TEST(a_follower_uses_the_index) {
	directory d = new_directory(4);
	fill_files(&d, 60);
	close_it(&d);
	wk_open_options options = small_files();
	options.read_only = true;
	open_it_with(&d, &options);
	CHECK_EQ(report_of(&d).footers_read, 0);
	reads_everything(&d);
	close_it(&d);
	open_it(&d);
	append(&d, LOG);
	close_it(&d);
	destroy(&d);
}

/* ---- an index that cannot be used ---- */

static void falls_back_and_recovers(directory *d, uint32_t sealed) {
	open_it(d);
	CHECK(report_of(d).footers_read + 1 >= sealed);
	CHECK_EQ(engine_of(d)->index.mark, 0);
	reads_everything(d);
	fill_files(d, 2); /* the keeper has reason to write a new one */
	CHECK(engine_of(d)->index.mark > 0);
	close_it(d);
	open_it(d);
	CHECK_EQ(report_of(d).footers_read, 0);
	reads_everything(d);
}

TEST(a_damaged_index_is_not_believed_and_written_anew) {
	directory d = new_directory(5);
	fill_files(&d, 70);
	uint32_t sealed = sealed_files(&d);
	close_it(&d);
	open_it(&d);
	CHECK_EQ(report_of(&d).footers_read, 0);
	char path[64];
	strcpy(path, index_path(&d));
	close_it(&d);
	int64_t size = wk_faulty_file_size(d.disk, path);
	CHECK(size >= 4 * 4096);
	for (int64_t page = 0; page < size; page += 4096) {
		wk_io *image;
		CHECK_EQ(wk_faulty_image(d.disk, wk_faulty_trace_length(d.disk), 5, &image), 0);
		directory copy = on(&d, image);
		CHECK_EQ(wk_faulty_flip(copy.disk, path, (uint64_t)page + 50, 3), 0);
		falls_back_and_recovers(&copy, sealed);
		close_it(&copy);
		destroy(&copy);
	}
	destroy(&d);
}

TEST(without_the_index_file_footers_are_read) {
	directory d = new_directory(6);
	fill_files(&d, 40);
	uint32_t sealed = sealed_files(&d);
	char path[64];
	close_it(&d);
	open_it(&d);
	strcpy(path, index_path(&d));
	close_it(&d);
	CHECK_EQ(d.io->operations->unlink(d.io, path), 0);
	falls_back_and_recovers(&d, sealed);
	close_it(&d);
	destroy(&d);
}

TEST(an_index_that_cannot_be_read_is_no_reason_not_to_open) {
	directory d = new_directory(7);
	fill_files(&d, 40);
	close_it(&d);
	wk_faulty_fail(d.disk, WK_FAULT_READ, 2, EIO, false); /* behind lock page and superblock */
	open_it(&d);
	wk_faulty_heal(d.disk);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

TEST(an_open_that_ignores_footers_ignores_the_index_and_takes_it_out_of_the_superblock) {
	directory d = new_directory(8);
	fill_files(&d, 50);
	uint32_t sealed = sealed_files(&d);
	close_it(&d);
	wk_open_options options = small_files();
	options.ignore_footers = true;
	open_it_with(&d, &options);
	CHECK_EQ(report_of(&d).footers_read, 0);
	CHECK(report_of(&d).files_scanned >= sealed);
	CHECK_EQ(engine_of(&d)->superblock.index_generation, 0);
	reads_everything(&d);
	/* Dead ledgers and entries are left out of the footers that are written now: the old index would lead astray. */
	truncate_to(&d, LOG, d.next[LOG] / 2);
	kill_it(&d);
	open_it(&d);
	CHECK(report_of(&d).footers_read > 0);
	reads_everything(&d);
	fill_files(&d, 40);
	close_it(&d);
	open_it(&d);
	CHECK_EQ(report_of(&d).footers_read, 0);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

TEST(a_file_of_another_size_is_not_the_one_that_the_index_means) {
	directory d = new_directory(9);
	fill_files(&d, 40);
	close_it(&d);
	open_it(&d);
	engine_of(&d)->files[3]->footer.file_size += 4096;
	CHECK(write_index(&d));
	kill_it(&d);
	open_it(&d);
	CHECK_EQ(engine_of(&d)->index.mark, 0);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

int main(void) {
	RUN(an_open_after_300_files_reads_no_footer_below_the_mark);
	RUN(an_open_after_a_kill_reads_only_the_footers_above_the_mark);
	RUN(the_mark_never_moves_back);
	RUN(a_follower_uses_the_index);
	RUN(a_damaged_index_is_not_believed_and_written_anew);
	RUN(without_the_index_file_footers_are_read);
	RUN(an_index_that_cannot_be_read_is_no_reason_not_to_open);
	RUN(an_open_that_ignores_footers_ignores_the_index_and_takes_it_out_of_the_superblock);
	RUN(a_file_of_another_size_is_not_the_one_that_the_index_means);
	return check_done();
}
