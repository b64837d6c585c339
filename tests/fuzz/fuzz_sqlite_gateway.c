/*
 * What a gateway answers to a database: a byte that says to what, then the head or the body. Whatever comes, no byte outside of it is
 * read, and what is taken for valid lies in it.
 */
#include "fuzz.h"
#include "gateway_protocol.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void look_at_head(const uint8_t *bytes, size_t size) {
	wk_gateway_head head;
	if (size >= WK_GATEWAY_HEAD && wk_gateway_get_head(bytes, &head) == WK_OK)
		assert(head.size <= WK_GATEWAY_FRAME_MAX - 5);
}

static void look_at_batch(const uint8_t *bytes, size_t size) {
	wk_gateway_batch batch;
	if (wk_gateway_get_batch(bytes, size, &batch) != WK_OK)
		return;
	const uint8_t *end = batch.payloads;
	for (uint32_t i = 0; i < batch.count; i++) {
		wk_gateway_record record = wk_gateway_batch_record(&batch, i);
		assert(record.payload == end && record.sequence_id >= 0);
		end += record.size;
		uint8_t *copy = malloc(record.size + 1); /* reads each byte */
		assert(copy != NULL);
		memcpy(copy, record.payload, record.size);
		free(copy);
	}
	assert(batch.count == 0 || end == bytes + size);
}

static void look_at_refusal(const uint8_t *bytes, size_t size) {
	wk_gateway_refusal refusal;
	if (wk_gateway_get_refusal(bytes, size, &refusal) == WK_OK)
		assert(refusal.status != WK_OK && refusal.text_size <= size &&
		       (const uint8_t *)refusal.text == bytes + sizeof(uint32_t));
}

static void look_at_text(const uint8_t *bytes, size_t size) {
	const char *text;
	size_t text_size;
	if (wk_gateway_get_text(bytes, size, &text, &text_size) == WK_OK)
		assert(text_size == size - sizeof(uint32_t));
}

static void look_at(uint8_t what, const uint8_t *bytes, size_t size) {
	uint32_t version;
	wk_gateway_info info;
	wk_gateway_appended appended;
	switch (what) {
	case 0:
		look_at_head(bytes, size);
		break;
	case 1:
		if (wk_gateway_get_hello(bytes, size, &version) == WK_OK)
			assert(size >= 8);
		break;
	case 2:
		if (wk_gateway_get_info(bytes, size, &info) == WK_OK)
			assert(size == 171 && info.next >= 0 && info.first <= info.next);
		break;
	case 3:
		if (wk_gateway_get_appended(bytes, size, &appended) == WK_OK)
			assert(size == 84);
		break;
	case 4:
		look_at_batch(bytes, size);
		break;
	case 5:
		look_at_refusal(bytes, size);
		break;
	default:
		look_at_text(bytes, size);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	if (size == 0)
		return 0;
	uint8_t *copy = malloc(size > 1 ? size - 1 : 1); /* so that reading behind it is seen */
	assert(copy != NULL);
	memcpy(copy, bytes + 1, size - 1);
	look_at(bytes[0] % 7, copy, size - 1);
	free(copy);
	return 0;
}
