/*
 * write_queue.h: the threads of this process that wait for a database's WAL_WRITE_LOCK. SQLite's busy handler sleeps 1, 2, 5 ms and
 * longer between two tries; here a thread that sleeps so is woken when the lock is let go.
 *
 * SQLite counts the time-out of the busy handler by the lengths it asked for. So a thread is woken early only with a turn: no
 * other thread of this process takes the lock before it tries, or TURN_NS have passed.
 */
#ifndef WK_SQLITE_WRITE_QUEUE_H
#define WK_SQLITE_WRITE_QUEUE_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct wk_write_waiter;
typedef struct wk_write_queue {
	pthread_mutex_t lock;
	struct wk_write_waiter *first, *last;
	uint64_t moves; /* the lock was taken and let go of so many times; odd: a connection of this process has it */
	bool reserved;  /* for the thread `turn`, until it tries, or the time `until` */
	pthread_t turn;
	uint64_t until;
} wk_write_queue;

void wk_write_queue_init(wk_write_queue *queue);
void wk_write_queue_destroy(wk_write_queue *queue);
/* Whether this thread may try to take the lock: it is not another's turn. `moves` goes to wk_write_queue_held_since. */
bool wk_write_queue_admits(wk_write_queue *queue, uint64_t *moves);
/* Whether a connection of this process has the lock, or had it meanwhile: it is not another process that has it. */
bool wk_write_queue_held_since(wk_write_queue *queue, uint64_t moves);
/* A connection of this process has taken the lock, has let it go. */
void wk_write_queue_took(wk_write_queue *queue);
void wk_write_queue_left(wk_write_queue *queue);
/* Sleeps for so many microseconds, or until it is this thread's turn. */
void wk_write_queue_sleep(wk_write_queue *queue, uint32_t microseconds);
#endif
