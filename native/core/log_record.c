/* log_record.c: DistributedLog's record. The layout and the rule of validity are in walkeeper/record.h. */
#include "core/bytes.h"
#include "walkeeper/record.h"
#include <assert.h>

enum { METADATA_AT = 0, TXID_AT = 8, PAYLOAD_SIZE_AT = 16 };
enum { POSITION_SHIFT = 16, UNUSED_SHIFT = 48 };
enum { FLAGS_MASK = 0xffff, FLAGS_KNOWN = WK_RECORD_CONTROL | WK_RECORD_END_OF_STREAM | WK_RECORD_SET };
static_assert(PAYLOAD_SIZE_AT + 4 == WK_RECORD_HEADER_SIZE, "the payload follows its size");

/* Control records are not counted; all others are, from 1. */
static bool is_possible(const wk_log_record *record) {
	return (record->flags & ~(uint32_t)FLAGS_KNOWN) == 0 && record->txid >= 0 &&
	       (record->position > 0 || (record->flags & WK_RECORD_CONTROL) != 0) &&
	       record->payload_size <= WK_RECORD_SIZE_MAX - WK_RECORD_HEADER_SIZE;
}

void wk_log_record_encode_header(const wk_log_record *record, uint8_t header[20]) {
	assert(is_possible(record));
	wk_store_be64(header + METADATA_AT, (uint64_t)record->position << POSITION_SHIFT | record->flags);
	wk_store_be64_signed(header + TXID_AT, record->txid);
	wk_store_be32(header + PAYLOAD_SIZE_AT, (uint32_t)record->payload_size);
}

wk_status wk_log_record_decode(const uint8_t *bytes, size_t size, wk_log_record *record, size_t *consumed) {
	if (size < WK_RECORD_HEADER_SIZE)
		return WK_CORRUPT;
	uint64_t metadata = wk_load_be64(bytes + METADATA_AT);
	wk_log_record found = {
	    .flags = (uint32_t)(metadata & FLAGS_MASK),
	    .position = (uint32_t)(metadata >> POSITION_SHIFT),
	    .txid = wk_load_be64_signed(bytes + TXID_AT),
	    .payload = bytes + WK_RECORD_HEADER_SIZE,
	    .payload_size = wk_load_be32(bytes + PAYLOAD_SIZE_AT), /* a negative one is far too large */
	};
	if (metadata >> UNUSED_SHIFT != 0 || !is_possible(&found))
		return WK_CORRUPT;
	if (found.payload_size > size - WK_RECORD_HEADER_SIZE)
		return WK_CORRUPT;
	*record = found;
	*consumed = WK_RECORD_HEADER_SIZE + found.payload_size;
	return WK_OK;
}
