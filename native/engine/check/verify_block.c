/* verify_block.c: what a whole block holds. */
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/catalogue_record.h"
#include "engine/check/verifier.h"
#include "engine/ledger.h"

/* A record of a type that a newer version made is no damage: its frame is whole. */
static bool is_catalogue(const wk_entry *entry) {
	size_t at = 0, consumed;
	wk_catalogue_record record;
	wk_status status;
	while ((status = wk_catalogue_decode(entry->payload + at, entry->payload_size - at, &record, &consumed)) == WK_OK)
		at += consumed;
	return status != WK_CORRUPT;
}

void wk_verify_entry(wk_verifier *verifier, const wk_verify_file *file, uint64_t offset, const uint8_t *bytes,
                     size_t size, wk_entry *entry, bool *whole) {
	char name[40];
	bool ledgers = verifier->superblock.kind == WK_KIND_LEDGERS;
	verifier->report->entries++;
	*whole = (ledgers ? wk_summed_entry_decode(bytes, size, &entry->ledger_id, &entry->entry_id)
	                  : wk_entry_decode(bytes, size, entry)) == WK_OK;
	if (!*whole) {
		wk_verifier_damage(verifier, wk_verify_file_name(file, name),
		                   "the entry at offset %llu (%zu bytes) differs from its %s", (unsigned long long)offset, size,
		                   ledgers ? "checksum" : "digest");
	} else if (!ledgers && entry->ledger_id == 0 && !is_catalogue(entry)) {
		wk_verifier_damage(verifier, wk_verify_file_name(file, name),
		                   "entry %lld of the catalogue, at offset %llu, does not hold catalogue records",
		                   (long long)entry->entry_id, (unsigned long long)offset);
	}
}

static wk_status add_entry(wk_found *found, const wk_found_entry *entry) {
	if (found->entries_count == found->entries_capacity) {
		uint32_t capacity = found->entries_capacity == 0 ? 256 : found->entries_capacity * 2;
		wk_found_entry *entries = realloc(found->entries, capacity * sizeof *entries);
		if (entries == NULL)
			return WK_NO_MEMORY;
		found->entries = entries;
		found->entries_capacity = capacity;
	}
	found->entries[found->entries_count++] = *entry;
	return WK_OK;
}

static wk_status add_state(wk_found *found, const wk_block_record *record) {
	if (record->size < 8 || record->size - 8 > WK_STATE_DATA_SIZE)
		return WK_CORRUPT;
	if (found->states_count == found->states_capacity) {
		uint32_t capacity = found->states_capacity == 0 ? 16 : found->states_capacity * 2;
		wk_footer_state *states = realloc(found->states, capacity * sizeof *states);
		if (states == NULL)
			return WK_NO_MEMORY;
		found->states = states;
		found->states_capacity = capacity;
	}
	wk_footer_state *state = &found->states[found->states_count++];
	*state = (wk_footer_state){
	    .ledger_id = (int64_t)wk_load_le64(record->bytes), .type = record->type, .size = record->size - 8};
	memcpy(state->data, record->bytes + 8, record->size - 8);
	return WK_OK;
}

wk_status wk_verify_block(wk_verifier *verifier, const wk_verify_file *file, const uint8_t *bytes,
                          const wk_block_header *header, wk_found *found) {
	uint32_t cursor = WK_BLOCK_HEADER_SIZE;
	wk_block_record record;
	verifier->report->blocks++;
	if (header->sequence > verifier->last_sequence + 1 && verifier->report->damaged == verifier->last_damaged)
		verifier->recycled = true;
	verifier->last_sequence = header->sequence;
	verifier->last_damaged = verifier->report->damaged;
	wk_status status = WK_OK;
	while (status != WK_NO_MEMORY && wk_block_next(bytes, header, &cursor, &record) == WK_OK) {
		uint64_t offset = header->offset + record.offset;
		if (record.type == WK_BLOCK_ENTRY || record.type == WK_BLOCK_SUMMED_ENTRY) {
			wk_entry entry;
			bool whole;
			wk_verify_entry(verifier, file, offset, record.bytes, record.size, &entry, &whole);
			if (whole && found != NULL)
				status = add_entry(found,
				                   &(wk_found_entry){entry.ledger_id, entry.entry_id, (uint32_t)offset, record.size});
			else if (found != NULL)
				found->damaged = true;
		} else if (found != NULL && (status = add_state(found, &record)) == WK_CORRUPT) {
			char name[40];
			wk_verifier_damage(verifier, wk_verify_file_name(file, name),
			                   "the record at offset %llu has a size that its type cannot have",
			                   (unsigned long long)offset);
			found->damaged = true;
		}
	}
	return status == WK_NO_MEMORY ? wk_fail(verifier->error, status, "verifying %s: no memory", verifier->path) : WK_OK;
}
