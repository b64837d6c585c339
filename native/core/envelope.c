/* envelope.c: the envelope around the records of one entry. The layout and the rule of validity are in
 * walkeeper/record.h; what is inside is decompressed by engine/codec.h. */
#include "core/bytes.h"
#include "walkeeper/record.h"
#include <assert.h>

enum { VERSION_AT = 0, FLAGS_AT = 1, ORIGINAL_SIZE_AT = 5, STORED_SIZE_AT = 9 };
enum { VERSION = 1, CODEC_MASK = 3 };
static_assert(STORED_SIZE_AT + 4 == WK_ENVELOPE_HEADER_SIZE, "the stored bytes follow their size");

void wk_envelope_encode_header(const wk_envelope *envelope, uint8_t header[13]) {
	assert(envelope->codec <= WK_CODEC_ZSTD);
	assert(envelope->original_size <= WK_ENVELOPE_SIZE_MAX);
	assert(envelope->stored_size <= INT32_MAX);
	assert(envelope->codec != WK_CODEC_NONE || envelope->original_size == envelope->stored_size);
	header[VERSION_AT] = VERSION;
	wk_store_be32(header + FLAGS_AT, envelope->codec);
	wk_store_be32(header + ORIGINAL_SIZE_AT, envelope->original_size);
	wk_store_be32(header + STORED_SIZE_AT, envelope->stored_size);
}

wk_status wk_envelope_decode(const uint8_t *bytes, size_t size, wk_envelope *envelope) {
	if (size < WK_ENVELOPE_HEADER_SIZE)
		return WK_CORRUPT;
	if (bytes[VERSION_AT] != VERSION)
		return WK_UNSUPPORTED;
	uint32_t flags = wk_load_be32(bytes + FLAGS_AT);
	wk_envelope found = {
	    .codec = flags & CODEC_MASK,
	    .original_size = wk_load_be32(bytes + ORIGINAL_SIZE_AT),
	    .stored_size = wk_load_be32(bytes + STORED_SIZE_AT),
	    .stored = bytes + WK_ENVELOPE_HEADER_SIZE,
	};
	if ((flags & ~(uint32_t)CODEC_MASK) != 0)
		return WK_CORRUPT;
	if (found.codec > WK_CODEC_ZSTD)
		return WK_UNSUPPORTED;
	if (found.stored_size > INT32_MAX || found.stored_size != size - WK_ENVELOPE_HEADER_SIZE)
		return WK_CORRUPT;
	if (found.original_size > WK_ENVELOPE_SIZE_MAX)
		return WK_CORRUPT;
	if (found.codec == WK_CODEC_NONE && found.original_size != found.stored_size)
		return WK_CORRUPT;
	*envelope = found;
	return WK_OK;
}
