/* wire_protobuf.c: fields of protobuf, read and written. What is taken and what is not is told in docs/protocol.md. */
#include "core/wire_protobuf.h"
#include <assert.h>
#include <string.h>

/* Bits beyond the 64th are dropped, as protobuf drops them. */
static bool read_varint(wk_protobuf_reader *reader, unsigned size_max, uint64_t *number) {
	uint64_t result = 0;
	for (unsigned i = 0; i < size_max && reader->at < reader->end; i++) {
		uint8_t byte = *reader->at++;
		result |= (uint64_t)(byte & 0x7f) << 7 * i;
		if (byte < 0x80) {
			*number = result;
			return true;
		}
	}
	return false;
}

/* Tags have 32 bits, and so have sizes, the highest of which is 0. */
static bool read_short(wk_protobuf_reader *reader, uint64_t max, uint64_t *number) {
	return read_varint(reader, 5, number) && *number <= max;
}

static bool read_value(wk_protobuf_reader *reader, uint32_t type, wk_protobuf_value *value) {
	switch (type) {
	case WK_PROTOBUF_VARINT:
		value->bytes = NULL;
		return read_varint(reader, WK_VARINT_SIZE_MAX, &value->number);
	case WK_PROTOBUF_FIXED64:
		value->number = 8;
		break;
	case WK_PROTOBUF_FIXED32:
		value->number = 4;
		break;
	case WK_PROTOBUF_BYTES:
		if (!read_short(reader, INT32_MAX, &value->number))
			return false;
		break;
	default: /* groups, which no message here has, and types that do not exist */
		return false;
	}
	if (value->number > (uint64_t)(reader->end - reader->at))
		return false;
	value->bytes = reader->at;
	reader->at += value->number;
	return true;
}

bool wk_protobuf_next(wk_protobuf_reader *reader, uint32_t *tag, wk_protobuf_value *value) {
	if (reader->at == reader->end)
		return false;
	uint64_t number = 0;
	*tag = 0;
	reader->broken = *reader->left == 0;
	if (reader->broken)
		return false;
	--*reader->left;
	reader->broken = !read_short(reader, UINT32_MAX, &number) || number >> 3 == 0 ||
	                 !read_value(reader, (uint32_t)number & 7, value);
	*tag = (uint32_t)number;
	return !reader->broken;
}

/* An enum has 32 bits; above them is nothing that counts. */
static bool is_known(const wk_protobuf_field *field, const wk_protobuf_value *value) {
	return field->is_known == NULL || field->is_known((uint32_t)value->number);
}

bool wk_protobuf_merge(const wk_protobuf_schema *schema, const wk_protobuf_value *occurrence,
                       wk_protobuf_message *message, uint32_t *left) {
	message->present = true;
	wk_protobuf_reader reader = {.at = occurrence->bytes, .end = occurrence->bytes + occurrence->number, .left = left};
	uint32_t tag;
	wk_protobuf_value value;
	while (wk_protobuf_next(&reader, &tag, &value)) {
		for (uint32_t i = 0; i < schema->count; i++) {
			const wk_protobuf_field *field = &schema->fields[i];
			if (field->tag == tag) {
				if (is_known(field, &value)) {
					message->seen |= 1u << i;
					message->values[i] = value;
				}
				break;
			}
		}
	}
	return !reader.broken;
}

bool wk_protobuf_is_complete(const wk_protobuf_schema *schema, const wk_protobuf_message *message) {
	for (uint32_t i = 0; i < schema->count; i++)
		if (schema->fields[i].required && !wk_protobuf_has(message, i))
			return false;
	return true;
}

uint8_t *wk_varint_put(uint8_t *at, uint64_t number) {
	for (; number >= 0x80; number >>= 7)
		*at++ = (uint8_t)(number | 0x80);
	*at++ = (uint8_t)number;
	return at;
}

uint8_t *wk_protobuf_put_number(uint8_t *at, uint32_t field, uint64_t number) {
	return wk_varint_put(wk_varint_put(at, WK_PROTOBUF_TAG(field, WK_PROTOBUF_VARINT)), number);
}

uint8_t *wk_protobuf_put_size(uint8_t *at, uint32_t field, uint64_t size) {
	assert(size <= INT32_MAX);
	return wk_varint_put(wk_varint_put(at, WK_PROTOBUF_TAG(field, WK_PROTOBUF_BYTES)), size);
}

uint8_t *wk_protobuf_put_bytes(uint8_t *at, uint32_t field, const void *bytes, uint64_t size) {
	at = wk_protobuf_put_size(at, field, size);
	if (size > 0)
		memcpy(at, bytes, size);
	return at + size;
}
