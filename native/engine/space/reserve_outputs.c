/* reserve_outputs.c: what is kept back for the mover's output and the next index. */
#include "engine/space/reserve_outputs.h"

#include <errno.h>

#include "engine/mover.h"
#include "engine/space/reserve_file.h"

enum { OUTPUT_PART = 8, OUTPUT_MIN = 64 * 1024 };

static uint64_t in_blocks(uint64_t size) {
	size = size / WK_BLOCK_ALIGNMENT * WK_BLOCK_ALIGNMENT;
	return size > OUTPUT_MIN ? size : OUTPUT_MIN;
}

static bool is_tight(const wk_engine *engine) {
	return engine->space_low || engine->disk_full;
}

static bool wants_any(const wk_engine *engine) {
	bool nothing_to_free = engine->files_count <= 1 + (engine->next != NULL);
	return !nothing_to_free && !engine->keeps_nothing_back;
}

static bool lacks_output(const wk_engine *engine) {
	return wants_any(engine) && engine->output_reserve == 0 && !wk_mover_has_reserve(engine);
}

static bool lacks_index(const wk_engine *engine) {
	return wants_any(engine) && wk_engine_holds_ledgers(engine) && engine->index.reserve == 0;
}

bool wk_reserve_owes_outputs(const wk_engine *engine) {
	return lacks_output(engine) || lacks_index(engine);
}

/* (locked, dropped) -errno */
static int make(wk_engine *engine, const char *name, uint64_t wanted, uint64_t *reserve) {
	wk_engine_unlock(engine);
	uint64_t made = 0;
	int result = wk_reserve_file_make(engine, name, wanted, &made);
	wk_engine_lock(engine);
	engine->keeps_nothing_back |= result == -EOPNOTSUPP;
	*reserve = made;
	return result == -EOPNOTSUPP ? 0 : result;
}

/* An eighth of a journal file, so that one of which a tenth is live can be evacuated on a full disk. */
static int make_output(wk_engine *engine) {
	uint64_t wanted = in_blocks(engine->file_size_next / OUTPUT_PART);
	if (!wants_any(engine) || engine->output_reserve >= wanted || wk_mover_has_reserve(engine))
		return 0;
	if (engine->output_reserve > 0 && is_tight(engine))
		return 0; /* a small one is better than none, and this is no time to want more */
	return make(engine, WK_RESERVE_OUTPUT, wanted, &engine->output_reserve);
}

/* What the next index file takes, at most: it has a range for each ledger and file. */
static uint64_t index_size(const wk_engine *engine) {
	uint64_t size = wk_index_size(engine->files_count, engine->states_count, engine->pager.ranges_count);
	if (engine->pager.paged > 0)
		return size + engine->index.size;
	return size > engine->index.size ? size : engine->index.size;
}

static int make_index(wk_engine *engine) {
	uint64_t wanted = index_size(engine);
	if (!wants_any(engine) || !wk_engine_holds_ledgers(engine) || engine->index.reserve >= wanted)
		return 0;
	if (is_tight(engine))
		return engine->index.reserve > 0 ? 0
		                                 : make(engine, WK_RESERVE_INDEX, in_blocks(wanted), &engine->index.reserve);
	return make(engine, WK_RESERVE_INDEX, in_blocks(wanted + wanted / 2), /* it grows a little all the time */
	            &engine->index.reserve);
}

int wk_reserve_outputs(wk_engine *engine, bool *worked) {
	uint64_t before = engine->output_reserve + engine->index.reserve;
	int result = make_output(engine), other = make_index(engine);
	*worked = engine->output_reserve + engine->index.reserve != before;
	return result < 0 ? result : other;
}
