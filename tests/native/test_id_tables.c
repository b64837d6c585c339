/* test_id_tables.c: whoever chooses ids of ledgers cannot make searches for them long. */
#include "core/id_hash.h"
#include "engine/ledger/ledger_state.h"
#include "ledger_store.h"

enum { COUNT = 1500, SLOTS = 8192, LONG = 400 };

/* How far from where its search begins the farthest one stands. */
static uint32_t farthest(wk_engine *engine) {
	uint32_t most = 0, mask = engine->ledgers_capacity - 1;
	for (uint32_t at = 0; at <= mask; at++) {
		if (engine->ledgers[at] == NULL)
			continue;
		uint32_t home = wk_id_home(engine->id_seed, engine->ledgers[at]->id, engine->ledgers_capacity);
		most = ((at - home) & mask) > most ? (at - home) & mask : most;
	}
	mask = engine->states_capacity - 1;
	for (uint32_t at = 0; at <= mask; at++) {
		if (engine->states[at] == NULL)
			continue;
		uint32_t home = wk_id_home(engine->id_seed, engine->states[at]->ledger_id, engine->states_capacity);
		most = ((at - home) & mask) > most ? (at - home) & mask : most;
	}
	return most;
}

TEST(ids_that_would_all_want_one_slot_are_spread) {
	wk_io *io = new_disk(1);
	wk_namespace *ns = open_store(io);
	uint32_t count = 0;
	for (int64_t id = 0; count < COUNT; id++) {
		if (wk_id_home(0, id, SLOTS) != 7) /* without a seed, and in smaller tables, too */
			continue;
		add_entry(ns, id, 0);
		count++;
	}
	CHECK_EQ(ns->engine->ledgers_count, COUNT);
	CHECK_EQ(ns->engine->states_count, COUNT);
	CHECK(ns->engine->states_capacity <= SLOTS);
	CHECK(farthest(ns->engine) < LONG);
	close_store(ns);
	io->operations->destroy(io);
}

int main(void) {
	RUN(ids_that_would_all_want_one_slot_are_spread);
	return check_done();
}
