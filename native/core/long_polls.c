/*
 * long_polls.c: readers that wait until a ledger's LAC passes what they know, or their time is over. The rules are in
 * walkeeper/hosted.h.
 *
 * A poll is in three orders at once. Its ledger's list, lowest previous LAC first and the earlier of equals before the
 * later, so that an add that wakes nobody looks at one poll, not at all; the first one's `previous` is the last.
 * Its owner's list, in no order that matters. And a heap, the earliest deadline on top.
 */
#include "core/hosted.h"
#include <assert.h>

/* ---- the heap ---- */

static uint64_t deadline_at(const wk_polls *polls, uint32_t at) {
	return polls->polls[polls->heap[at]].deadline_ns;
}

static void place(wk_polls *polls, uint32_t at, int32_t poll) {
	polls->heap[at] = poll;
	polls->polls[poll].heap_at = at;
}

/* The place `at` is free; `poll` takes it, or one above it. */
static void rise(wk_polls *polls, uint32_t at, int32_t poll) {
	uint64_t deadline_ns = polls->polls[poll].deadline_ns;
	while (at > 0 && deadline_at(polls, (at - 1) / 2) > deadline_ns) {
		place(polls, at, polls->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	place(polls, at, poll);
}

/* The place `at` is free; everything below it moves up where it is earlier, and `poll` takes what remains. */
static void sink(wk_polls *polls, uint32_t at, int32_t poll) {
	uint64_t deadline_ns = polls->polls[poll].deadline_ns;
	for (uint64_t child; (child = 2 * (uint64_t)at + 1) < polls->count; at = (uint32_t)child) {
		if (child + 1 < polls->count && deadline_at(polls, (uint32_t)child + 1) < deadline_at(polls, (uint32_t)child))
			child++;
		if (deadline_at(polls, (uint32_t)child) >= deadline_ns)
			break;
		place(polls, at, polls->heap[child]);
	}
	place(polls, at, poll);
}

static void leave_heap(wk_polls *polls, uint32_t at) {
	int32_t last = polls->heap[--polls->count];
	if (at == polls->count)
		return;
	/* The last one comes from another branch: it may belong above the gap or below it. */
	if (at > 0 && deadline_at(polls, (at - 1) / 2) > polls->polls[last].deadline_ns)
		rise(polls, at, last);
	else
		sink(polls, at, last);
}

/* ---- the lists ---- */

static void join_ledger(wk_polls *polls, wk_hosted_ledger *ledger, int32_t poll) {
	wk_poll *all = polls->polls, *new = &all[poll];
	if (ledger->first_poll == WK_NO_POLL) {
		new->next = WK_NO_POLL;
		new->previous = poll;
		ledger->first_poll = poll;
		return;
	}
	int32_t first = ledger->first_poll, last = all[first].previous, after = last;
	/* From the end: most readers know the newest LAC. */
	while (after != WK_NO_POLL && all[after].previous_lac > new->previous_lac)
		after = after == first ? WK_NO_POLL : all[after].previous;
	if (after == WK_NO_POLL) {
		new->next = first;
		new->previous = last;
		all[first].previous = poll;
		ledger->first_poll = poll;
		return;
	}
	new->next = all[after].next;
	new->previous = after;
	all[after].next = poll;
	all[new->next == WK_NO_POLL ? first : new->next].previous = poll;
}

static void leave_ledger(wk_polls *polls, wk_hosted_ledger *ledger, int32_t poll) {
	wk_poll *all = polls->polls, *old = &all[poll];
	int32_t first = ledger->first_poll;
	if (poll == first)
		ledger->first_poll = first = old->next;
	else
		all[old->previous].next = old->next;
	if (old->next != WK_NO_POLL)
		all[old->next].previous = old->previous;
	else if (first != WK_NO_POLL)
		all[first].previous = old->previous;
}

static void join_owner(wk_polls *polls, int32_t *owner_first, int32_t poll) {
	polls->polls[poll].owner_next = *owner_first;
	polls->polls[poll].owner_previous = WK_NO_POLL;
	if (*owner_first != WK_NO_POLL)
		polls->polls[*owner_first].owner_previous = poll;
	*owner_first = poll;
}

static void leave_owner(wk_polls *polls, int32_t *owner_first, int32_t poll) {
	const wk_poll *old = &polls->polls[poll];
	if (old->owner_previous == WK_NO_POLL)
		*owner_first = old->owner_next;
	else
		polls->polls[old->owner_previous].owner_next = old->owner_next;
	if (old->owner_next != WK_NO_POLL)
		polls->polls[old->owner_next].owner_previous = old->owner_previous;
}

/* ---- polls ---- */

wk_status wk_polls_init(wk_polls *polls, wk_poll *room, int32_t *heap, uint32_t capacity) {
	if (capacity > INT32_MAX)
		return WK_INVALID;
	*polls = (wk_polls){.polls = room, .heap = heap, .capacity = capacity, .free = WK_NO_POLL};
	for (uint32_t i = capacity; i-- > 0;) {
		room[i].next = polls->free;
		polls->free = (int32_t)i;
	}
	return WK_OK;
}

wk_status wk_polls_add(wk_polls *polls, wk_hosted_ledger *ledger, int64_t previous_lac, uint64_t deadline_ns,
                       uint64_t owner, int32_t *owner_first, uint64_t tag, int32_t *poll) {
	if (polls->free == WK_NO_POLL)
		return WK_FULL;
	int32_t taken = polls->free;
	polls->free = polls->polls[taken].next;
	polls->polls[taken] = (wk_poll){
	    .ledger_id = ledger->ledger_id,
	    .previous_lac = previous_lac,
	    .deadline_ns = deadline_ns,
	    .tag = tag,
	    .owner = owner,
	};
	join_ledger(polls, ledger, taken);
	join_owner(polls, owner_first, taken);
	rise(polls, polls->count++, taken);
	*poll = taken;
	return WK_OK;
}

int32_t wk_polls_ready(const wk_polls *polls, const wk_hosted_ledger *ledger, bool all) {
	int32_t first = ledger->first_poll;
	if (first == WK_NO_POLL || all)
		return first;
	return polls->polls[first].previous_lac < ledger->lac ? first : WK_NO_POLL;
}

int32_t wk_polls_expired(const wk_polls *polls, uint64_t now_ns) {
	return polls->count > 0 && deadline_at(polls, 0) <= now_ns ? polls->heap[0] : WK_NO_POLL;
}

uint64_t wk_polls_deadline(const wk_polls *polls) {
	return polls->count > 0 ? deadline_at(polls, 0) : UINT64_MAX;
}

void wk_polls_remove(wk_polls *polls, int32_t poll, wk_hosted_ledger *ledger, int32_t *owner_first) {
	wk_poll *old = &polls->polls[poll];
	assert(old->heap_at < polls->count);
	assert(polls->heap[old->heap_at] == poll);
	assert(old->ledger_id == ledger->ledger_id);
	leave_ledger(polls, ledger, poll);
	leave_owner(polls, owner_first, poll);
	leave_heap(polls, old->heap_at);
	old->next = polls->free;
	polls->free = poll;
}
