/*
 * state_list.h: the state records of a file that is not sealed, for its footer. Private; under the engine's lock.
 *
 * Packed, as a file may hold those of a hundred thousand ledgers.
 */
#ifndef WK_ENGINE_STATE_LIST_H
#define WK_ENGINE_STATE_LIST_H
#include "core/footer.h"

typedef struct wk_state_list {
	uint8_t *bytes;
	size_t size, capacity;
	uint32_t count;
} wk_state_list;

/* False: no memory, nothing has changed. */
bool wk_state_list_put(wk_state_list *list, const wk_footer_state *record);
/* All of them, in the order of the puts, into room for `count`. */
void wk_state_list_unpack(const wk_state_list *list, wk_footer_state *records);
/* What it holds goes, and is asked for no more; how many there were stays. */
void wk_state_list_free(wk_state_list *list);
#endif
