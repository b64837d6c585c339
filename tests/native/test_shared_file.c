/*
 * test_shared_file.c: a journal file that has another name when its footer is due goes without. Once it has its bytes to
 * itself it gets one: in a ledger store the files behind it could else never be given back.
 */
#include "ledger_store.h"
#include "sim/faulty.h"

static wk_io *io;
static wk_namespace *store;

static void add_one(int64_t ledger_id, int64_t entry_id) {
	static uint8_t bytes[3000];
	wk_store_be64(bytes, (uint64_t)ledger_id);
	wk_store_be64(bytes + 8, (uint64_t)entry_id);
	wk_add add = {.bytes = bytes, .size = sizeof bytes, .key = KEY, .key_size = sizeof KEY - 1};
	wk_error error = {0};
	check_ok(wk_ledger_add(store, &add, 1, UINT64_MAX, true, &error), &error, "the add");
}

/* In ledgers of their own, each with a state that an index file must have before its journal file may go. */
static void fill_active(int64_t *ledger_id) {
	uint64_t file = store->engine->active->id;
	for (; store->engine->active->id == file; ++*ledger_id)
		add_one(*ledger_id, 0);
}

static void second_passes(void) {
	wk_faulty_advance(wk_faulty_of(io), 1100000000u);
	work(store);
}

static const char *path_of(uint64_t file) {
	static char path[64];
	snprintf(path, sizeof path, "store/journal/%016llx.wkj", (unsigned long long)file);
	return path;
}

TEST(files_get_their_footers_when_they_have_their_bytes_to_themselves) {
	io = new_disk(1);
	store = open_store(io);
	uint64_t files[2];
	int64_t ledger_id = 1;
	for (int i = 0; i < 2; i++) {
		add_one(ledger_id++, 0);
		files[i] = store->engine->active->id;
		CHECK_EQ(io->operations->link(io, path_of(files[i]), i == 0 ? "copy-0" : "copy-1"), 0);
		fill_active(&ledger_id);
		work(store);
		CHECK(wk_store_file_find(store->engine, files[i])->footer_failed);
	}
	fill_active(&ledger_id);
	second_passes();
	for (int i = 0; i < 2; i++)
		CHECK_EQ(wk_store_file_find(store->engine, files[i])->state, WK_FILE_FULL);
	CHECK_EQ(io->operations->unlink(io, "copy-1"), 0);
	second_passes();
	CHECK_EQ(wk_store_file_find(store->engine, files[0])->state, WK_FILE_FULL);
	CHECK_EQ(wk_store_file_find(store->engine, files[1])->state, WK_FILE_SEALED);
	CHECK_EQ(io->operations->unlink(io, "copy-0"), 0);
	second_passes();
	CHECK_EQ(wk_store_file_find(store->engine, files[0])->state, WK_FILE_SEALED);
	CHECK_EQ(store->engine->footers_due, 0);
	for (int64_t id = 1; id < ledger_id; id++)
		CHECK_EQ(wk_ledger_delete(store, id, UINT64_MAX, NULL, NULL), WK_OK);
	for (int i = 0; i < 3; i++) {
		fill_active(&ledger_id);
		second_passes();
	}
	CHECK(store->engine->files_count < 8);
	for (int i = 0; i < 2; i++)
		CHECK(wk_store_file_find(store->engine, files[i]) == NULL);
	close_store(store);
	store = open_store(io);
	close_store(store);
	io->operations->destroy(io);
}

int main(void) {
	RUN(files_get_their_footers_when_they_have_their_bytes_to_themselves);
	return check_done();
}
