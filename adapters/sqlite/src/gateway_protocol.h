/*
 * gateway_protocol.h: the frames of the gateway protocol that a database needs (docs/formats/gateway_protocol.md). Pure, no memory of
 * its own. Numbers are big-endian, those in columns little-endian. What is decoded points into the body that it was decoded from.
 */
#ifndef WK_SQLITE_GATEWAY_PROTOCOL_H
#define WK_SQLITE_GATEWAY_PROTOCOL_H
#include "walkeeper/log.h"

enum {
	WK_GATEWAY_HEAD = 9, /* u32 length of what follows, u32 request, u8 code */
	WK_GATEWAY_FRAME_MAX = 4 * 1024 * 1024,
	WK_GATEWAY_TOKEN_MAX = 1024,
	WK_GATEWAY_RECORDS_MAX = 16,   /* of one append */
	WK_GATEWAY_REQUEST_MAX = 2048, /* of any request, without the payloads of an append */
};
enum wk_gateway_code {
	WK_GATEWAY_HELLO = 1,
	WK_GATEWAY_OPEN_LOG = 33,
	WK_GATEWAY_LOG_INFO = 34,
	WK_GATEWAY_APPEND_MANY = 35,
	WK_GATEWAY_READ = 36,
	WK_GATEWAY_TAKE_LOG = 45,
};
enum { WK_GATEWAY_OK = 0, WK_GATEWAY_UNAUTHORIZED = 11 }; /* statuses; all but OK are refusals */

/* Where to read on: as the gateway said it, or wk_gateway_at_sequence_id. */
enum { WK_GATEWAY_PLACE = 33 };
typedef struct wk_gateway_place {
	uint8_t bytes[WK_GATEWAY_PLACE];
} wk_gateway_place;
wk_gateway_place wk_gateway_at_sequence_id(int64_t sequence_id);

/*
 * Requests: each writes its frame to `bytes`, which have WK_GATEWAY_REQUEST_MAX, and returns its size; 0: it does not fit.
 * `name` is of a log. The payloads of an append follow the frame that is written; its length counts them.
 */
size_t wk_gateway_put_hello(uint8_t *bytes, uint32_t request, const char *token);
size_t wk_gateway_put_open_log(uint8_t *bytes, uint32_t request, const char *name, bool create);
/* LOG_INFO, TAKE_LOG. */
size_t wk_gateway_put_named(uint8_t *bytes, uint32_t request, enum wk_gateway_code code, const char *name);
size_t wk_gateway_put_read(uint8_t *bytes, uint32_t request, const char *name, const wk_gateway_place *place,
                           uint32_t records_max, uint32_t wait_ms);
/* `expected`: the sequence id that the first record is to get; -1: any. */
size_t wk_gateway_put_append(uint8_t *bytes, uint32_t request, const char *name, int64_t expected,
                             const uint32_t *sizes, size_t count);

/* The head of an answer. WK_CORRUPT: no gateway sends such a length. */
typedef struct wk_gateway_head {
	uint32_t size; /* of the body */
	uint32_t request;
	uint8_t code;
} wk_gateway_head;
wk_status wk_gateway_get_head(const uint8_t bytes[WK_GATEWAY_HEAD], wk_gateway_head *head);

/* Bodies of answers. WK_CORRUPT: it is no such body. */
wk_status wk_gateway_get_hello(const uint8_t *body, size_t size, uint32_t *version);

typedef struct wk_gateway_info {
	uint64_t log_id;
	int64_t first, next; /* sequence ids: of the first record that can be read, and of the one that comes next */
} wk_gateway_info;
wk_status wk_gateway_get_info(const uint8_t *body, size_t size, wk_gateway_info *info);

typedef struct wk_gateway_appended {
	int64_t first, last; /* sequence ids */
	uint32_t count;
} wk_gateway_appended;
wk_status wk_gateway_get_appended(const uint8_t *body, size_t size, wk_gateway_appended *appended);

typedef struct wk_gateway_batch {
	uint32_t count;
	wk_gateway_place next;
	const uint8_t *sequence_ids, *txids, *offsets, *payloads;
} wk_gateway_batch;
wk_status wk_gateway_get_batch(const uint8_t *body, size_t size, wk_gateway_batch *batch);

typedef struct wk_gateway_record {
	const uint8_t *payload;
	size_t size;
	int64_t sequence_id, txid;
} wk_gateway_record;
wk_gateway_record wk_gateway_batch_record(const wk_gateway_batch *batch, uint32_t i);

typedef struct wk_gateway_refusal {
	wk_status status;     /* never WK_OK */
	bool outcome_unknown; /* unless the gateway is certain that nothing was written */
	const char *text;     /* without a zero behind it */
	size_t text_size;
} wk_gateway_refusal;
wk_status wk_gateway_get_refusal(const uint8_t *body, size_t size, wk_gateway_refusal *refusal);
/* That of a hello has a text alone. */
wk_status wk_gateway_get_text(const uint8_t *body, size_t size, const char **text, size_t *text_size);
#endif
