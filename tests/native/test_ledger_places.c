/*
 * test_ledger_places.c: where the moved entries of a ledger store stand is known from pages of items alone: what an
 * entry's bytes say of their end, its digest, is the caller's. A page that cannot be read is told as that.
 */
/* ctest labels: one-thread */
#include "ledger_store.h"
#include "sim/faulty.h"

#include <errno.h>

enum { ENTRIES = 60, SECOND_NS = 1000 * 1000 * 1000 };

static wk_open_options moving_options(void) {
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min;
	options.minor_percent = 60;
	options.minor_interval_ns = 1000 * 1000;
	return options;
}

/* Entries of ledger 1 stand in an entry log; no page of it is in the cache. Its path and footer. */
static wk_namespace *open_with_moved_entries(wk_io *io, char path[64], wk_footer *footer) {
	wk_open_options options = moving_options();
	wk_namespace *ns = open_store_with(io, &options);
	for (int64_t id = 0; id < ENTRIES; id++, work(ns)) {
		add_entry(ns, 1, id);
		add_entry(ns, 2, id);
	}
	CHECK_EQ(wk_ledger_delete(ns, 2, UINT64_MAX, NULL, NULL), WK_OK);
	for (int i = 0; i < 20; i++) {
		wk_faulty_advance(wk_faulty_of(io), SECOND_NS);
		work(ns);
	}
	close_store(ns);
	ns = open_store_with(io, &options);
	const wk_store_file *first = wk_ranges_in_memory(wk_ledger_find(ns->engine, 1))[0].file;
	CHECK_EQ(first->kind, WK_FILE_ENTRY_LOG);
	snprintf(path, 64, "store/entries/%016llx.wke", (unsigned long long)first->id);
	*footer = first->footer;
	return ns;
}

static wk_status read_first(wk_namespace *ns, wk_error *error) {
	wk_entry_batch *batch = NULL;
	wk_status status = wk_ledger_read(ns, 1, 0, 1, 1 << 20, &batch, error);
	wk_entry_batch_release(batch);
	return status;
}

TEST(a_page_of_items_whose_read_fails_is_no_damage) {
	wk_io *io = new_disk(31);
	char path[64];
	wk_footer footer;
	wk_namespace *ns = open_with_moved_entries(io, path, &footer);
	wk_faulty_fail(wk_faulty_of(io), WK_FAULT_READ, 0, EIO, false);
	wk_error error = {0};
	CHECK_EQ(read_first(ns, &error), WK_IO);
	CHECK_EQ(error.system_error, EIO);
	for (int64_t id = 0; id < ENTRIES; id++) /* the next read goes well, and nothing wrong was remembered */
		CHECK_EQ(version_of(ns, 1, id), id + 1);
	close_store(ns);
	io->operations->destroy(io);
}

TEST(a_damaged_page_of_items_is_named) {
	wk_io *io = new_disk(32);
	char path[64], offset[32];
	wk_footer footer;
	wk_namespace *ns = open_with_moved_entries(io, path, &footer);
	uint64_t page = wk_footer_item_page(&footer, 0);
	CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), path, page + 40, 1), 0);
	wk_error error = {0};
	CHECK_EQ(read_first(ns, &error), WK_DAMAGED);
	snprintf(offset, sizeof offset, "offset %llu", (unsigned long long)page);
	CHECK(strstr(error.text, "index page") != NULL && strstr(error.text, offset) != NULL);
	close_store(ns);
	io->operations->destroy(io);
}

int main(void) {
	RUN(a_page_of_items_whose_read_fails_is_no_damage);
	RUN(a_damaged_page_of_items_is_named);
	return check_done();
}
