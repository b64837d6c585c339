/*
 * test_ledger_sort.c: journal files in which the entries of many ledgers stand in turn are sorted by the mover: what one
 * read of a ledger brings becomes long, each entry is what it was, and each is copied for it once.
 */
#include "engine/index/lookup.h"
#include "engine/manual.h"
#include "engine/mover/mover.h"
#include "ledger_store.h"
#include "sim/faulty.h"

enum { LEDGERS = 40, ENTRIES = 80, SIZE = 300, FILLER = 1000, MEMORY = 96 * 1024, SECOND = 1000 * 1000 * 1000 };

static wk_open_options sorting_options(void) {
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min;
	options.sort_memory = MEMORY;
	options.sort_wait_ns = SECOND;
	return options;
}

/* The mover rests until it is let go: not before all of it is there. */
static wk_namespace *open_resting(wk_io *io, const wk_open_options *options) {
	wk_namespace *ns = open_store_with(io, options);
	ns->engine->mover_due_ns = UINT64_MAX;
	return ns;
}

static void let_it_go(wk_namespace *ns) {
	if (ns->engine->mover_due_ns == UINT64_MAX)
		ns->engine->mover_due_ns = 0;
}

/* ---- entries ---- */

static void fill_small(int64_t ledger_id, int64_t entry_id, uint8_t bytes[SIZE]) {
	uint64_t seed = (uint64_t)ledger_id << 32 ^ (uint64_t)entry_id;
	wk_store_be64(bytes, (uint64_t)ledger_id);
	wk_store_be64(bytes + 8, (uint64_t)entry_id);
	check_random_bytes(&seed, bytes + 16, SIZE - 16);
}

/* One entry of each ledger, then the next one of each. */
static void interleave(wk_namespace *ns, int64_t ledgers, int64_t entries) {
	static uint8_t bytes[LEDGERS][SIZE];
	wk_add adds[LEDGERS];
	for (int64_t id = 0; id < entries; id++) {
		for (int64_t i = 0; i < ledgers; i++) {
			fill_small(i, id, bytes[i]);
			adds[i] = an_add(bytes[i], SIZE, 0);
		}
		wk_error error = {0};
		check_ok(wk_ledger_add(ns, adds, (size_t)ledgers, UINT64_MAX, true, &error), &error, "an entry of each");
		work(ns);
	}
}

/* So that all that was added stands in sealed files. */
static void roll(wk_namespace *ns) {
	uint64_t before = ns->engine->active->id;
	for (int64_t id = 0; ns->engine->active->id <= before + 1; id++) {
		add_entry(ns, FILLER, id);
		work(ns);
	}
}

static void let_it_sort(wk_namespace *ns, wk_io *io) {
	let_it_go(ns);
	for (int i = 0; i < 300; i++) {
		wk_faulty_advance(wk_faulty_of(io), SECOND / 10);
		work(ns);
	}
}

static void reads_back(wk_namespace *ns, int64_t ledger_id, int64_t entries) {
	uint8_t expected[SIZE];
	for (int64_t id = 0; id < entries;) {
		wk_entry_batch *batch = NULL;
		wk_error error = {0};
		check_ok(wk_ledger_read(ns, ledger_id, id, 1024, 1 << 20, &batch, &error), &error, "entries are read");
		size_t count;
		const wk_stored_entry *read = wk_entry_batch_entries(batch, &count);
		CHECK(count > 0);
		for (size_t i = 0; i < count; i++, id++) {
			fill_small(ledger_id, id, expected);
			CHECK_EQ(read[i].entry_id, id);
			CHECK_EQ(read[i].size, SIZE);
			CHECK(memcmp(read[i].bytes, expected, SIZE) == 0);
		}
		wk_entry_batch_release(batch);
	}
	CHECK_EQ(entries_of(ns, ledger_id), entries);
}

static void all_read_back(wk_namespace *ns) {
	for (int64_t ledger_id = 0; ledger_id < LEDGERS; ledger_id++)
		reads_back(ns, ledger_id, ENTRIES);
}

/* How often the ledger's next entry does not stand right behind the one before. */
static uint32_t stretches_of(wk_namespace *ns, int64_t ledger_id, int64_t entries) {
	uint32_t stretches = 0;
	uint64_t file = 0, end = 0;
	for (int64_t id = 0; id < entries;) {
		wk_stretch stretch;
		wk_footer_item items[ENTRIES];
		wk_error error = {0};
		check_ok(wk_lookup(ns->engine, ledger_id, id, entries - 1, WK_LOOKUP_ALL, items, ENTRIES, &stretch, &error),
		         &error, "it is somewhere");
		CHECK(stretch.file != NULL);
		uint32_t count = (uint32_t)(stretch.last_entry - id + 1);
		if (stretch.sealed)
			check_ok(wk_lookup_items(ns->engine, stretch.file, stretch.first_item, count, WK_LOOKUP_ALL, items, &error),
			         &error, "items are read");
		for (uint32_t i = 0; i < count; i++) {
			stretches += stretch.file->id != file || items[i].offset != end;
			file = stretch.file->id;
			end = items[i].offset + (uint64_t)items[i].size;
		}
		id += count;
		wk_stretch_release(ns->engine, &stretch);
	}
	return stretches;
}

/* ---- what is sorted ---- */

static void sorted_and_read(bool pages_out, uint64_t seed) {
	wk_io *io = new_disk(seed);
	wk_open_options options = sorting_options();
	options.range_bytes = pages_out ? 1 : 0;
	wk_namespace *ns = open_resting(io, &options);
	interleave(ns, LEDGERS, ENTRIES);
	roll(ns);
	CHECK_EQ(stats_of(ns).sorted_bytes, 0);
	CHECK_EQ(stretches_of(ns, 7, ENTRIES), ENTRIES);
	uint64_t most = 0;
	bool idle = false;
	wk_error error = {0};
	let_it_go(ns);
	for (int i = 0; i < 3000; i++) {
		wk_faulty_advance(wk_faulty_of(io), idle ? SECOND / 2 : 1000 * 1000);
		check_ok(wk_namespace_step(ns, &idle, &error), &error, "background work");
		uint64_t held = stats_of(ns).memory_sort;
		most = held > most ? held : most;
	}
	CHECK(most > 0 && most < 2 * MEMORY);
	CHECK_EQ(stats_of(ns).memory_sort, 0);
	/* All of it, once; and a pass takes four times the memory. */
	uint64_t all = (uint64_t)LEDGERS * ENTRIES * (SIZE + 4), sorted = stats_of(ns).sorted_bytes;
	CHECK(sorted >= all && sorted < all + all / 4);
	CHECK_EQ(stats_of(ns).compacted_bytes, 0);
	uint64_t passes = all / (3 * MEMORY) + 1; /* a file more does not always fit */
	CHECK(stats_of(ns).entry_logs <= passes);
	for (int round = 0; round < 3; round++) {
		for (int64_t ledger_id = 0; ledger_id < LEDGERS; ledger_id++)
			CHECK(stretches_of(ns, ledger_id, ENTRIES) <= passes);
		all_read_back(ns);
		no_range_outlives_its_file(ns);
		if (round == 0)
			kill_store(ns, io);
		else
			close_store(ns);
		ns = open_store_with(io, &options);
	}
	close_store(ns);
	io->operations->destroy(io);
}

TEST(interleaved_ledgers_end_in_long_stretches_and_read_back) {
	sorted_and_read(false, 41);
}

TEST(they_do_where_ranges_are_paged_out) {
	sorted_and_read(true, 42);
}

TEST(what_was_sorted_is_not_sorted_again) {
	wk_io *io = new_disk(43);
	wk_open_options options = sorting_options();
	options.sort_gain = 1; /* whatever there is to win */
	wk_namespace *ns = open_resting(io, &options);
	interleave(ns, LEDGERS, ENTRIES);
	roll(ns);
	let_it_sort(ns, io);
	uint64_t sorted = stats_of(ns).sorted_bytes;
	CHECK(sorted > 0);
	let_it_sort(ns, io);
	CHECK_EQ(stats_of(ns).sorted_bytes, sorted);
	for (int round = 0; round < 2; round++) {
		close_store(ns);
		ns = open_store_with(io, &options);
		roll(ns); /* files of one ledger: not interleaved */
		let_it_sort(ns, io);
		CHECK_EQ(stats_of(ns).sorted_bytes, 0);
	}
	all_read_back(ns);
	close_store(ns);
	io->operations->destroy(io);
}

/* ---- what is not ---- */

TEST(ledgers_written_one_after_the_other_are_not_sorted) {
	wk_io *io = new_disk(44);
	wk_open_options options = sorting_options();
	wk_namespace *ns = open_store_with(io, &options);
	uint8_t bytes[SIZE];
	for (int64_t ledger_id = 0; ledger_id < 4; ledger_id++) {
		for (int64_t id = 0; id < 400; id++) {
			fill_small(ledger_id, id, bytes);
			wk_add add = an_add(bytes, SIZE, WK_ADD_DEFERRED);
			CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, false, NULL), WK_OK);
		}
		CHECK_EQ(wk_ledger_force(ns, ledger_id, UINT64_MAX, NULL, NULL), WK_OK);
		work(ns);
	}
	roll(ns);
	let_it_sort(ns, io);
	CHECK_EQ(stats_of(ns).sorted_bytes, 0);
	for (int64_t ledger_id = 0; ledger_id < 4; ledger_id++)
		reads_back(ns, ledger_id, 400);
	close_store(ns);
	io->operations->destroy(io);
}

TEST(where_it_is_switched_off_files_stay_as_they_are) {
	wk_io *io = new_disk(45);
	wk_open_options options = sorting_options();
	options.sort_memory = UINT64_MAX;
	wk_namespace *ns = open_resting(io, &options);
	interleave(ns, LEDGERS, ENTRIES);
	roll(ns);
	let_it_sort(ns, io);
	CHECK_EQ(stats_of(ns).sorted_bytes, 0);
	CHECK_EQ(stats_of(ns).entry_logs, 0);
	all_read_back(ns);
	close_store(ns);
	io->operations->destroy(io);
}

/* An entry or two of each ledger: sorted or not, a ledger's entries are a read each. */
TEST(too_many_ledgers_are_not_worth_it_and_not_asked_about_again) {
	wk_io *io = new_disk(46);
	wk_open_options options = sorting_options();
	wk_namespace *ns = open_store_with(io, &options);
	uint8_t bytes[SIZE];
	for (int64_t id = 0; id < 2; id++) {
		for (int64_t ledger_id = 0; ledger_id < 600; ledger_id++) {
			fill_small(ledger_id, id, bytes);
			wk_add add = an_add(bytes, SIZE, 0);
			CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, ledger_id % 20 == 19, NULL), WK_OK);
			work(ns);
		}
	}
	roll(ns);
	let_it_sort(ns, io);
	CHECK_EQ(stats_of(ns).sorted_bytes, 0);
	uint64_t read = wk_faulty_read_bytes(wk_faulty_of(io));
	let_it_sort(ns, io);
	CHECK_EQ(wk_faulty_read_bytes(wk_faulty_of(io)), read);
	for (int64_t ledger_id = 0; ledger_id < 600; ledger_id++)
		reads_back(ns, ledger_id, 2);
	close_store(ns);
	io->operations->destroy(io);
}

/* ---- meanwhile ---- */

/* Steps until a pass holds entries in memory, and is not done. */
static void begin_to_sort(wk_namespace *ns, wk_io *io) {
	bool idle = false;
	let_it_go(ns);
	for (int i = 0; i < 4000 && stats_of(ns).memory_sort == 0; i++) {
		wk_faulty_advance(wk_faulty_of(io), idle ? SECOND : 1000 * 1000);
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	}
	CHECK(stats_of(ns).memory_sort > 0);
}

TEST(what_is_deleted_or_replaced_while_it_is_sorted_stays_so) {
	for (int kill = 0; kill < 2; kill++) {
		wk_io *io = new_disk(47);
		wk_open_options options = sorting_options();
		wk_namespace *ns = open_resting(io, &options);
		interleave(ns, LEDGERS, ENTRIES);
		roll(ns);
		begin_to_sort(ns, io);
		CHECK_EQ(wk_ledger_delete(ns, 3, UINT64_MAX, NULL, NULL), WK_OK);
		CHECK_EQ(wk_ledger_delete(ns, 4, UINT64_MAX, NULL, NULL), WK_OK);
		CHECK_EQ(add_version(ns, 4, 5, 1000, 0, NULL), WK_OK); /* made anew */
		CHECK_EQ(add_version(ns, 5, 6, 2000, 0, NULL), WK_OK);
		if (kill == 0)
			let_it_sort(ns, io);
		for (int round = 0; round < 3; round++) {
			CHECK(!is_known(ns, 3));
			CHECK_EQ(entries_of(ns, 4), 1);
			CHECK_EQ(version_of(ns, 4, 5), 1000);
			CHECK_EQ(version_of(ns, 5, 6), 2000);
			CHECK_EQ(entries_of(ns, 5), ENTRIES);
			reads_back(ns, 2, ENTRIES);
			reads_back(ns, LEDGERS - 1, ENTRIES);
			if (round == 0)
				kill_store(ns, io);
			else
				close_store(ns);
			ns = open_store_with(io, &options);
			let_it_sort(ns, io);
		}
		close_store(ns);
		io->operations->destroy(io);
	}
}

/* The sum of one entry does not fit any more: the file it stands in stays, and all others are sorted. */
TEST(a_damaged_entry_stays_where_it_is) {
	wk_io *io = new_disk(48);
	wk_open_options options = sorting_options();
	options.memtable_bytes = 1;
	wk_namespace *ns = open_resting(io, &options);
	interleave(ns, LEDGERS, ENTRIES);
	roll(ns);
	wk_stretch stretch;
	wk_footer_item item;
	CHECK_EQ(wk_lookup(ns->engine, 9, 3, 3, WK_LOOKUP_ALL, NULL, 0, &stretch, NULL), WK_OK);
	CHECK_EQ(wk_lookup_items(ns->engine, stretch.file, stretch.first_item, 1, WK_LOOKUP_ALL, &item, NULL), WK_OK);
	char path[64];
	snprintf(path, sizeof path, "store/%s", wk_file_name_of(stretch.file->id, stretch.file->kind).text);
	uint64_t id = stretch.file->id;
	wk_stretch_release(ns->engine, &stretch);
	CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), path, item.offset + 100, 3), 0);
	let_it_sort(ns, io);
	CHECK(stats_of(ns).sorted_bytes > 0);
	for (int round = 0; round < 2; round++) {
		CHECK(wk_store_file_find(ns->engine, id) != NULL);
		for (int64_t ledger_id = 0; ledger_id < LEDGERS; ledger_id++)
			if (ledger_id != 9)
				reads_back(ns, ledger_id, ENTRIES);
		wk_entry_batch *batch = NULL;
		wk_error error = {0};
		CHECK_EQ(wk_ledger_read(ns, 9, 3, 1, 1 << 20, &batch, &error), WK_DAMAGED);
		CHECK_EQ(error.entry_id, 3);
		CHECK_EQ(wk_ledger_read(ns, 9, 4, 1, 1 << 20, &batch, &error), WK_OK);
		wk_entry_batch_release(batch);
		close_store(ns);
		ns = open_store_with(io, &options);
		let_it_sort(ns, io);
	}
	close_store(ns);
	io->operations->destroy(io);
}

/* ---- giving way ---- */

/* How long all of it takes, by the disk's clock. */
static uint64_t time_to_sort(bool adds) {
	wk_io *io = new_disk(49);
	wk_open_options options = sorting_options();
	options.compact_rate = 1 << 20;
	options.sort_memory = 8 * MEMORY;
	wk_namespace *ns = open_resting(io, &options);
	interleave(ns, LEDGERS, ENTRIES);
	roll(ns);
	bool idle = false;
	begin_to_sort(ns, io);
	uint64_t before = wk_engine_now(ns->engine);
	for (int64_t i = 0; stats_of(ns).sorted_bytes == 0; i++) {
		CHECK(i < 100000);
		if (adds && i % 20 == 0)
			add_entry(ns, FILLER + 1, i / 20);
		wk_faulty_advance(wk_faulty_of(io), 2 * 1000 * 1000);
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	}
	uint64_t passed = wk_engine_now(ns->engine) - before;
	all_read_back(ns);
	close_store(ns);
	io->operations->destroy(io);
	return passed;
}

TEST(while_somebody_adds_it_has_a_quarter_of_the_rate) {
	uint64_t alone = time_to_sort(false), beside = time_to_sort(true);
	CHECK(beside > 2 * alone);
}

TEST(on_a_disk_that_fills_up_it_gives_back_what_it_took) {
	wk_io *io = new_disk(50);
	wk_open_options options = sorting_options();
	wk_namespace *ns = open_resting(io, &options);
	interleave(ns, LEDGERS, ENTRIES);
	roll(ns);
	begin_to_sort(ns, io);
	wk_faulty_set_capacity(wk_faulty_of(io), stats_of(ns).disk_bytes + 64 * 1024);
	bool idle = false;
	for (int64_t id = 0; !ns->engine->space_low && !ns->engine->disk_full; id++) {
		CHECK(id < 2000);
		add_version(ns, FILLER + 1, id, (uint64_t)id + 1, 0, NULL);
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	}
	wk_faulty_advance(wk_faulty_of(io), SECOND);
	for (int i = 0; i < 5; i++)
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	CHECK(ns->engine->mover == NULL);
	CHECK_EQ(stats_of(ns).sorted_bytes, 0);
	CHECK(!ns->engine->output_short); /* nor did it take the reserve */
	CHECK(!stats_of(ns).failed);
	all_read_back(ns);
	CHECK_EQ(wk_ledger_delete(ns, FILLER + 1, UINT64_MAX, NULL, NULL), WK_OK);
	CHECK_EQ(wk_ledger_delete(ns, FILLER, UINT64_MAX, NULL, NULL), WK_OK);
	wk_faulty_set_capacity(wk_faulty_of(io), UINT64_MAX);
	for (int i = 0; i < 5; i++)
		let_it_sort(ns, io);
	CHECK(stats_of(ns).sorted_bytes > 0);
	all_read_back(ns);
	close_store(ns);
	io->operations->destroy(io);
}

int main(void) {
	RUN(interleaved_ledgers_end_in_long_stretches_and_read_back);
	RUN(they_do_where_ranges_are_paged_out);
	RUN(what_was_sorted_is_not_sorted_again);
	RUN(ledgers_written_one_after_the_other_are_not_sorted);
	RUN(where_it_is_switched_off_files_stay_as_they_are);
	RUN(too_many_ledgers_are_not_worth_it_and_not_asked_about_again);
	RUN(what_is_deleted_or_replaced_while_it_is_sorted_stays_so);
	RUN(a_damaged_entry_stays_where_it_is);
	RUN(while_somebody_adds_it_has_a_quarter_of_the_rate);
	RUN(on_a_disk_that_fills_up_it_gives_back_what_it_took);
	return check_done();
}
