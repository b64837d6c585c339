/*
 * test_overlay.c: what is done to an overlay is seen through it as on a disk of its own, and the disk below stays as it
 * was. The model is the simulated disk.
 */
/* ctest labels: one-thread */
#include "check_status.h"
#include "io/io.h"
#include "sim/faulty.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 5, SIZE_MAX_BYTES = 40 * 1024, STEPS = 400, ROUNDS = 60 };

static const char *const paths[FILES] = {"d/a", "d/b", "d/c", "d/e", "d//f"};

typedef struct both {
	wk_io *disk, *overlay; /* the model, and what is tested */
	wk_file *files[2];     /* one open file of each, or NULL */
} both;

static uint8_t *page(void) {
	uint8_t *bytes = aligned_alloc(WK_IO_ALIGNMENT, SIZE_MAX_BYTES + WK_IO_ALIGNMENT);
	CHECK(bytes != NULL);
	return bytes;
}

/* A disk with some of the files. */
static wk_io *new_disk(uint64_t seed) {
	wk_io *io;
	uint8_t *bytes = page();
	CHECK_EQ(wk_faulty_new(1, &io), 0);
	CHECK_EQ(io->operations->make_directory(io, "d"), 0);
	for (size_t i = 0; i < FILES; i++) {
		wk_file *file;
		size_t size = check_random(&seed) % SIZE_MAX_BYTES;
		if (check_random(&seed) % 3 == 0)
			continue;
		check_random_bytes(&seed, bytes, size);
		CHECK_EQ(io->operations->open(io, paths[i], WK_IO_WRITE | WK_IO_CREATE, &file), 0);
		CHECK_EQ(io->operations->pwrite(io, file, bytes, size, 0, 0), (int64_t)size);
		io->operations->close(io, file);
	}
	free(bytes);
	return io;
}

typedef struct listed {
	unsigned names;
	bool twice;
} listed;

static bool list_name(void *context, const char *name) {
	listed *l = context;
	unsigned bit = 1u << (name[0] - 'a');
	l->twice |= (l->names & bit) != 0;
	l->names |= bit;
	return true;
}

static void check_file(both *b, wk_file *const files[2], uint64_t *seed) {
	wk_io *ios[2] = {b->disk, b->overlay};
	uint8_t *bytes[2] = {page(), page()};
	wk_io_stat stats[2];
	int64_t got[2];
	size_t size = check_random(seed) % SIZE_MAX_BYTES;
	uint64_t offset = check_random(seed) % SIZE_MAX_BYTES;
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(ios[i]->operations->stat(ios[i], files[i], &stats[i]), 0);
		got[i] = ios[i]->operations->pread(ios[i], files[i], bytes[i], size, offset);
	}
	CHECK_EQ(stats[0].size, stats[1].size);
	CHECK_EQ(got[0], got[1]);
	CHECK(got[0] >= 0 && memcmp(bytes[0], bytes[1], (size_t)got[0]) == 0);
	free(bytes[0]);
	free(bytes[1]);
}

static void check_same(both *b, uint64_t *seed) {
	wk_io *ios[2] = {b->disk, b->overlay};
	listed names[2] = {{0, false}, {0, false}};
	for (int i = 0; i < 2; i++)
		CHECK_EQ(ios[i]->operations->list(ios[i], i == 0 ? "d" : "d/", list_name, &names[i]), 0);
	CHECK_EQ(names[0].names, names[1].names);
	CHECK(!names[1].twice);
	if (b->files[0] != NULL)
		check_file(b, b->files, seed);
	for (size_t i = 0; i < FILES; i++) {
		wk_file *files[2];
		int results[2];
		for (int k = 0; k < 2; k++)
			results[k] = ios[k]->operations->open(ios[k], paths[i], WK_IO_READ, &files[k]);
		CHECK_EQ(results[0], results[1]);
		if (results[0] != 0)
			continue;
		check_file(b, files, seed);
		for (int k = 0; k < 2; k++)
			ios[k]->operations->close(ios[k], files[k]);
	}
}

/* The same call of both, by the seed; they answer the same. */
static void step(both *b, uint64_t *seed, const uint8_t *bytes) {
	wk_io *ios[2] = {b->disk, b->overlay};
	uint64_t what = check_random(seed) % 8, size = check_random(seed) % SIZE_MAX_BYTES;
	const char *path = paths[check_random(seed) % FILES], *other = paths[check_random(seed) % FILES];
	size_t part = check_random(seed) % 16 == 0 ? 0 : check_random(seed) % 9000;
	int64_t results[2] = {0, 0};
	for (int i = 0; i < 2; i++) {
		wk_io *io = ios[i];
		wk_file *file = b->files[i];
		const struct wk_io_operations *ops = io->operations;
		if (what < 2) {
			if (file != NULL)
				ops->close(io, file);
			b->files[i] = NULL;
			results[i] = ops->open(io, path, what == 0 ? WK_IO_WRITE : WK_IO_WRITE | WK_IO_CREATE, &b->files[i]);
		} else if (what == 2)
			results[i] = ops->rename(io, path, other);
		else if (what == 3)
			results[i] = part % 2 ? ops->link(io, path, other) : ops->unlink(io, path);
		else if (file != NULL && what == 4)
			results[i] = ops->truncate(io, file, size);
		else if (file != NULL && what == 5)
			results[i] = ops->allocate(io, file, size);
		else if (file != NULL)
			results[i] = ops->pwrite(io, file, part % 3 ? bytes : bytes + SIZE_MAX_BYTES, part, size, WK_IO_DSYNC);
	}
	CHECK_EQ(results[0], results[1]);
}

TEST(it_is_a_disk_of_its_own_and_leaves_the_one_below_as_it_was) {
	uint64_t seed = check_seed(0x0e51a7);
	printf("seed %llu\n", (unsigned long long)seed);
	uint8_t *bytes = calloc(2, SIZE_MAX_BYTES); /* the second half stays zero */
	CHECK(bytes != NULL);
	check_random_bytes(&seed, bytes, SIZE_MAX_BYTES);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t contents = check_random(&seed);
		wk_io *below = new_disk(contents), *same = new_disk(contents);
		both b = {.disk = new_disk(contents)};
		CHECK_EQ(wk_io_overlay_new(below, true, &b.overlay), 0);
		for (int i = 0; i < STEPS; i++) {
			step(&b, &seed, bytes);
			check_same(&b, &seed);
		}
		for (int i = 0; i < 2 && b.files[i] != NULL; i++)
			(i == 0 ? b.disk : b.overlay)->operations->close(i == 0 ? b.disk : b.overlay, b.files[i]);
		b.disk->operations->destroy(b.disk);
		both untouched = {same, below, {NULL, NULL}};
		check_same(&untouched, &seed);
		b.overlay->operations->destroy(b.overlay); /* and the one below, as it is its own */
		same->operations->destroy(same);
	}
	free(bytes);
}

TEST(zeros_over_what_is_below_are_zeros) {
	wk_io *below = new_disk(7), *overlay;
	wk_file *file;
	uint8_t *zeros = page(), *bytes = page();
	memset(zeros, 0, SIZE_MAX_BYTES);
	CHECK_EQ(wk_io_overlay_new(below, false, &overlay), 0);
	const struct wk_io_operations *ops = overlay->operations;
	int result = ops->open(overlay, paths[0], WK_IO_WRITE, &file);
	CHECK_EQ(result == -ENOENT ? ops->open(overlay, paths[0], WK_IO_WRITE | WK_IO_CREATE, &file) : result, 0);
	CHECK_EQ(ops->pwrite(overlay, file, zeros, SIZE_MAX_BYTES, 0, 0), SIZE_MAX_BYTES);
	CHECK_EQ(ops->pread(overlay, file, bytes, SIZE_MAX_BYTES, 0), SIZE_MAX_BYTES);
	CHECK(memcmp(bytes, zeros, SIZE_MAX_BYTES) == 0);
	ops->close(overlay, file);
	ops->destroy(overlay);
	below->operations->destroy(below);
	free(zeros);
	free(bytes);
}

TEST(who_holds_the_lock_below_is_told_of_and_nobody_is_kept_from_it) {
	wk_io *below, *overlay;
	wk_file *file, *own;
	CHECK_EQ(wk_faulty_new(1, &below), 0);
	CHECK_EQ(below->operations->open(below, "lock", WK_IO_WRITE | WK_IO_CREATE, &file), 0);
	CHECK_EQ(wk_io_overlay_new(below, false, &overlay), 0);
	CHECK_EQ(overlay->operations->open(overlay, "lock", WK_IO_WRITE, &own), 0);
	CHECK_EQ(overlay->operations->lock(overlay, own, true), 0);
	CHECK_EQ(below->operations->lock(below, file, true), 0);
	CHECK_EQ(overlay->operations->lock(overlay, own, true), -EWOULDBLOCK);
	overlay->operations->close(overlay, own);
	below->operations->close(below, file);
	overlay->operations->destroy(overlay);
	below->operations->destroy(below);
}

TEST(a_page_that_is_mapped_keeps_what_was_stored) {
	wk_io *below, *overlay;
	wk_file *file;
	void *first, *second;
	CHECK_EQ(wk_faulty_new(1, &below), 0);
	CHECK_EQ(below->operations->open(below, "page", WK_IO_WRITE | WK_IO_CREATE, &file), 0);
	CHECK_EQ(below->operations->pwrite(below, file, "below", 5, 0, 0), 5);
	below->operations->close(below, file);
	CHECK_EQ(wk_io_overlay_new(below, true, &overlay), 0);
	CHECK_EQ(overlay->operations->open(overlay, "page", WK_IO_WRITE, &file), 0);
	CHECK_EQ(overlay->operations->map_shared(overlay, file, 4096, true, &first), 0);
	CHECK(memcmp(first, "below\0", 6) == 0);
	memcpy(first, "above", 5);
	overlay->operations->unmap(overlay, first, 4096);
	CHECK_EQ(overlay->operations->map_shared(overlay, file, 4096, false, &second), 0);
	CHECK(memcmp(second, "above\0", 6) == 0);
	overlay->operations->unmap(overlay, second, 4096);
	overlay->operations->close(overlay, file);
	overlay->operations->destroy(overlay);
}

int main(void) {
	RUN(it_is_a_disk_of_its_own_and_leaves_the_one_below_as_it_was);
	RUN(zeros_over_what_is_below_are_zeros);
	RUN(who_holds_the_lock_below_is_told_of_and_nobody_is_kept_from_it);
	RUN(a_page_that_is_mapped_keeps_what_was_stored);
	return check_done();
}
