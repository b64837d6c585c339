#include "engine/base/wait_word.h"

#include "engine/engine.h"
#include "io/io.h"

enum { BREATH_NS = 50 * 1000 };

int wk_wait_word_sleep(wk_wait_word *word, uint32_t seen, uint64_t timeout_ns) {
	atomic_fetch_add(&word->sleepers, 1);
	int result = wk_futex_wait(&word->value, seen, timeout_ns);
	atomic_fetch_sub(&word->sleepers, 1);
	return result;
}

int wk_engine_sleep(wk_engine *engine, wk_wait_word *word, uint32_t seen, uint64_t timeout_ns) {
	atomic_fetch_add(&word->sleepers, 1);
	wk_engine_unlock(engine);
	int result = wk_futex_wait(&word->value, seen, timeout_ns);
	wk_engine_lock(engine);
	atomic_fetch_sub(&word->sleepers, 1);
	return result;
}

int wk_engine_sleep_until(wk_engine *engine, wk_wait_word *word, uint32_t seen, uint64_t timeout_ns,
                          uint64_t deadline_ns) {
	if (deadline_ns != UINT64_MAX) {
		uint64_t now = wk_engine_now(engine), left = deadline_ns > now ? deadline_ns - now : 0;
		timeout_ns = left < timeout_ns ? left : timeout_ns;
	}
	return wk_engine_sleep(engine, word, seen, timeout_ns);
}

void wk_engine_yield_lock(wk_engine *engine) {
	const uint32_t nobody = 0;
	wk_engine_unlock(engine);
	wk_futex_wait(&nobody, 0, BREATH_NS);
	wk_engine_lock(engine);
}

void wk_wait_word_change(wk_wait_word *word) {
	__atomic_add_fetch(&word->value, 1, __ATOMIC_SEQ_CST);
	if (atomic_load(&word->sleepers) > 0)
		wk_futex_wake(&word->value, INT32_MAX);
}
