/* test_long_polls.c: who waits for a ledger's LAC is woken when it is passed, when his time is over, or with his owner. */
/* ctest labels: one-thread */
#include "check.h"
#include "core/hosted.h"

enum { ROOM = 10000, LEDGERS = 5, OWNERS = 4 };
static wk_polls polls;
static wk_poll room[ROOM];
static int32_t heap[ROOM];
static wk_hosted_ledger ledgers[LEDGERS];
static int32_t owners[OWNERS];

static void open_polls(uint32_t capacity) {
	CHECK_EQ(wk_polls_init(&polls, room, heap, capacity), WK_OK);
	for (int i = 0; i < LEDGERS; i++)
		ledgers[i] = (wk_hosted_ledger){.ledger_id = 100 + i, .lac = WK_LAC_NONE, .first_poll = WK_NO_POLL};
	for (int i = 0; i < OWNERS; i++)
		owners[i] = WK_NO_POLL;
}

static int32_t add(int ledger, int64_t previous_lac, uint64_t deadline_ns, uint32_t owner, uint64_t tag) {
	int32_t poll = WK_NO_POLL;
	CHECK_EQ(wk_polls_add(&polls, &ledgers[ledger], previous_lac, deadline_ns, owner, &owners[owner], tag, &poll),
	         WK_OK);
	CHECK(poll >= 0 && (uint32_t)poll < polls.capacity);
	CHECK_EQ(room[poll].tag, tag);
	CHECK_EQ(room[poll].ledger_id, 100 + ledger);
	CHECK_EQ(room[poll].owner, owner);
	return poll;
}

/* Takes a poll out by what it says of itself, as a server does; its tag. */
static uint64_t take(int32_t poll) {
	CHECK(poll != WK_NO_POLL);
	wk_polls_remove(&polls, poll, &ledgers[room[poll].ledger_id - 100], &owners[room[poll].owner]);
	return room[poll].tag;
}

/* Everything that the three orders promise, counted again. */
static void check_orders(void) {
	uint32_t listed = 0, owned = 0;
	for (int i = 0; i < LEDGERS; i++) {
		int32_t last = WK_NO_POLL;
		for (int32_t at = ledgers[i].first_poll; at != WK_NO_POLL; last = at, at = room[at].next, listed++) {
			CHECK_EQ(room[at].ledger_id, 100 + i);
			CHECK(last == WK_NO_POLL || room[at].previous == last);
			CHECK(last == WK_NO_POLL || room[last].previous_lac <= room[at].previous_lac);
			CHECK(listed < polls.count);
		}
		CHECK(last == WK_NO_POLL || room[ledgers[i].first_poll].previous == last);
	}
	for (uint32_t i = 0; i < OWNERS; i++) {
		int32_t last = WK_NO_POLL;
		for (int32_t at = owners[i]; at != WK_NO_POLL; last = at, at = room[at].owner_next, owned++) {
			CHECK_EQ(room[at].owner, i);
			CHECK_EQ(room[at].owner_previous, last);
			CHECK(owned < polls.count);
		}
	}
	CHECK_EQ(listed, polls.count);
	CHECK_EQ(owned, polls.count);
	for (uint32_t i = 0; i < polls.count; i++) {
		CHECK_EQ(room[heap[i]].heap_at, i);
		CHECK(i == 0 || room[heap[(i - 1) / 2]].deadline_ns <= room[heap[i]].deadline_ns);
	}
	uint32_t unused = 0;
	for (int32_t at = polls.free; at != WK_NO_POLL; at = room[at].next)
		unused++;
	CHECK_EQ(unused, polls.capacity - polls.count);
}

TEST(there_is_room_for_so_many_and_no_more) {
	int32_t poll = 77, nobody = WK_NO_POLL;
	open_polls(3);
	add(0, 1, 10, 0, 1), add(0, 1, 10, 0, 2), add(1, 1, 10, 1, 3);
	CHECK_EQ(wk_polls_add(&polls, &ledgers[2], 1, 5, 2, &nobody, 9, &poll), WK_FULL);
	CHECK_EQ(poll, 77);
	CHECK_EQ(nobody, WK_NO_POLL);
	CHECK_EQ(ledgers[2].first_poll, WK_NO_POLL);
	CHECK_EQ(polls.count, 3);
	CHECK_EQ(take(wk_polls_ready(&polls, &ledgers[1], true)), 3);
	add(2, 1, 5, 2, 4);
	check_orders();

	open_polls(0);
	CHECK_EQ(wk_polls_add(&polls, &ledgers[0], 1, 5, 0, &nobody, 9, &poll), WK_FULL);
	CHECK_EQ(wk_polls_init(&polls, room, heap, (uint32_t)INT32_MAX + 1), WK_INVALID);
}

TEST(nobody_waits_at_first) {
	open_polls(4);
	CHECK_EQ(wk_polls_ready(&polls, &ledgers[0], false), WK_NO_POLL);
	CHECK_EQ(wk_polls_ready(&polls, &ledgers[0], true), WK_NO_POLL);
	CHECK_EQ(wk_polls_expired(&polls, UINT64_MAX), WK_NO_POLL);
	CHECK_EQ(wk_polls_deadline(&polls), UINT64_MAX);
}

TEST(a_poll_is_ready_when_the_LAC_is_above_what_it_knows) {
	open_polls(4);
	add(0, 5, 10, 0, 1);
	CHECK_EQ(wk_polls_ready(&polls, &ledgers[0], false), WK_NO_POLL);
	ledgers[0].lac = 5; /* which it knows */
	CHECK_EQ(wk_polls_ready(&polls, &ledgers[0], false), WK_NO_POLL);
	ledgers[1].lac = 9; /* another ledger's */
	CHECK_EQ(wk_polls_ready(&polls, &ledgers[0], false), WK_NO_POLL);
	ledgers[0].lac = 6;
	CHECK_EQ(take(wk_polls_ready(&polls, &ledgers[0], false)), 1);
	CHECK_EQ(wk_polls_ready(&polls, &ledgers[0], false), WK_NO_POLL);
	CHECK_EQ(polls.count, 0);
}

TEST(who_knows_less_is_woken_first_and_of_equals_who_came_first) {
	open_polls(16);
	add(0, 5, 10, 0, 1), add(0, 7, 10, 0, 2), add(0, 5, 10, 1, 3), add(0, -1, 10, 1, 4), add(0, 7, 10, 0, 5);
	add(0, 6, 10, 2, 6), add(0, -1, 10, 2, 7);
	check_orders();
	ledgers[0].lac = 0;
	CHECK_EQ(take(wk_polls_ready(&polls, &ledgers[0], false)), 4);
	CHECK_EQ(take(wk_polls_ready(&polls, &ledgers[0], false)), 7);
	CHECK_EQ(wk_polls_ready(&polls, &ledgers[0], false), WK_NO_POLL);
	ledgers[0].lac = 7;
	CHECK_EQ(take(wk_polls_ready(&polls, &ledgers[0], false)), 1);
	CHECK_EQ(take(wk_polls_ready(&polls, &ledgers[0], false)), 3);
	CHECK_EQ(take(wk_polls_ready(&polls, &ledgers[0], false)), 6);
	CHECK_EQ(wk_polls_ready(&polls, &ledgers[0], false), WK_NO_POLL);
	CHECK_EQ(take(wk_polls_ready(&polls, &ledgers[0], true)), 2); /* a fence wakes everyone */
	CHECK_EQ(take(wk_polls_ready(&polls, &ledgers[0], true)), 5);
	CHECK_EQ(wk_polls_ready(&polls, &ledgers[0], true), WK_NO_POLL);
	check_orders();
}

TEST(a_poll_expires_at_its_deadline_the_earliest_first) {
	open_polls(8);
	add(0, 5, 300, 0, 3), add(1, 5, 100, 0, 1), add(0, 5, 200, 1, 2);
	CHECK_EQ(wk_polls_deadline(&polls), 100);
	CHECK_EQ(wk_polls_expired(&polls, 99), WK_NO_POLL);
	CHECK_EQ(take(wk_polls_expired(&polls, 100)), 1);
	CHECK_EQ(wk_polls_deadline(&polls), 200);
	CHECK_EQ(wk_polls_expired(&polls, 100), WK_NO_POLL);
	CHECK_EQ(take(wk_polls_expired(&polls, UINT64_MAX)), 2);
	CHECK_EQ(take(wk_polls_expired(&polls, UINT64_MAX)), 3);
	CHECK_EQ(wk_polls_expired(&polls, UINT64_MAX), WK_NO_POLL);
	CHECK_EQ(wk_polls_deadline(&polls), UINT64_MAX);
}

TEST(the_polls_of_one_owner_are_dropped_and_no_others) {
	open_polls(16);
	for (uint64_t tag = 0; tag < 12; tag++)
		add((int)(tag % 3), (int64_t)tag, 100 - tag, tag % 2, tag);
	uint32_t dropped = 0;
	for (; owners[1] != WK_NO_POLL; dropped++)
		CHECK_EQ(take(owners[1]) % 2, 1);
	CHECK_EQ(dropped, 6);
	CHECK_EQ(polls.count, 6);
	check_orders();
	for (uint64_t tag = 12; tag-- > 0;) {
		if (tag % 2 == 0)
			CHECK_EQ(take(wk_polls_expired(&polls, 100)), tag);
	}
	CHECK_EQ(owners[0], WK_NO_POLL);
}

/* The last of the heap fills a gap in another branch: here it has to rise. */
TEST(a_gap_in_the_heap_may_be_filled_from_another_branch) {
	open_polls(16);
	static const uint64_t deadlines[] = {1, 50, 2, 60, 61, 3, 4, 70, 71, 72, 73, 5, 6, 7};
	for (uint64_t tag = 0; tag < sizeof deadlines / sizeof *deadlines; tag++)
		add(0, 0, deadlines[tag], 0, tag);
	CHECK_EQ(room[heap[7]].deadline_ns, 70); /* as they came */
	take(heap[7]);
	check_orders();
	take(heap[3]);
	check_orders();
	uint64_t before = 0;
	for (; polls.count > 0; before = room[heap[0]].deadline_ns, take(heap[0]))
		CHECK(wk_polls_deadline(&polls) >= before);
}

/* Random calls against a list of everything that waits. */
TEST(after_any_calls_exactly_the_right_polls_wait) {
	enum { CAPACITY = 40, ROUNDS = 200 / CHECK_PART, STEPS = 600 };
	uint64_t seed = check_seed(61);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct {
			int64_t previous_lac;
			uint64_t deadline_ns;
			uint32_t owner;
			int ledger;
			bool waits;
		} all[STEPS] = {{0}};
		uint64_t known = 0, now = 0;
		uint32_t count = 0;
		open_polls(CAPACITY);
		for (uint32_t step = 0; step < STEPS; step++) {
			uint64_t choice = check_random(&seed) % 8;
			int ledger = (int)(check_random(&seed) % LEDGERS);
			uint32_t owner = (uint32_t)(check_random(&seed) % OWNERS);
			if (choice < 4 && count == CAPACITY) {
				int32_t poll;
				CHECK_EQ(wk_polls_add(&polls, &ledgers[ledger], 0, 0, owner, &owners[owner], 0, &poll), WK_FULL);
			} else if (choice < 4) {
				int64_t previous_lac = ledgers[ledger].lac + (int64_t)(check_random(&seed) % 3);
				uint64_t deadline_ns = now + check_random(&seed) % 100;
				add(ledger, previous_lac, deadline_ns, owner, known);
				all[known].previous_lac = previous_lac, all[known].deadline_ns = deadline_ns;
				all[known].owner = owner, all[known].ledger = ledger, all[known++].waits = true;
				count++;
			} else if (choice < 6) {
				bool everyone = check_random(&seed) % 8 == 0;
				wk_hosted_raise(&ledgers[ledger], ledgers[ledger].lac + (int64_t)(check_random(&seed) % 3), 1);
				for (int32_t poll; (poll = wk_polls_ready(&polls, &ledgers[ledger], everyone)) != WK_NO_POLL;) {
					uint64_t tag = take(poll);
					CHECK(all[tag].waits && all[tag].ledger == ledger);
					CHECK(everyone || all[tag].previous_lac < ledgers[ledger].lac);
					all[tag].waits = false, count--;
					for (uint64_t i = 0; i < known; i++)
						CHECK(!all[i].waits || all[i].ledger != ledger || all[i].previous_lac > all[tag].previous_lac ||
						      (all[i].previous_lac == all[tag].previous_lac && i > tag));
				}
				for (uint64_t i = 0; i < known; i++)
					CHECK(!all[i].waits || all[i].ledger != ledger ||
					      (!everyone && all[i].previous_lac >= ledgers[ledger].lac));
			} else if (choice == 6) {
				now += check_random(&seed) % 30;
				for (int32_t poll; (poll = wk_polls_expired(&polls, now)) != WK_NO_POLL;) {
					uint64_t tag = take(poll);
					CHECK(all[tag].waits && all[tag].deadline_ns <= now);
					all[tag].waits = false, count--;
				}
				for (uint64_t i = 0; i < known; i++)
					CHECK(!all[i].waits || all[i].deadline_ns > now);
			} else if (check_random(&seed) % 4 == 0) {
				while (owners[owner] != WK_NO_POLL) {
					uint64_t tag = take(owners[owner]);
					CHECK(all[tag].waits && all[tag].owner == owner);
					all[tag].waits = false, count--;
				}
				for (uint64_t i = 0; i < known; i++)
					CHECK(!all[i].waits || all[i].owner != owner);
			}
			CHECK_EQ(polls.count, count);
			uint64_t earliest = UINT64_MAX;
			for (uint64_t i = 0; i < known; i++)
				if (all[i].waits && all[i].deadline_ns < earliest)
					earliest = all[i].deadline_ns;
			CHECK_EQ(wk_polls_deadline(&polls), earliest);
			check_orders();
		}
	}
}

TEST(ten_thousand_polls_expire_in_order) {
	uint64_t seed = check_seed(62), before = 0;
	open_polls(ROOM);
	for (uint32_t i = 0; i < ROOM; i++)
		add((int)(i % LEDGERS), (int64_t)(i / 10), check_random(&seed) % 5000, i % OWNERS, i);
	check_orders();
	for (uint32_t i = 0; i < ROOM / 2; i++) /* from anywhere */
		take(heap[check_random(&seed) % polls.count]);
	check_orders();
	for (uint32_t left = ROOM / 2; left > 0; left--) {
		CHECK_EQ(polls.count, left);
		CHECK(wk_polls_deadline(&polls) >= before);
		before = wk_polls_deadline(&polls);
		take(wk_polls_expired(&polls, before));
	}
	check_orders();
	CHECK_EQ(polls.count, 0);
}

int main(void) {
	RUN(there_is_room_for_so_many_and_no_more);
	RUN(nobody_waits_at_first);
	RUN(a_poll_is_ready_when_the_LAC_is_above_what_it_knows);
	RUN(who_knows_less_is_woken_first_and_of_equals_who_came_first);
	RUN(a_poll_expires_at_its_deadline_the_earliest_first);
	RUN(the_polls_of_one_owner_are_dropped_and_no_others);
	RUN(a_gap_in_the_heap_may_be_filled_from_another_branch);
	RUN(after_any_calls_exactly_the_right_polls_wait);
	RUN(ten_thousand_polls_expire_in_order);
	return check_done();
}
