/* sha1.h: SHA-1 and HMAC-SHA1 (RFC 3174, RFC 2104), for the digest type MAC of BookKeeper. Private. Pure. */
#ifndef WK_CORE_SHA1_H
#define WK_CORE_SHA1_H
#include <stddef.h>
#include <stdint.h>

enum { WK_SHA1_SIZE = 20, WK_SHA1_BLOCK = 64 };

typedef struct wk_sha1 {
	uint32_t state[5];
	uint64_t size;
	uint8_t block[64];
} wk_sha1;

void wk_sha1_begin(wk_sha1 *sha1);
void wk_sha1_add(wk_sha1 *sha1, const void *bytes, size_t size);
void wk_sha1_end(wk_sha1 *sha1, uint8_t digest[20]);

/* HMAC of A followed by B; the key has at most 64 bytes. */
void wk_hmac_sha1(const uint8_t *key, size_t key_size, const void *a, size_t a_size, const void *b, size_t b_size,
                  uint8_t mac[20]);
#endif
