#include "engine/journal/journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/directory.h"
#include "engine/index.h"
#include "engine/journal/committer.h"
#include "engine/journal/driver.h"
#include "engine/journal/journal_zeros.h"
#include "engine/ledger.h"
#include "walkeeper/entry.h"

enum { IN_PLACE_AT = WK_BLOCK_HEADER_SIZE + WK_ENTRY_OVERHEAD + WK_ENVELOPE_HEADER_SIZE };
enum { PAUSE_NS = 50 * 1000, SLACK = 256 };
enum { RECOVERY_PART = 8, BLOCK_RECOVERY_PART = 16, BLOCK_RECOVERY_MAX = 16 * 1024 };

wk_status wk_journal_writable(wk_engine *engine, wk_error *error) {
	if (engine->failed) {
		if (error != NULL)
			*error = engine->failure;
		return WK_FAILED;
	}
	if (engine->read_only)
		return wk_fail(error, WK_READ_ONLY, "%s was opened read-only: open it without read_only to change it",
		               engine->path);
	if (engine->closing)
		return wk_fail(error, WK_CLOSED, "%s is being closed", engine->path);
	return WK_OK;
}

/* ---- the open block ---- */

bool wk_journal_reserve(wk_engine *engine, size_t need) {
	wk_block *open = &engine->open;
	size_t capacity = engine->options.block_size_max + WK_BLOCK_ALIGNMENT;
	if (open->buffer == NULL)
		open->buffer = wk_buffer_new(engine->block_pool, need > capacity ? need : capacity);
	else if (open->buffer->capacity < need) {
		wk_buffer *larger = wk_buffer_new(NULL, need + need / 4);
		if (larger == NULL)
			return false;
		memcpy(larger->bytes, open->buffer->bytes, open->buffer->capacity);
		wk_buffer_release(open->buffer);
		open->buffer = larger;
	}
	return open->buffer != NULL;
}

static bool reserve_builders(wk_engine *engine, uint32_t count) {
	wk_block *open = &engine->open;
	if (open->builders_count + count <= open->builders_capacity)
		return true;
	uint32_t capacity = open->builders_capacity == 0 ? 4 : open->builders_capacity * 2;
	wk_builder *builders = realloc(open->builders, capacity * sizeof *builders);
	if (builders == NULL)
		return false;
	memset(builders + open->builders_capacity, 0, (capacity - open->builders_capacity) * sizeof *builders);
	open->builders = builders;
	open->builders_capacity = capacity;
	return true;
}

static bool reserve_bytes(wk_builder *builder, size_t size) {
	if (size <= builder->capacity)
		return true;
	uint8_t *bytes = realloc(builder->bytes, size * 2);
	if (bytes == NULL)
		return false;
	builder->bytes = bytes;
	builder->capacity = size * 2;
	return true;
}

bool wk_journal_reserve_builder(wk_engine *engine, uint32_t ahead, size_t size) {
	assert(ahead < 2); /* so that doubling is enough */
	return reserve_builders(engine, ahead + 1) &&
	       reserve_bytes(&engine->open.builders[engine->open.builders_count + ahead], size);
}

bool wk_journal_reserve_more(wk_engine *engine, wk_builder *builder, size_t size) {
	return builder->in_place ? wk_journal_reserve(engine, IN_PLACE_AT + builder->size + size)
	                         : reserve_bytes(builder, builder->size + size);
}

wk_builder *wk_journal_builder(wk_engine *engine, wk_ledger *ledger, wk_log_state *log, uint32_t codec, size_t size) {
	wk_block *open = &engine->open;
	bool in_place = log != NULL && codec == WK_CODEC_NONE && open->builders_count == 0;
	if (in_place ? !reserve_builders(engine, 1) || !wk_journal_reserve(engine, IN_PLACE_AT + size)
	             : !wk_journal_reserve_builder(engine, 0, size))
		return NULL;
	open->confirm = false; /* it was to be one, and waits for a footer: its records confirm as well */
	wk_builder *builder = &open->builders[open->builders_count++];
	uint8_t *bytes = builder->bytes; /* memory of an earlier block, kept */
	size_t capacity = builder->capacity;
	*builder = (wk_builder){
	    .ledger = ledger, .log = log, .codec = codec, .in_place = in_place, .bytes = bytes, .capacity = capacity};
	if (open->first_ns == 0)
		open->first_ns = wk_engine_now(engine);
	open->estimate += WK_ENTRY_OVERHEAD + WK_ENVELOPE_HEADER_SIZE;
	return builder;
}

uint8_t *wk_journal_extend(wk_engine *engine, wk_builder *builder, size_t size, size_t payload) {
	uint8_t *start = builder->in_place ? engine->open.buffer->bytes + IN_PLACE_AT : builder->bytes;
	size_t capacity = builder->in_place ? engine->open.buffer->capacity - IN_PLACE_AT : builder->capacity;
	assert(builder->size + size <= capacity);
	uint8_t *at = start + builder->size;
	builder->size += size;
	engine->open.estimate += size;
	engine->open.accepted_bytes += payload;
	engine->in_flight_bytes += payload;
	return at;
}

void wk_journal_want(wk_engine *engine, bool sync, uint64_t deferred_until_ns) {
	engine->open.appends += sync;
	if (sync)
		engine->open.sync_wanted = true;
	else if (deferred_until_ns < engine->open.deferred_until_ns)
		engine->open.deferred_until_ns = deferred_until_ns;
}

void wk_journal_want_later(wk_engine *engine) {
	uint64_t until = wk_time_after(wk_engine_now(engine), engine->options.deferred_delay_ns);
	wk_journal_want(engine, false, until);
	bool waits_for_group = engine->options.commit_wait_ns > 0 && engine->driver_in_flight == 0;
	bool sleeps = !engine->driver_active || waits_for_group;
	if (engine->driver_runs && sleeps && until < engine->driver_deadline_ns) {
		engine->driver_deadline_ns = until;
		wk_driver_wake(engine);
	}
}

void wk_journal_want_block(wk_engine *engine, uint64_t ticket) {
	if (ticket == engine->open.sequence)
		wk_journal_want(engine, true, UINT64_MAX);
	else if (ticket > engine->sync_goal)
		engine->sync_goal = ticket;
}

static bool is_empty(const wk_block *open) {
	return wk_block_is_empty(open) && !open->confirm;
}

/* ---- room ---- */

/* What appends leave of a block, and how much more than theirs may be under way. */
static bool has_room(const wk_engine *engine, size_t payload, enum wk_room purpose) {
	const wk_open_options *options = &engine->options;
	bool spared = purpose == WK_ROOM_RECOVERY;
	uint64_t in_flight = options->in_flight_bytes + (spared ? options->in_flight_bytes / RECOVERY_PART : 0);
	uint64_t left = wk_engine_holds_ledgers(engine) ? options->block_size_max / BLOCK_RECOVERY_PART : 0;
	uint64_t block = options->block_size_max - (spared ? 0 : left < BLOCK_RECOVERY_MAX ? left : BLOCK_RECOVERY_MAX);
	if (engine->in_flight_bytes > 0 && engine->in_flight_bytes + payload > in_flight)
		return false;
	return is_empty(&engine->open) || engine->open.estimate + payload + SLACK <= block;
}

static wk_status remaining(wk_engine *engine, uint64_t deadline_ns, uint64_t *left) {
	*left = UINT64_MAX;
	if (deadline_ns == UINT64_MAX)
		return WK_OK;
	uint64_t now = wk_engine_now(engine);
	if (deadline_ns <= now)
		return WK_TIMEOUT;
	*left = deadline_ns - now;
	return WK_OK;
}

void wk_journal_wake_room(wk_engine *engine) {
	wk_wait_word_change(&engine->room);
}

/* (locked, dropped) The same, and no longer than at_most_ns. */
static wk_status wait_room(wk_engine *engine, uint64_t deadline_ns, uint64_t at_most_ns, wk_error *error) {
	uint64_t left;
	if (remaining(engine, deadline_ns, &left) != WK_OK)
		return wk_fail(error, WK_TIMEOUT, "append to %s: no room within the time given; nothing was written",
		               engine->path);
	left = left < at_most_ns ? left : at_most_ns;
	if (wk_engine_sleep(engine, &engine->room, wk_wait_word_look(&engine->room), left) == -EINTR)
		return wk_fail(error, WK_INTERRUPTED, "append to %s: interrupted while waiting for room; nothing was written",
		               engine->path);
	return WK_OK;
}

wk_status wk_journal_wait_room(wk_engine *engine, uint64_t deadline_ns, wk_error *error) {
	return wait_room(engine, deadline_ns, UINT64_MAX, error);
}

/* Deferred or not: only what is durable makes room. A sync does not begin while others are still to join it. */
static void want_room(wk_engine *engine) {
	engine->open.sync_wanted |= !is_empty(&engine->open);
	if (engine->window.in_flight == 0 && engine->window.next - 1 > engine->sync_goal)
		engine->sync_goal = engine->window.next - 1;
	engine->group_commit.expected = 0; /* who waits here can come only once the block is durable */
	wk_journal_kick(engine);
}

/* (locked, dropped) Without a driver. Where there is nothing to do another thread is at it, and wants the lock. */
static wk_status make_room_here(wk_engine *engine, uint64_t deadline_ns, wk_error *error) {
	return wk_journal_step(engine) ? WK_OK : wait_room(engine, deadline_ns, PAUSE_NS, error);
}

wk_status wk_journal_room(wk_engine *engine, size_t payload, uint64_t deadline_ns, enum wk_room purpose,
                          wk_error *error) {
	for (;;) {
		wk_status status = wk_journal_writable(engine, error);
		if (status != WK_OK)
			return status;
		if (engine->disk_full && purpose == WK_ROOM_APPEND) {
			status = wk_reserve_other_shortage(engine, error);
			return status != WK_OK ? status
			                       : wk_fail(error, WK_NO_SPACE,
			                                 "append to %s: the disk is full, so no journal file could be prepared; "
			                                 "free space or truncate "
			                                 "logs, appends go on by themselves",
			                                 engine->path);
		}
		bool safe = wk_reserve_is_safe(engine, payload, purpose);
		if (safe && has_room(engine, payload, purpose))
			return WK_OK;
		if (!safe) {
			status = wk_reserve_make_safe(engine, payload, purpose, deadline_ns, error);
			if (status != WK_OK)
				return status;
			continue;
		}
		want_room(engine);
		if (deadline_ns == 0)
			return wk_fail(
			    error, WK_WOULD_BLOCK,
			    "append to %s: no room until a block is durable: %llu bytes are in flight, the limits are %llu "
			    "(in_flight_bytes) and %llu a block (block_size_max)",
			    engine->path, (unsigned long long)engine->in_flight_bytes,
			    (unsigned long long)engine->options.in_flight_bytes,
			    (unsigned long long)engine->options.block_size_max);
		status = engine->driver_runs ? wk_journal_wait_room(engine, deadline_ns, error)
		                             : make_room_here(engine, deadline_ns, error);
		if (status != WK_OK)
			return status;
	}
}

/* Syncs in this thread until nobody wants another. */
static void sync_here(wk_engine *engine) {
	wk_store_file *files[WK_BLOCKS_IN_FLIGHT_MAX];
	uint32_t count;
	while ((count = wk_journal_sync_begin(engine, files)) > 0) {
		wk_engine_unlock(engine);
		int result = 0;
		for (uint32_t i = 0; i < count && result == 0; i++)
			result = engine->io->operations->sync(engine->io, files[i]->handle);
		wk_engine_lock(engine);
		wk_journal_sync_done(engine, files, count, result);
	}
}

void wk_journal_write(wk_engine *engine, wk_block *block) {
	wk_engine_unlock(engine);
	int64_t result = engine->io->operations->pwrite(engine->io, block->file->handle, block->buffer->bytes,
	                                                wk_block_write_size(block), block->header.offset,
	                                                block->with_sync ? WK_IO_DSYNC : 0);
	wk_engine_lock(engine);
	wk_journal_written(engine, block, wk_block_write_outcome(block, result));
	sync_here(engine);
}

void wk_journal_press(wk_engine *engine, uint64_t now_ns) {
	uint64_t last = engine->window.next - 1;
	if (engine->failed || engine->durable == last || engine->window.in_flight > 0)
		return;
	bool window_is_full = last - engine->durable >= engine->window.in_flight_max;
	bool late = now_ns >= engine->deferred_sync_ns;
	bool crowded = engine->in_flight_bytes >= engine->options.in_flight_bytes / 2 ||
	               atomic_load(&engine->room.sleepers) > 0;
	bool footer = wk_journal_needs_footer(engine, now_ns);
	if (!late && !(window_is_full && !is_empty(&engine->open)) && !crowded && !footer)
		return;
	engine->deferred_sync_ns = UINT64_MAX;
	engine->sync_goal = last;
}

bool wk_journal_waits_for_group(const wk_engine *engine, uint64_t now_ns) {
	return wk_group_commit_waits(&engine->group_commit, engine->open.appends, now_ns);
}

/* The open block holds something that may go out now, and there is a slot for it. */
static bool may_go(const wk_engine *engine, uint64_t now_ns) {
	const wk_block *open = &engine->open;
	if (engine->sealing || engine->failed || engine->zeros_under_way || is_empty(open))
		return false;
	if (engine->window.next - engine->window.durable_through > engine->window.in_flight_max)
		return false;
	if (open->estimate >= engine->options.block_size_max || open->confirm)
		return true;
	if (open->sync_wanted && (engine->options.commit_wait_ns == 0 || open->at_once))
		return !wk_journal_waits_for_group(engine, now_ns);
	bool waited = open->sync_wanted && now_ns >= open->first_ns + engine->options.commit_wait_ns;
	return waited || now_ns >= open->deferred_until_ns;
}

/*
 * At most one full file lacks its footer (storage rule 18): while one does, the journal goes on in no other file. The
 * footer is usually long written; it comes a whole file before it is asked for. But an open that accepts loss records
 * that first: a damaged file with a footer is one that nobody finds damaged any more.
 */
static bool waits_for_footer(const wk_engine *engine) {
	return engine->footers_due > 0 && engine->loss == NULL &&
	       !wk_journal_fits(engine, wk_journal_block_bound(engine->open.estimate), &engine->open);
}

bool wk_journal_needs_footer(wk_engine *engine, uint64_t now_ns) {
	return engine->footers_due > 0 && may_go(engine, now_ns) && waits_for_footer(engine);
}

bool wk_journal_can_seal(wk_engine *engine, uint64_t now_ns) {
	return may_go(engine, now_ns) && !waits_for_footer(engine);
}

void wk_journal_kick(wk_engine *engine) {
	if (wk_journal_kicked(engine))
		wk_driver_wake(engine);
}

bool wk_journal_kicked(wk_engine *engine) {
	if (wk_committer_kick(engine))
		return false;
	bool group_is_complete = engine->driver_gathers && engine->open.appends >= engine->group_commit.expected;
	if (!engine->driver_runs || (engine->driver_active && !group_is_complete))
		return false;
	engine->driver_active = true;
	engine->driver_gathers = false;
	return true;
}

uint64_t wk_journal_flush(wk_engine *engine) {
	if (!is_empty(&engine->open)) {
		engine->open.sync_wanted = true;
		return engine->open.sequence;
	}
	uint64_t last = engine->open.sequence - 1;
	if (last > engine->sync_goal)
		engine->sync_goal = last;
	return last;
}

bool wk_journal_step(wk_engine *engine) {
	if (wk_journal_can_seal(engine, wk_engine_now(engine))) {
		wk_block *block = wk_journal_seal(engine);
		if (block != NULL)
			wk_journal_write(engine, block);
		return block != NULL;
	}
	uint64_t before = engine->durable;
	wk_journal_press(engine, wk_engine_now(engine));
	sync_here(engine);
	if (engine->durable != before)
		return true;
	return wk_journal_needs_footer(engine, wk_engine_now(engine)) && wk_keeper_seal_oldest(engine);
}

static wk_status failed_outcome(wk_engine *engine, uint64_t ticket, wk_error *error) {
	if (error != NULL) {
		*error = engine->failure;
		error->outcome_unknown = ticket < engine->open.sequence;
	}
	return WK_FAILED;
}

/*
 * (locked, dropped) Without a driver: its work, in this thread, until the block is wanted and there is nothing to do:
 * another thread is at it, and wants the lock to go on.
 */
static bool works_for(wk_engine *engine, uint64_t ticket) {
	if (wk_journal_step(engine))
		return true;
	bool wanted = ticket <= engine->sync_goal;
	engine->sync_goal = wanted ? engine->sync_goal : ticket;
	engine->open.sync_wanted |= ticket == engine->open.sequence;
	return !wanted && !engine->disk_full;
}

wk_status wk_journal_wait(wk_engine *engine, uint64_t ticket, uint64_t deadline_ns, bool may_drive, wk_error *error) {
	/*
	 * Alone, or with slots to spare: one durable write in this thread, no hand-over. Fewer than there are slots need no
	 * company: each has its own write, side by side.
	 */
	bool alone = engine->group_commit.expected <= engine->window.in_flight_max;
	may_drive &= !engine->driver_active || engine->driver_gathers;
	if (may_drive && ticket == engine->open.sequence &&
	    wk_journal_can_seal(engine, alone ? UINT64_MAX : wk_engine_now(engine))) {
		wk_block *block = wk_journal_seal(engine);
		if (block != NULL)
			wk_journal_write(engine, block);
		bool left_behind = engine->open.sync_wanted && !engine->failed; /* others came meanwhile and found no slot */
		engine->driver_active |= left_behind && engine->driver_runs;
		/* Where it sleeps for ever it must see to the confirm block. */
		if (engine->driver_runs && (left_behind || engine->driver_deadline_ns == UINT64_MAX))
			wk_driver_wake(engine);
	}
	for (;;) {
		if (engine->durable >= ticket)
			return WK_OK;
		if (engine->failed)
			return failed_outcome(engine, ticket, error);
		/* Without a driver this may need what another thread has in hand, whichever block that is. */
		wk_wait_word *word = engine->driver_runs ? &engine->waits[ticket % WK_WAIT_SLOTS] : &engine->room;
		uint32_t seen = wk_wait_word_look(word);
		if (!engine->driver_runs && (works_for(engine, ticket) || engine->durable >= ticket || engine->failed))
			continue;
		bool another_is_at_it = engine->sealing || engine->window.in_flight > 0;
		if (!engine->driver_runs && engine->disk_full && !another_is_at_it)
			return wk_fail(error, WK_NO_SPACE, "append to %s: the disk is full", engine->path);
		wk_journal_kick(engine);
		uint64_t left;
		wk_status status = remaining(engine, deadline_ns, &left);
		int result = 0;
		if (status == WK_OK)
			result = wk_engine_sleep(engine, word, seen, engine->driver_runs || left < PAUSE_NS ? left : PAUSE_NS);
		if ((status == WK_TIMEOUT || result == -EINTR) && engine->durable < ticket && !engine->failed) {
			status = status == WK_TIMEOUT ? WK_TIMEOUT : WK_INTERRUPTED;
			wk_fail(error, status, "append to %s: %s before it was known durable; it may or may not be", engine->path,
			        status == WK_TIMEOUT ? "the time given passed" : "interrupted");
			if (error != NULL)
				error->outcome_unknown = true;
			return status;
		}
	}
}

wk_status wk_journal_wait_out(wk_engine *engine, uint64_t ticket, uint64_t deadline_ns, bool may_drive,
                              wk_error *error) {
	if (ticket == engine->open.sequence && engine->options.commit_wait_ns > 0) {
		engine->open.at_once = true;
		if (engine->driver_runs) /* it may be asleep until the time has come */
			wk_driver_wake(engine);
	}
	wk_status status;
	do
		status = wk_journal_wait(engine, ticket, deadline_ns, may_drive, error);
	while (status == WK_INTERRUPTED);
	return status;
}

static void free_builders(wk_builder *builders, uint32_t capacity) {
	for (uint32_t i = 0; i < capacity; i++)
		free(builders[i].bytes);
	free(builders);
}

void wk_journal_free(wk_engine *engine) {
	for (uint32_t i = 0; i < WK_BLOCKS_IN_FLIGHT_MAX; i++) {
		free_builders(engine->in_flight[i].builders, engine->in_flight[i].builders_capacity);
		wk_ledger_block_free(&engine->in_flight[i]);
		wk_buffer_release(engine->in_flight[i].buffer);
	}
	for (uint32_t i = 0; i < engine->spare_count; i++)
		free_builders(engine->spare[i].builders, engine->spare[i].capacity);
	free_builders(engine->open.builders, engine->open.builders_capacity);
	wk_ledger_block_free(&engine->open);
	wk_buffer_release(engine->open.buffer);
}
