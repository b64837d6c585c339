/*
 * test_unsynced_footer.c: a footer was written, and its sync failed or the process was killed before it. The next open
 * finds it in the cache, and gives away the file before it on its word; then the power goes. The footer must not go with
 * it, or what it vouched for does (storage rule 13).
 *
 * File A holds block n alone: a record of log "dead". Block n + 1, a record of log "kept" and the deletion of "dead", is
 * too large for the file that was named next, which stays empty, and has file B alone. It was sealed while n was in
 * flight: nothing but B's footer says that n was durable.
 */
/* ctest labels: one-thread simulated */
#include <errno.h>

#include "engine/catalogue/catalogue.h"
#include "engine/directory/handles.h"
#include "engine/directory/keeper.h"
#include "engine/journal/journal.h"
#include "manual_directory.h"
#include "sim/faulty.h"

enum { SEEDS = 40, KEPT = 6, FOOTER_SIZE = 3 * 4096 };
static char payload[250 * 1024];
static _Alignas(4096) uint8_t footer[FOOTER_SIZE];

static void two_blocks(wk_open_options *options) {
	options->blocks_in_flight = 2;
}

static void submit(wk_writer *writer, size_t size) {
	uint64_t ticket;
	wk_error error = {0};
	check_ok(wk_writer_submit(writer, payload, size, NULL, NULL, &ticket, &error), &error, "the record is submitted");
}

/* (locked) As wk_log_delete puts it into the open block, without its wait. */
static uint64_t delete_in_open_block(wk_engine *engine, wk_log *log) {
	uint64_t ticket;
	log->state->tail->writer_generation++;
	wk_catalogue_record record = {
	    .type = WK_CATALOGUE_DELETE, .log_id = log->state->id, .segment = log->state->next_segment};
	CHECK_EQ(wk_catalogue_change(engine, &record, &ticket), WK_OK);
	wk_journal_want(engine, true, UINT64_MAX);
	return ticket;
}

/* (locked) The footer of `file` up to its trailer's sync, by a process that ends there. */
static void write_footer_and_die(wk_engine *engine, wk_io *io, wk_store_file *file) {
	uint64_t start = file->size - FOOTER_SIZE, pages = FOOTER_SIZE - 4096;
	CHECK(io->operations->pwrite(io, file->handle, footer, pages, start, 0) > 0);
	CHECK_EQ(io->operations->sync(io, file->handle), 0);
	CHECK(io->operations->pwrite(io, file->handle, footer + pages, 4096, start + pages, 0) > 0);
	engine->failed = true;
}

/* (locked) The same, where the disk fails the trailer's sync. What was written is kept: the disk repeats itself. */
static void fail_the_footer(wk_engine *engine, wk_io *io, const wk_store_file *file) {
	char path[64];
	snprintf(path, sizeof path, "wal/journal/%016llx.wkj", (unsigned long long)file->id);
	wk_faulty_fail(wk_faulty_of(io), WK_FAULT_SYNC, 1, EIO, false);
	wk_keeper_seal_oldest(engine);
	CHECK(engine->failed);
	wk_faulty_heal(wk_faulty_of(io));
	CHECK_EQ(wk_faulty_read_file(wk_faulty_of(io), path, footer, FOOTER_SIZE, file->size - FOOTER_SIZE), FOOTER_SIZE);
}

/* KEPT records of "kept" are acknowledged; file B has its footer, as far as a process of the same boot can see. */
static void leave_unsynced(wk_io *io, bool killed) {
	wk_namespace *ns = open_with(io, two_blocks);
	wk_engine *engine = ns->engine;
	wk_log *dead = log_named(ns, "dead"), *kept = log_named(ns, "kept");
	wk_writer *to_dead = writer_of(dead), *to_kept = writer_of(kept);
	put(to_dead, "first", WK_SYNC);
	for (int i = 1; i < KEPT; i++)
		put(to_kept, "first ones", WK_SYNC);
	work(ns);
	submit(to_dead, 45 * 1024);
	wk_engine_lock(engine);
	wk_block *n = wk_journal_seal(engine);
	CHECK(n != NULL && n->header.offset == 0);
	wk_engine_unlock(engine);
	for (int i = 0; i < 3; i++)
		wk_keeper_step(engine);
	CHECK(engine->next != NULL);
	uint64_t empty = engine->next->id;
	submit(to_kept, sizeof payload);
	wk_engine_lock(engine);
	uint64_t ticket = delete_in_open_block(engine, dead);
	wk_block *behind = wk_journal_seal(engine);
	CHECK(behind != NULL && behind->header.offset == 0 && behind->file->id > empty);
	CHECK_EQ(behind->header.durable_through, n->header.sequence - 1);
	wk_journal_write(engine, n);
	CHECK(wk_keeper_seal_oldest(engine)); /* A's, as the driver does before it goes on in another file */
	wk_engine_unlock(engine);
	submit(to_kept, 100); /* needs another file, so B is full; never written */
	wk_engine_lock(engine);
	CHECK(wk_journal_seal(engine) != NULL);
	wk_journal_write(engine, behind);
	CHECK_EQ(engine->durable, ticket); /* acknowledged */
	if (killed)
		write_footer_and_die(engine, io, behind->file);
	else
		fail_the_footer(engine, io, behind->file);
	wk_engine_unlock(engine);
	wk_writer_close(to_dead, 0, NULL);
	wk_writer_close(to_kept, 0, NULL);
	wk_log_release(dead);
	wk_log_release(kept);
	wk_abandon(ns);
	wk_faulty_kill(wk_faulty_of(io));
}

static size_t count_kept(wk_namespace *ns) {
	wk_log *kept = log_named(ns, "kept");
	size_t count = count_records(kept);
	wk_log_release(kept);
	return count;
}

static void check_kept(uint64_t seed, bool killed) {
	wk_io *io = disk_of(seed);
	leave_unsynced(io, killed);
	wk_namespace *ns = open_with(io, two_blocks);
	CHECK_EQ(count_kept(ns), KEPT);
	uint64_t at = wk_faulty_trace_length(wk_faulty_of(io));
	for (int i = 0; i < 2; i++)
		wk_keeper_step(ns->engine); /* A is recycled, the empty file goes, and a prepared file is named */
	for (; at <= wk_faulty_trace_length(wk_faulty_of(io)); at++) {
		wk_io *image;
		CHECK_EQ(wk_faulty_image(wk_faulty_of(io), at, seed, &image), 0);
		wk_namespace *again = open_with(image, NULL);
		CHECK_EQ(count_kept(again), KEPT);
		leave(image, again, NULL, NULL);
	}
	leave(io, ns, NULL, NULL);
}

TEST(rule_13_a_footer_whose_sync_failed_vouches_for_nothing_before_it_is_written_again) {
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		check_kept(seed, false);
}

TEST(rule_13_a_footer_that_was_not_synced_vouches_for_nothing_before_it_is) {
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		check_kept(seed, false); /* leaves the bytes of this seed's footer */
		check_kept(seed, true);
	}
}

int main(void) {
	RUN(rule_13_a_footer_whose_sync_failed_vouches_for_nothing_before_it_is_written_again);
	RUN(rule_13_a_footer_that_was_not_synced_vouches_for_nothing_before_it_is);
	return check_done();
}
