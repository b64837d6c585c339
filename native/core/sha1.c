/* sha1.c: see sha1.h. */
#include "core/sha1.h"
#include "core/bytes.h"
#include <assert.h>
#include <string.h>

static uint32_t rotate(uint32_t word, unsigned bits) {
	return word << bits | word >> (32 - bits);
}

static void mix(uint32_t state[5], const uint8_t *block) {
	uint32_t w[80];
	for (unsigned i = 0; i < 16; i++)
		w[i] = wk_load_be32(block + (size_t)4 * i);
	for (unsigned i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
	for (unsigned i = 0; i < 80; i++) {
		uint32_t f, k;
		if (i < 20)
			f = (b & c) | (~b & d), k = 0x5a827999;
		else if (i < 40)
			f = b ^ c ^ d, k = 0x6ed9eba1;
		else if (i < 60)
			f = (b & c) | (b & d) | (c & d), k = 0x8f1bbcdc;
		else
			f = b ^ c ^ d, k = 0xca62c1d6;
		uint32_t next = rotate(a, 5) + f + e + k + w[i];
		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = next;
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
	state[4] += e;
}

void wk_sha1_begin(wk_sha1 *sha1) {
	*sha1 = (wk_sha1){.state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
}

void wk_sha1_add(wk_sha1 *sha1, const void *data, size_t size) {
	const uint8_t *bytes = data;
	size_t had = (size_t)(sha1->size % WK_SHA1_BLOCK);
	sha1->size += size;
	if (had > 0) {
		size_t taken = WK_SHA1_BLOCK - had < size ? WK_SHA1_BLOCK - had : size;
		memcpy(sha1->block + had, bytes, taken);
		bytes += taken;
		size -= taken;
		if (had + taken < WK_SHA1_BLOCK)
			return;
		mix(sha1->state, sha1->block);
	}
	for (; size >= WK_SHA1_BLOCK; size -= WK_SHA1_BLOCK, bytes += WK_SHA1_BLOCK)
		mix(sha1->state, bytes);
	if (size > 0)
		memcpy(sha1->block, bytes, size);
}

void wk_sha1_end(wk_sha1 *sha1, uint8_t digest[20]) {
	uint8_t padding[WK_SHA1_BLOCK + 8] = {0x80};
	uint64_t bits = sha1->size * 8;
	size_t had = (size_t)(sha1->size % WK_SHA1_BLOCK), zeros = had < 56 ? 56 - had : 120 - had;
	wk_store_be64(padding + zeros, bits);
	wk_sha1_add(sha1, padding, zeros + 8);
	for (unsigned i = 0; i < 5; i++)
		wk_store_be32(digest + (size_t)4 * i, sha1->state[i]);
}

void wk_hmac_sha1(const uint8_t *key, size_t key_size, const void *a, size_t a_size, const void *b, size_t b_size,
                  uint8_t mac[20]) {
	assert(key_size <= WK_SHA1_BLOCK);
	uint8_t pad[WK_SHA1_BLOCK] = {0}, inner[WK_SHA1_SIZE];
	memcpy(pad, key, key_size);
	for (unsigned i = 0; i < WK_SHA1_BLOCK; i++)
		pad[i] ^= 0x36;
	wk_sha1 sha1;
	wk_sha1_begin(&sha1);
	wk_sha1_add(&sha1, pad, sizeof pad);
	wk_sha1_add(&sha1, a, a_size);
	if (b_size > 0)
		wk_sha1_add(&sha1, b, b_size);
	wk_sha1_end(&sha1, inner);
	for (unsigned i = 0; i < WK_SHA1_BLOCK; i++)
		pad[i] ^= 0x36 ^ 0x5c;
	wk_sha1_begin(&sha1);
	wk_sha1_add(&sha1, pad, sizeof pad);
	wk_sha1_add(&sha1, inner, sizeof inner);
	wk_sha1_end(&sha1, mac);
}
