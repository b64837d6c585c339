/*
 * test_index_crashes.c: a power cut at every step of writing the index, and while files go behind it; and a disk that is
 * full or fails meanwhile.
 */
/* ctest labels: one-thread */
#include "sim/faulty.h"
#include "two_logs.h"
#include <errno.h>

/* ---- a power cut at every step ---- */

static void power_cuts_between(const directory *d, uint64_t from, uint64_t to) {
	CHECK(to > from);
	for (uint64_t at = from; at <= to; at++) {
		for (uint64_t seed = 1; seed <= 6; seed++) {
			wk_io *image;
			CHECK_EQ(wk_faulty_image(d->disk, at, seed, &image), 0);
			directory copy = on(d, image);
			open_it(&copy);
			CHECK(!engine_of(&copy)->index.wanted); /* what the superblock named was there, and whole */
			reads_everything(&copy);
			append(&copy, LOG);
			work(&copy);
			close_it(&copy);
			open_it(&copy);
			CHECK_EQ(report_of(&copy).footers_read, 0);
			reads_everything(&copy);
			close_it(&copy);
			destroy(&copy);
		}
	}
}

TEST(a_power_cut_while_an_index_is_written_leaves_one_that_can_be_used_or_none) {
	directory d = new_directory(13);
	fill_files(&d, 10);
	uint64_t from = wk_faulty_trace_length(d.disk);
	CHECK(write_index(&d)); /* the first */
	power_cuts_between(&d, from, wk_faulty_trace_length(d.disk));
	fill_files(&d, 5);
	truncate_to(&d, LOG, 6 * RECORDS_A_FILE);
	work(&d);
	from = wk_faulty_trace_length(d.disk);
	CHECK(write_index(&d)); /* in the place of another */
	power_cuts_between(&d, from, wk_faulty_trace_length(d.disk));
	kill_it(&d);
	from = wk_faulty_trace_length(d.disk);
	open_it(&d); /* sweeps what the kill left */
	power_cuts_between(&d, from, wk_faulty_trace_length(d.disk));
	close_it(&d);
	destroy(&d);
}

TEST(a_power_cut_while_files_are_moved_and_recycled_behind_the_index_loses_nothing) {
	directory d = new_directory(14);
	fill_files(&d, 12);
	CHECK(write_index(&d));
	truncate_to(&d, LOG, d.next[LOG] - 2);
	uint64_t from = wk_faulty_trace_length(d.disk);
	for (int i = 0; i < 4; i++) {
		work(&d);
		wk_faulty_advance(d.disk, 600000000);
	}
	uint64_t to = wk_faulty_trace_length(d.disk);
	CHECK(engine_of(&d)->counters.compacted_bytes > 0);
	CHECK(engine_of(&d)->counters.recycled_files > 0);
	CHECK(write_index(&d));
	power_cuts_between(&d, from, to);
	kill_it(&d);
	destroy(&d);
}

/* ---- a disk that fails ---- */

TEST(a_full_disk_is_no_reason_to_stop_and_the_index_is_written_later) {
	directory d = new_directory(15);
	fill_files(&d, 10);
	uint64_t mark = engine_of(&d)->index.mark;
	wk_faulty_fail(d.disk, WK_FAULT_WRITE, 0, ENOSPC, false);
	CHECK(!write_index(&d));
	wk_faulty_heal(d.disk);
	CHECK_EQ(engine_of(&d)->index.mark, mark);
	append(&d, LOG);
	CHECK(write_index(&d));
	CHECK(engine_of(&d)->index.mark > mark);
	close_it(&d);
	open_it(&d);
	CHECK_EQ(report_of(&d).footers_read, 0);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

TEST(a_failed_write_sync_or_rename_stops_the_journal) {
	static const uint32_t masks[] = {WK_FAULT_WRITE, WK_FAULT_SYNC, WK_FAULT_DIRECTORY, WK_FAULT_OPEN};
	for (size_t m = 0; m < sizeof masks / sizeof masks[0]; m++) {
		for (uint64_t call = 0; call < 2; call++) {
			directory d = new_directory(16 + m);
			fill_files(&d, 10);
			wk_faulty_fail(d.disk, masks[m], call, EIO, false);
			bool written = write_index(&d);
			wk_faulty_heal(d.disk);
			CHECK_EQ(written, !engine_of(&d)->failed);
			CHECK(masks[m] == WK_FAULT_OPEN || !written);
			if (!written) {
				wk_error error = {0};
				CHECK_EQ(wk_writer_append(d.writers[LOG], "x", 1, NULL, NULL, &error), WK_FAILED);
				CHECK(strstr(error.text, "writing the index") != NULL);
				reads_everything(&d);
			}
			wk_abandon(d.ns);
			let_go(&d);
			wk_faulty_crash(d.disk, m * 10 + call);
			open_it(&d);
			reads_everything(&d);
			close_it(&d);
			destroy(&d);
		}
	}
}

int main(void) {
	RUN(a_power_cut_while_an_index_is_written_leaves_one_that_can_be_used_or_none);
	RUN(a_power_cut_while_files_are_moved_and_recycled_behind_the_index_loses_nothing);
	RUN(a_full_disk_is_no_reason_to_stop_and_the_index_is_written_later);
	RUN(a_failed_write_sync_or_rename_stops_the_journal);
	return check_done();
}
