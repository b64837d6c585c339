/*
 * test_ledger_move.c: entries of a ledger store that the mover takes into entry logs: they are read where they are, what
 * was deleted meanwhile stays deleted, and no range outlives its file.
 */
/* ctest labels: one-thread */
#include "engine/index/index_file.h"
#include "engine/manual.h"
#include "ledger_store.h"
#include "sim/faulty.h"

static wk_open_options moving_options(void) {
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min;
	options.minor_percent = 60;
	options.minor_interval_ns = 1000 * 1000;
	return options;
}

/* Files of which every other entry is a ledger's that goes: the rest is moved. */
static void make_holes(wk_namespace *ns, wk_io *io, int64_t entries) {
	for (int64_t id = 0; id < entries; id++) {
		CHECK_EQ(add_version(ns, 1, id, (uint64_t)id + 1, 0, NULL), WK_OK);
		CHECK_EQ(add_version(ns, 2, id, (uint64_t)id + 1, 0, NULL), WK_OK);
		CHECK_EQ(add_version(ns, 3, id, (uint64_t)id + 1, 0, NULL), WK_OK);
		work(ns);
	}
	CHECK_EQ(wk_ledger_delete(ns, 2, UINT64_MAX, NULL, NULL), WK_OK);
	CHECK_EQ(wk_ledger_delete(ns, 3, UINT64_MAX, NULL, NULL), WK_OK);
	for (int i = 0; i < 20; i++) {
		wk_faulty_advance(wk_faulty_of(io), 1000 * 1000 * 1000);
		work(ns);
	}
}

/* Entries as large as a block: of each file half goes, which is far from nothing. */
static void make_half_dead(wk_namespace *ns, wk_io *io) {
	static uint8_t bytes[3500];
	for (uint64_t i = 0; i < 200; i++) {
		wk_store_be64(bytes, i % 2 + 1);
		wk_store_be64(bytes + 8, i);
		wk_add add = an_add(bytes, sizeof bytes, 0);
		CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
		work(ns);
	}
	CHECK_EQ(wk_ledger_delete(ns, 2, UINT64_MAX, NULL, NULL), WK_OK);
	for (int i = 0; i < 20; i++) {
		wk_faulty_advance(wk_faulty_of(io), 1000 * 1000 * 1000);
		work(ns);
	}
}

TEST(nothing_is_moved_where_compaction_is_off) {
	static const struct {
		uint32_t minor_percent, major_percent;
		bool moves;
	} cases[] = {{UINT32_MAX, UINT32_MAX, false}, {UINT32_MAX, 60, true}, {60, UINT32_MAX, true}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		wk_io *io = new_disk(24 + i);
		wk_open_options options = moving_options();
		options.major_interval_ns = options.minor_interval_ns;
		options.minor_percent = cases[i].minor_percent;
		options.major_percent = cases[i].major_percent;
		options.sort_memory = UINT64_MAX;
		wk_namespace *ns = open_store_with(io, &options);
		make_half_dead(ns, io);
		CHECK_EQ(stats_of(ns).compacted_bytes > 0, cases[i].moves);
		close_store(ns);
		io->operations->destroy(io);
	}
}

TEST(a_percentage_of_more_than_all_is_refused) {
	wk_io *io = new_disk(25);
	wk_open_options options = moving_options();
	options.major_percent = 101;
	wk_error error;
	wk_namespace *ns;
	CHECK_EQ(wk_open_on(io, "store", &options, &ns, &error), WK_INVALID);
	CHECK(strstr(error.text, "major_percent 101") != NULL);
	io->operations->destroy(io);
}

TEST(moved_entries_are_read_where_they_are_and_deleted_ones_stay_deleted) {
	enum { ENTRIES = 60 };
	wk_io *io = new_disk(23);
	wk_open_options options = moving_options();
	wk_namespace *ns = open_store_with(io, &options);
	make_holes(ns, io, ENTRIES);
	CHECK(stats_of(ns).entry_logs > 0 && stats_of(ns).compacted_bytes > 0);
	add_entry(ns, 2, 7); /* made anew */
	for (int round = 0; round < 3; round++) {
		for (int64_t id = 0; id < ENTRIES; id++)
			CHECK_EQ(version_of(ns, 1, id), id + 1);
		CHECK_EQ(entries_of(ns, 1), ENTRIES);
		CHECK_EQ(entries_of(ns, 2), 1);
		CHECK(!is_known(ns, 3));
		if (round == 0)
			kill_store(ns, io);
		else
			close_store(ns);
		ns = open_store_with(io, &options);
	}
	/* Deleted where they were moved to. */
	CHECK_EQ(wk_ledger_delete(ns, 1, UINT64_MAX, NULL, NULL), WK_OK);
	for (int round = 0; round < 3; round++) {
		CHECK(!is_known(ns, 1));
		if (round == 0)
			kill_store(ns, io);
		else
			close_store(ns);
		ns = open_store_with(io, &options);
	}
	work(ns);
	CHECK_EQ(stats_of(ns).entry_logs, 0);
	close_store(ns);
	io->operations->destroy(io);
}

static const wk_store_file *only_file_of(wk_namespace *ns, int64_t ledger_id) {
	wk_ledger *ledger = wk_ledger_find(ns->engine, ledger_id);
	CHECK_EQ(ledger->ranges_count, 1);
	return wk_ranges(ledger)[0].file;
}

/* An entry log with one entry of each of two ledgers; one is added again, then the other. */
TEST(a_file_that_goes_leaves_no_range_behind) {
	wk_io *io = new_disk(26);
	wk_open_options options = moving_options();
	wk_namespace *ns = open_store_with(io, &options);
	add_entry(ns, 1, 0);
	add_entry(ns, 2, 0);
	uint64_t first = ns->engine->active->id;
	for (int64_t id = 0; ns->engine->active->id <= first; id++, work(ns))
		add_entry(ns, 3, id);
	for (int64_t id = 0; id < 20; id++) /* the file before the active one stays */
		add_entry(ns, 4, id);
	CHECK_EQ(wk_ledger_delete(ns, 3, UINT64_MAX, NULL, NULL), WK_OK);
	for (int i = 0; i < 20; i++) {
		wk_faulty_advance(wk_faulty_of(io), 1000 * 1000 * 1000);
		work(ns);
	}
	uint64_t log = only_file_of(ns, 1)->id;
	CHECK(only_file_of(ns, 1)->kind == WK_FILE_ENTRY_LOG && only_file_of(ns, 2)->id == log);
	CHECK_EQ(add_version(ns, 1, 0, 500, 0, NULL), WK_OK);
	no_range_outlives_its_file(ns);
	CHECK_EQ(add_version(ns, 2, 0, 501, 0, NULL), WK_OK);
	no_range_outlives_its_file(ns);
	CHECK_EQ(wk_ledger_delete(ns, 4, UINT64_MAX, NULL, NULL), WK_OK);
	work(ns);
	CHECK(wk_store_file_find(ns->engine, log) == NULL);
	no_range_outlives_its_file(ns);
	for (int round = 0; round < 2; round++) {
		CHECK_EQ(version_of(ns, 1, 0), 500);
		CHECK_EQ(version_of(ns, 2, 0), 501);
		CHECK_EQ(entries_of(ns, 1), 1);
		close_store(ns);
		ns = open_store_with(io, &options);
	}
	close_store(ns);
	io->operations->destroy(io);
}

TEST(what_is_deleted_while_it_is_moved_stays_deleted) {
	wk_io *io = new_disk(24);
	wk_open_options options = moving_options();
	options.compact_rate = 1 << 20;
	wk_namespace *ns = open_store_with(io, &options);
	for (int64_t id = 0; id < 60; id++) {
		for (int64_t ledger_id = 1; ledger_id <= 3; ledger_id++)
			CHECK_EQ(add_version(ns, ledger_id, id, (uint64_t)id + 1, 0, NULL), WK_OK);
		work(ns);
	}
	CHECK_EQ(wk_ledger_delete(ns, 2, UINT64_MAX, NULL, NULL), WK_OK);
	CHECK_EQ(wk_ledger_delete(ns, 3, UINT64_MAX, NULL, NULL), WK_OK);
	bool idle = false;
	for (int i = 0; i < 1000 && ns->engine->mover == NULL; i++) {
		wk_faulty_advance(wk_faulty_of(io), 1000 * 1000);
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	}
	CHECK(ns->engine->mover != NULL); /* a pass is under way, and copies ledger 1 */
	CHECK_EQ(wk_ledger_delete(ns, 1, UINT64_MAX, NULL, NULL), WK_OK);
	add_entry(ns, 1, 5); /* made anew, with other bytes */
	CHECK_EQ(add_version(ns, 1, 6, 1000, 0, NULL), WK_OK);
	for (int i = 0; i < 20; i++) {
		wk_faulty_advance(wk_faulty_of(io), 1000 * 1000 * 1000);
		work(ns);
	}
	for (int round = 0; round < 3; round++) {
		CHECK_EQ(entries_of(ns, 1), 2);
		CHECK_EQ(version_of(ns, 1, 5), 6);
		CHECK_EQ(version_of(ns, 1, 6), 1000);
		if (round == 0)
			kill_store(ns, io);
		else
			close_store(ns);
		ns = open_store_with(io, &options);
	}
	close_store(ns);
	io->operations->destroy(io);
}

/* The copy is in no index yet, and the file with the delete is full: they must be read together. */
TEST(the_mark_waits_for_the_entry_log_that_holds_what_was_deleted) {
	wk_io *io = new_disk(25);
	wk_open_options options = moving_options();
	wk_namespace *ns = open_store_with(io, &options);
	ns->engine->mover_due_ns = UINT64_MAX; /* not before all of it is there */
	ns->engine->index.retry_ns = UINT64_MAX;
	for (int64_t id = 0; id < 60; id++) {
		for (int64_t ledger_id = 1; ledger_id <= 3; ledger_id++)
			CHECK_EQ(add_version(ns, ledger_id, id, (uint64_t)id + 1, 0, NULL), WK_OK);
		work(ns);
	}
	CHECK_EQ(wk_ledger_delete(ns, 2, UINT64_MAX, NULL, NULL), WK_OK);
	work(ns);
	CHECK(ns->engine->next != NULL); /* below the entry log, and so is the mark, once it is the active one */
	bool idle = false;
	ns->engine->mover_due_ns = 0;
	for (int i = 0; i < 1000 && ns->engine->mover == NULL; i++) {
		wk_faulty_advance(wk_faulty_of(io), 1000 * 1000);
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	}
	CHECK(ns->engine->mover != NULL);
	uint64_t held_in = ns->engine->active->id;
	CHECK_EQ(wk_ledger_delete(ns, 1, UINT64_MAX, NULL, NULL), WK_OK);
	for (int64_t id = 0; ns->engine->active->id == held_in; id++)
		CHECK_EQ(add_version(ns, 50, id, (uint64_t)id + 1, 0, NULL), WK_OK);
	for (int i = 0; i < 100 && ns->engine->mover != NULL; i++) {
		wk_faulty_advance(wk_faulty_of(io), 1000 * 1000 * 1000);
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	}
	CHECK(ns->engine->mover == NULL);
	CHECK(stats_of(ns).entry_logs > 0);
	wk_engine_lock(ns->engine);
	wk_index_write(ns->engine);
	wk_engine_unlock(ns->engine);
	kill_store(ns, io);
	ns = open_store_with(io, &options);
	CHECK(!is_known(ns, 1));
	CHECK(!is_known(ns, 2));
	CHECK(is_known(ns, 3) && is_known(ns, 50));
	close_store(ns);
	io->operations->destroy(io);
}

int main(void) {
	RUN(nothing_is_moved_where_compaction_is_off);
	RUN(a_percentage_of_more_than_all_is_refused);
	RUN(moved_entries_are_read_where_they_are_and_deleted_ones_stay_deleted);
	RUN(a_file_that_goes_leaves_no_range_behind);
	RUN(what_is_deleted_while_it_is_moved_stays_deleted);
	RUN(the_mark_waits_for_the_entry_log_that_holds_what_was_deleted);
	return check_done();
}
