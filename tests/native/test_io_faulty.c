/*
 * test_io_faulty.c: the simulated disk itself: each fault that it models, by name.
 *
 * "may" is checked over many seeds: the one image must come up, and so must the other.
 */
#include "one_file_disk.h"
#include "sim/faulty.h"
#include <time.h>

TEST(an_unsynced_write_may_survive_vanish_or_tear) {
	begin();
	write_new(1, 0);
	int survived = images_like("onoo"), vanished = images_like("oooo"), torn = images_like("o?oo");
	CHECK(survived > 0 && vanished > 0 && torn > 0);
	CHECK_EQ(survived + vanished + torn, SEEDS);
	end();
}

TEST(a_durable_write_survives_but_speaks_for_itself_only) {
	begin();
	write_new(0, 0);
	write_new(1, WK_IO_DSYNC);
	write_new(2, 0);
	int lost_both = 0, kept_both = 0, lost_the_first_only = 0;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		const char *seen = after_power_cut(wk_faulty_trace_length(disk), seed);
		CHECK_EQ(seen[1], 'n');
		lost_both += strcmp(seen, "onoo") == 0;
		kept_both += strcmp(seen, "nnno") == 0;
		lost_the_first_only += strcmp(seen, "onno") == 0;
	}
	CHECK(lost_both > 0 && kept_both > 0 && lost_the_first_only > 0);
	end();
}

TEST(without_fua_a_durable_write_flushes_what_completed_before) {
	begin();
	wk_faulty_set_flush_on_dsync(disk, true);
	write_new(0, 0);
	write_new(1, WK_IO_DSYNC);
	CHECK_EQ(images_like("nnoo"), SEEDS);
	end();
}

TEST(a_durable_write_is_never_undone_by_an_older_one) {
	begin();
	CHECK_EQ(ops->pwrite(io, file, new_block, 3 * BLOCK, 0, 0), 3 * BLOCK);
	CHECK_EQ(ops->pwrite(io, file, old_block, BLOCK, BLOCK, WK_IO_DSYNC), BLOCK);
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		CHECK_EQ(after_power_cut(wk_faulty_trace_length(disk), seed)[1], 'o');
	CHECK(images_like("nono") > 0 && images_like("oooo") > 0);
	end();
}

TEST(a_sync_covers_what_completed_before_it_was_called) {
	begin();
	wk_io_queue *queue;
	CHECK_EQ(ops->queue_new(io, 4, &queue), 0);
	write_new(0, 0);
	wk_io_request late = {
	    .operation = WK_IO_OP_WRITE, .file = file, .buffer = new_block, .size = BLOCK, .offset = BLOCK};
	wk_io_request sync = {.operation = WK_IO_OP_SYNC, .file = file, .tag = 1};
	CHECK_EQ(ops->queue_submit(io, queue, &late), 0); /* in flight when the sync is called */
	CHECK_EQ(ops->queue_submit(io, queue, &sync), 0);
	wait_for_one(queue);
	wait_for_one(queue);
	CHECK(images_like("nnoo") > 0 && images_like("nooo") > 0);
	CHECK_EQ(images_like("ooox") + images_like("oooo") + images_like("onoo"), 0);
	CHECK_EQ(ops->sync(io, file), 0);
	CHECK_EQ(images_like("nnoo"), SEEDS);
	ops->queue_free(io, queue);
	end();
}

TEST(a_torn_write_is_cut_at_sectors) {
	begin();
	write_new(0, 0);
	bool prefix = false, hole = false;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		int sectors_new = 0, changes = 0;
		if (after_power_cut(wk_faulty_trace_length(disk), seed)[0] != '?')
			continue;
		wk_io *image;
		CHECK_EQ(wk_faulty_image(disk, wk_faulty_trace_length(disk), seed, &image), 0);
		CHECK_EQ(wk_faulty_read_file(wk_faulty_of(image), "/d/file", found, BLOCK, 0), BLOCK);
		for (size_t at_byte = 0; at_byte < BLOCK; at_byte += SECTOR) {
			CHECK(all_are(found + at_byte, SECTOR, found[at_byte]));
			sectors_new += found[at_byte] == 'n';
			changes += at_byte > 0 && found[at_byte] != found[at_byte - 1];
		}
		CHECK(sectors_new > 0 && sectors_new < BLOCK / SECTOR);
		prefix = prefix || (found[0] == 'n' && changes == 1);
		hole = hole || changes > 2;
		image->operations->destroy(image);
	}
	CHECK(prefix && hole);
	end();
}

TEST(a_power_cut_during_a_durable_write_may_tear_it) {
	begin();
	uint64_t before = wk_faulty_trace_length(disk);
	write_new(0, WK_IO_DSYNC);
	bool torn = false, whole = false, none = false;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		char during = after_power_cut(before + 1, seed)[0];
		torn = torn || during == '?';
		whole = whole || during == 'n';
		none = none || during == 'o';
		CHECK_EQ(after_power_cut(before, seed)[0], 'o');
		CHECK_EQ(after_power_cut(before + 2, seed)[0], 'n');
	}
	CHECK(torn && whole && none);
	end();
}

TEST(a_write_in_flight_may_already_have_landed) {
	begin();
	wk_io_queue *queue;
	CHECK_EQ(ops->queue_new(io, 1, &queue), 0);
	wk_io_request write = {.operation = WK_IO_OP_WRITE, .file = file, .buffer = new_block, .size = BLOCK};
	write.flags = WK_IO_DSYNC;
	CHECK_EQ(ops->queue_submit(io, queue, &write), 0);
	CHECK(images_like("nooo") > 0 && images_like("oooo") > 0);
	CHECK_EQ(wait_for_one(queue).result, BLOCK);
	CHECK_EQ(images_like("nooo"), SEEDS);
	ops->queue_free(io, queue);
	end();
}

TEST(a_rename_may_be_lost_until_the_directory_is_synced) {
	begin();
	CHECK_EQ(ops->rename(io, "/d/file", "/d/renamed"), 0);
	CHECK_EQ(ops->sync(io, file), 0); /* of the file: says nothing about its name */
	bool kept = false, lost = false;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		const char *names = names_after_power_cut(seed);
		kept = kept || strcmp(names, "renamed ") == 0;
		lost = lost || strcmp(names, "file ") == 0;
		CHECK(strcmp(names, "renamed ") == 0 || strcmp(names, "file ") == 0);
	}
	CHECK(kept && lost);
	CHECK_EQ(ops->sync_directory(io, "/d"), 0);
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		CHECK_EQ(strcmp(names_after_power_cut(seed), "renamed "), 0);
	end();
}

TEST(of_changes_in_a_directory_a_prefix_survives) {
	begin();
	ops->close(io, create("a", 0));
	CHECK_EQ(ops->link(io, "/d/a", "/d/b"), 0);
	CHECK_EQ(ops->unlink(io, "/d/file"), 0);
	static const char *const legal[] = {"file ", "a file ", "a b file ", "a b "};
	int counts[4] = {0};
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		const char *names = names_after_power_cut(seed);
		int which = 0;
		while (which < 4 && strcmp(names, legal[which]) != 0)
			which++;
		CHECK(which < 4);
		counts[which]++;
	}
	CHECK(counts[0] && counts[1] && counts[2] && counts[3]);
	end();
}

TEST(a_rename_between_directories_is_never_half_done) {
	begin();
	CHECK_EQ(ops->make_directory(io, "/e"), 0);
	CHECK_EQ(ops->sync_directory(io, "/"), 0);
	CHECK_EQ(ops->link(io, "/d/file", "/d/linked"), 0);
	CHECK_EQ(ops->rename(io, "/d/file", "/e/file"), 0);
	CHECK_EQ(ops->sync_directory(io, "/e"), 0);
	for (uint64_t seed = 0; seed < SEEDS; seed++) /* the rename, and so what came before it in /d */
		CHECK_EQ(strcmp(names_after_power_cut(seed), "linked "), 0);
	end();
}

TEST(a_new_file_is_lost_with_its_unsynced_directory) {
	begin();
	CHECK_EQ(ops->make_directory(io, "/new"), 0);
	wk_file *inside;
	CHECK_EQ(ops->open(io, "/new/file", WK_IO_WRITE | WK_IO_CREATE, &inside), 0);
	CHECK_EQ(ops->sync_directory(io, "/new"), 0);
	bool lost = false, kept = false;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		wk_io *image;
		CHECK_EQ(wk_faulty_image(disk, wk_faulty_trace_length(disk), seed, &image), 0);
		int64_t size = wk_faulty_file_size(wk_faulty_of(image), "/new/file");
		lost = lost || size == -ENOENT;
		kept = kept || size == 0;
		image->operations->destroy(image);
	}
	CHECK(lost && kept);
	ops->close(io, inside);
	end();
}

TEST(the_third_write_fails_once) {
	begin();
	uint64_t calls = wk_faulty_calls(disk, WK_FAULT_WRITE);
	wk_faulty_fail(disk, WK_FAULT_WRITE, 2, EIO, false);
	write_new(0, 0);
	write_new(1, 0);
	CHECK_EQ(ops->sync(io, file), 0);
	CHECK_EQ(ops->pwrite(io, file, new_block, BLOCK, 2 * BLOCK, 0), -EIO);
	write_new(3, 0);
	CHECK_EQ(wk_faulty_calls(disk, WK_FAULT_WRITE), calls + 4);
	end();
}

TEST(from_the_second_call_on_everything_fails) {
	begin();
	wk_faulty_fail(disk, WK_FAULT_WRITE | WK_FAULT_SYNC | WK_FAULT_OPEN | WK_FAULT_READ, 1, EROFS, true);
	wk_file *other;
	CHECK_EQ(ops->pread(io, file, found, BLOCK, 0), BLOCK);
	CHECK_EQ(ops->pread(io, file, found, BLOCK, 0), -EROFS);
	CHECK_EQ(ops->pwrite(io, file, new_block, BLOCK, 0, 0), -EROFS);
	CHECK_EQ(ops->sync(io, file), -EROFS);
	CHECK_EQ(ops->open(io, "/d/file", WK_IO_READ, &other), -EROFS);
	CHECK_EQ(ops->allocate(io, file, 8 * BLOCK), 0);
	wk_faulty_heal(disk);
	CHECK_EQ(ops->sync(io, file), 0);
	end();
}

TEST(a_failed_write_lands_wholly_partly_or_not_at_all) {
	begin();
	bool whole = false, part = false, none = false;
	wk_faulty_fail(disk, WK_FAULT_WRITE, 0, EIO, true);
	for (int i = 0; i < 100; i++) {
		wk_faulty_heal(disk);
		CHECK_EQ(ops->pwrite(io, file, old_block, BLOCK, 0, 0), BLOCK);
		wk_faulty_fail(disk, WK_FAULT_WRITE, 0, EIO, true);
		CHECK_EQ(ops->pwrite(io, file, new_block, BLOCK, 0, WK_IO_DSYNC), -EIO);
		CHECK_EQ(ops->pread(io, file, found, BLOCK, 0), BLOCK);
		bool is_new = all_are(found, BLOCK, 'n'), is_old = all_are(found, BLOCK, 'o');
		whole = whole || is_new;
		none = none || is_old;
		part = part || (!is_new && !is_old);
	}
	CHECK(whole && part && none);
	end();
}

TEST(a_failed_sync_leaves_pages_clean_that_were_never_written) {
	bool lost = false, kept = false;
	for (uint64_t seed = 0; seed < 40; seed++) {
		begin();
		for (uint64_t i = 0; i < seed % 7; i++) { /* so that each round meets another chance */
			wk_faulty_fail(disk, WK_FAULT_SYNC, 0, EIO, false);
			CHECK_EQ(ops->sync(io, file), -EIO);
		}
		write_new(0, 0);
		wk_faulty_fail(disk, WK_FAULT_SYNC, 0, EIO, false);
		CHECK_EQ(ops->sync(io, file), -EIO);
		CHECK_EQ(ops->sync(io, file), 0); /* the second answer lies */
		CHECK_EQ(ops->pread(io, file, found, BLOCK, 0), BLOCK);
		CHECK(all_are(found, BLOCK, 'n')); /* and so does the cache */
		const char *seen = after_power_cut(wk_faulty_trace_length(disk), seed);
		lost = lost || seen[0] == 'o';
		kept = kept || seen[0] == 'n';
		end();
	}
	CHECK(lost && kept);
}

TEST(a_full_disk_refuses_what_is_new) {
	begin();
	wk_io_space space;
	wk_file *other;
	wk_faulty_set_capacity(disk, 6 * BLOCK);
	CHECK_EQ(ops->space(io, "/d", &space), 0);
	CHECK_EQ(space.free_bytes, 2 * BLOCK);
	CHECK_EQ(ops->allocate(io, file, 7 * BLOCK), -ENOSPC);
	CHECK_EQ(ops->allocate(io, file, 5 * BLOCK), 0);
	CHECK_EQ(ops->pwrite(io, file, new_block, 2 * BLOCK, 5 * BLOCK, 0), -ENOSPC);
	CHECK_EQ(wk_faulty_file_size(disk, "/d/file"), 5 * BLOCK); /* a direct write is refused whole */
	CHECK_EQ(ops->pwrite(io, file, new_block, BLOCK, 5 * BLOCK, 0), BLOCK);
	CHECK_EQ(ops->open(io, "/d/more", WK_IO_WRITE | WK_IO_CREATE, &other), -ENOSPC);
	write_new(0, WK_IO_DSYNC); /* in place: needs no room */
	CHECK_EQ(ops->truncate(io, file, BLOCK), 0);
	CHECK_EQ(ops->open(io, "/d/more", WK_IO_WRITE | WK_IO_CREATE, &other), 0);
	CHECK_EQ(ops->unlink(io, "/d/more"), 0);
	ops->close(io, other);
	end();
}

TEST(a_buffered_write_may_fill_the_disk_and_fail) {
	bool part = false, none = false;
	begin();
	wk_faulty_set_capacity(disk, 5 * BLOCK);
	for (int i = 0; i < 40; i++) {
		wk_file *buffered = create("more", 0);
		CHECK_EQ(ops->pwrite(io, buffered, new_block, 2 * BLOCK, 0, 0), -ENOSPC);
		int64_t size = wk_faulty_file_size(disk, "/d/more");
		CHECK(size == 0 || size == BLOCK);
		part = part || size == BLOCK;
		none = none || size == 0;
		ops->close(io, buffered);
		remove_all("more", NULL);
	}
	CHECK(part && none);
	end();
}

TEST(a_bit_rots) {
	begin();
	write_new(1, 0);
	CHECK_EQ(wk_faulty_flip(disk, "/d/file", 5, 0), 0);
	CHECK_EQ(wk_faulty_flip(disk, "/d/file", BLOCK + 5, 7), 0); /* below a pending write */
	CHECK_EQ(wk_faulty_flip(disk, "/d/file", 4 * BLOCK, 0), -EINVAL);
	CHECK_EQ(wk_faulty_flip(disk, "/d/file", 0, 8), -EINVAL);
	CHECK_EQ(wk_faulty_flip(disk, "/d/none", 0, 0), -ENOENT);
	CHECK_EQ(ops->pread(io, file, found, 2 * BLOCK, 0), 2 * BLOCK);
	CHECK_EQ(found[5], 'o' ^ 1);
	CHECK_EQ(found[BLOCK + 5], 'n' ^ 128);
	wk_faulty_crash(disk, 3);
	CHECK_EQ(wk_faulty_read_file(disk, "/d/file", found, 4 * BLOCK, 0), 4 * BLOCK);
	CHECK_EQ(found[5], 'o' ^ 1);
	CHECK_EQ(found[BLOCK + 5], 'n' ^ 128);
	found[5] = 'o';
	CHECK(all_are(found, BLOCK, 'o'));
	end();
}

TEST(one_write_lands_elsewhere) {
	begin();
	CHECK_EQ(wk_faulty_misdirect_next(disk, "/d/file", 2 * BLOCK), 0);
	write_new(0, WK_IO_DSYNC);
	CHECK_EQ(images_like("oono"), SEEDS);
	write_new(1, WK_IO_DSYNC); /* only the one */
	CHECK_EQ(images_like("onno"), SEEDS);
	end();
}

TEST(after_a_crash_handles_are_dead_and_locks_are_free) {
	begin();
	wk_file *again;
	wk_io_stat stat;
	wk_io_queue *queue;
	CHECK_EQ(ops->queue_new(io, 1, &queue), 0);
	CHECK_EQ(ops->lock(io, file, true), 0);
	wk_io_request write = {.operation = WK_IO_OP_WRITE, .file = file, .buffer = new_block, .size = BLOCK};
	CHECK_EQ(ops->queue_submit(io, queue, &write), 0);
	wk_faulty_crash(disk, 1);
	CHECK_EQ(wait_for_one(queue).result, -EBADF);
	CHECK_EQ(ops->pread(io, file, found, BLOCK, 0), -EBADF);
	CHECK_EQ(ops->pwrite(io, file, new_block, BLOCK, 0, 0), -EBADF);
	CHECK_EQ(ops->sync(io, file), -EBADF);
	CHECK_EQ(ops->stat(io, file, &stat), -EBADF);
	CHECK_EQ(ops->truncate(io, file, 0), -EBADF);
	CHECK_EQ(ops->lock(io, file, true), -EBADF);
	CHECK_EQ(ops->open(io, "/d/file", WK_IO_WRITE, &again), 0);
	CHECK_EQ(ops->lock(io, again, true), 0);
	CHECK_EQ(ops->pread(io, again, found, BLOCK, 0), BLOCK);
	ops->queue_free(io, queue);
	ops->close(io, again);
	end();
}

TEST(a_killed_process_leaves_its_writes_in_the_cache) {
	begin();
	write_new(0, 0);
	wk_faulty_kill(disk);
	CHECK_EQ(ops->pread(io, file, found, BLOCK, 0), -EBADF);
	ops->close(io, file);
	CHECK_EQ(ops->open(io, "/d/file", WK_IO_WRITE | WK_IO_DIRECT, &file), 0);
	CHECK_EQ(ops->pread(io, file, found, BLOCK, 0), BLOCK);
	CHECK(all_are(found, BLOCK, 'n'));
	CHECK(images_like("nooo") > 0 && images_like("oooo") > 0); /* but a power cut may still take them */
	CHECK_EQ(ops->sync(io, file), 0);
	CHECK_EQ(images_like("nooo"), SEEDS);
	end();
}

TEST(a_size_is_durable_with_the_bytes_that_need_it) {
	begin();
	CHECK_EQ(ops->truncate(io, file, BLOCK), 0);
	CHECK(images_like("o") > 0 && images_like("oooo") > 0);
	CHECK_EQ(ops->pwrite(io, file, new_block, BLOCK, BLOCK, WK_IO_DSYNC), BLOCK);
	CHECK_EQ(images_like("on"), SEEDS);
	end();
}

TEST(two_images_of_one_seed_are_identical_and_a_crash_is_an_image) {
	uint8_t one[4 * BLOCK], two[4 * BLOCK], crashed[4 * BLOCK];
	char one_names[256], two_names[256], crashed_names[256];
	int different = 0;
	for (uint64_t seed = 0; seed < 30; seed++) {
		wk_io *image;
		begin();
		scribble(seed);
		uint64_t now = wk_faulty_trace_length(disk);
		CHECK_EQ(wk_faulty_image(disk, now, seed, &image), 0);
		fingerprint(image, one, one_names);
		image->operations->destroy(image);
		CHECK_EQ(wk_faulty_image(disk, now, seed + 1, &image), 0);
		fingerprint(image, two, two_names);
		different += memcmp(one, two, sizeof one) != 0;
		image->operations->destroy(image);
		wk_faulty_crash(disk, seed);
		fingerprint(io, crashed, crashed_names);
		CHECK_EQ(memcmp(one, crashed, sizeof one), 0);
		CHECK_EQ(strcmp(one_names, crashed_names), 0);
		/* And the trace goes on behind the crash. */
		CHECK_EQ(wk_faulty_image(disk, now + 1, 99, &image), 0);
		fingerprint(image, two, two_names);
		CHECK_EQ(memcmp(two, crashed, sizeof two), 0);
		CHECK_EQ(strcmp(two_names, crashed_names), 0);
		image->operations->destroy(image);
		end();
	}
	CHECK(different > 0);
}

TEST(an_image_is_a_disk_of_its_own) {
	wk_io *image, *second;
	wk_file *inside;
	begin();
	write_new(0, 0);
	CHECK_EQ(wk_faulty_image(disk, wk_faulty_trace_length(disk) + 1, 0, &image), -EINVAL);
	CHECK_EQ(wk_faulty_image(disk, 0, 0, &image), 0); /* before the first event */
	CHECK_EQ(wk_faulty_file_size(wk_faulty_of(image), "/d/file"), -ENOENT);
	image->operations->destroy(image);
	CHECK_EQ(wk_faulty_image(disk, wk_faulty_trace_length(disk), 0, &image), 0);
	CHECK_EQ(image->operations->open(image, "/d/file", WK_IO_WRITE, &inside), 0);
	memset(found, 'i', BLOCK);
	CHECK_EQ(image->operations->pwrite(image, inside, found, BLOCK, 3 * BLOCK, WK_IO_DSYNC), BLOCK);
	CHECK_EQ(image->operations->sync_directory(image, "/d"), 0);
	CHECK_EQ(ops->pread(io, file, found, BLOCK, 3 * BLOCK), BLOCK);
	CHECK(all_are(found, BLOCK, 'o'));
	CHECK_EQ(wk_faulty_image(wk_faulty_of(image), wk_faulty_trace_length(wk_faulty_of(image)), 5, &second), 0);
	image->operations->close(image, inside);
	image->operations->destroy(image);
	CHECK_EQ(wk_faulty_read_file(wk_faulty_of(second), "/d/file", found, BLOCK, 3 * BLOCK), BLOCK);
	CHECK(all_are(found, BLOCK, 'i'));
	second->operations->destroy(second);
	end();
}

TEST(an_image_of_hundreds_of_writes_is_quick) {
	begin();
	CHECK_EQ(ops->allocate(io, file, 16 * BLOCK), 0);
	for (uint64_t i = 0; i < 300; i++)
		CHECK_EQ(ops->pwrite(io, file, new_block, BLOCK, i % 16 * BLOCK, i % 3 ? WK_IO_DSYNC : 0), BLOCK);
	struct timespec start, stop;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
	for (uint64_t seed = 0; seed < 100; seed++) {
		wk_io *image;
		CHECK_EQ(wk_faulty_image(disk, wk_faulty_trace_length(disk), seed, &image), 0);
		image->operations->destroy(image);
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &stop);
	double us = ((double)(stop.tv_sec - start.tv_sec) * 1e9 + (double)(stop.tv_nsec - start.tv_nsec)) / 1e3 / 100;
	printf("# an image of 300 writes takes %.0f us of CPU\n", us);
	CHECK(us < 20000); /* twenty times the aim: sanitizers and old machines pass, a quadratic rebuild does not */
	end();
}

TEST(completions_come_out_of_order_but_the_same_for_a_seed) {
	char orders[4][17];
	for (int run = 0; run < 4; run++) {
		CHECK_EQ(wk_faulty_new(run < 2 ? 7 : (uint64_t)run, &io), 0);
		wk_io_queue *queue;
		directory = "";
		file = create("file", 0);
		CHECK_EQ(ops->queue_new(io, 16, &queue), 0);
		for (unsigned i = 0; i < 16; i++) {
			wk_io_request sync = {.operation = WK_IO_OP_SYNC, .file = file, .tag = i};
			CHECK_EQ(ops->queue_submit(io, queue, &sync), 0);
		}
		for (int i = 0; i < 16; i++)
			orders[run][i] = (char)('a' + wait_for_one(queue).tag);
		orders[run][16] = 0;
		ops->queue_free(io, queue);
		ops->close(io, file);
		ops->destroy(io);
	}
	CHECK_EQ(strcmp(orders[0], orders[1]), 0);
	CHECK(strcmp(orders[0], orders[2]) != 0 && strcmp(orders[2], orders[3]) != 0);
	CHECK(strcmp(orders[0], "abcdefghijklmnop") != 0);
}

TEST(the_clock_moves_only_by_calls_and_by_order) {
	begin();
	uint64_t before = ops->now(io);
	CHECK_EQ(ops->now(io), before + 1000);
	wk_faulty_advance(disk, 5 * MS);
	CHECK_EQ(ops->now(io), before + 2000 + 5 * MS);
	end();
}

static void *move_the_clock(void *context) {
	(void)context;
	wk_faulty_advance(disk, 1000000ull * MS);
	return NULL;
}

TEST(a_wait_ends_when_the_clock_is_moved_past_its_deadline) {
	begin();
	pthread_t thread;
	wk_io_queue *queue;
	wk_io_completion done;
	CHECK_EQ(ops->queue_new(io, 1, &queue), 0);
	CHECK_EQ(pthread_create(&thread, NULL, move_the_clock, NULL), 0);
	/* Far less than the test's own time limit if it works, a thousand seconds if not. */
	for (uint64_t now = ops->now(io); now < 900000ull * MS; now = ops->now(io))
		CHECK_EQ(ops->queue_wait(io, queue, &done, 1, 900000ull * MS - now), 0);
	pthread_join(thread, NULL);
	ops->queue_free(io, queue);
	end();
}

struct writer {
	const char *path;
	uint8_t *bytes;
	int refused; /* CHECK is not for several threads */
};

static void *write_and_sync(void *context) {
	struct writer *writer = context;
	wk_file *mine;
	if (ops->open(io, writer->path, WK_IO_WRITE | WK_IO_CREATE | WK_IO_DIRECT, &mine) != 0) {
		writer->refused = 1;
		return NULL;
	}
	for (uint64_t i = 0; i < 100; i++) {
		uint32_t flags = i % 2 ? WK_IO_DSYNC : 0;
		writer->refused += ops->pwrite(io, mine, writer->bytes, BLOCK, i % 4 * BLOCK, flags) != BLOCK;
		writer->refused += ops->sync(io, mine) != 0;
	}
	ops->close(io, mine);
	return NULL;
}

TEST(threads_may_use_one_disk) {
	begin();
	pthread_t threads[3];
	struct writer writers[3] = {{"/d/x", new_block, 0}, {"/d/y", new_block, 0}, {"/d/z", new_block, 0}};
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, write_and_sync, &writers[i]), 0);
	for (uint64_t seed = 0; seed < 20; seed++)
		after_power_cut(wk_faulty_trace_length(disk), seed);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], NULL);
		CHECK_EQ(writers[i].refused, 0);
		CHECK_EQ(wk_faulty_file_size(disk, writers[i].path), 4 * BLOCK);
	}
	CHECK_EQ(images_like("oooo"), SEEDS);
	end();
}

int main(void) {
	wk_io *plain;
	CHECK_EQ(wk_faulty_new(42, &plain), 0);
	CHECK_EQ(plain->operations->make_directory(plain, "/c"), 0);
	conformance_run(plain, "/c");
	plain->operations->destroy(plain);
	RUN(an_unsynced_write_may_survive_vanish_or_tear);
	RUN(a_durable_write_survives_but_speaks_for_itself_only);
	RUN(without_fua_a_durable_write_flushes_what_completed_before);
	RUN(a_durable_write_is_never_undone_by_an_older_one);
	RUN(a_sync_covers_what_completed_before_it_was_called);
	RUN(a_torn_write_is_cut_at_sectors);
	RUN(a_power_cut_during_a_durable_write_may_tear_it);
	RUN(a_write_in_flight_may_already_have_landed);
	RUN(a_rename_may_be_lost_until_the_directory_is_synced);
	RUN(of_changes_in_a_directory_a_prefix_survives);
	RUN(a_rename_between_directories_is_never_half_done);
	RUN(a_new_file_is_lost_with_its_unsynced_directory);
	RUN(the_third_write_fails_once);
	RUN(from_the_second_call_on_everything_fails);
	RUN(a_failed_write_lands_wholly_partly_or_not_at_all);
	RUN(a_failed_sync_leaves_pages_clean_that_were_never_written);
	RUN(a_full_disk_refuses_what_is_new);
	RUN(a_buffered_write_may_fill_the_disk_and_fail);
	RUN(a_bit_rots);
	RUN(one_write_lands_elsewhere);
	RUN(after_a_crash_handles_are_dead_and_locks_are_free);
	RUN(a_killed_process_leaves_its_writes_in_the_cache);
	RUN(a_size_is_durable_with_the_bytes_that_need_it);
	RUN(two_images_of_one_seed_are_identical_and_a_crash_is_an_image);
	RUN(an_image_is_a_disk_of_its_own);
	RUN(an_image_of_hundreds_of_writes_is_quick);
	RUN(completions_come_out_of_order_but_the_same_for_a_seed);
	RUN(the_clock_moves_only_by_calls_and_by_order);
	RUN(a_wait_ends_when_the_clock_is_moved_past_its_deadline);
	RUN(threads_may_use_one_disk);
	return check_done();
}
