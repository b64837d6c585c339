/* codec.c: none, lz4 and zstd behind three functions. */
#include "records/codec.h"
#include "core/bytes.h"
#include <assert.h>
#include <limits.h>
#include <lz4.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

static_assert(WK_CODEC_SIZE_MAX <= LZ4_MAX_INPUT_SIZE, "lz4 takes sizes as int");
static_assert(LZ4_COMPRESSBOUND(WK_CODEC_SIZE_MAX) < INT_MAX / 2, "a bound never overflows lz4's int");

size_t wk_codec_bound(uint32_t codec, size_t size) {
	assert(codec <= WK_CODEC_ZSTD);
	assert(size <= WK_CODEC_SIZE_MAX);
	if (codec == WK_CODEC_LZ4)
		return (size_t)LZ4_compressBound((int)size);
	return codec == WK_CODEC_ZSTD ? ZSTD_compressBound(size) : size;
}

static wk_status copy(const uint8_t *source, size_t size, uint8_t *target) {
	if (size > 0) /* memcpy of nothing still wants pointers, and an empty body may have none */
		memcpy(target, source, size);
	return WK_OK;
}

static int to_int(size_t size) {
	return size > INT_MAX ? INT_MAX : (int)size;
}

static wk_status lz4_compress(const uint8_t *source, size_t size, uint8_t *target, size_t capacity,
                              size_t *target_size) {
	int result = LZ4_compress_default((const char *)source, (char *)target, (int)size, to_int(capacity));
	if (result <= 0)
		return WK_FULL;
	*target_size = (size_t)result;
	return WK_OK;
}

static wk_status zstd_compress(const uint8_t *source, size_t size, uint8_t *target, size_t capacity,
                               size_t *target_size) {
	size_t result = ZSTD_compress(target, capacity, source, size, WK_CODEC_ZSTD_LEVEL);
	if (ZSTD_isError(result)) {
		ZSTD_ErrorCode code = ZSTD_getErrorCode(result);
		/* The library promises no other failure of a one-shot compression. */
		assert(code == ZSTD_error_dstSize_tooSmall || code == ZSTD_error_memory_allocation);
		return code == ZSTD_error_memory_allocation ? WK_NO_MEMORY : WK_FULL;
	}
	*target_size = result;
	return WK_OK;
}

wk_status wk_codec_compress(uint32_t codec, const uint8_t *source, size_t size, uint8_t *target, size_t capacity,
                            size_t *target_size) {
	if (size > WK_CODEC_SIZE_MAX)
		return WK_INVALID;
	switch (codec) {
	case WK_CODEC_NONE:
		if (size > capacity)
			return WK_FULL;
		*target_size = size;
		return copy(source, size, target);
	case WK_CODEC_LZ4:
		return lz4_compress(source, size, target, capacity, target_size);
	case WK_CODEC_ZSTD:
		return zstd_compress(source, size, target, capacity, target_size);
	default:
		return WK_INVALID;
	}
}

static wk_status lz4_decompress(const uint8_t *source, size_t size, uint8_t *target, size_t exact_size) {
	if (size > INT_MAX)
		return WK_CORRUPT;
	int result = LZ4_decompress_safe((const char *)source, (char *)target, (int)size, (int)exact_size);
	return result >= 0 && (size_t)result == exact_size ? WK_OK : WK_CORRUPT;
}

/* The library would also take older formats, skippable frames and several frames in a row: none of them is ours. */
static bool is_one_zstd_frame(const uint8_t *source, size_t size) {
	return size >= 4 && wk_load_le32(source) == ZSTD_MAGICNUMBER && ZSTD_findFrameCompressedSize(source, size) == size;
}

static wk_status zstd_decompress(const uint8_t *source, size_t size, uint8_t *target, size_t exact_size) {
	if (!is_one_zstd_frame(source, size))
		return WK_CORRUPT;
	size_t result = ZSTD_decompress(target, exact_size, source, size);
	if (ZSTD_isError(result))
		return ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation ? WK_NO_MEMORY : WK_CORRUPT;
	return result == exact_size ? WK_OK : WK_CORRUPT;
}

wk_status wk_codec_decompress(uint32_t codec, const uint8_t *source, size_t size, uint8_t *target, size_t exact_size) {
	if (exact_size > WK_CODEC_SIZE_MAX)
		return WK_INVALID;
	switch (codec) {
	case WK_CODEC_NONE:
		return size == exact_size ? copy(source, size, target) : WK_CORRUPT;
	case WK_CODEC_LZ4:
		return lz4_decompress(source, size, target, exact_size);
	case WK_CODEC_ZSTD:
		return zstd_decompress(source, size, target, exact_size);
	default:
		return WK_INVALID;
	}
}
