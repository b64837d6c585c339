/*
 * manual_directory.h: a directory of logs on the faulty disk, in manual mode: nothing happens but what the test does.
 * Its files are of 64 KiB.
 */
#ifndef MANUAL_DIRECTORY_H
#define MANUAL_DIRECTORY_H
#include "core/superblock.h"
#include "engine/directory/directory.h"
#include "engine/manual.h"
#include "io/io.h"
#include "manual_options.h"
#include "sim/faulty.h"
#include "small_directory.h"

static inline wk_io *disk_of(uint64_t seed) {
	wk_io *io = NULL;
	CHECK_EQ(wk_faulty_new(seed, &io), 0);
	return io;
}

/* `change` (may be NULL) is given the options. */
static inline wk_namespace *open_with(wk_io *io, void (*change)(wk_open_options *)) {
	wk_open_options options = manual_options(64 * 1024);
	if (change != NULL)
		change(&options);
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open_on(io, "wal", &options, &ns, &error), &error, "the directory opens");
	return ns;
}

static inline void work(wk_namespace *ns) {
	bool idle = false;
	for (int i = 0; i < 200 && !idle; i++)
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
}

/* ms in the time of the faulty disk, and what is due then. */
static inline void wait_and_work(wk_io *io, wk_namespace *ns, uint64_t ms) {
	wk_faulty_advance(wk_faulty_of(io), ms * 1000000);
	work(ns);
}

static inline wk_position put_bytes(wk_writer *writer, const void *bytes, size_t size, int64_t txid,
                                    uint32_t durability) {
	wk_append_options options;
	wk_append_options_init(&options);
	options.txid = txid;
	options.durability = durability;
	wk_position at;
	wk_error error = {0};
	check_ok(wk_writer_append(writer, bytes, size, &options, &at, &error), &error, "the append");
	return at;
}

/* A text, at the time that the clock says. */
static inline wk_position put(wk_writer *writer, const char *text, uint32_t durability) {
	return put_bytes(writer, text, strlen(text), -1, durability);
}

static inline void fill_files(wk_io *io, wk_namespace *ns, wk_writer *writer, int records) {
	static char text[8 * 1024];
	memset(text, 'r', sizeof text - 1);
	for (int i = 0; i < records; i++) {
		put(writer, text, WK_SYNC);
		if (i % 8 == 0)
			wait_and_work(io, ns, 10);
	}
}

static inline size_t count_records(wk_log *log) {
	wk_reader *reader = NULL;
	wk_batch *batch;
	size_t total = 0, count;
	CHECK_EQ(wk_reader_open(log, NULL, &reader, NULL), WK_OK);
	while (wk_reader_next(reader, 1000, 1 << 20, 0, &batch, NULL) == WK_OK) {
		wk_batch_records(batch, &count);
		wk_batch_release(batch);
		total += count;
	}
	wk_reader_release(reader);
	return total;
}

static inline wk_superblock superblock_of(wk_io *io) {
	uint8_t slots[2 * WK_SUPERBLOCK_SLOT_SIZE];
	wk_superblock superblock;
	CHECK_EQ(wk_faulty_read_file(wk_faulty_of(io), "wal/superblock", slots, sizeof slots, 0), sizeof slots);
	CHECK(wk_superblock_choose(slots, &superblock) >= 0);
	return superblock;
}

static inline void leave(wk_io *io, wk_namespace *ns, wk_log *log, wk_writer *writer) {
	close_all(ns, log, writer);
	io->operations->destroy(io);
}
#endif
