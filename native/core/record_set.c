/*
 * record_set.c: several records of one txid as the payload of one record (flag WK_RECORD_SET). The layout is in
 * walkeeper/record.h.
 *
 * WK_CORRUPT: shorter than the header, metadata bits that are neither version nor codec, a stored size that does not
 * fit the bytes exactly, an original size above WK_RECORD_SIZE_MAX (the limit of a record counts before compression),
 * codec none with two different sizes, or a count whose size fields alone would not fit the original size.
 * WK_UNSUPPORTED: another version, or codec 3.
 */
#include "core/bytes.h"
#include "walkeeper/record.h"
#include <assert.h>

enum { METADATA_AT = 0, COUNT_AT = 4, ORIGINAL_SIZE_AT = 8, STORED_SIZE_AT = 12 };
enum { VERSION = 0x1000, VERSION_MASK = 0xf000, CODEC_MASK = 3, MEMBER_SIZE_SIZE = 4 };
static_assert(STORED_SIZE_AT + 4 == WK_RECORD_SET_HEADER_SIZE, "the stored bytes follow their size");

static bool is_possible(const wk_record_set *set) {
	return set->original_size <= WK_RECORD_SIZE_MAX && set->count <= set->original_size / MEMBER_SIZE_SIZE &&
	       set->stored_size <= INT32_MAX && (set->codec != WK_CODEC_NONE || set->original_size == set->stored_size);
}

void wk_record_set_encode_header(const wk_record_set *set, uint8_t header[16]) {
	assert(set->codec <= WK_CODEC_ZSTD);
	assert(is_possible(set));
	wk_store_be32(header + METADATA_AT, VERSION | set->codec);
	wk_store_be32(header + COUNT_AT, set->count);
	wk_store_be32(header + ORIGINAL_SIZE_AT, set->original_size);
	wk_store_be32(header + STORED_SIZE_AT, set->stored_size);
}

wk_status wk_record_set_decode(const uint8_t *bytes, size_t size, wk_record_set *set) {
	if (size < WK_RECORD_SET_HEADER_SIZE)
		return WK_CORRUPT;
	uint32_t metadata = wk_load_be32(bytes + METADATA_AT);
	wk_record_set found = {
	    .codec = metadata & CODEC_MASK,
	    .count = wk_load_be32(bytes + COUNT_AT),
	    .original_size = wk_load_be32(bytes + ORIGINAL_SIZE_AT),
	    .stored_size = wk_load_be32(bytes + STORED_SIZE_AT),
	    .stored = bytes + WK_RECORD_SET_HEADER_SIZE,
	};
	if ((metadata & ~(uint32_t)(VERSION_MASK | CODEC_MASK)) != 0)
		return WK_CORRUPT;
	if ((metadata & VERSION_MASK) != VERSION || found.codec > WK_CODEC_ZSTD)
		return WK_UNSUPPORTED;
	if (found.stored_size != size - WK_RECORD_SET_HEADER_SIZE || !is_possible(&found))
		return WK_CORRUPT;
	*set = found;
	return WK_OK;
}

wk_status wk_record_set_next(const uint8_t *body, size_t size, size_t *offset, const uint8_t **payload,
                             size_t *payload_size) {
	assert(*offset <= size);
	size_t left = size - *offset;
	if (left == 0)
		return WK_END;
	if (left < MEMBER_SIZE_SIZE)
		return WK_CORRUPT;
	uint32_t member_size = wk_load_be32(body + *offset);
	if (member_size > left - MEMBER_SIZE_SIZE) /* a negative one too */
		return WK_CORRUPT;
	*payload = body + *offset + MEMBER_SIZE_SIZE;
	*payload_size = member_size;
	*offset += MEMBER_SIZE_SIZE + member_size;
	return WK_OK;
}
