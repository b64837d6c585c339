/*
 * test_ledger_full_disk_outputs.c: what is kept back on a full disk for the mover's output and the next index is as large
 * as before where what was written into it did not get its name, and is not spent on what frees nothing.
 */
/* ctest labels: one-thread */
#include "engine/manual.h"
#include "ledger_store.h"
#include "sim/faulty.h"
#include <errno.h>

enum { FILE_SIZE = 256 * 1024, CAPACITY = 12 * FILE_SIZE, LARGE = 8000, PATIENCE = 400, ADDS_MAX = 1000 };
static uint64_t file_of[ADDS_MAX]; /* of a ledger's entry */
static const char OUTPUT[] = "store/entries/prepared-output.wkp", INDEX[] = "store/entries/prepared-index.wkp";

static struct wk_io_operations refusing;
static const struct wk_io_operations *plain;
static const char *refused_ending, *refused_path; /* of the name that finds no space, once; the file */

static int refusing_open(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	if ((flags & WK_IO_CREATE) == 0 || refused_path == NULL || strcmp(path, refused_path) != 0)
		return plain->open(io, path, flags, file);
	refused_path = NULL;
	return -ENOSPC;
}

static int refusing_rename(wk_io *io, const char *from, const char *to) {
	size_t size = strlen(to);
	if (refused_ending == NULL || strcmp(to + size - strlen(refused_ending), refused_ending) != 0)
		return plain->rename(io, from, to);
	refused_ending = NULL;
	return -ENOSPC;
}

static uint64_t used(wk_io *io) {
	wk_io_space space;
	CHECK_EQ(io->operations->space(io, ".", &space), 0);
	return space.total_bytes - space.free_bytes;
}

/* From here on nothing is free. */
static void take_what_is_left(wk_io *io) {
	wk_faulty_set_capacity(wk_faulty_of(io), used(io));
}

static void step(wk_namespace *ns, wk_io *io) {
	bool idle;
	wk_faulty_advance(wk_faulty_of(io), 50 * 1000 * 1000);
	CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
}

static wk_status add_one(wk_namespace *ns, int64_t ledger_id, size_t size) {
	static uint8_t bytes[LARGE];
	wk_store_be64(bytes, (uint64_t)ledger_id);
	wk_add add = an_add(bytes, size, 0);
	return wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL);
}

static wk_namespace *open_full(wk_io *io, wk_open_options *options, int64_t *count) {
	wk_status status = WK_OK;
	*options = store_options();
	options->file_size_min = options->file_size_max = FILE_SIZE;
	plain = io->operations;
	refusing = *plain;
	refusing.rename = refusing_rename;
	refusing.open = refusing_open;
	io->operations = &refusing;
	wk_namespace *ns = open_store_with(io, options);
	wk_faulty_set_capacity(wk_faulty_of(io), CAPACITY);
	for (*count = 0; status == WK_OK; *count += status == WK_OK) {
		status = add_one(ns, *count, *count % 30 == 0 ? 100 : LARGE);
		file_of[*count] = ns->engine->active->id;
		for (int i = 0; i < 20; i++)
			step(ns, io);
	}
	CHECK_EQ(status, WK_NO_SPACE);
	for (int i = 0; i < PATIENCE; i++)
		step(ns, io);
	return ns;
}

/* What stands in the file, but `kept` of it. */
static void delete_of(wk_namespace *ns, uint64_t file, int kept, int64_t count) {
	uint64_t ticket = 0;
	for (int64_t id = 0; id < count; id++)
		if (file_of[id] == file && is_known(ns, id) && kept-- <= 0)
			CHECK_EQ(wk_ledger_delete(ns, id, UINT64_MAX, &ticket, NULL), WK_OK);
	CHECK(ticket != 0);
	CHECK_EQ(wk_namespace_wait(ns, ticket, UINT64_MAX, NULL), WK_OK);
}

static void work_a_while(wk_namespace *ns, wk_io *io) {
	for (int i = 0; i < PATIENCE; i++)
		step(ns, io);
}

/* And somebody takes whatever is free behind each step. */
static void work_while_it_is_taken(wk_namespace *ns, wk_io *io) {
	for (int i = 0; i < PATIENCE; i++) {
		step(ns, io);
		take_what_is_left(io);
	}
}

static void finish(wk_namespace *ns, wk_io *io) {
	close_store(ns);
	io->operations = plain;
	io->operations->destroy(io);
}

static uint64_t of_output(const wk_engine *engine) {
	return engine->output_reserve;
}

static uint64_t of_index(const wk_engine *engine) {
	return engine->index.reserve;
}

/* The small ones are left, a few in each file; one rename on the way finds no space. */
static void is_as_large(const char *ending, const char *reserve, uint64_t (*known)(const wk_engine *)) {
	wk_io *io = new_disk(1);
	wk_open_options options;
	int64_t count;
	wk_namespace *ns = open_full(io, &options, &count);
	take_what_is_left(io);
	uint64_t before = known(ns->engine), ticket = 0;
	CHECK_EQ(wk_faulty_file_size(wk_faulty_of(io), reserve), before);
	CHECK(before > 0);
	refused_ending = ending;
	for (int64_t id = 0; id < count; id++)
		if (id % 30 != 0)
			CHECK_EQ(wk_ledger_delete(ns, id, UINT64_MAX, &ticket, NULL), WK_OK);
	CHECK_EQ(wk_namespace_wait(ns, ticket, UINT64_MAX, NULL), WK_OK);
	for (int i = 0; i < PATIENCE && refused_ending != NULL; i++)
		step(ns, io);
	CHECK(refused_ending == NULL);
	CHECK_EQ(known(ns->engine), before);
	CHECK_EQ(wk_faulty_file_size(wk_faulty_of(io), reserve), before);
	take_what_is_left(io);
	work_a_while(ns, io);
	CHECK_EQ(add_one(ns, count, LARGE), WK_OK);
	finish(ns, io);
}

TEST(an_output_that_did_not_get_its_name_leaves_the_reserve_as_large) {
	is_as_large(".wke", OUTPUT, of_output);
}

TEST(an_index_that_did_not_get_its_name_leaves_the_reserve_as_large) {
	is_as_large(".wki", INDEX, of_index);
}

/* The file before the active one stays until that has some blocks: a copy of what is live there gives nothing back. */
TEST(the_reserve_is_not_spent_on_a_file_that_must_stay) {
	wk_io *io = new_disk(1);
	wk_open_options options;
	int64_t count;
	wk_namespace *ns = open_full(io, &options, &count);
	for (int64_t id = 70; id <= 130; id += 30)
		delete_of(ns, file_of[id], 0, count);
	work_a_while(ns, io);
	uint64_t last = ns->engine->active->id;
	while (ns->engine->active->id == last) {
		CHECK_EQ(add_one(ns, count, LARGE), WK_OK);
		file_of[count++] = ns->engine->active->id;
	}
	take_what_is_left(io);
	work_a_while(ns, io);
	uint64_t before = of_output(ns->engine);
	CHECK(before > 0);
	delete_of(ns, last, 1, count);
	work_while_it_is_taken(ns, io);
	CHECK_EQ(of_output(ns->engine), before);
	delete_of(ns, file_of[200], 1, count);
	work_a_while(ns, io);
	CHECK_EQ(add_one(ns, count, LARGE), WK_OK);
	finish(ns, io);
}

/* What a pass gave back is the next one's, also where that has begun without. */
TEST(an_output_that_was_refused_once_is_kept_back_all_the_same) {
	wk_io *io = new_disk(1);
	wk_open_options options;
	int64_t count;
	wk_namespace *ns = open_full(io, &options, &count);
	for (int64_t id = 70; id <= 100; id += 30)
		delete_of(ns, file_of[id], 0, count);
	work_a_while(ns, io);
	CHECK(ns->engine->reserve_covers > 0);
	refused_path = OUTPUT;
	wk_faulty_set_capacity(wk_faulty_of(io), used(io) - 4096); /* no room for a file beside an output */
	for (int64_t id = 130; id <= 160; id += 30)                /* the reserve takes one */
		delete_of(ns, file_of[id], 3, count);
	work_a_while(ns, io);
	CHECK(refused_path == NULL);
	CHECK(of_output(ns->engine) > 0);
	finish(ns, io);
}

/* What is left of the disk is enough for a copy of some, and not of the first. */
TEST(without_a_reserve_a_file_is_emptied_for_which_there_is_room) {
	wk_io *io = new_disk(1);
	wk_open_options options;
	int64_t count;
	wk_namespace *ns = open_full(io, &options, &count);
	close_store(ns);
	CHECK_EQ(io->operations->unlink(io, OUTPUT), 0);
	wk_faulty_set_capacity(wk_faulty_of(io), used(io) + 4 * 4096);
	ns = open_store_with(io, &options);
	uint64_t ticket = 0;
	for (int64_t id = 0; id < 300; id++) { /* 24000 bytes in each, but in one 100 */
		bool thin = file_of[id] == file_of[180];
		if (thin ? id % 30 != 0 : id % 10 != 0)
			CHECK_EQ(wk_ledger_delete(ns, id, UINT64_MAX, &ticket, NULL), WK_OK);
	}
	CHECK_EQ(wk_namespace_wait(ns, ticket, UINT64_MAX, NULL), WK_OK);
	work_a_while(ns, io);
	CHECK_EQ(add_one(ns, count, LARGE), WK_OK);
	finish(ns, io);
}

int main(void) {
	RUN(an_output_that_did_not_get_its_name_leaves_the_reserve_as_large);
	RUN(an_index_that_did_not_get_its_name_leaves_the_reserve_as_large);
	RUN(the_reserve_is_not_spent_on_a_file_that_must_stay);
	RUN(an_output_that_was_refused_once_is_kept_back_all_the_same);
	RUN(without_a_reserve_a_file_is_emptied_for_which_there_is_room);
	return check_done();
}
