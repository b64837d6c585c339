#include "engine/journal/committer.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/directory.h"
#include "engine/journal/driver.h"
#include "engine/journal/journal.h"
#include "engine/journal/journal_zeros.h"
#include "io/event.h"
#include "walkeeper/ledger.h"

/* While a block of the committer's is under way, a smaller one than this stays open for what comes meanwhile. */
enum { COMPANION_SIZE = 256 * 1024 };

struct wk_committer {
	wk_namespace *ns;
	wk_io_queue *queue;
	pthread_t thread; /* that pushes; once it has */
	bool has_thread;
	bool told; /* (locked) to push, and it has not yet */
	uint32_t in_flight;
	uint32_t were_there; /* appends in the open block when the last one let others go: both are its company */
};

wk_status wk_committer_open(wk_namespace *ns, struct wk_ring *ring, wk_committer **opened, wk_error *error) {
	wk_error_clear(error);
	wk_status status = wk_enter_kind(ns, WK_KIND_LEDGERS, error);
	if (status != WK_OK)
		return status;
	wk_engine *engine = ns->engine;
	int event_fd = wk_namespace_eventfd(ns);
	wk_committer *committer = calloc(1, sizeof *committer);
	int result = event_fd < 0 ? -EMFILE : committer == NULL ? -ENOMEM : 0;
	if (result == 0)
		result = engine->io->operations->queue_new(engine->io, WK_BLOCKS_IN_FLIGHT_MAX, &committer->queue);
	bool rides = ring != NULL && engine->io->operations->queue_ride != NULL;
	if (result == 0 && rides)
		result = engine->io->operations->queue_ride(engine->io, committer->queue, ring);
	else if (result == 0)
		result = engine->io->operations->queue_notify(engine->io, committer->queue, event_fd);
	if (result == 0) {
		committer->ns = ns;
		wk_engine_lock(engine);
		if (engine->committer == NULL)
			engine->committer = committer;
		else
			result = -EBUSY;
		wk_engine_unlock(engine);
	}
	if (result < 0) {
		if (committer != NULL && committer->queue != NULL)
			engine->io->operations->queue_free(engine->io, committer->queue);
		free(committer);
		status = result == -EBUSY ? wk_fail(error, WK_INVALID, "a committer of %s: it has one", engine->path)
		                          : wk_fail_io(error, result, "a queue for blocks of %s", engine->path);
	} else {
		*opened = committer;
	}
	wk_leave(ns);
	return status;
}

/* ---- who writes the open block ---- */

static bool is_its_thread(const wk_committer *committer) {
	return committer->has_thread && pthread_equal(committer->thread, pthread_self());
}

bool wk_committer_kick(wk_engine *engine) {
	wk_committer *committer = engine->committer;
	if (committer == NULL)
		return false;
	if (!committer->told && !is_its_thread(committer)) {
		committer->told = true;
		wk_event_signal(committer->ns->event_fd);
	}
	return true;
}

/* (locked) It needs no other file, and so nothing that could take long. */
static bool fits(const wk_engine *engine) {
	return wk_journal_fits(engine, wk_journal_block_bound(engine->open.estimate), &engine->open);
}

bool wk_committer_takes(wk_engine *engine) {
	return engine->open.sync_wanted && engine->committer != NULL && fits(engine) && wk_committer_kick(engine);
}

void wk_committer_forked(wk_engine *engine) {
	if (engine->committer != NULL)
		engine->io->operations->queue_forked(engine->io, engine->committer->queue);
}

/* ---- writing ---- */

/*
 * (locked) The driver has the rest: another file, a footer, a sync. It may be awake, but have looked while a block was
 * being sealed here.
 */
static void leave_to_driver(wk_engine *engine) {
	if (!engine->driver_runs)
		return;
	engine->driver_active = true;
	wk_driver_wake(engine);
}

static void submit(wk_committer *committer, wk_block *block) {
	wk_engine *engine = committer->ns->engine;
	int result = engine->io->operations->queue_submit(engine->io, committer->queue,
	                                                  &(wk_io_request){
	                                                      .operation = WK_IO_OP_WRITE,
	                                                      .file = block->file->handle,
	                                                      .buffer = block->buffer->bytes,
	                                                      .size = wk_block_write_size(block),
	                                                      .offset = block->header.offset,
	                                                      .flags = block->with_sync ? WK_IO_DSYNC : 0,
	                                                      .tag = block->header.sequence % WK_BLOCKS_IN_FLIGHT_MAX,
	                                                  });
	if (result < 0)
		wk_journal_written(engine, block, result);
	else
		committer->in_flight++;
}

/* (locked) */
static bool may_push(const wk_committer *committer, wk_engine *engine, uint64_t *wait_ns) {
	*wait_ns = UINT64_MAX;
	if (wk_block_is_empty(&engine->open) || (committer->in_flight > 0 && engine->open.estimate < COMPANION_SIZE))
		return false;
	uint64_t now = wk_engine_now(engine);
	/* Else who was let go would stand in the next block, and each would wait for two writes (group_commit.h). */
	uint32_t appends = engine->open.appends, before = committer->were_there; /* somebody else may have sealed those */
	if (wk_group_commit_waits(&engine->group_commit, appends > before ? appends - before : appends, now)) {
		*wait_ns = engine->group_commit.until_ns - now;
		return false;
	}
	now = engine->open.sync_wanted && engine->options.commit_wait_ns == 0 ? UINT64_MAX : now;
	if (wk_journal_can_seal(engine, now) && fits(engine))
		return true;
	if (wk_journal_can_seal(engine, now) || wk_journal_needs_footer(engine, now))
		leave_to_driver(engine);
	return false;
}

bool wk_committer_push(wk_committer *committer, uint64_t *wait_ns) {
	wk_engine *engine = committer->ns->engine;
	if (!committer->has_thread) {
		committer->thread = pthread_self();
		committer->has_thread = true;
	}
	wk_engine_lock(engine);
	committer->told = false;
	while (may_push(committer, engine, wait_ns)) {
		committer->were_there = 0;
		wk_block *block = wk_journal_seal(engine);
		if (block != NULL)
			submit(committer, block);
	}
	if (wk_journal_wants_sync(engine))
		leave_to_driver(engine);
	wk_engine_unlock(engine);
	return committer->in_flight > 0;
}

/* (locked) The driver slept while there was nothing to confirm: it must see to the confirm block. */
static void ask_for_confirm(wk_engine *engine) {
	if (engine->confirm_pending && engine->driver_runs && engine->driver_deadline_ns == UINT64_MAX)
		wk_driver_wake(engine);
}

/* (locked, dropped) Takes what is done; false: nothing was. */
static bool take(wk_committer *committer, uint64_t timeout_ns) {
	wk_engine *engine = committer->ns->engine;
	wk_io_completion done[WK_BLOCKS_IN_FLIGHT_MAX];
	wk_engine_unlock(engine);
	int count = engine->io->operations->queue_wait(engine->io, committer->queue, done, WK_BLOCKS_IN_FLIGHT_MAX,
	                                               timeout_ns);
	wk_engine_lock(engine);
	if (count < 0) /* nothing can be known of what is in flight any more */
		wk_journal_fail(engine, count, "waiting for a block", engine->active);
	for (int i = 0; i < count; i++) {
		wk_block *block = &engine->in_flight[done[i].tag];
		committer->in_flight--;
		committer->were_there = engine->open.appends;
		wk_journal_written(engine, block, wk_block_write_outcome(block, done[i].result));
	}
	if (count > 0)
		ask_for_confirm(engine);
	return count > 0;
}

wk_status wk_committer_collect(wk_committer *committer) {
	wk_engine *engine = committer->ns->engine;
	if (committer->in_flight > 0) {
		wk_engine_lock(engine);
		take(committer, 0);
		wk_engine_unlock(engine);
	}
	return atomic_load(&engine->failed) ? WK_FAILED : WK_OK;
}

void wk_committer_close(wk_committer *committer) {
	wk_engine *engine = committer->ns->engine;
	wk_engine_lock(engine);
	while (committer->in_flight > 0 && (take(committer, UINT64_MAX) || !engine->failed))
		;
	engine->committer = NULL;
	if (engine->open.sync_wanted && !engine->failed)
		leave_to_driver(engine);
	wk_engine_unlock(engine);
	engine->io->operations->queue_free(engine->io, committer->queue);
	free(committer);
}
