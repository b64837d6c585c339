/*
 * Checked: any bytes decode to an entry or are refused, without a read outside them; an entry that decodes encodes to
 * the same 36 bytes. As no fuzzer finds a digest, the input is also tried with its digest put right, which must then
 * decode or break a rule about its numbers.
 */
#include "core/bytes.h"
#include "fuzz.h"
#include "walkeeper/entry.h"
#include <assert.h>
#include <stdlib.h>

static wk_status decode_and_encode(const uint8_t *bytes, size_t size) {
	wk_entry entry;
	wk_status status = wk_entry_decode(bytes, size, &entry);
	if (status != WK_OK) {
		assert(status == WK_CORRUPT);
		return status;
	}
	uint8_t header[WK_ENTRY_HEADER_SIZE];
	wk_entry_encode_header(&entry, header);
	assert(memcmp(header, bytes, sizeof header) == 0);
	assert(entry.payload == bytes + sizeof header && entry.payload_size == size - sizeof header);
	return WK_OK;
}

static bool numbers_are_possible(const uint8_t *bytes) {
	int64_t entry_id = wk_load_be64_signed(bytes + 8), lac = wk_load_be64_signed(bytes + 16);
	return wk_load_be64_signed(bytes) >= 0 && entry_id >= 0 && wk_load_be64_signed(bytes + 24) >= 0 && lac >= -1 &&
	       lac < entry_id;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	decode_and_encode(bytes, size);
	if (size < WK_ENTRY_HEADER_SIZE)
		return 0;
	uint8_t *mended = malloc(size);
	assert(mended != NULL);
	memcpy(mended, bytes, size);
	uint32_t crc = wk_crc32c_extend_portable(0, mended, 32);
	wk_store_be32(mended + 32, wk_crc32c_extend_portable(crc, mended + 36, size - 36));
	wk_status status = decode_and_encode(mended, size);
	assert((status == WK_OK) == (numbers_are_possible(mended) && size <= WK_ENTRY_SIZE_MAX));
	free(mended);
	return 0;
}
