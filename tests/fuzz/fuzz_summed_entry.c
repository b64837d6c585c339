/*
 * Checked: any bytes are an entry behind its checksum, as a ledger store keeps it, or are refused, without a read outside
 * them. As no fuzzer finds a checksum, the input is also tried with its own put right: then only its ids decide.
 */
#include "core/bytes.h"
#include "engine/ledger/ledger_block.h"
#include "fuzz.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static wk_status decode(const uint8_t *bytes, size_t size) {
	int64_t ledger_id, entry_id;
	wk_status status = wk_summed_entry_decode(bytes, size, &ledger_id, &entry_id);
	assert(status == WK_OK || status == WK_CORRUPT);
	if (status == WK_OK) {
		assert(ledger_id >= 0 && ledger_id == wk_load_be64_signed(bytes + WK_SUM_SIZE));
		assert(entry_id >= 0 && entry_id == wk_load_be64_signed(bytes + WK_SUM_SIZE + 8));
	}
	return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	decode(bytes, size);
	if (size < WK_SUM_SIZE + 16)
		return 0;
	uint8_t *mended = malloc(size);
	assert(mended != NULL);
	memcpy(mended, bytes, size);
	wk_store_le32(mended, wk_crc32c_extend_portable(0, mended + WK_SUM_SIZE, size - WK_SUM_SIZE));
	bool possible = wk_load_be64_signed(mended + WK_SUM_SIZE) >= 0 &&
	                wk_load_be64_signed(mended + WK_SUM_SIZE + 8) >= 0;
	assert((decode(mended, size) == WK_OK) == possible);
	free(mended);
	return 0;
}
