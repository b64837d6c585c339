#include <errno.h>
#include <stdlib.h>

#include "engine/catalogue.h"
#include "engine/directory.h"
#include "engine/follower.h"
#include "engine/index.h"
#include "engine/journal/journal.h"
#include "engine/journal/journal_zeros.h"
#include "engine/ledger.h"
#include "engine/manual.h"
#include "io/event.h"

enum { BUILDERS_KEPT = 512 * 1024, PREFETCH = 8 }; /* bytes of all builders of a block together; builders ahead */

static const char *read_on(int result) {
	return result == -ENOMEM ? "; reading goes on, appending needs a new open"
	                         : "; reading goes on, appending needs a new open once the disk is well";
}

static void stop(wk_engine *engine) {
	engine->failure.status = WK_FAILED;
	wk_block_window_fail(&engine->window);
	atomic_store(&engine->failed, true);
	for (uint32_t i = 0; i < WK_WAIT_SLOTS; i++)
		wk_wait_word_change(&engine->waits[i]);
	wk_journal_wake_room(engine);
	wk_wait_word_change(&engine->tail);
	for (wk_namespace *ns = engine->namespaces; ns != NULL; ns = ns->next)
		if (ns->armed != 0)
			wk_event_signal(ns->event_fd);
}

void wk_journal_fail(wk_engine *engine, int result, const char *doing, const wk_store_file *file) {
	if (engine->failed)
		return;
	const char *lost = result == -ENOENT ? wk_directory_lock_lost(engine) : NULL; /* then that is the reason */
	if (lost != NULL) {
		wk_journal_lose(engine, lost);
		return;
	}
	if (file != NULL)
		wk_fail_io(&engine->failure, result, "%s in %s of %s%s", doing, wk_file_name_of(file->id, file->kind).text,
		           engine->path, read_on(result));
	else
		wk_fail_io(&engine->failure, result, "%s of %s%s", doing, engine->path, read_on(result));
	stop(engine);
}

void wk_journal_lose(wk_engine *engine, const char *what) {
	if (engine->failed)
		return;
	wk_fail(&engine->failure, WK_FAILED,
	        "%s is not this process's any more: %s. Nothing more is written there. Close it, see to it that no other "
	        "program removes or replaces its files (one that cleans up temporary files, a restore), and open it again: "
	        "what was appended since that happened may be missing",
	        engine->path, what);
	stop(engine);
}

void wk_journal_fail_footer(wk_engine *engine, const wk_store_file *file, wk_status status) {
	wk_journal_fail(engine, status == WK_NO_MEMORY ? -ENOMEM : -EIO, "writing the footer", file);
}

static void finish_builder(wk_builder *builder) {
	if (builder->entry_id > builder->ledger->durable_entry)
		builder->ledger->durable_entry = builder->entry_id;
	wk_log_tail *tail = builder->log != NULL ? builder->log->tail : NULL;
	if (tail == NULL)
		return;
	if (builder->records > 0) {
		bool follows = tail->durable.dlsn.segment == builder->segment;
		tail->durable_segment = builder->segment;
		tail->durable_bytes = (follows ? tail->durable_bytes : 0) + builder->payload_bytes;
		tail->durable = (wk_position){
		    .dlsn = {builder->segment, builder->entry_id, (int64_t)builder->records - 1},
		    .sequence_id = builder->first_sequence_id + builder->records - 1,
		    .txid = builder->last_txid,
		};
	}
}

/* The memory of usual entries is kept for the next ones; what a snapshot, or many logs at once, took goes back. */
static void shrink_builder(wk_builder *builder, size_t *kept) {
	if (*kept + builder->capacity > BUILDERS_KEPT) {
		free(builder->bytes);
		builder->bytes = NULL;
		builder->capacity = 0;
	}
	*kept += builder->capacity;
}

/* With thousands of logs each one's state is elsewhere, and in no cache: several are fetched at once. */
static void prefetch(const wk_block *block, uint32_t builder) {
	if (builder >= block->builders_count)
		return;
	__builtin_prefetch(block->builders[builder].ledger, 1);
	if (block->builders[builder].log != NULL)
		__builtin_prefetch(block->builders[builder].log);
}

/* Behind it, with the log at hand. */
static void prefetch_tail(const wk_block *block, uint32_t builder) {
	const wk_log_state *log = builder < block->builders_count ? block->builders[builder].log : NULL;
	if (log == NULL || log->tail == NULL)
		return;
	__builtin_prefetch(&log->tail->durable, 1);
	__builtin_prefetch(&log->tail->durable_bytes, 1);
}

static void count_block(wk_engine *engine, const wk_block *block) {
	uint64_t records = block->ledgers.entries_count;
	for (uint32_t i = 0; i < block->builders_count; i++)
		records += block->builders[i].records;
	wk_histogram_count(&engine->times.wait_ns, block->sealed_ns - block->first_ns);
	wk_histogram_count(&engine->times.block_records, records);
	wk_histogram_count(&engine->times.block_bytes, block->accepted_bytes);
}

/* false: there is no memory for what it says, and the journal stops before it. */
static bool finish_block(wk_engine *engine, wk_block *block) {
	uint64_t sequence = block->header.sequence;
	size_t kept = 0;
	if (!wk_block_is_empty(block))
		count_block(engine, block);
	if (wk_ledger_block_index(engine, block) != WK_OK) {
		wk_journal_fail(engine, -ENOMEM, "indexing a block", block->file);
		return false;
	}
	for (uint32_t i = 0; i < block->builders_count; i++) {
		wk_log_state *log = block->builders[i].log;
		prefetch(block, i + 2 * PREFETCH);
		prefetch_tail(block, i + PREFETCH);
		finish_builder(&block->builders[i]);
		shrink_builder(&block->builders[i], &kept);
		/* Let go of while this block was in flight; this may be its last builder. */
		if (log != NULL && log->handles == 0)
			wk_log_state_on_durable(engine, log, sequence, i);
	}
	engine->in_flight_bytes -= block->accepted_bytes;
	if (!wk_block_is_empty(block))
		wk_block_cache_put(engine->memtable, block->file->id, block->header.offset, block->buffer, block->header.size);
	else
		wk_buffer_release(block->buffer);
	block->buffer = NULL;
	assert(engine->spare_count <= WK_BLOCKS_IN_FLIGHT_MAX);
	engine->spare[engine->spare_count].builders = block->builders;
	engine->spare[engine->spare_count++].capacity = block->builders_capacity;
	block->builders = NULL;
	block->builders_capacity = 0;
	block->file->pins--;
	if (block->file->state == WK_FILE_FULL && sequence == block->file->last_sequence)
		wk_keeper_wake(engine); /* its footer can be written now */
	engine->confirm_pending = !block->confirm;
	engine->filled = block->confirm ? engine->filled : sequence;
	atomic_store(&engine->durable, sequence); /* behind this anybody may be told */
	wk_wait_word_change(&engine->waits[sequence % WK_WAIT_SLOTS]);
	return true;
}

/* Threads that wait for some block. */
static uint32_t count_sleepers(wk_engine *engine) {
	uint32_t sleepers = 0;
	for (uint32_t i = 0; i < WK_WAIT_SLOTS; i++)
		sleepers += atomic_load(&engine->waits[i].sleepers);
	return sleepers;
}

/* In manual mode nobody would look again at what waits for company. */
static void let_go(wk_engine *engine, uint64_t first, uint32_t sleepers) {
	uint32_t appends = 0;
	uint64_t sealed_ns = 0;
	for (uint64_t sequence = first; sequence <= engine->durable; sequence++) {
		const wk_block *block = &engine->in_flight[sequence % WK_BLOCKS_IN_FLIGHT_MAX];
		appends += block->appends;
		sealed_ns = block->sync_wanted ? block->sealed_ns : sealed_ns;
	}
	uint64_t now = wk_engine_now(engine);
	if (engine->options.internal != WK_OPEN_MANUAL && sealed_ns > 0)
		wk_group_commit_released(&engine->group_commit, appends, sleepers, now - sealed_ns, now);
}

/* Another process that opens the directory for writing maps the same page, and says so there. */
static bool names_another(const wk_engine *engine) {
	return !engine->page_is_anothers &&
	       __atomic_load_n(&engine->shared->incarnation, __ATOMIC_SEQ_CST) > engine->superblock.incarnation;
}

static void tell_page(wk_engine *engine) {
	__atomic_store_n(&engine->shared->durable, engine->window.durable_through, __ATOMIC_SEQ_CST);
}

/*
 * The page is told first what is durable: whoever opens the directory after this process was killed goes by it. It is looked
 * at behind that and before anybody else is told: it costs no call. Another process that opens the directory stores to it and
 * looks in the same order, so that one of the two sees the other (shared_page.c).
 */
static bool was_taken(wk_engine *engine) {
	if (engine->shared == NULL)
		return false;
	if (!names_another(engine)) {
		tell_page(engine);
		if (!names_another(engine))
			return false;
	}
	const char *lost = wk_directory_lock_lost(engine);
	if (lost != NULL) {
		wk_journal_lose(engine, lost);
		return true;
	}
	engine->page_is_anothers = true;
	tell_page(engine);
	return false;
}

/* The window's durable point may have moved: tell everybody. */
static void advance(wk_engine *engine) {
	uint64_t before = engine->durable;
	uint32_t sleepers = count_sleepers(engine); /* before any is woken */
	bool indexed = !was_taken(engine);
	for (uint64_t sequence = before + 1; indexed && sequence <= engine->window.durable_through; sequence++)
		indexed = finish_block(engine, &engine->in_flight[sequence % WK_BLOCKS_IN_FLIGHT_MAX]);
	if (engine->durable == before)
		return;
	if (engine->durable + 1 == engine->window.next)
		engine->deferred_sync_ns = UINT64_MAX; /* somebody wanted it sooner, and nothing is left to be synced then */
	let_go(engine, before + 1, sleepers);
	wk_journal_wake_room(engine);
	wk_wait_word_change(&engine->tail);
	for (wk_namespace *ns = engine->namespaces; ns != NULL; ns = ns->next)
		if (ns->armed != 0 && ns->armed <= engine->durable) {
			ns->armed = 0;
			wk_event_signal(ns->event_fd);
		}
	/* The first block since it looked whether the directory is still ours: it may sleep for longer than it may wait to look. */
	if (engine->keeper_due || engine->looked_sequence == before)
		wk_keeper_wake(engine);
}

void wk_journal_written(wk_engine *engine, wk_block *block, int result) {
	if (result != 0) {
		wk_journal_fail(engine, result, "writing a block", block->file);
		return;
	}
	wk_journal_zeros_are_written(engine, block);
	engine->counters.written_bytes += block->header.size;
	engine->counters.blocks_count++;
	if (engine->failed)
		return;
	wk_status status = wk_block_window_written(&engine->window, block->header.sequence);
	assert(status == WK_OK);
	(void)status;
	if (block->with_sync) {
		engine->counters.syncs_count++;
		wk_histogram_count(&engine->times.sync_ns, wk_engine_now(engine) - block->sealed_ns);
	}
	advance(engine);
}

bool wk_journal_wants_sync(const wk_engine *engine) {
	return !engine->failed && engine->durable < engine->sync_goal && wk_block_window_wants_sync(&engine->window);
}

uint32_t wk_journal_sync_begin(wk_engine *engine, wk_store_file *files[WK_BLOCKS_IN_FLIGHT_MAX]) {
	if (!wk_journal_wants_sync(engine))
		return 0;
	if (wk_block_window_sync_begin(&engine->window) != WK_OK)
		return 0;
	engine->sync_began_ns = wk_engine_now(engine);
	uint32_t count = 0;
	for (uint64_t sequence = engine->durable + 1; sequence < engine->window.next; sequence++) {
		wk_store_file *file = engine->in_flight[sequence % WK_BLOCKS_IN_FLIGHT_MAX].file;
		bool known = false;
		for (uint32_t i = 0; i < count; i++)
			known |= files[i] == file;
		if (!known) {
			file->pins++;
			files[count++] = file;
		}
	}
	return count;
}

void wk_journal_sync_done(wk_engine *engine, wk_store_file **files, uint32_t count, int result) {
	for (uint32_t i = 0; i < count; i++)
		files[i]->pins--;
	if (result != 0) {
		wk_journal_fail(engine, result, "syncing", files[0]);
		return;
	}
	engine->counters.syncs_count++;
	wk_histogram_count(&engine->times.sync_ns, wk_engine_now(engine) - engine->sync_began_ns);
	if (engine->failed)
		return;
	wk_status status = wk_block_window_sync_done(&engine->window);
	assert(status == WK_OK);
	(void)status;
	advance(engine);
}
