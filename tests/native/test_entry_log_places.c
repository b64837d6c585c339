/*
 * test_entry_log_places.c: an entry log whose pages of items cannot be read. Its entries stand one after another, so
 * where they are is found out from themselves, and nothing is lost, whatever the policy.
 */
/* ctest labels: one-thread */
#include "check.h"
#include "core/footer.h"
#include "engine/directory/directory.h"
#include "engine/engine.h"
#include "engine/manual.h"
#include "io/io.h"
#include "manual_options.h"
#include "sim/faulty.h"
#include "walkeeper/log.h"

enum { FILE_BYTES = 4 << 20, RECORDS = 1300, NOISE_BYTES = 30 * 1024 };
static wk_io *disk;
static wk_namespace *ns;
static char path[64]; /* of the entry log */
static wk_footer footer;

static void open_it(wk_io *io) {
	wk_error error = {0};
	wk_open_options options = manual_options(FILE_BYTES);
	wk_status status = wk_open_on(io, "wal", &options, &ns, &error);
	if (status != WK_OK)
		printf("%s\n", error.text);
	CHECK_EQ(status, WK_OK);
}

static void append(wk_writer *writer, const void *payload, size_t size) {
	wk_position at;
	CHECK_EQ(wk_writer_append(writer, payload, size, NULL, &at, NULL), WK_OK);
}

/* Sizes differ, and one payload holds what looks like the ids of the entry behind it. */
static size_t payload_of(int i, uint8_t payload[256]) {
	int size = snprintf((char *)payload, 64, "record %d", i);
	memset(payload + size, '.', (size_t)(i % 50));
	size += i % 50;
	if (i % 10 == 3) {
		memset(payload + size, 0, 16);
		payload[size + 7] = 1; /* the ledger of the log */
		payload[size + 14] = (uint8_t)((i + 1) >> 8);
		payload[size + 15] = (uint8_t)(i + 1);
		size += 16;
	}
	return (size_t)size;
}

/* The entries of one log, in a few files, thinned out by the end of another: they are moved together. */
static void make(void) {
	static uint8_t noise[NOISE_BYTES];
	uint8_t payload[256];
	wk_log *keep = NULL, *other = NULL;
	wk_writer *keeping, *making_noise;
	wk_position at;
	CHECK_EQ(wk_faulty_new(7, &disk), 0);
	open_it(disk);
	CHECK_EQ(wk_log_open(ns, "keep", 4, true, NULL, &keep, NULL), WK_OK);
	CHECK_EQ(wk_writer_open(keep, &keeping, NULL), WK_OK);
	CHECK_EQ(wk_log_open(ns, "other", 5, true, NULL, &other, NULL), WK_OK);
	CHECK_EQ(wk_writer_open(other, &making_noise, NULL), WK_OK);
	for (int i = 0; i < RECORDS; i++) {
		append(keeping, payload, payload_of(i, payload));
		append(making_noise, noise, sizeof noise);
	}
	wk_writer_next(making_noise, &at);
	CHECK_EQ(wk_log_find(other, WK_FIND_SEQUENCE_ID, at.sequence_id - 1, NULL, &at, NULL), WK_OK);
	CHECK_EQ(wk_log_truncate(other, &at.dlsn, true, NULL), WK_OK);
	for (int i = 0; i < 200; i++) {
		bool idle = false;
		wk_faulty_advance(wk_faulty_of(disk), 100 * 1000000);
		while (!idle)
			CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	}
	CHECK_EQ(wk_writer_close(keeping, UINT64_MAX, NULL), WK_OK);
	CHECK_EQ(wk_writer_close(making_noise, UINT64_MAX, NULL), WK_OK);
	for (uint32_t i = 0; i < ns->engine->files_count; i++) {
		const wk_store_file *file = ns->engine->files[i];
		if (file->kind == WK_FILE_ENTRY_LOG && file->footer.items_count > footer.items_count) {
			footer = file->footer;
			snprintf(path, sizeof path, "wal/entries/%016llx.wke", (unsigned long long)file->id);
		}
	}
	wk_log_release(keep);
	wk_log_release(other);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	CHECK(footer.items_count > 2 * WK_PAGE_ITEMS);
}

static void read_all(void) {
	wk_log *keep = NULL;
	wk_reader *reader = NULL;
	wk_batch *batch;
	wk_error error = {0};
	wk_status status;
	int next = 0;
	CHECK_EQ(wk_log_open(ns, "keep", 4, false, NULL, &keep, &error), WK_OK);
	CHECK_EQ(wk_reader_open(keep, NULL, &reader, &error), WK_OK);
	while ((status = wk_reader_next(reader, 1000, 1 << 20, 0, &batch, &error)) == WK_OK) {
		size_t count;
		const wk_record *records = wk_batch_records(batch, &count);
		for (size_t i = 0; i < count; i++, next++) {
			uint8_t payload[256];
			CHECK_EQ(records[i].kind, WK_RECORD_DATA);
			CHECK_EQ(records[i].size, payload_of(next, payload));
			CHECK(memcmp(records[i].payload, payload, records[i].size) == 0);
		}
		wk_batch_release(batch);
	}
	if (status != WK_END)
		printf("%s\n", error.text);
	CHECK_EQ(status, WK_END);
	CHECK_EQ(next, RECORDS);
	wk_reader_release(reader);
	wk_log_release(keep);
}

TEST(without_its_pages_of_items_all_of_an_entry_log_is_read) {
	make();
	uint32_t pages = (footer.items_count + WK_PAGE_ITEMS - 1) / WK_PAGE_ITEMS;
	for (uint32_t which = 1; which < 1u << pages; which++) {
		wk_io *io;
		CHECK_EQ(wk_faulty_image(wk_faulty_of(disk), wk_faulty_trace_length(wk_faulty_of(disk)), 1, &io), 0);
		for (uint32_t page = 0; page < pages; page++)
			if (which >> page & 1)
				CHECK_EQ(
				    wk_faulty_flip(wk_faulty_of(io), path, wk_footer_item_page(&footer, page * WK_PAGE_ITEMS) + 40, 1),
				    0);
		open_it(io);
		read_all();
		wk_abandon(ns);
		io->operations->destroy(io);
	}
	disk->operations->destroy(disk);
}

int main(void) {
	RUN(without_its_pages_of_items_all_of_an_entry_log_is_read);
	return check_done();
}
