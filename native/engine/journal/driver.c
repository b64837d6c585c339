#include "engine/journal/driver.h"

#include <errno.h>

#include "engine/directory.h"
#include "engine/journal/committer.h"
#include "engine/journal/journal.h"
#include "engine/journal/journal_zeros.h"

enum { LONE_SIZE = 2 * WK_BLOCK_ALIGNMENT, LONE_RECORDS = 2, GROUP_BLOCKS = 64 };
enum { SYNC_TAG = WK_BLOCKS_IN_FLIGHT_MAX }; /* tags below it are slots of blocks in flight */

typedef struct sync_round { /* the fdatasyncs of one sync point */
	wk_store_file *files[WK_BLOCKS_IN_FLIGHT_MAX];
	uint32_t count, left;
	int result;
} sync_round;

/*
 * With nothing of its own in flight the driver sleeps on a word, which wakes it sooner than a completion queue would;
 * else in its queue.
 */
void wk_driver_wake(wk_engine *engine) {
	__atomic_add_fetch(&engine->driver_word, 1, __ATOMIC_SEQ_CST);
	if (atomic_load(&engine->driver_in_queue))
		engine->io->operations->queue_wake(engine->io, engine->queue);
	else if (atomic_load(&engine->driver_sleeps))
		wk_futex_wake(&engine->driver_word, 1);
}

static int submit_block(wk_engine *engine, wk_block *block) {
	return engine->io->operations->queue_submit(engine->io, engine->queue,
	                                            &(wk_io_request){
	                                                .operation = WK_IO_OP_WRITE,
	                                                .file = block->file->handle,
	                                                .buffer = block->buffer->bytes,
	                                                .size = wk_block_write_size(block),
	                                                .offset = block->header.offset,
	                                                .flags = block->with_sync ? WK_IO_DSYNC : 0,
	                                                .tag = block->header.sequence % WK_BLOCKS_IN_FLIGHT_MAX,
	                                            });
}

static void submit_syncs(wk_engine *engine, sync_round *round) {
	round->count = wk_journal_sync_begin(engine, round->files);
	round->result = 0;
	round->left = 0;
	for (uint32_t i = 0; i < round->count; i++) {
		int result = engine->io->operations->queue_submit(
		    engine->io, engine->queue,
		    &(wk_io_request){.operation = WK_IO_OP_SYNC, .file = round->files[i]->handle, .tag = SYNC_TAG});
		if (result < 0)
			round->result = result;
		else
			round->left++;
	}
	engine->driver_in_flight += round->left;
	if (round->count > 0 && round->left == 0)
		wk_journal_sync_done(engine, round->files, round->count, round->result);
}

static void complete(wk_engine *engine, sync_round *round, const wk_io_completion *done) {
	engine->driver_in_flight--;
	if (done->tag == SYNC_TAG) {
		if (done->result < 0)
			round->result = (int)done->result;
		if (--round->left == 0)
			wk_journal_sync_done(engine, round->files, round->count, round->result);
		return;
	}
	wk_block *block = &engine->in_flight[done->tag];
	wk_journal_written(engine, block, wk_block_write_outcome(block, done->result));
}

/*
 * One appender that waits for each record: a plain call is sooner done than a submission and a completion. Where
 * others came during the last such call, there is company, and slots side by side are worth more; that is asked again
 * after a while.
 */
static bool is_lone(const wk_engine *engine, const wk_block *block) {
	return engine->driver_in_flight == 0 && engine->driver_group == 0 && block->header.size <= LONE_SIZE &&
	       (block->builders_count == 1 ? block->builders[0].records <= LONE_RECORDS
	                                   : block->builders_count + block->ledgers.entries_count <= LONE_RECORDS);
}

static void submit_blocks(wk_engine *engine) {
	while (wk_journal_can_seal(engine, wk_engine_now(engine)) && !wk_committer_takes(engine)) {
		wk_block *block = wk_journal_seal(engine);
		if (block == NULL)
			return;
		if (is_lone(engine, block)) {
			wk_journal_write(engine, block);
			engine->driver_group = !wk_block_is_empty(&engine->open) ? GROUP_BLOCKS : 0;
			continue;
		}
		engine->driver_group -= engine->driver_group > 0;
		int result = submit_block(engine, block);
		if (result < 0)
			wk_journal_written(engine, block, result);
		else
			engine->driver_in_flight++;
	}
}

/* Everything that may go out now goes out. A footer that holds it up is written here, if the keeper is not at it. */
static void submit(wk_engine *engine, sync_round *round) {
	do
		submit_blocks(engine);
	while (wk_journal_needs_footer(engine, wk_engine_now(engine)) && wk_keeper_seal_oldest(engine));
	wk_journal_press(engine, wk_engine_now(engine));
	if (round->left == 0)
		submit_syncs(engine, round);
}

/* When there is something to do although nobody asks. */
static uint64_t next_deadline(wk_engine *engine) {
	uint64_t deadline = engine->open.deferred_until_ns;
	if (engine->deferred_sync_ns < deadline && engine->window.in_flight == 0)
		deadline = engine->deferred_sync_ns;
	/* What is in the open block is a committer's to write, which wakes nobody behind that: it is looked at again. */
	bool empty = wk_block_is_empty(&engine->open);
	if (engine->confirm_pending && !engine->failed && (empty || engine->committer != NULL)) {
		uint64_t pause_ns = empty ? engine->last_activity_ns : wk_engine_now(engine);
		uint64_t confirm = wk_time_after(pause_ns, engine->options.confirm_delay_ns);
		deadline = confirm < deadline ? confirm : deadline;
	}
	if (engine->open.sync_wanted && !engine->open.at_once && engine->options.commit_wait_ns > 0) {
		uint64_t commit = engine->open.first_ns + engine->options.commit_wait_ns;
		deadline = commit < deadline ? commit : deadline;
	}
	if (engine->driver_gathers && engine->group_commit.until_ns < deadline)
		deadline = engine->group_commit.until_ns;
	return deadline;
}

static void confirm_if_due(wk_engine *engine) {
	if (engine->confirm_pending && !engine->sealing && wk_block_is_empty(&engine->open) &&
	    engine->in_flight_bytes == 0 && engine->durable + 1 == engine->open.sequence && !engine->disk_full &&
	    wk_engine_now(engine) >= wk_time_after(engine->last_activity_ns, engine->options.confirm_delay_ns))
		engine->open.confirm = true;
}

/* (locked, dropped) Completions, a wake, or the time. */
static int wait_for_something(wk_engine *engine, wk_io_completion *done, uint32_t done_max, uint64_t timeout_ns) {
	bool sleeps = engine->driver_in_flight == 0;
	uint32_t seen = __atomic_load_n(&engine->driver_word, __ATOMIC_SEQ_CST);
	atomic_store(sleeps ? &engine->driver_sleeps : &engine->driver_in_queue, true);
	wk_engine_unlock(engine);
	int count = 0;
	if (!sleeps)
		count = engine->io->operations->queue_wait(engine->io, engine->queue, done, done_max, timeout_ns);
	else if (timeout_ns > 0)
		wk_futex_wait(&engine->driver_word, seen, timeout_ns);
	wk_engine_lock(engine);
	atomic_store(sleeps ? &engine->driver_sleeps : &engine->driver_in_queue, false);
	return count;
}

static void *drive(void *context) {
	wk_engine *engine = context;
	sync_round round = {0};
	wk_io_completion done[WK_BLOCKS_IN_FLIGHT_MAX * 2];
	wk_futex_be_punctual();
	wk_engine_lock(engine);
	for (;;) {
		confirm_if_due(engine);
		submit(engine, &round);
		uint64_t timeout = UINT64_MAX;
		if (engine->driver_in_flight == 0) {
			/* Blocks of appenders may be in flight: they wake this thread if something is left open behind them. */
			bool waits = engine->open.sync_wanted && !engine->failed && !wk_committer_takes(engine);
			if (!waits && engine->driver_stop)
				break;
			engine->driver_active = waits;
		}
		uint64_t now = wk_engine_now(engine);
		engine->driver_gathers = engine->open.sync_wanted && wk_journal_waits_for_group(engine, now);
		if (!engine->driver_gathers && wk_journal_can_seal(engine, now) && !wk_committer_takes(engine))
			continue; /* the company's time passed just now */
		engine->driver_deadline_ns = next_deadline(engine);
		if (engine->driver_deadline_ns != UINT64_MAX) {
			timeout = engine->driver_deadline_ns > now ? engine->driver_deadline_ns - now : 0;
			bool sync_due = now >= engine->deferred_sync_ns && engine->driver_in_flight == 0;
			if (timeout == 0 && !wk_journal_can_seal(engine, now) && !sync_due)
				timeout = 1000 * 1000; /* an appender is at it, or all slots are taken: look again soon, do not spin */
		}
		int count = wait_for_something(engine, done, sizeof done / sizeof *done, timeout);
		if (count < 0) { /* nothing can be known of what is in flight any more */
			wk_journal_fail(engine, count, "waiting for a block", engine->active);
			break;
		}
		for (int i = 0; i < count; i++)
			complete(engine, &round, &done[i]);
	}
	engine->driver_active = engine->driver_gathers = false;
	wk_engine_unlock(engine);
	return NULL;
}

int wk_driver_start(wk_engine *engine) {
	int result = engine->io->operations->queue_new(engine->io, WK_BLOCKS_IN_FLIGHT_MAX * 2, &engine->queue);
	if (result < 0)
		return result;
	engine->driver_deadline_ns = UINT64_MAX;
	result = wk_thread_start(&engine->driver, drive, engine);
	if (result != 0) {
		engine->io->operations->queue_free(engine->io, engine->queue);
		engine->queue = NULL;
		return result;
	}
	engine->driver_runs = true;
	return 0;
}

void wk_driver_stop(wk_engine *engine) {
	if (!engine->driver_runs)
		return;
	wk_engine_lock(engine);
	engine->driver_stop = true;
	wk_engine_unlock(engine);
	wk_driver_wake(engine);
	pthread_join(engine->driver, NULL);
	engine->driver_runs = false;
	wk_io_queue *queue = engine->queue;
	engine->queue = NULL; /* first: a child forked now must not find what is being freed */
	engine->io->operations->queue_free(engine->io, queue);
}
