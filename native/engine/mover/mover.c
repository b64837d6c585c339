#include "engine/mover/mover.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/index.h"
#include "engine/journal.h"
#include "engine/mover/entry_log.h"
#include "engine/mover/interleaved.h"
#include "engine/mover/mover_pieces.h"
#include "engine/mover/mover_slice.h"
#include "engine/mover/mover_victims.h"
#include "walkeeper/ledger.h"

enum {
	STEP_BYTES = 1 << 20,
	NS_PER_S = 1000 * 1000 * 1000,
	RETRY_NS = NS_PER_S,
	BUSY_NS = 100 * 1000 * 1000, /* who added something so lately adds again */
	BUSY_PART = 4,
};

struct wk_mover {
	wk_entry_log_writer writer;
	wk_victims victims;
	wk_pieces pieces;
	size_t next;           /* the piece under way */
	uint64_t chose_at;     /* the durable block when the pieces were listed */
	wk_span span;          /* where entries are copied as they stand */
	wk_slice slice;        /* where they are sorted */
	uint64_t slice_memory; /* of it, after the last step */
	bool sorts;            /* the victims are interleaved */
	bool by_footers;       /* pieces were found in the victims' footers */
	uint64_t reserve;      /* the output is the reserve, of so many bytes; 0: it is not */
	uint64_t enough;       /* bytes of output: what is left then, a later pass copies */
	bool cut;              /* something was left for that */
};

/* ---- a pass ---- */

static void end_pass(wk_engine *engine) {
	struct wk_mover *mover = engine->mover;
	engine->mover = NULL;
	for (uint32_t i = 0; i < mover->victims.count; i++)
		mover->victims.files[i]->pins--;
	wk_engine_unlock(engine);
	uint64_t left = wk_entry_log_free(&mover->writer);
	free(mover->pieces.list);
	wk_slice_free(&mover->slice);
	free(mover);
	wk_engine_lock(engine);
	engine->output_reserve += left;
}

/*
 * How many of a file's bytes are live is told from the average of its entries, and may be many times more. An output of
 * the usual size is enough, or of the largest victim's; places in a file have 32 bits.
 */
static uint64_t output_max(const wk_engine *engine, const wk_victims *victims) {
	uint64_t most = engine->options.file_size_max;
	for (uint32_t i = 0; i < victims->count; i++)
		most = victims->files[i]->size > most ? victims->files[i]->size : most;
	return most < WK_ENTRY_LOG_BYTES_MAX - WK_LEDGER_ENTRY_MAX ? most : WK_ENTRY_LOG_BYTES_MAX - WK_LEDGER_ENTRY_MAX;
}

/*
 * The next pass takes the reserve. Where this one had it, what is live in its victims was more than it seemed: files that
 * fit must not wait behind those.
 */
static void no_space(wk_engine *engine) {
	struct wk_mover *mover = engine->mover;
	uint64_t wanted = mover->writer.flushed + mover->writer.chunk_size +
	                  wk_footer_size(mover->writer.items_count, mover->writer.runs_count, 0);
	if (mover->reserve > 0 && mover->victims.count == 1 && wanted > mover->reserve)
		mover->victims.files[0]->refused_reserve = mover->reserve;
	engine->one_victim = true;
	engine->mover_due_ns = wk_engine_now(engine) + RETRY_NS;
	engine->output_short = true;
}

/* The pass has ended without a copy, and why is known: the machine refused, or the disk. (locked) */
static void give_up(wk_engine *engine, int result) {
	uint64_t now = wk_engine_now(engine);
	if (engine->mover->sorts) { /* what is only to be read faster takes no reserve, and waits */
		uint64_t wait = engine->options.sort_wait_ns > RETRY_NS ? engine->options.sort_wait_ns : RETRY_NS;
		engine->sort.due_ns = wk_time_after(now, wait);
	} else if (result == -ENOSPC || result == -EDQUOT) {
		no_space(engine);
	}
	engine->mover_due_ns = now + RETRY_NS;
}

/* What is to be copied, and whereto; 0 or -errno. No lock held. */
static int prepare_pass(wk_engine *engine, struct wk_mover *mover, bool listed) {
	uint64_t id = 0;
	wk_error error;
	int result = listed ? 0 : -ENOMEM;
	if (mover->by_footers)
		result = wk_pieces_of_footers(engine, &mover->victims, &mover->pieces);
	if (result == 0 && mover->sorts) {
		uint64_t ledgers = wk_pieces_ledgers(&mover->pieces);
		wk_engine_lock(engine);
		bool worth_it = wk_interleaved_is_worth_it(engine, &mover->victims, ledgers);
		wk_engine_unlock(engine);
		result = worth_it ? 0 : -ECANCELED;
	}
	if (result == 0 && wk_file_id_take(engine, &id, &error) != WK_OK)
		result = -EIO;
	if (result == 0)
		result = wk_entry_log_begin(engine, id, mover->reserve, &mover->writer);
	else
		mover->writer.engine = engine;
	mover->writer.last_sequence = mover->chose_at;
	return result;
}

static bool start_pass(wk_engine *engine, const wk_victims *victims, uint64_t reserve, bool sorts) {
	struct wk_mover *mover = calloc(1, sizeof *mover);
	if (mover == NULL)
		return false;
	mover->victims = *victims;
	for (uint32_t i = 0; i < victims->count; i++)
		victims->files[i]->pins++;
	mover->sorts = sorts;
	mover->slice = (wk_slice){.engine = engine, .victims = &mover->victims, .memory = engine->options.sort_memory};
	mover->reserve = reserve;
	mover->enough = sorts ? UINT64_MAX : output_max(engine, victims);
	engine->output_reserve -= reserve;
	engine->mover = mover;
	mover->by_footers = sorts || engine->pager.paged > 0;
	bool listed = mover->by_footers || wk_pieces_of_ranges(engine, &mover->victims, &mover->pieces);
	mover->chose_at = engine->durable;
	wk_engine_unlock(engine);
	int result = prepare_pass(engine, mover, listed);
	wk_engine_lock(engine);
	if (result == 0)
		return true;
	bool refused = result == -ECANCELED;
	if (!refused)
		give_up(engine, result);
	end_pass(engine);
	return refused;
}

static bool is_short_of_space(const wk_engine *engine) {
	return engine->disk_full || engine->space_low || engine->output_short;
}

/* What can be read faster: a look at a file, or a pass over those that are interleaved. */
static bool begin_sort(wk_engine *engine) {
	uint64_t now = wk_engine_now(engine);
	if (!wk_interleaved_is_on(engine))
		return false;
	uint64_t read = wk_interleaved_look(engine, now);
	if (read > 0) {
		engine->mover_due_ns = now + read * NS_PER_S / engine->options.compact_rate;
		return true;
	}
	wk_victims victims;
	wk_interleaved_choose(engine, now, &victims);
	return victims.count > 0 && start_pass(engine, &victims, 0, true);
}

static bool begin_pass(wk_engine *engine) {
	wk_victims victims;
	bool full = is_short_of_space(engine);
	uint64_t reserve = full ? engine->output_reserve : 0;
	engine->one_victim &= full;
	victims.count = wk_victims_choose(engine, wk_engine_now(engine), reserve, victims.files);
	if (victims.count > 0)
		return start_pass(engine, &victims, reserve, false);
	if (full)
		engine->mover_due_ns = wk_engine_now(engine) + RETRY_NS / 4;
	engine->output_short = false;
	return !full && begin_sort(engine);
}

/* What anybody needs of the pieces stands elsewhere: nobody looks into the victims any more. (locked, dropped) */
static void leave_victims(wk_engine *engine, const struct wk_mover *mover) {
	for (size_t i = 0; i < mover->pieces.count; i++) {
		const wk_piece *at = &mover->pieces.list[i];
		if (!at->left)
			wk_ledger_moved(engine, at->ledger_id, at->first, at->last, mover->victims.files, mover->victims.count);
		if (i % WK_LOOKS_AT_ONCE == WK_LOOKS_AT_ONCE - 1)
			wk_engine_yield_lock(engine);
	}
}

/* The copy is durable: the index turns to it, ledger by ledger. (locked, dropped) */
static wk_status adopt(wk_engine *engine, struct wk_mover *mover, const wk_footer *footer, wk_file *handle) {
	wk_store_file *file = wk_store_file_add(engine, mover->writer.id, WK_FILE_ENTRY_LOG);
	if (file == NULL) {
		engine->io->operations->close(engine->io, handle);
		return WK_NO_MEMORY;
	}
	file->handle = handle;
	file->size = footer->file_size;
	wk_store_footer_take(file, footer);
	file->state = WK_FILE_SEALED;
	engine->counters.written_bytes += footer->file_size;
	if (mover->sorts)
		engine->counters.sorted_bytes += footer->end_offset;
	else
		engine->counters.compacted_bytes += footer->end_offset;
	/* Ledgers that are not there were deleted meanwhile. */
	file->pins++;
	wk_status status = wk_ledger_add_runs(engine, file, mover->writer.runs, mover->writer.runs_count, true);
	file->pins--;
	return status;
}

/* Some entry was not copied, though somebody needs it. */
static bool leaves_something(const struct wk_mover *mover) {
	bool left = mover->cut;
	for (size_t i = 0; i < mover->pieces.count; i++)
		left |= mover->pieces.list[i].left;
	return left;
}

/*
 * All that anybody needs of the victims is elsewhere now. Ranges in memory are told; those that are paged out learn it
 * when they come in, from now on. A victim with an entry that could not be read stays, and they are caught up one by
 * one. (locked, dropped)
 */
static void empty_victims(wk_engine *engine, struct wk_mover *mover) {
	bool paged = mover->by_footers || engine->pager.paged > 0, left = paged && leaves_something(mover);
	for (uint32_t i = 0; i < mover->victims.count && paged && !left; i++)
		mover->victims.files[i]->emptied = true;
	if (mover->writer.items_count > 0 || paged)
		leave_victims(engine, mover);
	for (uint32_t i = 0; i < mover->victims.count && paged && !left; i++) {
		wk_store_file *victim = mover->victims.files[i];
		wk_file_less_live(victim, victim->live_entries, victim->live_bytes);
	}
	for (size_t i = 0; i < mover->pieces.count && left; i++) {
		wk_ledger *ledger = wk_ledger_find(engine, mover->pieces.list[i].ledger_id);
		if (ledger != NULL && ledger->paged)
			wk_ranges_fall_behind(engine, ledger);
	}
}

static bool is_shortage(int result) {
	return result == -ENOSPC || result == -EDQUOT || result == -ENOMEM || result == -EMFILE || result == -ENFILE;
}

static bool finish_pass(wk_engine *engine) {
	struct wk_mover *mover = engine->mover;
	wk_footer footer;
	wk_file *handle = NULL;
	wk_engine_unlock(engine);
	int result = mover->writer.items_count > 0 ? wk_entry_log_finish(&mover->writer, &footer, &handle) : 0;
	wk_engine_lock(engine);
	bool adopted = result == 0 && (handle == NULL || adopt(engine, mover, &footer, handle) == WK_OK);
	if (is_shortage(result))
		give_up(engine, result);
	else if (result < 0)
		wk_journal_fail(engine, result, "writing an entry log", NULL);
	else if (!adopted) /* part of it: the victims count, and nothing may be given away by what memory says now */
		wk_journal_fail(engine, -ENOMEM, "adopting an entry log", NULL);
	engine->output_short &= result != 0;
	if (adopted)
		empty_victims(engine, mover);
	for (uint32_t i = 0; i < mover->victims.count && adopted; i++)
		mover->victims.files[i]->stuck = mover->victims.files[i]->live_entries > 0 && !mover->cut;
	end_pass(engine);
	return true;
}

/* Copies the entries of one span. No lock held. */
static int copy_span(struct wk_mover *mover, int64_t ledger_id, uint64_t *bytes) {
	for (uint32_t i = 0; i < mover->span.count; i++) {
		const wk_span_entry *entry = &mover->span.entries[i];
		int result = wk_entry_log_add(&mover->writer, ledger_id, entry->entry_id,
		                              mover->span.buffer->bytes + entry->offset, entry->size);
		if (result < 0)
			return result;
		*bytes += entry->size;
	}
	return 0;
}

/*
 * One read of the piece under way: of the stretch at its start, where that stands in a victim. What has a newer place
 * elsewhere is passed over; a damaged entry stays where it is.
 */
static int copy_some(wk_engine *engine, struct wk_mover *mover, uint64_t *bytes) {
	wk_piece *at = &mover->pieces.list[mover->next];
	if (!wk_piece_is_wanted(engine, at)) {
		mover->next++;
		return 0;
	}
	wk_error error = {0};
	wk_stretch stretch;
	wk_status status = wk_lookup(engine, at->ledger_id, at->next, at->last, WK_LOOKUP_ALL, NULL, 0, &stretch, &error);
	if (status == WK_OK &&
	    (stretch.file == NULL || wk_victims_find(&mover->victims, stretch.file) == mover->victims.count)) {
		at->next = stretch.last_entry < at->last ? stretch.last_entry + 1 : at->last + 1;
		wk_stretch_release(engine, &stretch);
		return 0;
	}
	wk_stretch_release(engine, &stretch);
	if (wk_is_unreadable(status, &error)) { /* an index page: nobody knows what else is there */
		at->left = true;
		mover->next++;
		return 0;
	}
	if (status == WK_OK)
		status = wk_read_entries(engine, at->ledger_id, at->next, stretch.last_entry, STEP_BYTES, &mover->span, &error);
	int result = 0;
	if (status == WK_OK) {
		result = copy_span(mover, at->ledger_id, bytes);
		at->next = mover->span.entries[mover->span.count - 1].entry_id + 1;
		wk_buffer_release(mover->span.buffer);
	} else if (wk_is_unreadable(status, &error)) {
		at->left = true;
		at->next++;
	} else if (status != WK_NOT_FOUND) { /* that: it was truncated or deleted between the two looks */
		result = error.system_error != 0 ? -error.system_error : -EIO;
	}
	return result;
}

static bool has_enough(const struct wk_mover *mover) {
	return mover->writer.flushed + mover->writer.chunk_size >= mover->enough;
}

/* What was not copied stays where it is: of the piece under way what is behind the last copy. */
static void leave_the_rest(struct wk_mover *mover) {
	for (; mover->next < mover->pieces.count; mover->next++) {
		wk_piece *at = &mover->pieces.list[mover->next];
		if (at->next > at->last)
			continue;
		mover->cut = true;
		if (at->next > at->first && !at->left)
			at->last = at->next - 1;
		else
			at->left = true;
	}
}

/* A step of the pass, about a megabyte; *bytes is what it counts as. No lock held; 0 or -errno. */
static int copy_step(wk_engine *engine, struct wk_mover *mover, uint64_t *bytes) {
	int result = 0;
	while (result == 0 && *bytes < STEP_BYTES && mover->next < mover->pieces.count && !has_enough(mover))
		result = copy_some(engine, mover, bytes);
	return result;
}

/* An entry counts half when it is read, and half when it is written. What is read along counts nothing. */
static int sort_step(struct wk_mover *mover, uint64_t *bytes) {
	int result = wk_slice_step(&mover->slice, &mover->pieces, &mover->next, &mover->writer, bytes);
	*bytes /= 2;
	return result;
}

/* While somebody adds, sorting has a quarter of the rate: nobody waits for it. */
static uint64_t rate_of(wk_engine *engine, const struct wk_mover *mover, uint64_t now) {
	uint64_t last = __atomic_load_n(&engine->last_activity_ns, __ATOMIC_RELAXED), rate = engine->options.compact_rate;
	return mover->sorts && now < last + BUSY_NS && rate >= BUSY_PART ? rate / BUSY_PART : rate;
}

static bool is_copied(const struct wk_mover *mover) {
	return mover->next == mover->pieces.count && mover->slice.state == WK_SLICE_EMPTY;
}

bool wk_mover_step(wk_engine *engine) {
	uint64_t now = wk_engine_now(engine);
	if (engine->failed || engine->closing || engine->read_only || now < engine->mover_due_ns)
		return false;
	if (engine->mover == NULL && wk_recount_step(engine))
		return true;
	if (engine->mover == NULL && !begin_pass(engine))
		return false;
	struct wk_mover *mover = engine->mover;
	if (mover == NULL) /* a look at a file was enough */
		return true;
	if (mover->sorts && is_short_of_space(engine)) { /* its output gives way to what frees space */
		give_up(engine, -ENOSPC);
		end_pass(engine);
		return true;
	}
	if (has_enough(mover))
		leave_the_rest(mover);
	if (is_copied(mover))
		return finish_pass(engine);
	wk_engine_unlock(engine);
	uint64_t bytes = 0;
	int result = mover->sorts ? sort_step(mover, &bytes) : copy_step(engine, mover, &bytes);
	wk_engine_lock(engine);
	mover->slice_memory = wk_slice_memory(&mover->slice);
	if (result < 0) {
		/* A full disk, or a file that cannot be read: nothing is lost, the old copies are still the ones that count. */
		give_up(engine, result);
		end_pass(engine);
		return false;
	}
	engine->mover_due_ns = now + bytes * NS_PER_S / rate_of(engine, mover, now);
	return true;
}

uint64_t wk_mover_chose_at(const wk_engine *engine) {
	return engine->mover != NULL ? engine->mover->chose_at : UINT64_MAX;
}

uint64_t wk_mover_file_id(const wk_engine *engine) {
	return engine->mover != NULL ? engine->mover->writer.id : UINT64_MAX;
}

bool wk_mover_has_reserve(const wk_engine *engine) {
	return engine->mover != NULL && engine->mover->reserve > 0;
}

uint64_t wk_mover_deadline(wk_engine *engine) {
	if (engine->mover != NULL)
		return engine->mover_due_ns;
	uint64_t due = wk_victims_deadline(engine), sort = wk_interleaved_deadline(engine);
	due = sort < due ? sort : due;
	if (engine->recounts_count > 0 && engine->recount_due_ns < due)
		due = engine->recount_due_ns;
	return due > engine->mover_due_ns ? due : engine->mover_due_ns;
}

uint64_t wk_mover_memory(const wk_engine *engine) {
	return engine->mover != NULL ? engine->mover->slice_memory : 0;
}

void wk_mover_free(wk_engine *engine) {
	if (engine->mover == NULL)
		return;
	wk_engine_lock(engine);
	end_pass(engine);
	wk_engine_unlock(engine);
}
