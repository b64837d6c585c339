/*
 * test_ledger_lookup.c: an entry that many files may hold is found whatever happens while their indexes are read: its
 * ranges move, and nobody may be told that there is no such entry.
 */
#include "engine/manual.h"
#include "ledger_store.h"
#include "sim/faulty.h"

enum { FILES = 12, WANTED = 500, FILLER = 900, FILLER_SIZE = 20 * 1024 };

static struct wk_io_operations hooks;
static const struct wk_io_operations *original;
static wk_namespace *hooked;
static bool hook_is_set;

static void fill_the_file(wk_namespace *ns, int64_t ledger_id) {
	static uint8_t bytes[FILLER_SIZE];
	uint64_t active = ns->engine->active->id;
	for (int64_t id = 0; ns->engine->active->id == active; id++) {
		wk_store_be64(bytes, (uint64_t)ledger_id);
		wk_store_be64(bytes + 8, (uint64_t)id);
		wk_add add = an_add(bytes, sizeof bytes, 0);
		CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
		work(ns);
	}
}

/* While the first page of runs is read, the mover empties the oldest file. */
static int64_t move_then_read(wk_io *io, wk_file *file, void *buffer, size_t size, uint64_t offset) {
	if (hook_is_set) {
		hook_is_set = false;
		io->operations = original;
		uint64_t oldest = hooked->engine->files[0]->id;
		hooked->engine->mover_due_ns = 0;
		for (int i = 0; i < 200 && hooked->engine->files[0]->id == oldest; i++) {
			bool idle;
			wk_faulty_advance(wk_faulty_of(io), 1000 * 1000 * 1000);
			CHECK_EQ(wk_namespace_step(hooked, &idle, NULL), WK_OK);
		}
		CHECK(hooked->engine->files[0]->id != oldest);
	}
	return original->pread(io, file, buffer, size, offset);
}

TEST(an_entry_that_is_moved_while_it_is_looked_for_is_found) {
	wk_io *io = new_disk(1);
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min = 256 * 1024;
	wk_namespace *ns = hooked = open_store_with(io, &options);
	ns->engine->mover_due_ns = UINT64_MAX;
	add_entry(ns, 1, WANTED); /* in the oldest file; all of them span it */
	for (int64_t i = 0; i < FILES; i++) {
		add_entry(ns, 1, i);
		add_entry(ns, 1, 2 * WANTED + i);
		fill_the_file(ns, FILLER + i);
	}
	CHECK_EQ(wk_ledger_delete(ns, FILLER, UINT64_MAX, NULL, NULL), WK_OK);
	original = io->operations;
	hooks = *original;
	hooks.pread = move_then_read;
	io->operations = &hooks;
	hook_is_set = true;
	CHECK_EQ(version_of(ns, 1, WANTED), WANTED + 1);
	CHECK(!hook_is_set);
	CHECK_EQ(entries_of(ns, 1), 2 * FILES + 1);
	io->operations = original;
	close_store(ns);
	io->operations->destroy(io);
}

int main(void) {
	RUN(an_entry_that_is_moved_while_it_is_looked_for_is_found);
	return check_done();
}
