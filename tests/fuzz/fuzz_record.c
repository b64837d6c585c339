/*
 * Checked: the decoders of record, envelope, record set and DLSN take any bytes; what decodes encodes to the same
 * bytes; the members of a set body are inside it, in order and without gaps. The first byte says which decoder gets the
 * rest.
 */
#include "fuzz.h"
#include "walkeeper/record.h"
#include <assert.h>
#include <string.h>

/* An entry's body: records back to back, until the end or the first bad one. */
static void records(const uint8_t *bytes, size_t size) {
	while (size > 0) {
		wk_log_record record;
		size_t consumed;
		wk_status status = wk_log_record_decode(bytes, size, &record, &consumed);
		if (status != WK_OK) {
			assert(status == WK_CORRUPT);
			return;
		}
		uint8_t header[WK_RECORD_HEADER_SIZE];
		wk_log_record_encode_header(&record, header);
		assert(memcmp(header, bytes, sizeof header) == 0);
		assert(record.payload == bytes + sizeof header && record.payload_size == consumed - sizeof header);
		assert(consumed <= size && consumed <= WK_RECORD_SIZE_MAX);
		bytes += consumed;
		size -= consumed;
	}
}

static void envelope(const uint8_t *bytes, size_t size) {
	wk_envelope found;
	wk_status status = wk_envelope_decode(bytes, size, &found);
	if (status != WK_OK) {
		assert(status == WK_CORRUPT || status == WK_UNSUPPORTED);
		return;
	}
	uint8_t header[WK_ENVELOPE_HEADER_SIZE];
	wk_envelope_encode_header(&found, header);
	assert(memcmp(header, bytes, sizeof header) == 0);
	assert(found.stored == bytes + sizeof header && found.stored_size == size - sizeof header);
	if (found.codec == WK_CODEC_NONE)
		records(found.stored, found.stored_size);
}

static void members(const uint8_t *body, size_t size) {
	size_t offset = 0, payload_size;
	const uint8_t *payload;
	for (;;) {
		size_t before = offset;
		wk_status status = wk_record_set_next(body, size, &offset, &payload, &payload_size);
		if (status != WK_OK) {
			assert(offset == before);
			assert(status == (offset == size ? WK_END : WK_CORRUPT));
			return;
		}
		assert(payload == body + before + 4 && offset == before + 4 + payload_size && offset <= size);
	}
}

static void record_set(const uint8_t *bytes, size_t size) {
	wk_record_set found;
	wk_status status = wk_record_set_decode(bytes, size, &found);
	if (status != WK_OK) {
		assert(status == WK_CORRUPT || status == WK_UNSUPPORTED);
		return;
	}
	uint8_t header[WK_RECORD_SET_HEADER_SIZE];
	wk_record_set_encode_header(&found, header);
	assert(memcmp(header, bytes, sizeof header) == 0);
	assert(found.stored == bytes + sizeof header && found.stored_size == size - sizeof header);
	members(found.stored, found.stored_size);
}

static void dlsn(const uint8_t *bytes, size_t size) {
	wk_dlsn found;
	wk_status status = wk_dlsn_decode(bytes, size, &found);
	if (status != WK_OK) {
		assert(status == (size == WK_DLSN_SIZE ? WK_UNSUPPORTED : WK_CORRUPT));
		return;
	}
	uint8_t encoded[WK_DLSN_SIZE];
	wk_dlsn_encode(&found, encoded);
	assert(memcmp(encoded, bytes, sizeof encoded) == 0);
	wk_dlsn origin = {0, 0, 0};
	assert(wk_dlsn_compare(&found, &found) == 0);
	assert(wk_dlsn_compare(&found, &origin) == -wk_dlsn_compare(&origin, &found));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	if (size == 0)
		return 0;
	static void (*const decoders[])(const uint8_t *, size_t) = {records, envelope, record_set, dlsn};
	decoders[bytes[0] % 4](bytes + 1, size - 1);
	return 0;
}
