/* one_file_disk.h: a simulated disk with one file, and what power cuts leave of it. */
#ifndef ONE_FILE_DISK_H
#define ONE_FILE_DISK_H
#include "io_conformance.h"
#include "sim/faulty.h"

enum { SEEDS = 400, SECTOR = 512 };

static wk_faulty *disk;
static wk_file *file;
static uint8_t *old_block, *new_block, *found;

/* A disk with one durable file, "file", of four blocks of 'o'. */
static void begin(void) {
	CHECK_EQ(wk_faulty_new(1, &io), 0);
	ops = io->operations;
	disk = wk_faulty_of(io);
	directory = "/d";
	CHECK_EQ(ops->make_directory(io, "/d"), 0);
	CHECK_EQ(ops->sync_directory(io, "/"), 0);
	file = create("file", WK_IO_DIRECT);
	old_block = blocks(4, 'o');
	new_block = blocks(4, 'n');
	found = blocks(4, 0);
	CHECK_EQ(ops->pwrite(io, file, old_block, 4 * BLOCK, 0, WK_IO_DSYNC), 4 * BLOCK);
	CHECK_EQ(ops->sync_directory(io, "/d"), 0);
}

static void end(void) {
	ops->close(io, file);
	ops->destroy(io);
	free(old_block);
	free(new_block);
	free(found);
}

static void write_new(uint64_t block, uint32_t flags) {
	CHECK_EQ(ops->pwrite(io, file, new_block, BLOCK, block * BLOCK, flags), BLOCK);
}

/* 'o', 'n' or '?' for each block of "file" after a power cut behind event `when`, by the seed; "" where it is gone. */
static const char *after_power_cut(uint64_t when, uint64_t seed) {
	static char seen[5];
	wk_io *image;
	CHECK_EQ(wk_faulty_image(disk, when, seed, &image), 0);
	wk_faulty *left = wk_faulty_of(image);
	int64_t size = wk_faulty_file_size(left, "/d/file");
	memset(seen, 0, sizeof seen);
	for (int64_t block = 0; block < size / BLOCK && block < 4; block++) {
		CHECK_EQ(wk_faulty_read_file(left, "/d/file", found, BLOCK, (uint64_t)block * BLOCK), BLOCK);
		seen[block] = all_are(found, BLOCK, 'o') ? 'o' : all_are(found, BLOCK, 'n') ? 'n' : '?';
	}
	image->operations->destroy(image);
	return seen;
}

/* How many of SEEDS power cuts now leave the file like this. */
static int images_like(const char *expected) {
	int count = 0;
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		count += strcmp(after_power_cut(wk_faulty_trace_length(disk), seed), expected) == 0;
	return count;
}

/* The names in /d after a power cut now. */
static const char *names_after_power_cut(uint64_t seed) {
	static char names[256];
	wk_io *image;
	names[0] = 0;
	CHECK_EQ(wk_faulty_image(disk, wk_faulty_trace_length(disk), seed, &image), 0);
	CHECK_EQ(image->operations->list(image, "/d", add_name, names), 0);
	image->operations->destroy(image);
	return names;
}

/* A few writes, syncs and renames by a seed. */
static void scribble(uint64_t seed) {
	uint64_t random = seed;
	for (int i = 0; i < 60; i++) {
		uint64_t chance = check_random(&random);
		if (chance % 8 == 0) {
			CHECK_EQ(ops->sync(io, file), 0);
		} else if (chance % 8 == 1) {
			CHECK_EQ(ops->rename(io, "/d/file", "/d/file2"), 0);
			CHECK_EQ(ops->rename(io, "/d/file2", "/d/file"), 0);
		} else {
			memset(new_block, (int)(chance >> 32), BLOCK);
			write_new(chance / 8 % 4, chance % 8 == 2 ? WK_IO_DSYNC : 0);
		}
	}
}

static void fingerprint(wk_io *image, uint8_t bytes[4 * BLOCK], char names[256]) {
	wk_faulty *left = wk_faulty_of(image);
	memset(bytes, 0, 4 * BLOCK);
	names[0] = 0;
	CHECK_EQ(image->operations->list(image, "/d", add_name, names), 0);
	if (wk_faulty_read_file(left, "/d/file", bytes, 4 * BLOCK, 0) < 0)
		CHECK_EQ(wk_faulty_read_file(left, "/d/file2", bytes, 4 * BLOCK, 0), 4 * BLOCK);
}
#endif
