/* wire_entry.c: what a bookie reads in an entry and in an explicit LAC packet, and the digests of both worlds. */
#include "core/bytes.h"
#include "core/wire.h"
#include <assert.h>

enum { LEDGER_ID_AT = 0, ENTRY_ID_AT = 8, LAC_AT = 16, LENGTH_AT = 24, DIGEST_AT = WK_WIRE_ENTRY_HEADER_SIZE };
enum { PACKET_LAC_AT = 8, PACKET_HEADER_SIZE = 16, CRC32_SIZE = 8, CRC32C_SIZE = 4 };

wk_status wk_wire_entry_decode(const uint8_t *bytes, size_t size, wk_wire_entry *entry) {
	if (size < WK_WIRE_ENTRY_HEADER_SIZE)
		return WK_CORRUPT;
	entry->ledger_id = wk_load_be64_signed(bytes + LEDGER_ID_AT);
	entry->entry_id = wk_load_be64_signed(bytes + ENTRY_ID_AT);
	entry->lac = wk_load_be64_signed(bytes + LAC_AT);
	entry->length = wk_load_be64_signed(bytes + LENGTH_AT);
	return WK_OK;
}

wk_status wk_wire_lac_decode(const uint8_t *bytes, size_t size, int64_t ledger_id, int64_t *lac) {
	if (size < PACKET_HEADER_SIZE || wk_load_be64_signed(bytes + LEDGER_ID_AT) != ledger_id)
		return WK_CORRUPT;
	*lac = wk_load_be64_signed(bytes + PACKET_LAC_AT);
	return WK_OK;
}

/* Header and payload, without the digest between them. */
static uint32_t crc32c_of(const uint8_t *bytes, size_t size) {
	uint32_t crc = wk_crc32c(bytes, DIGEST_AT);
	return wk_crc32c_extend(crc, bytes + DIGEST_AT + CRC32C_SIZE, size - DIGEST_AT - CRC32C_SIZE);
}

static uint64_t crc32_of(const uint8_t *bytes, size_t size) {
	uint32_t crc = wk_crc32_extend(0, bytes, DIGEST_AT);
	return wk_crc32_extend(crc, bytes + DIGEST_AT + CRC32_SIZE, size - DIGEST_AT - CRC32_SIZE);
}

uint32_t wk_wire_payload_crc32c(const uint8_t *bytes, size_t size) {
	uint32_t header = wk_crc32c(bytes, DIGEST_AT);
	return wk_load_be32(bytes + DIGEST_AT) ^ wk_crc32c_combine(header, 0, size - DIGEST_AT - CRC32C_SIZE);
}

bool wk_wire_digest_matches(const uint8_t *bytes, size_t size, uint32_t digest) {
	if (digest == WK_DIGEST_CRC32C && size >= DIGEST_AT + CRC32C_SIZE)
		return wk_load_be32(bytes + DIGEST_AT) == crc32c_of(bytes, size);
	if (digest == WK_DIGEST_CRC32 && size >= DIGEST_AT + CRC32_SIZE) {
		uint64_t stored = wk_load_be64(bytes + DIGEST_AT); /* most entries of another type are told by its zeros */
		return stored <= UINT32_MAX && stored == crc32_of(bytes, size);
	}
	return false;
}

void wk_wire_digest_put(uint8_t *bytes, size_t size, uint32_t digest) {
	assert(digest == WK_DIGEST_CRC32 || digest == WK_DIGEST_CRC32C);
	if (digest == WK_DIGEST_CRC32C) {
		assert(size >= DIGEST_AT + CRC32C_SIZE);
		wk_store_be32(bytes + DIGEST_AT, crc32c_of(bytes, size));
	} else {
		assert(size >= DIGEST_AT + CRC32_SIZE);
		wk_store_be64(bytes + DIGEST_AT, crc32_of(bytes, size));
	}
}
