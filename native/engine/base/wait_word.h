/*
 * wait_word.h: a word that changes when something happened, and how many threads sleep until it does. Private.
 *
 * Who waits looks at the word first, then at what it waits for, then sleeps: a change in between ends the sleep at once.
 * Who changes it enters the kernel only where somebody sleeps.
 */
#ifndef WK_ENGINE_WAIT_WORD_H
#define WK_ENGINE_WAIT_WORD_H
#include <stdatomic.h>
#include <stdint.h>

typedef struct wk_wait_word {
	uint32_t value;
	_Atomic uint32_t sleepers;
} wk_wait_word;

struct wk_engine;

static inline uint32_t wk_wait_word_look(const wk_wait_word *word) {
	return __atomic_load_n(&word->value, __ATOMIC_SEQ_CST);
}
/* Until the word is no longer `seen`, timeout_ns passed (UINT64_MAX: no limit), or a signal came: -EINTR. */
int wk_wait_word_sleep(wk_wait_word *word, uint32_t seen, uint64_t timeout_ns);
/* (locked, dropped) The same, without the engine's lock. */
int wk_engine_sleep(struct wk_engine *engine, wk_wait_word *word, uint32_t seen, uint64_t timeout_ns);
/* (locked, dropped) The same, but no longer than until deadline_ns (UINT64_MAX: none). */
int wk_engine_sleep_until(struct wk_engine *engine, wk_wait_word *word, uint32_t seen, uint64_t timeout_ns,
                          uint64_t deadline_ns);
enum { WK_LOOKS_AT_ONCE = 2048 }; /* at ledgers or logs, under one hold of the engine's lock: about a millisecond */
/* (locked, dropped) In the middle of long work: lets those in who wait for the lock, which a mutex alone does not. */
void wk_engine_yield_lock(struct wk_engine *engine);
/* Something happened: wakes everybody who sleeps. */
void wk_wait_word_change(wk_wait_word *word);
#endif
