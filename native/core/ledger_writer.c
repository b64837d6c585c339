/* ledger_writer.c: see ledger_writer.h. */
#include "core/ledger_writer.h"
#include <assert.h>

static wk_pending_add *pending_of(const wk_ledger_writer *writer, int64_t entry_id) {
	return &writer->pending[(uint64_t)entry_id & (writer->capacity - 1)];
}

static bool is_confirmed(const wk_ledger_writer *writer, const wk_pending_add *add) {
	return (uint32_t)__builtin_popcountll(add->acked) >= writer->quorum.ack_quorum;
}

/* Enough bookies have stored the entry, or still may. */
static bool can_be_confirmed(const wk_ledger_writer *writer, int64_t entry_id) {
	uint64_t all = writer->quorum.write_quorum == 64 ? UINT64_MAX : (UINT64_C(1) << writer->quorum.write_quorum) - 1;
	uint64_t left = all & ~wk_quorum_indexes(&writer->quorum, entry_id, writer->failed_slots);
	uint64_t acked = pending_of(writer, entry_id)->acked;
	return (uint32_t)__builtin_popcountll(acked | left) >= writer->quorum.ack_quorum;
}

static void get_stuck(wk_ledger_writer *writer) {
	if (writer->patient)
		writer->stuck = true;
	else
		wk_ledger_writer_fail(writer, WK_UNAVAILABLE);
}

void wk_ledger_writer_init(wk_ledger_writer *writer, const wk_quorum *quorum, int64_t lac, int64_t lac_length,
                           wk_pending_add *pending, uint32_t capacity) {
	assert(wk_quorum_is_valid(quorum) && lac >= -1 && lac_length >= 0);
	assert(capacity > 0 && (capacity & (capacity - 1)) == 0);
	*writer = (wk_ledger_writer){.quorum = *quorum,
	                             .lac = lac,
	                             .lac_length = lac_length,
	                             .last_add_pushed = lac,
	                             .length = lac_length,
	                             .pending = pending,
	                             .capacity = capacity};
}

bool wk_ledger_writer_has_room(const wk_ledger_writer *writer) {
	return writer->last_add_pushed - writer->lac < (int64_t)writer->capacity;
}

int64_t wk_ledger_writer_push(wk_ledger_writer *writer, int64_t length) {
	assert(wk_ledger_writer_has_room(writer) && length >= 0);
	int64_t entry_id = ++writer->last_add_pushed;
	writer->length = length;
	*pending_of(writer, entry_id) = (wk_pending_add){.length = length};
	if (!can_be_confirmed(writer, entry_id))
		get_stuck(writer);
	return entry_id;
}

static bool advance(wk_ledger_writer *writer) {
	int64_t before = writer->lac;
	while (!writer->frozen && writer->lac < writer->last_add_pushed &&
	       is_confirmed(writer, pending_of(writer, writer->lac + 1)))
		writer->lac_length = pending_of(writer, ++writer->lac)->length;
	return writer->lac > before;
}

bool wk_ledger_writer_ack(wk_ledger_writer *writer, int64_t entry_id, uint32_t slot) {
	int32_t index = wk_quorum_index(&writer->quorum, entry_id, slot);
	if (writer->status != WK_OK || index == WK_NO_INDEX || entry_id <= writer->lac ||
	    entry_id > writer->last_add_pushed || !wk_ledger_writer_uses(writer, slot))
		return false;
	pending_of(writer, entry_id)->acked |= UINT64_C(1) << index;
	return advance(writer);
}

/* Whether every entry behind the LAC can be confirmed. */
static bool all_can_be_confirmed(const wk_ledger_writer *writer) {
	for (int64_t entry_id = writer->lac + 1; entry_id <= writer->last_add_pushed; entry_id++)
		if (!can_be_confirmed(writer, entry_id))
			return false;
	return true;
}

void wk_ledger_writer_slot_failed(wk_ledger_writer *writer, uint32_t slot) {
	writer->failed_slots |= UINT64_C(1) << slot;
	if (!all_can_be_confirmed(writer))
		get_stuck(writer);
}

void wk_ledger_writer_freeze(wk_ledger_writer *writer) {
	writer->frozen = true;
}

bool wk_ledger_writer_thaw(wk_ledger_writer *writer) {
	writer->frozen = false;
	return writer->status == WK_OK && advance(writer);
}

void wk_ledger_writer_replace(wk_ledger_writer *writer, uint64_t slots) {
	assert(writer->frozen);
	writer->failed_slots &= ~slots;
	for (int64_t entry_id = writer->lac + 1; entry_id <= writer->last_add_pushed; entry_id++)
		pending_of(writer, entry_id)->acked &= ~wk_quorum_indexes(&writer->quorum, entry_id, slots);
	writer->stuck = writer->stuck && !all_can_be_confirmed(writer);
}

void wk_ledger_writer_fail(wk_ledger_writer *writer, wk_status status) {
	if (writer->status == WK_OK)
		writer->status = status;
}

bool wk_ledger_writer_uses(const wk_ledger_writer *writer, uint32_t slot) {
	return (writer->failed_slots >> slot & 1) == 0;
}
