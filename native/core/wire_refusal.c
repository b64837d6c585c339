/* wire_refusal.c: which well-formed requests are answered without being looked into. The list is in docs/protocol.md. */
#include "core/wire_fields.h"

/* An entry names itself, and what it says is what counts: a message that says otherwise is of a client that errs. */
static bool is_good_add(const wk_wire_request *request) {
	wk_wire_entry entry;
	if (wk_wire_entry_decode(request->body, request->body_size, &entry) != WK_OK)
		return false;
	return entry.ledger_id == request->ledger_id && entry.entry_id == request->entry_id && entry.ledger_id >= 0 &&
	       entry.entry_id >= 0;
}

/*
 * Here the message may say another LAC: Java's client makes the packet later, of a LAC that may have grown since, and
 * Java's bookie does not look at the message's.
 */
static bool is_good_write_lac(const wk_wire_request *request) {
	int64_t lac;
	if (request->body_size > WK_WIRE_LAC_SIZE_MAX ||
	    wk_wire_lac_decode(request->body, request->body_size, request->ledger_id, &lac) != WK_OK)
		return false;
	return request->ledger_id >= 0;
}

/* An entry that comes with the LAC is the one behind the LAC that the reader knows, so it cannot be asked for by its id. */
static bool is_good_read(const wk_wire_request *request) {
	if (request->flags & WK_WIRE_PIGGYBACK && (request->entry_id != -1 || !(request->flags & WK_WIRE_LONG_POLL)))
		return false;
	return request->ledger_id >= 0 && request->entry_id >= -1;
}

static bool is_good(const wk_wire_request *request) {
	if (request->key_size > WK_WIRE_KEY_SIZE_MAX)
		return false;
	switch (request->operation) {
	case WK_WIRE_READ:
		return is_good_read(request);
	case WK_WIRE_ADD:
		return is_good_add(request);
	case WK_WIRE_WRITE_LAC:
		return is_good_write_lac(request);
	case WK_WIRE_READ_LAC:
	case WK_WIRE_FORCE:
	case WK_WIRE_LIST_ENTRIES:
		return request->ledger_id >= 0;
	case WK_WIRE_BATCH_READ:
		return request->ledger_id >= 0 && request->entry_id >= 0;
	default: /* auth, bookie info */
		return true;
	}
}

/* An AUTH of v2 has no code in its reply, and the same bytes in every version. */
static bool is_known_version(const wk_wire_request *request) {
	if (request->version == WK_WIRE_V3)
		return request->header_version == 3;
	return request->header_version <= 2 || request->operation == WK_WIRE_AUTH;
}

uint32_t wk_wire_refusal(const wk_wire_request *request, bool *bare) {
	/* Java's client looks at the outer status of START_TLS alone, and Java's bookie sends no more. */
	*bare = request->bare || request->operation == WK_WIRE_START_TLS;
	if (!is_known_version(request))
		return WK_WIRE_BAD_VERSION;
	return *bare || !is_good(request) ? WK_WIRE_BAD_REQUEST : WK_WIRE_OK;
}
