/*
 * entry.h: BookKeeper's entry, identical on the wire and on disk (docs/formats/entry.md).
 *
 *   0  int64  ledger id          big-endian throughout
 *   8  int64  entry id
 *  16  int64  LAC: the ledger's last entry confirmed when this one was submitted, -1 for none
 *  24  int64  length: payload bytes of the ledger up to and including this entry
 *  32  uint32 digest: CRC-32C of bytes 0..31 and the payload
 *  36  payload
 *
 * Pure. Source: BookKeeper DigestManager.java, digest type CRC32C.
 */
#ifndef WALKEEPER_ENTRY_H
#define WALKEEPER_ENTRY_H
#include "walkeeper/core.h"

enum {
	WK_ENTRY_HEADER_SIZE = 36,                       /* 32 bytes of metadata and the digest */
	WK_ENTRY_SIZE_MAX = 5 * 1024 * 1024 + 64 * 1024, /* BookKeeper's frame limit, header included */
};

typedef struct wk_entry {
	int64_t ledger_id;
	int64_t entry_id;
	int64_t lac;
	int64_t length;
	const uint8_t *payload; /* points into the bytes decoded; the caller keeps them */
	size_t payload_size;
} wk_entry;

/* Writes the 36 bytes before the payload; `entry->payload` is read for the digest, not copied. */
WK_API void wk_entry_encode_header(const wk_entry *entry, uint8_t header[36]);

/* The same where the CRC-32C of the payload is known already: its bytes are not read. */
WK_API void wk_entry_encode_header_with(const wk_entry *entry, uint32_t payload_crc, uint8_t header[36]);

/* WK_CORRUPT: shorter than 36 bytes, longer than WK_ENTRY_SIZE_MAX, digest differs, or a negative ledger id,
 * entry id or length, or LAC < -1 or LAC >= entry id. */
WK_API wk_status wk_entry_decode(const uint8_t *bytes, size_t size, wk_entry *entry);
#endif
