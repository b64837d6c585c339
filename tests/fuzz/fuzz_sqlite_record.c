/*
 * Records of a SQLite database, each behind two bytes that say how long it is, carried out on a file in memory. Their crc is put
 * right, and `before` too where the first byte is odd, so that more of them are looked into. Whatever comes, no byte
 * outside of a page is touched, and what the file holds moves on by one transaction at a time.
 */
#include "fuzz.h"
#include "redo.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_SIZE = 1 << 20 };

static wk_status read_file(void *context, uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	(void)error;
	assert(size >= 512 && size <= WK_PAGE_SIZE_MAX && offset % size == 0);
	memset(bytes, 0, size);
	if (offset + size <= FILE_SIZE)
		memcpy(bytes, (uint8_t *)context + offset, size);
	return WK_OK;
}

static wk_status write_file(void *context, const uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	(void)error;
	assert(size >= 512 && size <= WK_PAGE_SIZE_MAX && offset % size == 0);
	if (offset + size <= FILE_SIZE)
		memcpy((uint8_t *)context + offset, bytes, size);
	return WK_OK;
}

static void put_right(uint8_t *record, size_t size, bool before, uint32_t crc_before) {
	record[0] = 1;
	if (before)
		memcpy(record + 8, &crc_before, 4);
	uint32_t crc = wk_crc32c_extend(wk_crc32c(record, 4), record + 8, size - 8);
	memcpy(record + 4, &crc, 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	static uint8_t file_bytes[FILE_SIZE];
	const wk_redo_file file = {.context = file_bytes, .read = read_file, .write = write_file};
	const wk_redo_point none = {.lsn = -1, .txid = -1};
	wk_redo redo;
	wk_error error;
	if (size == 0 ||
	    wk_redo_begin(&redo, &file, &none, bytes[0] & 2 ? WK_PAGES_SNAPSHOT : WK_PAGES_COMMIT, &error) != WK_OK)
		return 0;
	bool before = (bytes[0] & 1) != 0;
	size_t at = 1;
	uint32_t crc = 0;
	for (int64_t number = 0; at + 2 <= size; number++) {
		size_t length = (size_t)bytes[at] | (size_t)bytes[at + 1] << 8;
		at += 2;
		if (length > size - at)
			length = size - at;
		uint8_t *record = malloc(length + 1); /* so that reading behind it is seen */
		assert(record != NULL);
		memcpy(record, bytes + at, length);
		if (length >= WK_PAGES_RECORD_HEADER)
			put_right(record, length, before, crc);
		uint64_t transaction = redo.at.transaction;
		wk_status status = wk_redo_record(&redo, record, length, number, number, &error);
		assert(status == WK_OK || status == WK_CORRUPT || status == WK_UNSUPPORTED);
		if (status == WK_OK && length >= WK_PAGES_RECORD_HEADER)
			memcpy(&crc, record + 4, 4);
		if (redo.kind == WK_PAGES_COMMIT)
			assert(redo.at.transaction == transaction || redo.at.transaction == transaction + 1);
		free(record);
		at += length;
	}
	wk_redo_free(&redo);
	return 0;
}
