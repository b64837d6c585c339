/* read_pool.c: a few threads that read, so that the loop never waits for a disk's reads. */
#include <pthread.h>
#include <stdlib.h>

#include "io/event.h"
#include "io/io.h"
#include "server/read_job.h"

enum { THREADS_MAX = 64 };

struct wk_read_pool {
	wk_namespace *ns;
	pthread_mutex_t lock;
	pthread_cond_t work;
	wk_read_job *todo, **todo_end, *done, **done_end;
	int event;
	bool ends;
	uint32_t threads_count;
	pthread_t threads[THREADS_MAX];
};

static wk_read_job *pop(wk_read_job **first, wk_read_job ***end) {
	wk_read_job *job = *first;
	*first = job->next;
	if (*first == NULL)
		*end = first;
	job->next = NULL;
	return job;
}

static void *work(void *context) {
	wk_read_pool *pool = context;
	pthread_mutex_lock(&pool->lock);
	for (;;) {
		while (pool->todo == NULL && !pool->ends)
			pthread_cond_wait(&pool->work, &pool->lock);
		if (pool->ends)
			break;
		wk_read_job *job = pop(&pool->todo, &pool->todo_end);
		pthread_mutex_unlock(&pool->lock);
		wk_read_job_run(pool->ns, job);
		pthread_mutex_lock(&pool->lock);
		bool first = pool->done == NULL;
		*pool->done_end = job;
		pool->done_end = &job->next;
		if (first)
			wk_event_signal(pool->event);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

wk_read_pool *wk_read_pool_new(wk_namespace *ns, uint32_t threads) {
	wk_read_pool *pool = calloc(1, sizeof *pool);
	if (pool == NULL)
		return NULL;
	pool->ns = ns;
	pool->todo_end = &pool->todo;
	pool->done_end = &pool->done;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->work, NULL);
	pool->event = wk_event_new();
	bool started = pool->event >= 0;
	for (uint32_t i = 0; started && i < threads && i < THREADS_MAX; i++) {
		started = wk_thread_start(&pool->threads[i], work, pool) == 0;
		pool->threads_count += started;
	}
	if (started)
		return pool;
	wk_read_pool_free(pool);
	return NULL;
}

wk_read_job *wk_read_pool_close(wk_read_pool *pool) {
	pthread_mutex_lock(&pool->lock);
	pool->ends = true;
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->lock);
	for (; pool->threads_count > 0; pool->threads_count--)
		pthread_join(pool->threads[pool->threads_count - 1], NULL);
	*pool->done_end = pool->todo;
	wk_read_job *left = pool->done;
	pool->todo = pool->done = NULL;
	pool->todo_end = &pool->todo;
	pool->done_end = &pool->done;
	return left;
}

void wk_read_pool_free(wk_read_pool *pool) {
	if (pool == NULL)
		return;
	(void)wk_read_pool_close(pool);
	if (pool->event >= 0)
		wk_event_close(pool->event);
	pthread_cond_destroy(&pool->work);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

void wk_read_pool_put(wk_read_pool *pool, wk_read_job *job) {
	pthread_mutex_lock(&pool->lock);
	*pool->todo_end = job;
	pool->todo_end = &job->next;
	pthread_cond_signal(&pool->work);
	pthread_mutex_unlock(&pool->lock);
}

/* Without threads the caller does the work. */
static void work_here(wk_read_pool *pool) {
	while (pool->threads_count == 0 && pool->todo != NULL) {
		wk_read_job *job = pop(&pool->todo, &pool->todo_end);
		wk_read_job_run(pool->ns, job);
		*pool->done_end = job;
		pool->done_end = &job->next;
	}
}

wk_read_job *wk_read_pool_take(wk_read_pool *pool) {
	work_here(pool);
	pthread_mutex_lock(&pool->lock);
	wk_read_job *done = pool->done;
	pool->done = NULL;
	pool->done_end = &pool->done;
	pthread_mutex_unlock(&pool->lock);
	return done;
}

int wk_read_pool_descriptor(const wk_read_pool *pool) {
	return pool->event;
}
