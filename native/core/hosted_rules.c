/*
 * hosted_rules.c: which requests a bookie refuses before it looks at what is stored, and what it says where nothing is.
 * The rules are in walkeeper/hosted.h.
 */
#include "core/hosted.h"

static bool is_fence(const wk_wire_request *request) {
	return (request->operation == WK_WIRE_READ || request->operation == WK_WIRE_BATCH_READ) &&
	       (request->flags & WK_WIRE_FENCE) != 0;
}

/* The words differ, as those do that a client of each operation knows. */
static uint32_t judge_deleted(const wk_wire_request *request) {
	switch (request->operation) {
	case WK_WIRE_ADD:
		return WK_WIRE_FENCED;
	case WK_WIRE_READ_LAC:
		return WK_WIRE_NO_ENTRY;
	case WK_WIRE_READ:
	case WK_WIRE_BATCH_READ:
	case WK_WIRE_LIST_ENTRIES:
	case WK_WIRE_WRITE_LAC:
		return WK_WIRE_NO_LEDGER;
	default: /* nothing is accepted by these, and nothing told of a ledger */
		return WK_WIRE_OK;
	}
}

static bool changes(const wk_hosted_rules *rules, const wk_wire_request *request) {
	bool spared = (request->flags & WK_WIRE_HIGH_PRIORITY) != 0 && rules->high_priority;
	return request->operation == WK_WIRE_WRITE_LAC || (request->operation == WK_WIRE_ADD && !spared);
}

/* Of such a ledger a fence may be missing as well: who was fenced must not go on here. */
static bool is_in_limbo(const wk_hosted_rules *rules, int64_t ledger_id) {
	return rules->limbo_all != (rules->limbo.count > 0 && wk_id_set_has(&rules->limbo, ledger_id));
}

uint32_t wk_hosted_judge(const wk_hosted_rules *rules, const wk_wire_request *request) {
	if (is_fence(request) && request->key_size == 0)
		return WK_WIRE_UNAUTHORIZED;
	if (rules->deleted.count > 0 && wk_id_set_has(&rules->deleted, request->ledger_id)) {
		uint32_t code = judge_deleted(request);
		if (code != WK_WIRE_OK)
			return code;
	}
	if (rules->read_only && changes(rules, request))
		return WK_WIRE_READ_ONLY;
	bool ordinary_add = request->operation == WK_WIRE_ADD && (request->flags & WK_WIRE_RECOVERY) == 0;
	return ordinary_add && is_in_limbo(rules, request->ledger_id) ? WK_WIRE_READ_ONLY : WK_WIRE_OK;
}

uint32_t wk_hosted_negative(const wk_hosted_rules *rules, int64_t ledger_id, uint32_t code) {
	return is_in_limbo(rules, ledger_id) ? WK_WIRE_UNKNOWN_STATE : code;
}
