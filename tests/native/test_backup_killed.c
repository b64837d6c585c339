/*
 * test_backup_killed.c: a backup has no journal file behind its last sealed one, where the directory had none with a block.
 * An open for writing that is cut short, at whichever call, leaves a copy that opens: nothing is missing.
 */
#include <errno.h>

#include "engine/base/file_name.h"
#include "engine/directory/handles.h"
#include "manual_directory.h"

enum { RECORDS = 30, CALLS_MAX = 400 };

/* As wk_backup writes it: closed in order behind this block. */
static void close_behind(wk_io *io, uint64_t sequence) {
	_Alignas(WK_IO_ALIGNMENT) static uint8_t slots[2 * WK_SUPERBLOCK_SLOT_SIZE];
	wk_file *file;
	wk_superblock superblock;
	CHECK_EQ(io->operations->open(io, "wal/superblock", WK_IO_WRITE, &file), 0);
	CHECK_EQ(io->operations->pread(io, file, slots, sizeof slots, 0), sizeof slots);
	int chosen = wk_superblock_choose(slots, &superblock);
	CHECK(chosen >= 0 && superblock.clean);
	superblock.closed_sequence = sequence;
	uint8_t *slot = slots + chosen * WK_SUPERBLOCK_SLOT_SIZE;
	wk_superblock_encode(&superblock, slot);
	CHECK_EQ(io->operations->pwrite(io, file, slots, sizeof slots, 0, 0), sizeof slots);
	CHECK_EQ(io->operations->sync(io, file), 0);
	io->operations->close(io, file);
}

static void make_backup(wk_io *io) {
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	fill_files(io, ns, writer, RECORDS);
	work(ns);
	wk_store_file *active = ns->engine->active, *sealed = NULL;
	char name[80], next[80] = "";
	snprintf(name, sizeof name, "wal/%s", wk_file_name_of(active->id, WK_FILE_JOURNAL).text);
	if (ns->engine->next != NULL)
		snprintf(next, sizeof next, "wal/%s", wk_file_name_of(ns->engine->next->id, WK_FILE_JOURNAL).text);
	for (uint32_t i = 0; i < ns->engine->files_count; i++)
		if (ns->engine->files[i]->kind == WK_FILE_JOURNAL && ns->engine->files[i]->state == WK_FILE_SEALED)
			sealed = ns->engine->files[i];
	CHECK(sealed != NULL && sealed->last_sequence + 1 == active->first_sequence);
	uint64_t last = sealed->last_sequence;
	close_all(ns, log, writer);
	CHECK_EQ(io->operations->unlink(io, name), 0);
	if (next[0] != 0)
		CHECK_EQ(io->operations->unlink(io, next), 0);
	CHECK_EQ(io->operations->unlink(io, "wal/shared"), 0);
	close_behind(io, last);
}

static size_t count_in(wk_io *io) {
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	size_t count = count_records(log);
	close_all(ns, log, NULL);
	return count;
}

/* false: the open does not make so many calls. */
static bool open_up_to(wk_io *io, uint64_t call) {
	wk_open_options options = manual_options(64 * 1024);
	wk_namespace *ns = NULL;
	wk_faulty_fail(wk_faulty_of(io), WK_FAULT_ALL, call, EIO, true);
	if (wk_open_on(io, "wal", &options, &ns, NULL) == WK_OK)
		wk_abandon(ns);
	bool met = wk_faulty_calls(wk_faulty_of(io), WK_FAULT_ALL) > call;
	wk_faulty_heal(wk_faulty_of(io));
	wk_faulty_kill(wk_faulty_of(io));
	return met;
}

TEST(it_opens_again) {
	wk_io *io = disk_of(1);
	make_backup(io);
	size_t expected = count_in(io);
	CHECK(expected > 0 && expected < RECORDS);
	io->operations->destroy(io);
	bool met = true;
	for (uint64_t call = 0; met; call++) {
		CHECK(call < CALLS_MAX);
		io = disk_of(1);
		make_backup(io);
		met = open_up_to(io, call);
		CHECK_EQ(count_in(io), expected);
		io->operations->destroy(io);
	}
}

int main(void) {
	RUN(it_opens_again);
	return check_done();
}
