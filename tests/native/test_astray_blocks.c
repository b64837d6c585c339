/*
 * test_astray_blocks.c: a write went to another place of its file: over a block that is lost by that, while its own place
 * has it too. An open that accepts loss comes up all the same: what stands at the wrong place is nobody's, and its
 * entries, which stand in their own block as well, contradict nothing.
 */
/* ctest labels: one-thread */
#include "sim/faulty.h"
#include "small_wal.h"

static bool is_block(const file *f, uint64_t at, wk_block_header *header) {
	return strstr(f->path, ".wkj") != NULL && f->use[at] != UNUSED &&
	       wk_block_decode(f->bytes + at, f->size - at, header) == WK_OK && header->offset == at;
}

/* A copy of the disk on which the block at `from` was written at `to` as well. */
static wk_io *copy_with(const subject *s, const file *f, uint64_t from, uint64_t to, uint32_t size) {
	wk_io *io;
	wk_file *handle;
	CHECK_EQ(wk_faulty_image(s->w.disk, 0, 1, &io), 0);
	CHECK_EQ(io->operations->open(io, f->path, WK_IO_WRITE, &handle), 0);
	CHECK_EQ(io->operations->pwrite(io, handle, f->bytes + from, size, to, 0), (int64_t)size);
	io->operations->close(io, handle);
	return io;
}

static void accept(wk_io *io, uint32_t policy) {
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(open_checking(io, policy, true, &ns, &error), &error, "opening");
	int64_t found = count_records_of_all(ns);
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "closing");
	check_ok(open_flat(io, WK_ON_DAMAGE_STOP, &ns, &error), &error, "opening again");
	CHECK_EQ(count_records_of_all(ns), found);
	wk_abandon(ns);
	io->operations->destroy(io);
}

TEST(a_block_over_another_one_is_passed_over) {
	static subject s;
	make(&s, 31, false);
	unsigned tried = 0;
	for (size_t i = 0; i < s.files_count; i++) {
		const file *f = &s.files[i];
		for (uint64_t at = 0; at + WK_BLOCK_ALIGNMENT <= f->size; at += WK_BLOCK_ALIGNMENT) {
			wk_block_header here, next;
			if (!is_block(f, at, &here) || at + here.size >= f->size || !is_block(f, at + here.size, &next) ||
			    next.size > here.size)
				continue;
			for (uint32_t policy = WK_ON_DAMAGE_POINT_IN_TIME; policy <= WK_ON_DAMAGE_SKIP; policy++)
				accept(copy_with(&s, f, at + here.size, at, next.size), policy);
			tried++;
		}
	}
	printf("%u blocks written over\n", tried);
	CHECK(tried > 20);
	unmake(&s);
}

int main(void) {
	RUN(a_block_over_another_one_is_passed_over);
	return check_done();
}
