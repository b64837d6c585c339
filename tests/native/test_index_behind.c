/*
 * test_index_behind.c: files that go and come behind the index: recycled, moved to an entry log, without a footer yet;
 * and states, which outlive the journal file that held them.
 */
/* ctest labels: one-thread */
#include "engine/ledger/ledger_state.h"
#include "engine/manual.h"
#include "sim/faulty.h"
#include "two_logs.h"

TEST(files_recycled_behind_the_index_are_not_missed) {
	directory d = new_directory(10);
	fill_files(&d, 60);
	CHECK(write_index(&d));
	uint64_t mark = engine_of(&d)->index.mark;
	truncate_to(&d, LOG, d.next[LOG] - 3);
	truncate_to(&d, THIN, d.next[THIN] - 3);
	uint64_t recycled = engine_of(&d)->counters.recycled_files;
	for (int i = 0; i < 30; i++) /* too few for another index */
		wk_namespace_step(d.ns, &(bool){false}, NULL);
	CHECK(engine_of(&d)->counters.recycled_files > recycled);
	CHECK_EQ(engine_of(&d)->index.mark, mark);
	kill_it(&d);
	open_it(&d);
	CHECK(engine_of(&d)->index.mark == mark);
	reads_everything(&d);
	fill_files(&d, 10);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

/* Thin entries are all that is left of most files: the mover takes them into an entry log. */
static void thin_out(directory *d) {
	truncate_to(d, LOG, d->next[LOG] - RECORDS_A_FILE);
	for (int i = 0; i < 40 && engine_of(d)->counters.compacted_bytes == 0; i++) {
		work(d);
		wk_faulty_advance(d->disk, 600000000);
		wk_namespace_step(d->ns, &(bool){false}, NULL);
	}
	CHECK(engine_of(d)->counters.compacted_bytes > 0);
}

TEST(entries_moved_behind_the_index_are_read_where_they_are) {
	directory d = new_directory(11);
	fill_files(&d, 25);
	CHECK(write_index(&d));
	thin_out(&d);
	kill_it(&d);
	open_it(&d);
	CHECK(engine_of(&d)->index.mark > 0);
	reads_everything(&d);
	work(&d);
	close_it(&d);
	open_it(&d);
	CHECK_EQ(report_of(&d).footers_read, 0); /* the entry log is named now */
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

TEST(entries_moved_twice_behind_the_index_are_read_where_they_are) {
	directory d = new_directory(12);
	for (int round = 0; round < 4; round++) {
		fill_files(&d, 25);
		CHECK(write_index(&d));
		thin_out(&d);
		kill_it(&d);
		open_it(&d);
		reads_everything(&d);
	}
	close_it(&d);
	destroy(&d);
}

static const wk_store_file *an_entry_log(const directory *d) {
	for (uint32_t i = 0; i < engine_of(d)->files_count; i++)
		if (engine_of(d)->files[i]->kind == WK_FILE_ENTRY_LOG)
			return engine_of(d)->files[i];
	return NULL;
}

TEST(an_entry_log_that_was_begun_before_the_index_and_finished_after_it_counts) {
	directory d = new_directory(17);
	wk_open_options slow = small_files();
	close_it(&d);
	slow.compact_rate = 1024; /* a minute passes between the copy and its end */
	open_it_with(&d, &slow);
	fill_files(&d, 25);
	truncate_to(&d, LOG, d.next[LOG] - 2);
	work(&d);
	wk_faulty_advance(d.disk, 600000000);
	work(&d);
	CHECK(engine_of(&d)->mover != NULL);
	fill_files(&d, 4);
	CHECK(write_index(&d));
	CHECK(engine_of(&d)->mover != NULL);
	wk_faulty_advance(d.disk, 200000000000);
	wk_namespace_step(d.ns, &(bool){false}, NULL);
	CHECK(an_entry_log(&d) != NULL);
	CHECK(an_entry_log(&d)->id < engine_of(&d)->index.mark);
	for (int i = 0; i < 10; i++)
		wk_namespace_step(d.ns, &(bool){false}, NULL); /* what was moved is recycled */
	kill_it(&d);
	open_it(&d);
	CHECK(engine_of(&d)->index.mark > 0);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

TEST(the_mark_stops_at_a_file_that_has_no_footer_yet) {
	directory d = new_directory(18);
	fill_files(&d, 5);
	for (int k = 0; k < 5 * RECORDS_A_FILE; k++)
		append(&d, LOG); /* and nobody seals */
	uint64_t first_full = 0;
	for (uint32_t i = engine_of(&d)->files_count; i-- > 0;)
		if (engine_of(&d)->files[i]->state == WK_FILE_FULL)
			first_full = engine_of(&d)->files[i]->id;
	CHECK(first_full > 0);
	CHECK(write_index(&d));
	CHECK_EQ(engine_of(&d)->index.mark, first_full);
	kill_it(&d);
	open_it(&d);
	reads_everything(&d);
	close_it(&d);
	destroy(&d);
}

/* ---- states ---- */

/* As a writer of state records will: the record is in the active file, and durable. */
static void note_state(directory *d, int64_t ledger_id, uint32_t type, const char *data) {
	wk_engine *engine = engine_of(d);
	wk_footer_state state = {.ledger_id = ledger_id, .type = type, .size = (uint32_t)strlen(data)};
	memcpy(state.data, data, state.size);
	if (type == WK_BLOCK_DELETE) { /* the block that says so: the first */
		state.size = 8;
		state.data[0] = 1;
	}
	wk_store_file *file = engine->active;
	CHECK(wk_state_list_put(&file->states, &state));
	CHECK_EQ(wk_ledger_state_apply(engine, &state), WK_OK);
}

static void check_states(const directory *d) {
	wk_index_ledger state;
	CHECK(wk_ledger_state_find(engine_of(d), 700, &state));
	CHECK_EQ(state.bits, WK_LEDGER_FENCED | WK_LEDGER_HAS_KEY | WK_LEDGER_HAS_LAC);
	CHECK_EQ(state.key_size, 20);
	CHECK(memcmp(state.key, "the key of ledger 00", 20) == 0);
	CHECK_EQ(state.lac_size, 3); /* the later one, without the end of the longer one before */
	CHECK(memcmp(state.lac, "new\0", 4) == 0);
	CHECK(!wk_ledger_state_find(engine_of(d), 701, NULL)); /* deleted */
}

TEST(states_outlive_the_journal_file_that_held_them) {
	directory d = new_directory(30);
	append(&d, LOG);
	note_state(&d, 700, WK_BLOCK_MASTER_KEY, "the key of ledger 00");
	note_state(&d, 700, WK_BLOCK_LAC, "an old one");
	note_state(&d, 701, WK_BLOCK_FENCE, "");
	uint64_t held_in = engine_of(&d)->active->id;
	fill_files(&d, 3);
	note_state(&d, 700, WK_BLOCK_LAC, "new");
	note_state(&d, 700, WK_BLOCK_FENCE, "");
	note_state(&d, 701, WK_BLOCK_DELETE, "");
	uint64_t last_held_in = engine_of(&d)->active->id;
	fill_files(&d, 3);
	check_states(&d);
	kill_it(&d);
	open_it(&d); /* from footers */
	CHECK(engine_of(&d)->index.mark <= held_in);
	check_states(&d);
	uint64_t from = wk_faulty_trace_length(d.disk);
	truncate_to(&d, LOG, d.next[LOG] - 1);
	truncate_to(&d, THIN, d.next[THIN] - 1);
	engine_of(&d)->index.retry_ns = UINT64_MAX; /* no index can be written */
	fill_files(&d, 3);
	const wk_store_file *file = wk_store_file_find(engine_of(&d), last_held_in);
	CHECK(file != NULL && wk_store_file_find(engine_of(&d), held_in) != NULL);
	CHECK_EQ(file->live_entries, 0);
	engine_of(&d)->index.retry_ns = 0;
	work(&d);
	CHECK(engine_of(&d)->index.mark > last_held_in);
	CHECK(wk_store_file_find(engine_of(&d), last_held_in) == NULL);
	uint64_t to = wk_faulty_trace_length(d.disk);
	kill_it(&d);
	open_it(&d); /* from the index */
	check_states(&d);
	close_it(&d);
	for (uint64_t at = from; at <= to; at++) {
		wk_io *image;
		CHECK_EQ(wk_faulty_image(d.disk, at, at % 3, &image), 0);
		wk_open_options options = small_files();
		directory copy = on(&d, image);
		CHECK_EQ(wk_open_on(image, "wal", &options, &copy.ns, NULL), WK_OK);
		check_states(&copy);
		wk_abandon(copy.ns);
		destroy(&copy);
	}
	destroy(&d);
}

int main(void) {
	RUN(files_recycled_behind_the_index_are_not_missed);
	RUN(entries_moved_behind_the_index_are_read_where_they_are);
	RUN(entries_moved_twice_behind_the_index_are_read_where_they_are);
	RUN(an_entry_log_that_was_begun_before_the_index_and_finished_after_it_counts);
	RUN(the_mark_stops_at_a_file_that_has_no_footer_yet);
	RUN(states_outlive_the_journal_file_that_held_them);
	return check_done();
}
