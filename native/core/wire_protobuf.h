/*
 * wire_protobuf.h: as much of protobuf (proto2) as v3's messages need. Private.
 *
 * A message is described by its fields, each of them a number or bytes, and read into one value for each. Nothing
 * recurses and nothing is allocated: a message in a message is a field of bytes, which its owner merges in its turn.
 */
#ifndef WK_CORE_WIRE_PROTOBUF_H
#define WK_CORE_WIRE_PROTOBUF_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wk_protobuf_type {
	WK_PROTOBUF_VARINT = 0,
	WK_PROTOBUF_FIXED64 = 1,
	WK_PROTOBUF_BYTES = 2,
	WK_PROTOBUF_FIXED32 = 5
};

enum { WK_PROTOBUF_FIELDS_MAX = 6, WK_VARINT_SIZE_MAX = 10 };

/* Of a frame, those in its messages included: more are no request but an attempt to keep the loop busy. */
enum { WK_FRAME_FIELDS_MAX = 1000 };

/* A field's number and its type, as they stand before its value. */
#define WK_PROTOBUF_TAG(number, type) ((uint32_t)(number) << 3 | (uint32_t)(type))

typedef struct wk_protobuf_value {
	uint64_t number;      /* of a varint; else how many bytes there are */
	const uint8_t *bytes; /* not of a varint */
} wk_protobuf_value;

/* ---- reading ---- */

typedef struct wk_protobuf_reader {
	const uint8_t *at, *end;
	uint32_t *left; /* so many fields may come, of the whole frame */
	bool broken;    /* what stands at `at` is no field, or one too many */
} wk_protobuf_reader;

/* The next field, known or not. False: the end is reached, or reader->broken. */
bool wk_protobuf_next(wk_protobuf_reader *reader, uint32_t *tag, wk_protobuf_value *value);

typedef struct wk_protobuf_field {
	uint32_t tag;
	bool required;
	bool (*is_known)(uint32_t number); /* of an enum: any other number counts as an unknown field. NULL: no enum */
} wk_protobuf_field;

typedef struct wk_protobuf_schema {
	const wk_protobuf_field *fields;
	uint32_t count;
} wk_protobuf_schema;

/* values[i] is field i's where bit i of `seen` is set, and anything otherwise. */
typedef struct wk_protobuf_message {
	bool present;
	uint32_t seen;
	wk_protobuf_value values[WK_PROTOBUF_FIELDS_MAX];
} wk_protobuf_message;

/*
 * Reads one more occurrence of the message into it: the last value of a field counts. False: it is no message, or has more
 * than *left fields, from which its own are taken off.
 */
bool wk_protobuf_merge(const wk_protobuf_schema *schema, const wk_protobuf_value *occurrence,
                       wk_protobuf_message *message, uint32_t *left);
/* Whether no required field is missing. */
bool wk_protobuf_is_complete(const wk_protobuf_schema *schema, const wk_protobuf_message *message);

static inline bool wk_protobuf_has(const wk_protobuf_message *message, unsigned field) {
	return (message->seen >> field & 1) != 0;
}
static inline uint64_t wk_protobuf_number(const wk_protobuf_message *message, unsigned field, uint64_t otherwise) {
	return wk_protobuf_has(message, field) ? message->values[field].number : otherwise;
}
/* NULL where there are no bytes. */
static inline const uint8_t *wk_protobuf_bytes(const wk_protobuf_message *message, unsigned field, uint64_t *size) {
	*size = wk_protobuf_number(message, field, 0);
	return *size == 0 ? NULL : message->values[field].bytes;
}

/* ---- writing: behind what is written there was room, which is the caller's to know ---- */

uint8_t *wk_varint_put(uint8_t *at, uint64_t number);
uint8_t *wk_protobuf_put_number(uint8_t *at, uint32_t field, uint64_t number);
uint8_t *wk_protobuf_put_bytes(uint8_t *at, uint32_t field, const void *bytes, uint64_t size);
/* The tag and the size alone: so many bytes follow. */
uint8_t *wk_protobuf_put_size(uint8_t *at, uint32_t field, uint64_t size);
#endif
