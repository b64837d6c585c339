/*
 * codec.h: compression of envelope and record set bodies. Private to native/.
 *
 * WK_CODEC_LZ4 is the raw LZ4 block DistributedLog stores, without frame or size; WK_CODEC_ZSTD is one zstd frame.
 * Both libraries keep their working memory only during a call (lz4 on the stack, zstd by malloc), so any thread may
 * call any of these at any time.
 */
#ifndef WK_ENGINE_CODEC_H
#define WK_ENGINE_CODEC_H
#include "walkeeper/record.h"

enum {
	WK_CODEC_SIZE_MAX = WK_ENVELOPE_SIZE_MAX, /* the most bytes a body has before compression */
	WK_CODEC_ZSTD_LEVEL = 1,                  /* an append waits for it: the fastest of the ordinary levels */
};

/* The most bytes that compressing `size` bytes (at most WK_CODEC_SIZE_MAX) may need: a `capacity` that never is
 * WK_FULL. */
size_t wk_codec_bound(uint32_t codec, size_t size);

/*
 * Compresses into `target`, at most `capacity` bytes; *target_size is what it took. The two must not overlap. WK_FULL:
 * did not fit, what is in `target` is then undefined (a capacity of size - 1 asks "is it worth it?"). WK_INVALID: no
 * such codec, or more than WK_CODEC_SIZE_MAX bytes. WK_NO_MEMORY.
 */
wk_status wk_codec_compress(uint32_t codec, const uint8_t *source, size_t size, uint8_t *target, size_t capacity,
                            size_t *target_size);

/*
 * Decompresses into exactly `exact_size` bytes at `target`. WK_CORRUPT: the source does not decompress, or not to
 * exactly that size; `target` is then undefined, and never written beyond exact_size. WK_INVALID: no such codec, or
 * exact_size above WK_CODEC_SIZE_MAX. WK_NO_MEMORY.
 */
wk_status wk_codec_decompress(uint32_t codec, const uint8_t *source, size_t size, uint8_t *target, size_t exact_size);
#endif
