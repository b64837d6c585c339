/*
 * Checked: any bytes decode to a block or are refused, without a read outside them; decode agrees with a walk written
 * here over the same rules; a block that decodes is sealed again to the same bytes. As no fuzzer finds a checksum, the
 * input is also tried with its magic and checksum put right, zero-filled to the size that it names.
 */
#include "core/bytes.h"
#include "core/journal_block.h"
#include "fuzz.h"
#include <assert.h>
#include <stdlib.h>

enum { MENDED_SIZE_MAX = 4 * 4096 };

/* The records of bytes[80..used), by sums alone: types 1 to 6, and not a byte left over. */
static bool is_framed(const uint8_t *bytes, uint32_t used) {
	uint64_t at = 80;
	while (at + 4 <= used) {
		uint32_t word = wk_load_le32(bytes + at);
		if (word >> 28 < 1 || word >> 28 > 6)
			return false;
		at += 4 + (uint64_t)(word & 0x0fffffff);
	}
	return at == used;
}

static wk_status decode_and_seal(const uint8_t *bytes, size_t size) {
	wk_block_header header, peeked;
	wk_status status = wk_block_decode(bytes, size, &header);
	wk_status peek = wk_block_peek(bytes, size, &peeked);
	if (status != WK_OK) {
		assert(status == WK_CORRUPT || status == WK_END);
		assert(status == WK_CORRUPT || peek == WK_OK || size < WK_BLOCK_HEADER_SIZE);
		return status;
	}
	assert(peek == WK_OK && peeked.crc == header.crc && header.size <= size);
	uint32_t cursor = WK_BLOCK_HEADER_SIZE, before = cursor;
	wk_block_record record;
	while ((status = wk_block_next(bytes, &header, &cursor, &record)) == WK_OK) {
		assert(record.offset == before + WK_BLOCK_RECORD_HEADER_SIZE && record.offset + record.size == cursor);
		assert(record.bytes == bytes + record.offset && cursor <= header.used);
		before = cursor;
	}
	assert(status == WK_END && cursor == header.used);
	if (header.offset % WK_BLOCK_ALIGNMENT != 0)
		return WK_OK; /* never written by seal, and in no place where a scan looks */
	uint8_t *sealed = malloc(header.size);
	assert(sealed != NULL);
	memset(sealed, 0xee, header.size);
	memcpy(sealed + WK_BLOCK_HEADER_SIZE, bytes + WK_BLOCK_HEADER_SIZE, header.used - WK_BLOCK_HEADER_SIZE);
	wk_block_seal(sealed, &header);
	assert(memcmp(sealed, bytes, header.size) == 0);
	free(sealed);
	return WK_OK;
}

static void mended(const uint8_t *bytes, size_t size) {
	static uint8_t block[MENDED_SIZE_MAX];
	uint32_t block_size = wk_load_le32(bytes + 12);
	if (block_size < 4096 || block_size > sizeof block || size > block_size)
		return;
	memset(block, 0, block_size);
	memcpy(block, bytes, size);
	memcpy(block, "WKJB", 4);
	wk_store_le32(block + 4, wk_crc32c_extend_portable(0, block + 8, block_size - 8));
	wk_block_header header;
	wk_status expected = wk_block_peek(block, block_size, &header);
	if (expected == WK_OK) {
		bool padded = true;
		for (uint32_t i = header.used; i < block_size; i++)
			padded = padded && block[i] == 0;
		bool empty = header.used == WK_BLOCK_HEADER_SIZE;
		if (!padded || !is_framed(block, header.used) || ((header.flags & WK_BLOCK_CONFIRM) != 0 && !empty))
			expected = WK_CORRUPT;
	}
	assert(decode_and_seal(block, block_size) == expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	decode_and_seal(bytes, size);
	if (size >= WK_BLOCK_HEADER_SIZE)
		mended(bytes, size);
	return 0;
}
