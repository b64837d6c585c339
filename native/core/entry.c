/* entry.c: BookKeeper's entry. The layout and the rule of validity are in walkeeper/entry.h. */
#include "walkeeper/entry.h"
#include "core/bytes.h"
#include <assert.h>

enum { LEDGER_ID_AT = 0, ENTRY_ID_AT = 8, LAC_AT = 16, LENGTH_AT = 24, DIGEST_AT = 32 };
static_assert(DIGEST_AT + 4 == WK_ENTRY_HEADER_SIZE, "the payload follows the digest");

/* The digest leaves out its own four bytes. */
static uint32_t digest(const uint8_t header[WK_ENTRY_HEADER_SIZE], const uint8_t *payload, size_t payload_size) {
	uint32_t crc = wk_crc32c(header, DIGEST_AT);
	return payload_size == 0 ? crc : wk_crc32c_extend(crc, payload, payload_size);
}

/* Entries are submitted in order, so the last confirmed one comes before the one that tells of it. As it is -1 or more,
 * the entry id is 0 or more. */
static bool is_possible(const wk_entry *entry) {
	return entry->ledger_id >= 0 && entry->length >= 0 && entry->lac >= -1 && entry->lac < entry->entry_id;
}

/* All but the digest. */
static void fill(const wk_entry *entry, uint8_t header[36]) {
	assert(is_possible(entry));
	assert(entry->payload_size <= WK_ENTRY_SIZE_MAX - WK_ENTRY_HEADER_SIZE);
	wk_store_be64_signed(header + LEDGER_ID_AT, entry->ledger_id);
	wk_store_be64_signed(header + ENTRY_ID_AT, entry->entry_id);
	wk_store_be64_signed(header + LAC_AT, entry->lac);
	wk_store_be64_signed(header + LENGTH_AT, entry->length);
}

void wk_entry_encode_header(const wk_entry *entry, uint8_t header[36]) {
	fill(entry, header);
	wk_store_be32(header + DIGEST_AT, digest(header, entry->payload, entry->payload_size));
}

void wk_entry_encode_header_with(const wk_entry *entry, uint32_t payload_crc, uint8_t header[36]) {
	fill(entry, header);
	wk_store_be32(header + DIGEST_AT,
	              wk_crc32c_combine(wk_crc32c(header, DIGEST_AT), payload_crc, entry->payload_size));
}

wk_status wk_entry_decode(const uint8_t *bytes, size_t size, wk_entry *entry) {
	if (size < WK_ENTRY_HEADER_SIZE || size > WK_ENTRY_SIZE_MAX)
		return WK_CORRUPT;
	wk_entry found = {
	    .ledger_id = wk_load_be64_signed(bytes + LEDGER_ID_AT),
	    .entry_id = wk_load_be64_signed(bytes + ENTRY_ID_AT),
	    .lac = wk_load_be64_signed(bytes + LAC_AT),
	    .length = wk_load_be64_signed(bytes + LENGTH_AT),
	    .payload = bytes + WK_ENTRY_HEADER_SIZE,
	    .payload_size = size - WK_ENTRY_HEADER_SIZE,
	};
	if (!is_possible(&found))
		return WK_CORRUPT;
	if (wk_load_be32(bytes + DIGEST_AT) != digest(bytes, found.payload, found.payload_size))
		return WK_CORRUPT;
	*entry = found;
	return WK_OK;
}
