/*
 * Checked: any bytes are records back to back up to the first that is refused, without a read outside them; every
 * record is encoded again to the same bytes.
 */
#include "core/catalogue_record.h"
#include "fuzz.h"
#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	wk_catalogue_record record;
	size_t consumed;
	wk_status status;
	while ((status = wk_catalogue_decode(bytes, size, &record, &consumed)) == WK_OK) {
		assert(consumed >= 8 && consumed <= size && consumed <= WK_CATALOGUE_RECORD_MAX);
		assert(record.name_size == 0 || ((const uint8_t *)record.name > bytes && record.name_size <= 255 &&
		                                 (const uint8_t *)record.name + record.name_size == bytes + consumed));
		uint8_t again[WK_CATALOGUE_RECORD_MAX];
		assert(wk_catalogue_encode(&record, again) == consumed);
		assert(memcmp(again, bytes, consumed) == 0);
		bytes += consumed;
		size -= consumed;
	}
	assert(status == WK_END ? size == 0 : status == WK_CORRUPT || status == WK_UNSUPPORTED);
	return 0;
}
