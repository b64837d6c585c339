/* digest.c: see digest.h. */
#include "core/digest.h"
#include "core/bytes.h"
#include "core/sha1.h"
#include <string.h>

enum { LAC_HEAD_SIZE = 16 };

size_t wk_digest_size(const wk_digest *digest) {
	switch (digest->type) {
	case WK_DIGEST_CRC32:
		return 8;
	case WK_DIGEST_MAC:
		return WK_SHA1_SIZE;
	case WK_DIGEST_CRC32C:
		return 4;
	default:
		return 0;
	}
}

void wk_digest_put(const wk_digest *digest, const uint8_t *head, size_t head_size, const uint8_t *payload,
                   size_t payload_size, uint8_t *out) {
	switch (digest->type) {
	case WK_DIGEST_CRC32:
		wk_store_be64(out, wk_crc32_extend(wk_crc32_extend(0, head, head_size), payload, payload_size));
		return;
	case WK_DIGEST_MAC:
		wk_hmac_sha1(digest->mac_key, sizeof digest->mac_key, head, head_size, payload, payload_size, out);
		return;
	case WK_DIGEST_CRC32C:
		wk_store_be32(out, wk_crc32c_extend(wk_crc32c(head, head_size), payload, payload_size));
		return;
	default:
		return;
	}
}

/* The digest between the head and what follows it is the right one. */
static bool matches(const wk_digest *digest, const uint8_t *bytes, size_t size, size_t head_size) {
	uint8_t right[WK_DIGEST_SIZE_MAX];
	size_t digest_size = wk_digest_size(digest);
	if (size < head_size + digest_size)
		return false;
	size_t behind = head_size + digest_size;
	wk_digest_put(digest, bytes, head_size, bytes + behind, size - behind, right);
	return memcmp(right, bytes + head_size, digest_size) == 0;
}

wk_status wk_digest_open(const wk_digest *digest, const uint8_t *bytes, size_t size, int64_t ledger_id,
                         int64_t entry_id, wk_wire_entry *entry, const uint8_t **payload, size_t *payload_size) {
	if (!matches(digest, bytes, size, WK_WIRE_ENTRY_HEADER_SIZE) || wk_wire_entry_decode(bytes, size, entry) != WK_OK)
		return WK_CORRUPT;
	if (entry->ledger_id != ledger_id || entry->entry_id < 0 || (entry_id >= 0 && entry->entry_id != entry_id))
		return WK_CORRUPT;
	size_t head = WK_WIRE_ENTRY_HEADER_SIZE + wk_digest_size(digest);
	/* Only a writer of nonsense counts fewer bytes than the entry has, or a LAC below none. */
	if (entry->lac < -1 || entry->length < 0)
		return WK_CORRUPT;
	*payload = bytes + head;
	*payload_size = size - head;
	return WK_OK;
}

wk_status wk_digest_open_lac(const wk_digest *digest, const uint8_t *bytes, size_t size, int64_t ledger_id,
                             int64_t *lac) {
	if (!matches(digest, bytes, size, LAC_HEAD_SIZE))
		return WK_CORRUPT;
	return wk_wire_lac_decode(bytes, size, ledger_id, lac);
}
