#include "engine/index/state_list.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"

/* Packed: uint64 ledger id, a byte of type, a byte of size, data. */
enum { TYPE_AT = 8, SIZE_AT = 9, DATA_AT = 10, CAPACITY_MIN = 128 };

bool wk_state_list_put(wk_state_list *list, const wk_footer_state *record) {
	assert(record->type <= UINT8_MAX && record->size <= WK_STATE_DATA_SIZE);
	size_t need = list->size + DATA_AT + record->size;
	if (need > list->capacity) {
		size_t capacity = list->capacity + list->capacity / 2 + CAPACITY_MIN;
		uint8_t *bytes = realloc(list->bytes, capacity);
		if (bytes == NULL)
			return false;
		list->bytes = bytes;
		list->capacity = capacity;
	}
	uint8_t *at = list->bytes + list->size;
	wk_store_le64(at, (uint64_t)record->ledger_id);
	at[TYPE_AT] = (uint8_t)record->type;
	at[SIZE_AT] = (uint8_t)record->size;
	memcpy(at + DATA_AT, record->data, record->size);
	list->size = need;
	list->count++;
	return true;
}

void wk_state_list_unpack(const wk_state_list *list, wk_footer_state *records) {
	const uint8_t *at = list->bytes;
	for (uint32_t i = 0; i < list->count; i++) {
		records[i] = (wk_footer_state){
		    .ledger_id = (int64_t)wk_load_le64(at),
		    .type = at[TYPE_AT],
		    .size = at[SIZE_AT],
		};
		memcpy(records[i].data, at + DATA_AT, records[i].size);
		at += DATA_AT + records[i].size;
	}
}

void wk_state_list_free(wk_state_list *list) {
	free(list->bytes);
	*list = (wk_state_list){.count = list->count};
}
