#include "engine/recovery/recovery.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/catalogue.h"
#include "engine/directory.h"
#include "engine/follower.h"
#include "engine/index.h"
#include "engine/journal.h"
#include "engine/ledger.h"
#include "engine/recovery/journal_walk.h"
#include "engine/recovery/leftovers.h"
#include "engine/recovery/loss.h"
#include "engine/recovery/missing_entries.h"
#include "engine/recovery/tail_scan.h"
#include "engine/recovery/unconfirmed.h"

/* ---- what comes out of it ---- */

/*
 * The chain ends in this file: may the journal go on in it? Not behind accepted damage, and not where a footer stands
 * that was not believed, or that cannot be read: it would be found behind the blocks to come.
 */
static bool may_go_on_in(const wk_walk *s, wk_store_file *file) {
	wk_footer footer;
	return file == s->last && !s->lossy && wk_store_footer_peek(s->engine, file, &footer, NULL) == WK_CORRUPT;
}

/* Which file goes on, which wait for a footer, which are empty. */
static void assign_roles(wk_walk *s) {
	wk_engine *engine = s->engine;
	for (uint32_t i = 0; i < engine->files_count; i++) {
		wk_store_file *file = engine->files[i];
		if (file->kind != WK_FILE_JOURNAL || file->state == WK_FILE_SEALED)
			continue;
		if (may_go_on_in(s, file))
			file->state = WK_FILE_ACTIVE;
		else if (file->end_offset > 0) {
			file->state = WK_FILE_FULL;
			engine->footers_due++;
		} else if (engine->next == NULL && file->id >= engine->index.mark &&
		           (s->last == NULL || file->id > s->last->id) && file->size >= engine->options.file_size_min) {
			file->state = WK_FILE_NEXT;
			engine->next = file;
		} else if (!engine->read_only) {  /* to a follower it is one that may yet be written */
			file->state = WK_FILE_SEALED; /* empty: recycled */
		}
	}
	if (s->last != NULL && s->last->state == WK_FILE_ACTIVE) {
		engine->active = s->last;
		engine->offset = s->last->end_offset;
	}
	engine->last_crc = s->scan.crc;
	if (s->cut_bytes > 0 && s->last != NULL) {
		engine->report.cut_bytes = s->cut_bytes;
		engine->report.cut_file = s->cut_file;
		engine->report.cut_offset = s->cut_offset;
	}
}

/* A rename that a kill or a failure left unsynced shows a name here that a power cut would take back. */
static wk_status sync_names(wk_engine *engine, wk_error *error) {
	static const char *const folders[] = {"journal", "entries"};
	for (uint32_t i = 0; i < 2; i++) {
		char *path = wk_engine_path(engine, "%s", folders[i]);
		int result = path != NULL ? engine->io->operations->sync_directory(engine->io, path) : -ENOMEM;
		if (result == -ENOENT)
			result = wk_directory_make_folder(engine, path);
		free(path);
		if (result < 0)
			return wk_fail_io(error, result, "syncing %s/%s", engine->path, folders[i]);
	}
	return WK_OK;
}

/*
 * What a kill left in the drive's cache must be durable before anybody hears of it (storage rule 13). Behind a start of the
 * machine a sync alone shows that: this kernel has taken nothing for clean, and what is not written cannot fail to be, so an
 * open that comes to nothing here leaves readers a proof of their own.
 */
static wk_status sync_accepted(wk_engine *engine, const wk_walk *walk, wk_error *error) {
	bool another = false;
	int result = wk_directory_lock_names_another(engine, &another);
	if (result == 0 && !another) /* else it may name one before that of which nobody tells the id */
		result = wk_directory_lock_tell_kernel(engine);
	if (result < 0)
		return wk_fail_io(error, result, "locking %s", engine->path);
	wk_status status = sync_names(engine, error);
	if (status != WK_OK)
		return status;
	wk_unconfirmed_note(engine, walk);
	return another ? wk_unconfirmed_sync(engine, error) : wk_unconfirmed_write_again(engine, error);
}

/* Its entries are lost, its bytes are left alone: it is set aside once that is recorded. */
static wk_status give_up_entry_log(wk_engine *engine, wk_store_file *file, wk_error *error) {
	if (engine->loss == NULL)
		engine->loss = wk_loss_new();
	if (engine->loss == NULL || wk_loss_add_entry_log(engine->loss, file->id) != WK_OK)
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
	engine->report.lost_files++;
	wk_store_file_remove(engine, file);
	return WK_OK;
}

/* An open that accepts loss takes what the disk cannot read for damaged. */
static wk_status load_entry_logs(wk_engine *engine, wk_error *error) {
	bool accepts = engine->options.on_damage != WK_ON_DAMAGE_STOP && !engine->read_only &&
	               !wk_engine_holds_ledgers(engine); /* of those the index file knows all that were finished */
	for (uint32_t i = 0; i < engine->files_count; i++) {
		wk_store_file *file = engine->files[i];
		if (file->kind != WK_FILE_ENTRY_LOG || file->state == WK_FILE_SEALED) /* the latter: the index file knows it */
			continue;
		file->state = WK_FILE_SEALED;
		if (wk_engine_holds_ledgers(engine) && file->id < engine->index.mark)
			continue; /* it was unlinked before: the keeper does it again */
		wk_status status = wk_store_footer_read(engine, file, error);
		if (status == WK_OK)
			status = wk_store_footer_load(engine, file, error);
		if (status == WK_NO_MEMORY || (status == WK_IO && !accepts))
			return status;
		if (status != WK_OK && accepts) {
			status = give_up_entry_log(engine, file, error);
			if (status != WK_OK)
				return status;
			i--;
		} else if (status != WK_OK)
			return wk_fail(error, WK_DAMAGED, "%s of %s has a damaged footer: restore it from a backup, or %s",
			               wk_file_name_of(file->id, file->kind).text, engine->path,
			               wk_engine_holds_ledgers(engine) ? WK_LEDGERS_REMEDY
			                                               : "salvage the rest with `walkeeper recover`");
	}
	return WK_OK;
}

static wk_status replay_catalogue(wk_engine *engine, wk_error *error) {
	const wk_ledger *catalogue = wk_ledger_find(engine, WK_CATALOGUE_LEDGER);
	int64_t last = catalogue != NULL ? catalogue->durable_entry : -1,
	        lost = wk_loss_last(engine->loss, WK_CATALOGUE_LEDGER);
	bool accepts = engine->options.on_damage != WK_ON_DAMAGE_STOP;
	int64_t claimed = wk_missing_entries_last(engine, WK_CATALOGUE_LEDGER);
	lost = claimed > lost ? claimed : lost;
	wk_status status = wk_catalogue_recover(engine, lost > last ? lost : last, accepts, error);
	if (status == WK_OK)
		status = wk_missing_entries_check(engine, accepts, error);
	if (status == WK_OK)
		status = wk_missing_entries_apply(engine, accepts);
	if (status == WK_NO_MEMORY)
		wk_fail(error, status, "opening %s: no memory", engine->path);
	wk_missing_entries_free(engine);
	return status;
}

/* Ledgers that no log names any more: deleted, or truncated away. */
static wk_status drop_unnamed(wk_engine *engine) {
	uint32_t count = 0;
	wk_ledger **unnamed = malloc((engine->ledgers_count + 1) * sizeof *unnamed);
	if (unnamed == NULL)
		return WK_NO_MEMORY;
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++)
		if (engine->ledgers[i] != NULL && engine->ledgers[i]->id != WK_CATALOGUE_LEDGER) {
			engine->ledgers[i]->named = false;
			unnamed[count++] = engine->ledgers[i];
		}
	for (uint32_t i = 0; i < engine->by_id_capacity; i++) {
		wk_log_state *log = engine->logs_by_id[i];
		for (uint32_t s = 0; log != NULL && !log->deleted && s < log->segments_count; s++) {
			wk_ledger *ledger = wk_ledger_find(engine, log->segments[s].ledger_id);
			if (ledger != NULL)
				ledger->named = true;
		}
	}
	for (uint32_t i = 0; i < count; i++)
		if (!unnamed[i]->named)
			wk_ledger_drop(engine, unnamed[i]);
	free(unnamed);
	return WK_OK;
}

wk_status wk_recovery_expect_completed(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->by_id_capacity; i++) {
		wk_log_state *log = engine->logs_by_id[i];
		for (uint32_t s = 0; log != NULL && !log->deleted && s < log->segments_count; s++) {
			const wk_segment *segment = &log->segments[s];
			wk_ledger *ledger = segment->records_count > 0 ? wk_ledger_get(engine, segment->ledger_id) : NULL;
			if (segment->records_count > 0 && ledger == NULL)
				return WK_NO_MEMORY;
			if (ledger != NULL && ledger->last_entry < segment->last_entry)
				ledger->last_entry = ledger->durable_entry = segment->last_entry;
		}
	}
	return WK_OK;
}

static void all_durable(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++)
		if (engine->ledgers[i] != NULL)
			engine->ledgers[i]->durable_entry = engine->ledgers[i]->last_entry;
}

/*
 * Of a ledger store the index and the entry logs name numbers of durable blocks. If they are not there any more the end of
 * the journal is lost. Where that is accepted no number is given again: deletes go by them.
 */
static wk_status check_numbers_given(wk_engine *engine, wk_walk *walk, wk_error *error) {
	uint64_t given = wk_superblock_accounted(&engine->superblock);
	for (uint32_t i = 0; i < engine->files_count; i++) {
		wk_store_file *file = engine->files[i];
		wk_footer footer = {.last_sequence = file->last_sequence};
		if (file->kind != WK_FILE_ENTRY_LOG ||
		    (file->state != WK_FILE_SEALED && wk_store_footer_peek(engine, file, &footer, NULL) != WK_OK))
			continue;
		given = footer.last_sequence > given ? footer.last_sequence : given;
	}
	if (given <= walk->scan.sequence)
		return WK_OK;
	if (given > engine->superblock.accepted_sequence && engine->options.on_damage == WK_ON_DAMAGE_STOP)
		return wk_fail(error, WK_DAMAGED,
		               "opening %s: the journal ends behind block %llu, but block %llu was durable: a journal file is "
		               "missing or damaged. Nothing was changed. Restore the file from a backup, or " WK_LEDGERS_REMEDY,
		               engine->path, (unsigned long long)walk->scan.sequence, (unsigned long long)given);
	if (!walk->lossy && given > engine->superblock.accepted_sequence) {
		engine->report.damaged_blocks += given - walk->scan.sequence;
		engine->report.unknown_blocks += given - walk->scan.sequence;
	}
	walk->lossy = true;
	walk->highest = given > walk->highest ? given : walk->highest;
	return WK_OK;
}

/* The chain's end is known: what is durable, who may see it. */
static wk_status end_the_chain(wk_engine *engine, wk_walk *walk, wk_error *error) {
	wk_status status = wk_engine_holds_ledgers(engine) ? check_numbers_given(engine, walk, error) : WK_OK;
	if (status != WK_OK)
		return status;
	assign_roles(walk);
	status = engine->read_only ? WK_OK : sync_accepted(engine, walk, error);
	if (status == WK_OK)
		status = load_entry_logs(engine, error);
	if (status != WK_OK)
		return status;
	/* Behind accepted damage: no block that is left over can claim to have seen one of the new ones. */
	uint64_t last = walk->lossy && walk->highest > walk->scan.sequence ? walk->highest : walk->scan.sequence;
	engine->open.sequence = last + 1;
	if (walk->lossy && wk_engine_holds_ledgers(engine))
		engine->superblock.accepted_sequence = last; /* stored before the first block is written */
	if (!walk->lossy) {
		engine->filled = last > 0 ? last - 1 : 0; /* the last one may be one that only confirms */
		if (engine->superblock.closed_sequence > engine->filled && engine->superblock.closed_sequence <= last)
			engine->filled = engine->superblock.closed_sequence;
	}
	if (wk_block_window_init(&engine->window, last + 1, engine->options.blocks_in_flight) != WK_OK)
		return wk_fail(error, WK_INVALID, "opening %s: blocks_in_flight must be 1 to %d", engine->path,
		               WK_BLOCKS_IN_FLIGHT_MAX);
	if (engine->read_only)
		return wk_follower_refresh(engine, error);
	all_durable(engine);
	engine->durable = last;
	engine->chain_end = walk->scan.sequence;
	return WK_OK;
}

/*
 * Behind accepted damage entries may be left of a ledger whose segment is lost. The files that they stand in are read
 * again at the next open: no other segment gets its id, or they would be that one's.
 */
static void pass_ledger_ids(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++)
		if (engine->ledgers[i] != NULL && (uint64_t)engine->ledgers[i]->id >= engine->next_ledger_id)
			engine->next_ledger_id = (uint64_t)engine->ledgers[i]->id + 1;
}

/* Does any log end before the entry that it was truncated at? Then that was lost, though nothing else says so. */
static bool any_ends_too_early(wk_engine *engine) {
	for (uint32_t i = 0; i < engine->by_id_capacity; i++) {
		const wk_log_state *log = engine->logs_by_id[i];
		if (log == NULL || log->deleted || log->segments_count == 0)
			continue;
		const wk_segment *last = &log->segments[log->segments_count - 1];
		const wk_ledger *ledger = wk_ledger_find(engine, last->ledger_id);
		if (wk_log_ends_too_early(log, last, ledger != NULL ? ledger->last_entry : -1))
			return true;
	}
	return false;
}

/* Which logs there are, and which ledgers are theirs. */
static wk_status record_losses(wk_engine *engine, wk_error *error) {
	wk_status status = replay_catalogue(engine, error);
	if (status == WK_OK && engine->loss == NULL && engine->options.on_damage != WK_ON_DAMAGE_STOP &&
	    any_ends_too_early(engine) && (engine->loss = wk_loss_new()) == NULL)
		status = wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
	if (status == WK_OK)
		pass_ledger_ids(engine);
	if (status == WK_OK && engine->options.check_all && engine->options.on_damage != WK_ON_DAMAGE_STOP)
		status = wk_loss_check_all(engine, error);
	if (status == WK_OK && engine->loss != NULL)
		status = wk_loss_make_gaps(engine, error);
	if (status == WK_OK && (drop_unnamed(engine) != WK_OK || wk_recovery_expect_completed(engine) != WK_OK))
		status = wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", engine->path);
	return status;
}

/*
 * No block of this directory was found. Where there are whole ones of another, the superblock is not the one of these
 * files: no policy helps, and an append would go over them.
 */
static wk_status refuse_strangers(wk_engine *engine, wk_journal_reader *reader, wk_error *error) {
	for (uint32_t i = 0; i < engine->files_count; i++) {
		wk_store_file *file = engine->files[i];
		const uint8_t *bytes;
		size_t available;
		wk_block_header header;
		if (file->kind != WK_FILE_JOURNAL || file->size == 0)
			continue;
		wk_journal_reader_file(reader, file);
		wk_status status = wk_journal_reader_at(reader, 0, &bytes, &available, error);
		if (status != WK_OK)
			return status;
		if (wk_block_decode(bytes, available, &header) == WK_OK &&
		    memcmp(header.directory_id, engine->superblock.directory_id, sizeof header.directory_id) != 0)
			return wk_fail(
			    error, WK_DAMAGED,
			    "opening %s: %s is another directory's than the superblock, and none is of "
			    "the superblock's. Nothing was changed. Put back the superblock that belongs to these files, "
			    "or the files that belong to this superblock, or have one rebuilt in a copy: `walkeeper recover %s "
			    "DESTINATION`",
			    engine->path, wk_file_name_of(file->id, file->kind).text, engine->path);
	}
	return WK_OK;
}

wk_status wk_recover(wk_engine *engine, wk_error *error) {
	wk_walk own = {.engine = engine};
	wk_status status = engine->read_only ? wk_follower_start(engine, error) : WK_OK;
	if (status != WK_OK)
		return status;
	wk_walk *walk = engine->read_only ? wk_follower_walk(engine) : &own;
	walk->engine = engine;
	wk_scan_init(&walk->scan, engine->superblock.directory_id);
	status = wk_shared_page_look(engine, &walk->published, error); /* before the blocks: a writer may be at it */
	if (status == WK_OK)
		status = wk_files_find(engine, error);
	if (status == WK_OK && !engine->read_only)
		wk_late_writes_await(engine);
	if (status == WK_OK)
		status = wk_index_load(engine, error);
	if (status == WK_OK)
		status = wk_journal_reader_init(&walk->reader, engine, error);
	if (status != WK_OK)
		return status;
	status = wk_walk_all(walk, error);
	if ((status == WK_OK || status == WK_DAMAGED) && walk->last == NULL) {
		wk_status strangers = refuse_strangers(engine, &walk->reader, error);
		status = strangers != WK_OK ? strangers : status;
	}
	engine->report.bytes_scanned = walk->reader.read_bytes;
	if (!engine->read_only)
		wk_journal_reader_free(&walk->reader);
	wk_candidates_free(walk);
	if (status == WK_OK)
		status = end_the_chain(engine, walk, error);
	if (status != WK_OK || engine->read_only)
		return status;
	if (!walk->lossy)
		status = wk_leftovers_wipe(walk, error);
	if (status != WK_OK)
		return status;
	status = wk_engine_holds_ledgers(engine)
	             ? wk_missing_entries_check_ledgers(engine, engine->options.on_damage != WK_ON_DAMAGE_STOP, error)
	             : record_losses(engine, error);
	wk_ledger_deletes_free(engine);
	if (status != WK_OK)
		return status;
	engine->next_file_id = engine->superblock.file_id_ceiling > 0 ? engine->superblock.file_id_ceiling : 1;
	if (engine->files_count > 0 && engine->files[engine->files_count - 1]->id >= engine->next_file_id)
		engine->next_file_id = engine->files[engine->files_count - 1]->id + 1;
	engine->confirm_pending = engine->confirm_at_start && walk->last != NULL && !walk->lossy;
	return WK_OK;
}
