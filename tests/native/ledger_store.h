/*
 * ledger_store.h: a ledger store on the faulty disk, with small files, and the words to use it.
 *
 * An entry's bytes are its ids and its version, then bytes that follow from them; its size follows from the version.
 */
#ifndef LEDGER_STORE_H
#define LEDGER_STORE_H
#include "check_status.h"
#include "core/bytes.h"
#include "engine/directory/directory.h"
#include "engine/directory/handles.h"
#include "engine/index/ledger.h"
#include "engine/index/range.h"
#include "engine/index/store_file.h"
#include "engine/manual.h"
#include "io/io.h"
#include "sim/faulty.h"
#include "walkeeper/ledger.h"

enum { ENTRY_SIZE_MAX = 40 * 1024, ENTRY_HEAD = 24 };
static const char KEY[] = "the key of this ledger";     /* 22 bytes */
static const char JOURNAL_DIRECTORY[] = "fast/journal"; /* on the second device, where that is mounted */
static const char OTHER_KEY[] = "not the key of this one";

static inline wk_open_options store_options(void) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = WK_OPEN_MANUAL;
	options.kind = WK_KIND_LEDGERS;
	options.file_size_min = 64 * 1024;
	options.file_size_max = 256 * 1024;
	options.sync_method = WK_SYNC_DSYNC;
	return options;
}

static inline wk_namespace *open_store_with(wk_io *io, const wk_open_options *options) {
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open_on(io, "store", options, &ns, &error), &error, "the store opens");
	return ns;
}

static inline wk_namespace *open_store(wk_io *io) {
	wk_open_options options = store_options();
	return open_store_with(io, &options);
}

static inline wk_io *new_disk(uint64_t seed) {
	wk_io *io;
	CHECK_EQ(wk_faulty_new(seed, &io), 0);
	return io;
}

static inline void close_store(wk_namespace *ns) {
	wk_error error = {0};
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "the store closes");
}

/* As a kill would: nothing more reaches the disk. */
static inline void kill_store(wk_namespace *ns, wk_io *io) {
	wk_abandon(ns);
	wk_faulty_kill(wk_faulty_of(io));
}

static inline void work(wk_namespace *ns) {
	bool idle = false;
	wk_error error = {0};
	while (!idle)
		check_ok(wk_namespace_step(ns, &idle, &error), &error, "background work");
}

/* ---- entries ---- */

static inline size_t entry_size(uint64_t version) {
	uint64_t seed = version;
	uint64_t kind = check_random(&seed) % 100, size = check_random(&seed);
	return ENTRY_HEAD + (size_t)(kind < 70   ? size % 300
	                             : kind < 95 ? size % 6000
	                                         : size % (ENTRY_SIZE_MAX - ENTRY_HEAD));
}

static inline size_t fill_entry(int64_t ledger_id, int64_t entry_id, uint64_t version, uint8_t *bytes) {
	size_t size = entry_size(version);
	wk_store_be64(bytes, (uint64_t)ledger_id);
	wk_store_be64(bytes + 8, (uint64_t)entry_id);
	wk_store_be64(bytes + 16, version);
	uint64_t seed = version + 77;
	check_random_bytes(&seed, bytes + ENTRY_HEAD, size - ENTRY_HEAD);
	return size;
}

static inline wk_add an_add(const uint8_t *bytes, size_t size, uint32_t flags) {
	return (wk_add){.bytes = bytes, .size = size, .key = KEY, .key_size = sizeof KEY - 1, .flags = flags};
}

/* One entry; its status. *ticket (may be NULL: waits). */
static inline wk_status add_version(wk_namespace *ns, int64_t ledger_id, int64_t entry_id, uint64_t version,
                                    uint32_t flags, uint64_t *ticket) {
	static _Thread_local uint8_t bytes[ENTRY_SIZE_MAX];
	wk_add add = an_add(bytes, fill_entry(ledger_id, entry_id, version, bytes), flags);
	wk_error error = {0};
	wk_status status = wk_ledger_add(ns, &add, 1, UINT64_MAX, ticket == NULL, &error);
	CHECK_EQ(add.status, status);
	CHECK_EQ(status != WK_OK, error.text[0] != 0);
	if (ticket != NULL)
		*ticket = add.ticket;
	return status;
}

static inline void add_entry(wk_namespace *ns, int64_t ledger_id, int64_t entry_id) {
	CHECK_EQ(add_version(ns, ledger_id, entry_id, (uint64_t)entry_id + 1, 0, NULL), WK_OK);
}

/* Of a batch with this entry alone, as it was added, whole; released. */
static inline uint64_t take_version(wk_entry_batch *batch, int64_t ledger_id, int64_t entry_id) {
	static _Thread_local uint8_t expected[ENTRY_SIZE_MAX];
	size_t count;
	const wk_stored_entry *entries = wk_entry_batch_entries(batch, &count);
	CHECK_EQ(count, 1);
	CHECK_EQ(entries[0].entry_id, entry_id);
	uint64_t version = wk_load_be64(entries[0].bytes + 16);
	CHECK(version != 0);
	CHECK_EQ(entries[0].size, fill_entry(ledger_id, entry_id, version, expected));
	CHECK(memcmp(entries[0].bytes, expected, entries[0].size) == 0);
	wk_entry_batch_release(batch);
	return version;
}

/*
 * The entry as it was added, whole; its version. 0: the ledger is known and has no such entry. false: the disk failed
 * the read, or there was no memory for it.
 */
static inline bool read_version(wk_namespace *ns, int64_t ledger_id, int64_t entry_id, uint64_t *version,
                                wk_error *error) {
	wk_entry_batch *batch = NULL;
	*version = 0;
	/* What memory has is what is told: who asks next must not be told of an older one. */
	if (wk_ledger_read_cached(ns, ledger_id, entry_id, 1, 1 << 20, &batch) == WK_OK)
		*version = take_version(batch, ledger_id, entry_id);
	wk_status status = wk_ledger_read(ns, ledger_id, entry_id, 1, 1 << 20, &batch, error);
	if (status == WK_NOT_FOUND || status == WK_IO || status == WK_NO_MEMORY)
		return status == WK_NOT_FOUND;
	check_ok(status, error, "the entry is read");
	uint64_t stored = take_version(batch, ledger_id, entry_id);
	CHECK(stored >= *version);
	*version = *version != 0 ? *version : stored;
	return true;
}

static inline uint64_t version_of(wk_namespace *ns, int64_t ledger_id, int64_t entry_id) {
	uint64_t version;
	wk_error error = {0};
	if (!read_version(ns, ledger_id, entry_id, &version, &error))
		check_ok(error.status, &error, "the entry is read");
	return version;
}

/* Entries of 3000 bytes: forty of them fill a few of the smallest files. */
static inline void fill_ledger(wk_namespace *ns, int64_t ledger_id, int64_t entries) {
	static uint8_t bytes[3000];
	for (int64_t id = 0; id < entries; id++) {
		wk_store_be64(bytes, (uint64_t)ledger_id);
		wk_store_be64(bytes + 8, (uint64_t)id);
		wk_add add = an_add(bytes, sizeof bytes, 0);
		CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
		work(ns);
	}
}

static inline wk_status fence(wk_namespace *ns, int64_t ledger_id) {
	return wk_ledger_fence(ns, ledger_id, KEY, sizeof KEY - 1, UINT64_MAX, NULL, NULL);
}

static inline wk_ledger_info info_of(wk_namespace *ns, int64_t ledger_id) {
	wk_ledger_info info;
	wk_error error = {0};
	check_ok(wk_ledger_describe(ns, ledger_id, &info, &error), &error, "the ledger is known");
	return info;
}

/*
 * Each range is of a file that is there: one that outlived its file would be taken for a range of whatever file gets
 * that memory next.
 */
static inline void no_range_outlives_its_file(wk_namespace *ns) {
	wk_engine *engine = ns->engine;
	wk_engine_lock(engine);
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++) {
		const wk_ledger *ledger = engine->ledgers[i];
		for (uint32_t r = 0; ledger != NULL && r < ledger->ranges_count; r++) {
			const wk_range *range = &wk_ranges_in_memory(ledger)[r];
			bool there = false;
			for (uint32_t f = 0; f < engine->files_count; f++)
				there |= engine->files[f] == range->file;
			CHECK(there);
			CHECK(range->open || range->dead < range->count);
		}
	}
	wk_engine_unlock(engine);
}

/* How many entries there are; they must be in ranges without holes, in order. */
static inline uint64_t entries_of(wk_namespace *ns, int64_t ledger_id) {
	uint64_t entries = 0;
	int64_t from = 0;
	wk_entry_range ranges[8];
	size_t count;
	do {
		wk_error error = {0};
		check_ok(wk_ledger_entries(ns, ledger_id, from, ranges, 8, &count, &error), &error, "the entries are listed");
		for (size_t i = 0; i < count; i++, from = ranges[i - 1].last + 1) {
			CHECK(ranges[i].first >= from && ranges[i].last >= ranges[i].first);
			entries += (uint64_t)(ranges[i].last - ranges[i].first) + 1;
		}
	} while (count == 8);
	return entries;
}

static inline bool is_known(wk_namespace *ns, int64_t ledger_id) {
	wk_ledger_info info;
	wk_status status = wk_ledger_describe(ns, ledger_id, &info, NULL);
	CHECK(status == WK_OK || status == WK_NO_LEDGER);
	return status == WK_OK;
}
#endif
