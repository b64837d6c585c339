/* wire_fields.h: what the files of the protocol share. Private to native/core; who uses the protocol includes core/wire.h. */
#ifndef WK_CORE_WIRE_FIELDS_H
#define WK_CORE_WIRE_FIELDS_H
#include "core/wire.h"
#include "core/wire_protobuf.h"

enum {
	WK_WIRE_KEY_SIZE_MAX =
	    48, /* as the store's: BookKeeper's keys have 20 bytes, another is for the ledger to refuse */
	WK_WIRE_LAC_SIZE_MAX = 48, /* of an explicit LAC packet: 16 bytes and the longest digest make 36 */
	WK_WIRE_LAC_HEADER_SIZE = 16,
	WK_WIRE_HIGH_PRIORITY_V3 = 100, /* what Java's client sends for "high" */
};

/* What v2 says: wire_v2.c. */
bool wk_wire_v2_request_decode(const uint8_t *payload, size_t size, wk_wire_request *request);
uint8_t *wk_wire_v2_request_put(const wk_wire_request *request, uint8_t *at);
bool wk_wire_v2_reply_decode(const uint8_t *payload, size_t size, wk_wire_reply *reply);
uint8_t *wk_wire_v2_reply_put(const wk_wire_reply *reply, uint8_t *at);

/* What v3 says: wire_v3_request.c, wire_v3_reply.c. */
bool wk_wire_v3_request_decode(const uint8_t *payload, size_t size, wk_wire_request *request);
uint8_t *wk_wire_v3_request_put(const wk_wire_request *request, uint8_t *at);
bool wk_wire_v3_reply_decode(const uint8_t *payload, size_t size, wk_wire_reply *reply);
uint8_t *wk_wire_v3_reply_put(const wk_wire_reply *reply, uint8_t *at);

/* ---- v3's messages: wire_v3_schema.c ---- */

/* The messages of a Request and of a Response: its header, then fields 100 to 108. */
enum {
	WK_V3_HEADER,
	WK_V3_READ,
	WK_V3_ADD,
	WK_V3_AUTH,
	WK_V3_WRITE_LAC,
	WK_V3_READ_LAC,
	WK_V3_BOOKIE_INFO,
	WK_V3_START_TLS,
	WK_V3_FORCE,
	WK_V3_LIST_ENTRIES,
	WK_V3_MESSAGES,
	WK_V3_NO_MESSAGE = WK_V3_MESSAGES,
	WK_V3_FIRST_FIELD = 100, /* the number of the message behind the header */
	WK_V3_CONTEXT_FIELD = 200,
};

/* The index of each field in its message. */
enum { HEADER_VERSION, HEADER_OPERATION, HEADER_TXN_ID, HEADER_PRIORITY };
enum { AUTH_NAME, AUTH_PAYLOAD };
enum { LEDGER_ID, ENTRY_ID, READ_KEY, READ_PREVIOUS_LAC, READ_TIMEOUT, READ_FLAG };
enum { ADD_KEY = 2, ADD_BODY, ADD_WRITE_FLAGS, ADD_FLAG };
enum { WRITE_LAC_LAC = 1, WRITE_LAC_KEY, WRITE_LAC_BODY };
enum { INFO_REQUESTED };
enum { STATUS, REPLY_LEDGER_ID, REPLY_ENTRY_ID, READ_BODY, READ_MAX_LAC, READ_LAC_UPDATE };
enum { LAC_BODY = 2, LAST_ENTRY_BODY };
enum { INFO_TOTAL = 1, INFO_FREE };
enum { LIST_AVAILABILITY = 2 };

extern const wk_protobuf_schema wk_v3_requests[WK_V3_MESSAGES];
extern const wk_protobuf_schema wk_v3_replies[WK_V3_MESSAGES];
extern const wk_protobuf_schema wk_v3_context;

/* WK_V3_NO_MESSAGE: the operation has none. */
unsigned wk_v3_message_of(uint32_t operation);
bool wk_v3_is_status(uint32_t number);

typedef struct wk_v3_envelope {
	wk_protobuf_message messages[WK_V3_MESSAGES];
	bool has_status; /* of a Response */
	uint32_t status;
} wk_v3_envelope;

/* A whole Request or Response. False: some required field is missing, or it is no message at all. */
bool wk_v3_envelope_read(const wk_protobuf_schema *schemas, const uint8_t *payload, size_t size,
                         wk_v3_envelope *envelope);
/* The header. */
uint8_t *wk_v3_put_header(uint8_t *at, uint32_t version, uint32_t operation, uint64_t txn_id, uint32_t priority);
#endif
