/*
 * Which submitted blocks are durable (storage rule 12): each rule of block_window.h, and random orders against a count
 * kept by hand.
 */
/* ctest labels: one-thread */
#include "check.h"
#include "core/block_window.h"

static wk_block_window window;

static void open_window(uint32_t in_flight_max) {
	CHECK_EQ(wk_block_window_init(&window, 1, in_flight_max), WK_OK);
}

static uint64_t submit(bool sync) {
	uint64_t sequence = 0;
	CHECK_EQ(wk_block_window_submit(&window, sync, &sequence), WK_OK);
	return sequence;
}

static wk_status submitting(bool sync) {
	uint64_t sequence = 77;
	wk_status status = wk_block_window_submit(&window, sync, &sequence);
	if (status != WK_OK)
		CHECK_EQ(sequence, 77);
	return status;
}

static void written(uint64_t sequence) {
	CHECK_EQ(wk_block_window_written(&window, sequence), WK_OK);
}

static void synced(void) {
	CHECK_EQ(wk_block_window_sync_begin(&window), WK_OK);
	CHECK_EQ(wk_block_window_sync_done(&window), WK_OK);
}

TEST(K_is_1_to_8_and_sequences_start_at_1) {
	CHECK_EQ(wk_block_window_init(&window, 1, 0), WK_INVALID);
	CHECK_EQ(wk_block_window_init(&window, 1, 9), WK_INVALID);
	CHECK_EQ(wk_block_window_init(&window, 0, 2), WK_INVALID);
	CHECK_EQ(wk_block_window_init(&window, 100, 8), WK_OK);
	CHECK_EQ(window.durable_through, 99);
	CHECK_EQ(submit(true), 100);
}

TEST(a_block_written_with_sync_is_durable_by_itself) {
	open_window(2);
	submit(true);
	CHECK_EQ(window.durable_through, 0);
	CHECK_EQ(window.in_flight, 1);
	written(1);
	CHECK_EQ(window.durable_through, 1);
	CHECK_EQ(window.in_flight, 0);
}

TEST(the_durable_point_never_passes_a_gap) {
	open_window(3);
	submit(true), submit(true), submit(true);
	written(3), written(2);
	CHECK_EQ(window.durable_through, 0);
	written(1);
	CHECK_EQ(window.durable_through, 3);
}

TEST(at_most_K_blocks_are_not_known_durable) {
	for (uint32_t in_flight_max = 1; in_flight_max <= 8; in_flight_max++) {
		open_window(in_flight_max);
		for (uint32_t i = 0; i < in_flight_max; i++)
			submit(true);
		CHECK_EQ(submitting(true), WK_FULL);
		for (uint64_t last = in_flight_max; last > 1; last--)
			written(last); /* all but the first: none is known durable */
		CHECK_EQ(submitting(true), WK_FULL);
		written(1);
		CHECK_EQ(submit(true), in_flight_max + 1);
	}
}

TEST(a_block_written_without_sync_waits_for_one) {
	open_window(2);
	submit(false);
	CHECK(!wk_block_window_wants_sync(&window));
	written(1);
	CHECK_EQ(window.durable_through, 0);
	CHECK(wk_block_window_wants_sync(&window));
	CHECK_EQ(wk_block_window_sync_begin(&window), WK_OK);
	CHECK(!wk_block_window_wants_sync(&window));
	CHECK_EQ(window.durable_through, 0);
	CHECK_EQ(wk_block_window_sync_done(&window), WK_OK);
	CHECK_EQ(window.durable_through, 1);
}

TEST(a_sync_does_not_cover_a_write_that_completes_after_it_began) {
	open_window(2);
	submit(false), submit(false);
	written(1);
	CHECK_EQ(wk_block_window_sync_begin(&window), WK_OK);
	written(2);
	CHECK(wk_block_window_wants_sync(&window));
	CHECK_EQ(wk_block_window_sync_done(&window), WK_OK);
	CHECK_EQ(window.durable_through, 1);
	synced();
	CHECK_EQ(window.durable_through, 2);
}

TEST(a_write_with_sync_says_nothing_of_its_neighbours) {
	open_window(3);
	submit(false), submit(true), submit(false);
	written(1), written(2), written(3);
	CHECK_EQ(window.durable_through, 0); /* 2 is durable, behind a gap */
	synced();
	CHECK_EQ(window.durable_through, 3);
}

TEST(one_sync_at_a_time_and_none_for_nothing) {
	open_window(2);
	CHECK_EQ(wk_block_window_sync_begin(&window), WK_END);
	CHECK_EQ(wk_block_window_sync_done(&window), WK_INVALID);
	submit(true);
	CHECK_EQ(wk_block_window_sync_begin(&window), WK_END);
	submit(false);
	CHECK_EQ(wk_block_window_sync_begin(&window), WK_END); /* its write has not completed */
	written(2);
	CHECK_EQ(wk_block_window_sync_begin(&window), WK_OK);
	CHECK_EQ(wk_block_window_sync_begin(&window), WK_INVALID);
	CHECK_EQ(wk_block_window_sync_done(&window), WK_OK);
	CHECK_EQ(wk_block_window_sync_done(&window), WK_INVALID);
}

TEST(a_block_is_written_once) {
	open_window(3);
	CHECK_EQ(wk_block_window_written(&window, 1), WK_INVALID);
	submit(true), submit(true), submit(false);
	CHECK_EQ(wk_block_window_written(&window, 0), WK_INVALID);
	CHECK_EQ(wk_block_window_written(&window, 4), WK_INVALID);
	written(2);
	CHECK_EQ(wk_block_window_written(&window, 2), WK_INVALID); /* durable behind a gap */
	written(1);
	CHECK_EQ(wk_block_window_written(&window, 1), WK_INVALID);
	written(3);
	CHECK_EQ(wk_block_window_written(&window, 3), WK_INVALID); /* waits for its sync */
	CHECK_EQ(window.in_flight, 0);
}

TEST(after_a_failure_nothing_becomes_durable) {
	open_window(4);
	submit(true), submit(true), submit(false), submit(false);
	written(1), written(3);
	CHECK_EQ(wk_block_window_sync_begin(&window), WK_OK);
	wk_block_window_fail(&window);
	CHECK_EQ(submitting(true), WK_FAILED);
	written(2), written(4);
	CHECK_EQ(window.in_flight, 0); /* completions still count: close waits for them */
	CHECK_EQ(wk_block_window_sync_done(&window), WK_OK);
	CHECK_EQ(wk_block_window_sync_begin(&window), WK_FAILED);
	CHECK(!wk_block_window_wants_sync(&window));
	CHECK_EQ(window.durable_through, 1);
	CHECK_EQ(submitting(false), WK_FAILED);
}

/* What the device holds, kept apart from the window: a block is safe once a flush that began after its write is done.
 */
TEST(in_any_order_the_window_never_says_more_than_the_device_holds) {
	enum { BLOCKS = 400 };
	uint64_t seed = 20261121;
	for (uint32_t round = 0; round < 200; round++) {
		bool sync[BLOCKS + 1] = {false}, complete[BLOCKS + 1] = {false}, safe[BLOCKS + 1] = {false};
		bool covered[BLOCKS + 1] = {false};
		uint64_t last = 0;
		open_window(1 + (uint32_t)(check_random(&seed) % 8));
		while (window.durable_through < BLOCKS) {
			uint64_t choice = check_random(&seed) % 4;
			if (choice == 0 && last < BLOCKS) {
				bool with_sync = check_random(&seed) % 2 == 0;
				wk_status status = submitting(with_sync);
				CHECK_EQ(status, last - window.durable_through == window.in_flight_max ? WK_FULL : WK_OK);
				if (status == WK_OK)
					sync[++last] = with_sync;
			} else if (choice == 1 && last > 0) {
				uint64_t one = last - check_random(&seed) % (last < 8 ? last : 8);
				if (wk_block_window_written(&window, one) == WK_OK) {
					CHECK(!complete[one]);
					complete[one] = true;
					safe[one] = sync[one];
				} else {
					CHECK(complete[one]);
				}
			} else if (choice == 2 && wk_block_window_sync_begin(&window) == WK_OK) {
				memcpy(covered, complete, sizeof covered);
			} else if (choice == 3 && wk_block_window_sync_done(&window) == WK_OK) {
				for (uint64_t i = 1; i <= last; i++)
					safe[i] = safe[i] || covered[i];
			}
			uint64_t prefix = 0;
			while (prefix < last && safe[prefix + 1])
				prefix++;
			CHECK_EQ(window.durable_through, prefix);
		}
	}
}

int main(void) {
	RUN(K_is_1_to_8_and_sequences_start_at_1);
	RUN(a_block_written_with_sync_is_durable_by_itself);
	RUN(the_durable_point_never_passes_a_gap);
	RUN(at_most_K_blocks_are_not_known_durable);
	RUN(a_block_written_without_sync_waits_for_one);
	RUN(a_sync_does_not_cover_a_write_that_completes_after_it_began);
	RUN(a_write_with_sync_says_nothing_of_its_neighbours);
	RUN(one_sync_at_a_time_and_none_for_nothing);
	RUN(a_block_is_written_once);
	RUN(after_a_failure_nothing_becomes_durable);
	RUN(in_any_order_the_window_never_says_more_than_the_device_holds);
	return check_done();
}
