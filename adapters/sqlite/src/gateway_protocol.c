#include "gateway_protocol.h"

#include <string.h>

#include "little_endian.h"

enum {
	MAGIC = 0x574b4757, /* "WKGW" */
	VERSION = 1,
	BY_SEQUENCE_ID = 3, /* a way to name a place */
	CODEC_BY_DEFAULT = 255,
	BYTES_AT_MOST = 2 * 1024 * 1024,
	READ_HEAD = 40, /* in the body of an answer to a read, before the columns */
	GAP_FACTS = 72,
	NOT_WRITTEN = 1, /* an outcome */
};

/* ---- requests ---- */

typedef struct wk_frame {
	uint8_t *bytes;
	size_t size;
	bool full;
} wk_frame;

static void put(wk_frame *frame, const void *bytes, size_t size) {
	frame->full |= size > WK_GATEWAY_REQUEST_MAX - frame->size;
	if (frame->full)
		return;
	memcpy(frame->bytes + frame->size, bytes, size);
	frame->size += size;
}

static void put_u8(wk_frame *frame, uint8_t value) {
	put(frame, &value, 1);
}

static void put_u32(wk_frame *frame, uint32_t value) {
	const uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};
	put(frame, bytes, sizeof bytes);
}

static void put_i64(wk_frame *frame, int64_t value) {
	put_u32(frame, (uint32_t)((uint64_t)value >> 32));
	put_u32(frame, (uint32_t)value);
}

static void put_text(wk_frame *frame, const char *text) {
	size_t size = strlen(text);
	put_u32(frame, (uint32_t)size);
	put(frame, text, size);
}

static wk_frame begin(uint8_t *bytes, uint32_t request, enum wk_gateway_code code) {
	wk_frame frame = {.bytes = bytes};
	put_u32(&frame, 0);
	put_u32(&frame, request);
	put_u8(&frame, (uint8_t)code);
	return frame;
}

/* Its length, with `more` bytes that follow. */
static size_t end(wk_frame *frame, size_t more) {
	size_t length = frame->size - 4 + more;
	if (frame->full || length > WK_GATEWAY_FRAME_MAX)
		return 0;
	wk_frame front = {.bytes = frame->bytes};
	put_u32(&front, (uint32_t)length);
	return frame->size;
}

size_t wk_gateway_put_hello(uint8_t *bytes, uint32_t request, const char *token) {
	wk_frame frame = begin(bytes, request, WK_GATEWAY_HELLO);
	put_u32(&frame, MAGIC);
	put_u32(&frame, VERSION);
	put_text(&frame, token);
	return end(&frame, 0);
}

size_t wk_gateway_put_open_log(uint8_t *bytes, uint32_t request, const char *name, bool create) {
	wk_frame frame = begin(bytes, request, WK_GATEWAY_OPEN_LOG);
	put_text(&frame, name);
	put_u8(&frame, create);
	for (int i = 0; i < 3; i++) /* segment bytes, segment seconds, retention seconds: the default */
		put_i64(&frame, -1);
	put_u8(&frame, CODEC_BY_DEFAULT);
	return end(&frame, 0);
}

size_t wk_gateway_put_named(uint8_t *bytes, uint32_t request, enum wk_gateway_code code, const char *name) {
	wk_frame frame = begin(bytes, request, code);
	put_text(&frame, name);
	return end(&frame, 0);
}

wk_gateway_place wk_gateway_at_sequence_id(int64_t sequence_id) {
	wk_gateway_place place = {.bytes = {BY_SEQUENCE_ID}};
	for (int i = 0; i < 8; i++)
		place.bytes[1 + i] = (uint8_t)((uint64_t)sequence_id >> (56 - 8 * i));
	return place;
}

size_t wk_gateway_put_read(uint8_t *bytes, uint32_t request, const char *name, const wk_gateway_place *place,
                           uint32_t records_max, uint32_t wait_ms) {
	wk_frame frame = begin(bytes, request, WK_GATEWAY_READ);
	put_text(&frame, name);
	put(&frame, place->bytes, sizeof place->bytes);
	put_u32(&frame, records_max);
	put_u32(&frame, BYTES_AT_MOST);
	put_u32(&frame, wait_ms);
	return end(&frame, 0);
}

size_t wk_gateway_put_append(uint8_t *bytes, uint32_t request, const char *name, int64_t expected,
                             const uint32_t *sizes, size_t count) {
	if (count > WK_GATEWAY_RECORDS_MAX)
		return 0;
	wk_frame frame = begin(bytes, request, WK_GATEWAY_APPEND_MANY);
	put_text(&frame, name);
	put_u8(&frame, 0); /* not atomic */
	put_i64(&frame, expected);
	put_u8(&frame, 0); /* no txids: the clock's */
	put_u32(&frame, (uint32_t)count);
	while ((frame.size - WK_GATEWAY_HEAD) % 8 != 0)
		put_u8(&frame, 0);
	uint64_t offset = 0;
	for (size_t i = 0; i <= count; i++) {
		uint8_t column[8];
		wk_put64(column, offset);
		put(&frame, column, sizeof column);
		if (i < count)
			offset += sizes[i];
	}
	return end(&frame, offset);
}

/* ---- answers ---- */

/* Taken from the front on; `cut`: more was wanted than there is. */
typedef struct wk_body {
	const uint8_t *bytes;
	size_t left;
	bool cut;
} wk_body;

static const uint8_t *take(wk_body *body, size_t size) {
	static const uint8_t zeros[READ_HEAD + GAP_FACTS];
	body->cut |= size > body->left;
	if (body->cut)
		return zeros;
	const uint8_t *bytes = body->bytes;
	body->bytes += size;
	body->left -= size;
	return bytes;
}

static uint32_t u32_at(const uint8_t *bytes) {
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static uint64_t u64_at(const uint8_t *bytes) {
	return (uint64_t)u32_at(bytes) << 32 | u32_at(bytes + 4);
}

static uint32_t take_u32(wk_body *body) {
	return u32_at(take(body, 4));
}

static const char *take_text(wk_body *body, size_t *size) {
	*size = take_u32(body);
	const char *text = (const char *)take(body, *size);
	if (body->cut)
		*size = 0;
	return text;
}

/* The sequence id of a position: segment, entry id, slot, sequence id, txid. */
static int64_t take_position(wk_body *body) {
	return (int64_t)u64_at(take(body, 40) + 24);
}

static wk_status ended(const wk_body *body) {
	return body->cut || body->left > 0 ? WK_CORRUPT : WK_OK;
}

wk_status wk_gateway_get_head(const uint8_t bytes[WK_GATEWAY_HEAD], wk_gateway_head *head) {
	uint32_t length = u32_at(bytes);
	if (length < 5 || length > WK_GATEWAY_FRAME_MAX)
		return WK_CORRUPT;
	*head = (wk_gateway_head){.size = length - 5, .request = u32_at(bytes + 4), .code = bytes[8]};
	return WK_OK;
}

wk_status wk_gateway_get_hello(const uint8_t *bytes, size_t size, uint32_t *version) {
	wk_body body = {.bytes = bytes, .left = size};
	size_t name_size;
	*version = take_u32(&body);
	take_text(&body, &name_size);
	return ended(&body);
}

wk_status wk_gateway_get_info(const uint8_t *bytes, size_t size, wk_gateway_info *info) {
	wk_body body = {.bytes = bytes, .left = size};
	info->log_id = u64_at(take(&body, 8));
	take(&body, 3 + 5 * 8); /* who numbers, whether it has ended, codec; options and counts */
	info->first = take_position(&body);
	take_position(&body); /* of the last record */
	info->next = take_position(&body);
	bool possible = info->next >= 0 && info->first <= info->next;
	return possible ? ended(&body) : WK_CORRUPT;
}

wk_status wk_gateway_get_appended(const uint8_t *bytes, size_t size, wk_gateway_appended *appended) {
	wk_body body = {.bytes = bytes, .left = size};
	appended->first = take_position(&body);
	appended->last = take_position(&body);
	appended->count = take_u32(&body);
	return ended(&body);
}

static int64_t number_at(const uint8_t *column, size_t i) {
	return (int64_t)wk_get64(column + 8 * i);
}

wk_status wk_gateway_get_batch(const uint8_t *bytes, size_t size, wk_gateway_batch *batch) {
	wk_body body = {.bytes = bytes, .left = size};
	*batch = (wk_gateway_batch){0};
	const uint8_t *head = take(&body, READ_HEAD); /* u8 end, u32 count, place, zeros */
	size_t count = u32_at(head + 1);
	memcpy(batch->next.bytes, head + 5, sizeof batch->next.bytes);
	if (head[READ_HEAD - 2] != 0 || head[READ_HEAD - 1] != 0)
		return WK_CORRUPT;
	if (body.cut || count == 0)
		return ended(&body);
	size_t numbers = 5 * count + count + 1; /* segment, entry id, slot, sequence id, txid; offsets */
	if (numbers > body.left / 8)
		return WK_CORRUPT;
	const uint8_t *columns = take(&body, 8 * numbers);
	batch->count = (uint32_t)count;
	batch->sequence_ids = columns + 8 * 3 * count;
	batch->txids = columns + 8 * 4 * count;
	batch->offsets = columns + 8 * 5 * count;
	batch->payloads = body.bytes;
	int64_t before = 0;
	for (size_t i = 0; i <= count; i++) {
		int64_t offset = number_at(batch->offsets, i);
		if (offset < before || (i == 0 && offset != 0) || (uint64_t)offset > body.left)
			return WK_CORRUPT;
		if (i < count && number_at(batch->sequence_ids, i) < 0)
			return WK_CORRUPT;
		before = offset;
	}
	return (uint64_t)before == body.left ? WK_OK : WK_CORRUPT;
}

wk_gateway_record wk_gateway_batch_record(const wk_gateway_batch *batch, uint32_t i) {
	int64_t from = number_at(batch->offsets, i);
	return (wk_gateway_record){
	    .payload = batch->payloads + from,
	    .size = (size_t)(number_at(batch->offsets, (size_t)i + 1) - from),
	    .sequence_id = number_at(batch->sequence_ids, i),
	    .txid = number_at(batch->txids, i),
	};
}

/* By the number of the error; one that is not known yet is WK_IO. */
static wk_status status_of(uint8_t error) {
	static const wk_status statuses[] = {
	    WK_IO,          WK_INVALID,   WK_TOO_LARGE,   WK_FULL,          WK_NOT_FOUND, WK_NOT_FOUND,   WK_INVALID,
	    WK_UNAVAILABLE, WK_READ_ONLY, WK_UNSUPPORTED, WK_TIMEOUT,       WK_TIMEOUT,   WK_UNAVAILABLE, WK_UNAVAILABLE,
	    WK_FENCED,      WK_MISMATCH,  WK_TXID,        WK_END_OF_STREAM, WK_DELETED,   WK_TRUNCATED,   WK_IO,
	    WK_NO_SPACE,    WK_FAILED,    WK_CORRUPT,     WK_DAMAGED,       WK_DAMAGED,   WK_NO_MEMORY,
	};
	return error < sizeof statuses / sizeof statuses[0] ? statuses[error] : WK_IO;
}

wk_status wk_gateway_get_refusal(const uint8_t *bytes, size_t size, wk_gateway_refusal *refusal) {
	enum { ERROR_GAP = 25 };
	wk_body body = {.bytes = bytes, .left = size};
	refusal->text = take_text(&body, &refusal->text_size);
	const uint8_t *facts = take(&body, 2 + 3 * 8); /* u8 error, u8 outcome; sequence id, txid, durable count */
	refusal->status = status_of(facts[0]);
	refusal->outcome_unknown = facts[1] != NOT_WRITTEN;
	if (facts[0] == ERROR_GAP)
		take(&body, GAP_FACTS);
	return ended(&body);
}

wk_status wk_gateway_get_text(const uint8_t *bytes, size_t size, const char **text, size_t *text_size) {
	wk_body body = {.bytes = bytes, .left = size};
	*text = take_text(&body, text_size);
	return ended(&body);
}
