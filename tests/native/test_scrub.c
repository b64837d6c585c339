/* test_scrub.c: a step of the scrub looks at a bounded number of ledgers under the lock, however many there are. */
/* ctest labels: one-thread */
#include "engine/check/scrub.h"
#include "engine/index/ledger.h"
#include "engine/index/store_file.h"
#include "engine/manual.h"
#include "sim/faulty.h"
#include "small_wal.h"

enum { LEDGERS = 100 * 1000, LOOKS = 257, RECORDS = 60 };

static uint32_t steps_of_a_round(wk_engine *engine, uint32_t *most) {
	uint32_t steps = 0;
	engine->scrub.due_ns = 0;
	wk_engine_lock(engine);
	while (wk_scrub_step(engine)) {
		*most = engine->scrub.looks > *most ? engine->scrub.looks : *most;
		engine->scrub.due_ns = 0; /* without the pause that keeps the rate */
		steps++;
	}
	wk_engine_unlock(engine);
	CHECK_EQ(engine->scrub.slot, 0); /* the round has ended */
	return steps;
}

TEST(a_step_among_a_hundred_thousand_ledgers_looks_at_few) {
	wk_io *io;
	wk_namespace *ns = NULL;
	wk_log *log = NULL;
	wk_writer *writer = NULL;
	wk_error error = {0};
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = WK_OPEN_MANUAL;
	options.file_size_min = options.file_size_max = FILE_BYTES;
	options.scrub_rate = 1000 * 1000;
	CHECK_EQ(wk_faulty_new(1, &io), 0);
	CHECK_EQ(wk_open_on(io, "wal", &options, &ns, &error), WK_OK);
	CHECK_EQ(wk_log_open(ns, "log", 3, true, NULL, &log, &error), WK_OK);
	CHECK_EQ(wk_writer_open(log, &writer, &error), WK_OK);
	for (int i = 0; i < RECORDS; i++) {
		wk_position at;
		bool idle;
		CHECK_EQ(wk_writer_append(writer, "record", 6, NULL, &at, &error), WK_OK);
		CHECK_EQ(wk_namespace_step(ns, &idle, &error), WK_OK);
	}
	wk_engine *engine = ns->engine;
	uint32_t most = 0, few = steps_of_a_round(engine, &most);
	uint64_t bytes = engine->counters.scrubbed_bytes;
	CHECK(few > 0 && bytes > 0);
	engine->counters.scrubbed_bytes = 0;
	few = steps_of_a_round(engine, &most);
	bytes = engine->counters.scrubbed_bytes;
	wk_engine_lock(engine);
	for (int64_t id = 1000; id < 1000 + LEDGERS; id++)
		CHECK(wk_ledger_get(engine, id) != NULL);
	wk_engine_unlock(engine);
	most = 0;
	engine->counters.scrubbed_bytes = 0;
	uint32_t steps = steps_of_a_round(engine, &most);
	CHECK(most <= LOOKS);
	CHECK(steps <= few + engine->ledgers_capacity / (LOOKS - 1) + 1);
	CHECK_EQ(engine->counters.scrubbed_bytes, bytes); /* the same entries, each once */
	wk_engine_lock(engine);
	for (int64_t id = 1000; id < 1000 + LEDGERS; id++)
		wk_ledger_drop(engine, wk_ledger_find(engine, id));
	wk_engine_unlock(engine);
	CHECK_EQ(wk_writer_close(writer, UINT64_MAX, &error), WK_OK);
	wk_log_release(log);
	CHECK_EQ(wk_close(ns, UINT64_MAX, &error), WK_OK);
	io->operations->destroy(io);
}

int main(void) {
	RUN(a_step_among_a_hundred_thousand_ledgers_looks_at_few);
	return check_done();
}
