/*
 * digest.h: the digest of an entry and of an explicit LAC packet, for a client: over what stands before it (the head)
 * and what stands behind it (the payload). Pure. Source: BookKeeper's DigestManager.
 */
#ifndef WK_CORE_DIGEST_H
#define WK_CORE_DIGEST_H
#include "core/wire.h"

enum { WK_DIGEST_SIZE_MAX = 20 };

typedef struct wk_digest {
	uint32_t type; /* enum wk_wire_digest, but for UNKNOWN */
	uint8_t mac_key[20];
} wk_digest;

/* Bytes of a digest: 8, 20, 4 or 0. */
size_t wk_digest_size(const wk_digest *digest);
/* `payload` may be NULL where its size is 0. */
void wk_digest_put(const wk_digest *digest, const uint8_t *head, size_t head_size, const uint8_t *payload,
                   size_t payload_size, uint8_t *out);
/*
 * Takes an entry apart that a bookie sent. WK_CORRUPT: it is shorter than its head and digest, has another digest, is of
 * another ledger, or is another entry than `entry_id` (-1: any).
 */
wk_status wk_digest_open(const wk_digest *digest, const uint8_t *bytes, size_t size, int64_t ledger_id,
                         int64_t entry_id, wk_wire_entry *entry, const uint8_t **payload, size_t *payload_size);
/* The same of an explicit LAC packet: its LAC. */
wk_status wk_digest_open_lac(const wk_digest *digest, const uint8_t *bytes, size_t size, int64_t ledger_id,
                             int64_t *lac);
#endif
