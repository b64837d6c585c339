/*
 * Checked: of any bytes that are what damage left of an entry it is said how many records they held at most: one or more,
 * and no more than an envelope can hold; without a read outside them.
 */
#include "engine/recovery/loss.h"
#include "fuzz.h"
#include "walkeeper/entry.h"
#include "walkeeper/record.h"
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	if (size < WK_ENTRY_HEADER_SIZE)
		return 0;
	int64_t most = wk_loss_records_in(bytes, size);
	assert(most >= 1);
	size_t larger = size > WK_ENVELOPE_SIZE_MAX ? size : WK_ENVELOPE_SIZE_MAX;
	assert(most <= (int64_t)(larger / WK_RECORD_HEADER_SIZE));
	return 0;
}
