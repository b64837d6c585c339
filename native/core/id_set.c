/*
 * id_set.c: ids in rising order, each once. The rules are in walkeeper/hosted.h.
 *
 * Sorted by a heap: in place, without recursion, and n log n whatever the order is, as files may hold any.
 */
#include "core/hosted.h"

/* The place `at` is free; everything below it moves up where it is larger, and `id` takes what remains. */
static void sink(int64_t *ids, uint64_t count, uint64_t at, int64_t id) {
	for (uint64_t child; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count && ids[child + 1] > ids[child])
			child++;
		if (ids[child] <= id)
			break;
		ids[at] = ids[child];
	}
	ids[at] = id;
}

static void sort(int64_t *ids, uint64_t count) {
	for (uint64_t i = count / 2; i-- > 0;)
		sink(ids, count, i, ids[i]);
	for (uint64_t left = count; left-- > 1;) {
		int64_t id = ids[left];
		ids[left] = ids[0];
		sink(ids, left, 0, id);
	}
}

static bool is_sorted(const int64_t *ids, uint64_t count) {
	for (uint64_t i = 1; i < count; i++)
		if (ids[i] < ids[i - 1])
			return false;
	return true;
}

void wk_id_set_init(wk_id_set *set, int64_t *ids, uint64_t count) {
	if (!is_sorted(ids, count))
		sort(ids, count);
	uint64_t kept = 0;
	for (uint64_t i = 0; i < count; i++) {
		if (kept == 0 || ids[kept - 1] != ids[i])
			ids[kept++] = ids[i];
	}
	*set = (wk_id_set){.ids = ids, .count = kept};
}

bool wk_id_set_has(const wk_id_set *set, int64_t id) {
	uint64_t from = 0, to = set->count;
	while (from < to) {
		uint64_t middle = from + (to - from) / 2;
		if (set->ids[middle] < id)
			from = middle + 1;
		else
			to = middle;
	}
	return from < set->count && set->ids[from] == id;
}
