/*
 * Checked: any bytes decompress to exactly the size asked for or are refused, without a write outside it; what came out
 * compresses and comes back; and any bytes compress within the bound.
 *
 * Input: 0 codec, 1 exact size (big-endian, 3 bytes), 4 the source.
 */
#include "fuzz.h"
#include "records/codec.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void come_back(uint32_t codec, const uint8_t *bytes, size_t size) {
	size_t bound = wk_codec_bound(codec, size), packed_size;
	uint8_t *packed = malloc(bound), *back = malloc(size);
	assert(packed != NULL && back != NULL);
	wk_status packing = wk_codec_compress(codec, bytes, size, packed, bound, &packed_size);
	assert(packing == WK_OK && packed_size <= bound);
	wk_status unpacking = wk_codec_decompress(codec, packed, packed_size, back, size);
	assert(unpacking == WK_OK && (size == 0 || memcmp(back, bytes, size) == 0));
	free(packed);
	free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	if (size < 4)
		return 0;
	uint32_t codec = bytes[0] % 3;
	size_t exact_size = ((size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3]) % (WK_CODEC_SIZE_MAX + 1);
	uint8_t *target = malloc(exact_size);
	assert(target != NULL);
	wk_status status = wk_codec_decompress(codec, bytes + 4, size - 4, target, exact_size);
	assert(status == WK_OK || status == WK_CORRUPT);
	if (status == WK_OK)
		come_back(codec, target, exact_size);
	free(target);
	if (size - 4 <= WK_CODEC_SIZE_MAX)
		come_back(codec, bytes + 4, size - 4);
	return 0;
}
