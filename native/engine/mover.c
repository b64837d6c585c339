#include "engine/mover.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/entry_log.h"
#include "engine/journal.h"
#include "engine/journal_file.h"
#include "engine/ledger.h"
#include "engine/lookup.h"
#include "engine/mover_victims.h"
#include "engine/range.h"
#include "engine/range_live.h"
#include "engine/range_pager.h"
#include "engine/read.h"
#include "engine/settle.h"
#include "engine/store_file.h"
#include "engine/store_footer.h"
#include "walkeeper/ledger.h"

enum { STEP_BYTES = 1 << 20, RETRY_NS = 1000 * 1000 * 1000 };

typedef struct piece { /* a span of one ledger with live entries in one victim, or in several that overlap */
	int64_t ledger_id, first, last;
	int64_t next;
	bool left; /* a damaged entry stays where it is */
} piece;

struct wk_mover {
	wk_entry_log_writer writer;
	wk_store_file *victims[WK_VICTIMS_MAX];
	uint32_t victims_count;
	piece *pieces;
	size_t pieces_count, pieces_capacity, next; /* next: the piece under way */
	uint64_t chose_at;                          /* the durable block when the pieces were listed */
	wk_span span;
	bool by_footers;  /* pieces were found in the victims' footers */
	uint64_t reserve; /* the output is the reserve, of so many bytes; 0: it is not */
	uint64_t enough;  /* bytes of output: what is left then, a later pass copies */
	bool cut;         /* something was left for that */
};

/* ---- what is to be copied ---- */

static bool is_victim(const struct wk_mover *mover, const wk_store_file *file) {
	for (uint32_t i = 0; i < mover->victims_count; i++)
		if (mover->victims[i] == file)
			return true;
	return false;
}

static bool add_piece(struct wk_mover *mover, piece found) {
	if (mover->pieces_count == mover->pieces_capacity) {
		size_t capacity = mover->pieces_capacity == 0 ? 64 : mover->pieces_capacity * 2;
		piece *pieces = realloc(mover->pieces, capacity * sizeof *pieces);
		if (pieces == NULL)
			return false;
		mover->pieces = pieces;
		mover->pieces_capacity = capacity;
	}
	mover->pieces[mover->pieces_count++] = found;
	return true;
}

static int by_place(const void *a, const void *b) {
	const piece *x = a, *y = b;
	if (x->ledger_id != y->ledger_id)
		return x->ledger_id < y->ledger_id ? -1 : 1;
	return (x->first > y->first) - (x->first < y->first);
}

/* Ranges that overlap are one piece: an entry log is written in the order of ids. */
static bool list_ledger(struct wk_mover *mover, const wk_ledger *ledger) {
	piece *before = NULL;
	const wk_range *ranges = wk_ranges(ledger);
	for (uint32_t i = 0; i < ledger->ranges_count; i++) {
		const wk_range *range = &ranges[i];
		if (range->dead == range->count || !is_victim(mover, range->file))
			continue;
		if (before != NULL && range->first_entry <= before->last) {
			before->last = range->last_entry > before->last ? range->last_entry : before->last;
			continue;
		}
		if (!add_piece(mover, (piece){.ledger_id = ledger->id,
		                              .first = range->first_entry,
		                              .last = range->last_entry,
		                              .next = range->first_entry}))
			return false;
		before = &mover->pieces[mover->pieces_count - 1];
	}
	return true;
}

static bool list_pieces(wk_engine *engine, struct wk_mover *mover) {
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++)
		if (engine->ledgers[i] != NULL && !list_ledger(mover, engine->ledgers[i]))
			return false;
	if (mover->pieces_count > 1)
		qsort(mover->pieces, mover->pieces_count, sizeof *mover->pieces, by_place);
	return true;
}

/* ---- the same where ranges are paged out: the victims' footers say whose entries they hold ---- */

/* A span of a ledger in one victim. (no lock held) */
static bool list_span(wk_engine *engine, struct wk_mover *mover, int64_t ledger_id, int64_t first, int64_t last) {
	wk_engine_lock(engine);
	const wk_ledger *ledger = wk_ledger_find(engine, ledger_id);
	bool wanted = ledger != NULL && ledger->first_live <= last;
	wk_engine_unlock(engine);
	return !wanted || add_piece(mover, (piece){.ledger_id = ledger_id, .first = first, .last = last, .next = first});
}

static wk_status list_victim(wk_engine *engine, struct wk_mover *mover, wk_store_file *file, wk_error *error) {
	wk_run_cursor *cursor = calloc(1, sizeof *cursor);
	if (cursor == NULL)
		return WK_NO_MEMORY;
	cursor->file = file;
	cursor->end = file->footer.runs_count;
	wk_status status = WK_OK;
	const wk_footer_run *run;
	int64_t ledger_id = -1, first = 0, last = 0;
	while (status == WK_OK && (run = wk_run_next(engine, cursor, &status, error)) != NULL) {
		if (run->ledger_id != ledger_id) {
			if (ledger_id >= 0 && !list_span(engine, mover, ledger_id, first, last))
				status = WK_NO_MEMORY;
			ledger_id = run->ledger_id;
			first = run->first_entry;
		}
		last = run->first_entry + run->count - 1;
	}
	if (status == WK_OK && ledger_id >= 0 && !list_span(engine, mover, ledger_id, first, last))
		status = WK_NO_MEMORY;
	free(cursor);
	return status;
}

static void join_pieces(struct wk_mover *mover) {
	size_t kept = 0;
	if (mover->pieces_count > 1)
		qsort(mover->pieces, mover->pieces_count, sizeof *mover->pieces, by_place);
	for (size_t i = 0; i < mover->pieces_count; i++) {
		const piece *at = &mover->pieces[i];
		piece *before = kept > 0 ? &mover->pieces[kept - 1] : NULL;
		if (before != NULL && before->ledger_id == at->ledger_id && at->first <= before->last)
			before->last = at->last > before->last ? at->last : before->last;
		else
			mover->pieces[kept++] = *at;
	}
	mover->pieces_count = kept;
}

/* No lock held; 0 or -errno. A victim whose footer cannot be read is not tried again. */
static int list_by_footers(wk_engine *engine, struct wk_mover *mover) {
	for (uint32_t i = 0; i < mover->victims_count; i++) {
		wk_error error = {0};
		wk_status status = list_victim(engine, mover, mover->victims[i], &error);
		if (status == WK_OK)
			continue;
		wk_engine_lock(engine);
		mover->victims[i]->stuck |= wk_is_unreadable(status, &error);
		wk_engine_unlock(engine);
		return status == WK_NO_MEMORY ? -ENOMEM : -EIO;
	}
	join_pieces(mover);
	return 0;
}

/* ---- a pass ---- */

static void end_pass(wk_engine *engine) {
	struct wk_mover *mover = engine->mover;
	engine->mover = NULL;
	for (uint32_t i = 0; i < mover->victims_count; i++)
		mover->victims[i]->pins--;
	wk_engine_unlock(engine);
	uint64_t left = wk_entry_log_free(&mover->writer);
	free(mover->pieces);
	free(mover);
	wk_engine_lock(engine);
	engine->output_reserve += left;
}

/*
 * How many of a file's bytes are live is told from the average of its entries, and may be many times more. An output of
 * the usual size is enough, or of the largest victim's; places in a file have 32 bits.
 */
static uint64_t output_max(const wk_engine *engine, wk_store_file *const *victims, uint32_t count) {
	uint64_t most = engine->options.file_size_max;
	for (uint32_t i = 0; i < count; i++)
		most = victims[i]->size > most ? victims[i]->size : most;
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
	if (mover->reserve > 0 && mover->victims_count == 1 && wanted > mover->reserve)
		mover->victims[0]->refused_reserve = mover->reserve;
	engine->one_victim = true;
	engine->mover_due_ns = wk_engine_now(engine) + RETRY_NS;
	engine->output_short = true;
}

static bool begin_pass(wk_engine *engine) {
	wk_store_file *victims[WK_VICTIMS_MAX];
	bool full = engine->disk_full || engine->space_low || engine->output_short;
	uint64_t reserve = full ? engine->output_reserve : 0;
	engine->one_victim &= full;
	uint32_t count = wk_victims_choose(engine, wk_engine_now(engine), reserve, victims);
	if (count == 0) {
		if (full)
			engine->mover_due_ns = wk_engine_now(engine) + RETRY_NS / 4;
		engine->output_short = false;
		return false;
	}
	struct wk_mover *mover = calloc(1, sizeof *mover);
	if (mover == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		mover->victims[mover->victims_count++] = victims[i];
		victims[i]->pins++;
	}
	mover->reserve = reserve;
	mover->enough = output_max(engine, victims, count);
	engine->output_reserve -= reserve;
	engine->mover = mover;
	mover->by_footers = engine->pager.paged > 0;
	bool listed = mover->by_footers || list_pieces(engine, mover);
	mover->chose_at = engine->durable;
	wk_engine_unlock(engine);
	uint64_t id = 0;
	wk_error error;
	int result = listed ? 0 : -ENOMEM;
	if (mover->by_footers)
		result = list_by_footers(engine, mover);
	if (result == 0 && wk_file_id_take(engine, &id, &error) != WK_OK)
		result = -EIO;
	if (result == 0)
		result = wk_entry_log_begin(engine, id, reserve, &mover->writer);
	else
		mover->writer.engine = engine;
	mover->writer.last_sequence = mover->chose_at;
	wk_engine_lock(engine);
	if (result < 0) {
		if (result == -ENOSPC || result == -EDQUOT)
			no_space(engine);
		end_pass(engine);
		engine->mover_due_ns = wk_engine_now(engine) + RETRY_NS;
		return false;
	}
	return true;
}

/* What anybody needs of the pieces stands elsewhere: nobody looks into the victims any more. (locked) */
static void leave_victims(wk_engine *engine, const struct wk_mover *mover) {
	for (size_t i = 0; i < mover->pieces_count; i++) {
		const piece *at = &mover->pieces[i];
		if (!at->left)
			wk_ledger_moved(engine, at->ledger_id, at->first, at->last, mover->victims, mover->victims_count);
	}
}

/* The copy is durable: the index turns to it. (locked) */
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
	engine->counters.compacted_bytes += footer->end_offset;
	/* Ledgers that are not there were deleted meanwhile. */
	wk_status status = wk_ledger_add_runs(engine, file, mover->writer.runs, mover->writer.runs_count, true);
	if (status == WK_OK)
		leave_victims(engine, mover);
	return status;
}

/*
 * All that anybody needs of the victims is elsewhere now. Ranges in memory know it; those that are paged out learn it
 * when they come in. A victim with an entry that could not be read stays, and they are caught up one by one.
 */
static void empty_victims(wk_engine *engine, struct wk_mover *mover) {
	bool left = mover->cut;
	leave_victims(engine, mover); /* where nothing was copied, nobody did */
	for (size_t i = 0; i < mover->pieces_count; i++)
		left |= mover->pieces[i].left;
	for (uint32_t i = 0; i < mover->victims_count && !left; i++) {
		wk_store_file *victim = mover->victims[i];
		victim->emptied = true;
		wk_file_less_live(victim, victim->live_entries, victim->live_bytes);
	}
	for (size_t i = 0; i < mover->pieces_count && left; i++) {
		wk_ledger *ledger = wk_ledger_find(engine, mover->pieces[i].ledger_id);
		if (ledger != NULL && ledger->paged)
			wk_ranges_fall_behind(engine, ledger);
	}
}

static bool finish_pass(wk_engine *engine) {
	struct wk_mover *mover = engine->mover;
	wk_footer footer;
	wk_file *handle = NULL;
	wk_engine_unlock(engine);
	int result = mover->writer.items_count > 0 ? wk_entry_log_finish(&mover->writer, &footer, &handle) : 0;
	wk_engine_lock(engine);
	bool adopted = result == 0 && (handle == NULL || adopt(engine, mover, &footer, handle) == WK_OK);
	if (result == -ENOSPC || result == -EDQUOT)
		no_space(engine);
	else if (result == -ENOMEM || result == -EMFILE || result == -ENFILE)
		engine->mover_due_ns = wk_engine_now(engine) + RETRY_NS;
	else if (result < 0)
		wk_journal_fail(engine, result, "writing an entry log", NULL);
	else if (!adopted) /* part of it: the victims count, and nothing may be given away by what memory says now */
		wk_journal_fail(engine, -ENOMEM, "adopting an entry log", NULL);
	engine->output_short &= result != 0;
	if (adopted && (mover->by_footers || engine->pager.paged > 0))
		empty_victims(engine, mover);
	for (uint32_t i = 0; i < mover->victims_count && adopted; i++)
		mover->victims[i]->stuck = mover->victims[i]->live_entries > 0 && !mover->cut;
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

/* Passes over what was truncated or deleted meanwhile; false: nothing of the piece is left to be looked at. */
static bool is_wanted(wk_engine *engine, piece *at) {
	wk_engine_lock(engine);
	const wk_ledger *ledger = wk_ledger_find(engine, at->ledger_id);
	if (ledger != NULL && ledger->first_live > at->next)
		at->next = ledger->first_live;
	wk_engine_unlock(engine);
	return ledger != NULL && at->next <= at->last;
}

/*
 * One read of the piece under way: of the stretch at its start, where that stands in a victim. What has a newer place
 * elsewhere is passed over; a damaged entry stays where it is.
 */
static int copy_some(wk_engine *engine, struct wk_mover *mover, uint64_t *bytes) {
	piece *at = &mover->pieces[mover->next];
	if (!is_wanted(engine, at)) {
		mover->next++;
		return 0;
	}
	wk_error error = {0};
	wk_stretch stretch;
	wk_status status = wk_lookup(engine, at->ledger_id, at->next, at->last, WK_LOOKUP_ALL, NULL, 0, &stretch, &error);
	if (status == WK_OK && (stretch.file == NULL || !is_victim(mover, stretch.file))) {
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
	for (; mover->next < mover->pieces_count; mover->next++) {
		piece *at = &mover->pieces[mover->next];
		if (at->next > at->last)
			continue;
		mover->cut = true;
		if (at->next > at->first && !at->left)
			at->last = at->next - 1;
		else
			at->left = true;
	}
}

bool wk_mover_step(wk_engine *engine) {
	uint64_t now = wk_engine_now(engine);
	if (engine->failed || engine->closing || engine->read_only || now < engine->mover_due_ns)
		return false;
	if (engine->mover == NULL && wk_settle_step(engine))
		return true;
	if (engine->mover == NULL && !begin_pass(engine))
		return false;
	struct wk_mover *mover = engine->mover;
	if (has_enough(mover))
		leave_the_rest(mover);
	if (mover->next == mover->pieces_count)
		return finish_pass(engine);
	wk_engine_unlock(engine);
	uint64_t bytes = 0;
	int result = 0;
	while (result == 0 && bytes < STEP_BYTES && mover->next < mover->pieces_count && !has_enough(mover))
		result = copy_some(engine, mover, &bytes);
	wk_engine_lock(engine);
	if (result < 0) {
		/* A full disk, or a file that cannot be read: nothing is lost, the old copies are still the ones that count. */
		if (result == -ENOSPC || result == -EDQUOT)
			no_space(engine);
		end_pass(engine);
		engine->mover_due_ns = wk_engine_now(engine) + RETRY_NS;
		return false;
	}
	engine->mover_due_ns = now + bytes * 1000000000u / engine->options.compact_rate;
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
	uint64_t due = wk_victims_deadline(engine);
	if (engine->unsettled_count > 0 && engine->settle_due_ns < due)
		due = engine->settle_due_ns;
	return due > engine->mover_due_ns ? due : engine->mover_due_ns;
}

void wk_mover_free(wk_engine *engine) {
	if (engine->mover == NULL)
		return;
	wk_engine_lock(engine);
	end_pass(engine);
	wk_engine_unlock(engine);
}
