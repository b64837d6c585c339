/*
 * loss_check.c: an open that accepts loss and is to be sure of the rest (check_all): every entry that is needed is read
 * now. What cannot be read is lost now, and the policy applies to it; no loss is found later.
 */
#include <stdlib.h>

#include "engine/index.h"
#include "engine/recovery/loss.h"

/* No more records than this stood in an entry that cannot be read. */
static int64_t records_max(wk_engine *engine, int64_t ledger_id, int64_t entry_id, wk_span *span) {
	span->buffer = NULL;
	if (wk_read_entry_unverified(engine, ledger_id, entry_id, span, NULL) == WK_OK) {
		int64_t count = wk_loss_records_in(span->buffer->bytes + span->entries[0].offset, span->entries[0].size);
		wk_buffer_release(span->buffer);
		return count;
	}
	const wk_ledger *ledger = wk_ledger_find(engine, ledger_id); /* its place cannot be read either */
	wk_range *over[WK_OVER_MAX];
	uint32_t count = wk_ranges_over(ledger, entry_id, wk_rank_highest, over), most = 1;
	for (uint32_t i = 0; i < count; i++)
		if (!over[i]->open && over[i]->bytes / WK_RECORD_HEADER_SIZE > most)
			most = over[i]->bytes / WK_RECORD_HEADER_SIZE;
	return most;
}

static wk_status lose(wk_engine *engine, const wk_ledger *ledger, int64_t entry_id, wk_span *span) {
	wk_lost_entry lost = {ledger->id, entry_id, records_max(engine, ledger->id, entry_id, span), true};
	engine->report.lost_entries++;
	return wk_loss_add(engine->loss, &lost);
}

static wk_status check_ledger(wk_engine *engine, const wk_ledger *ledger, wk_span *span, wk_error *error) {
	wk_status status = WK_OK;
	for (int64_t at = ledger->first_live; at <= ledger->last_entry && status == WK_OK;) {
		wk_stretch found;
		status = wk_lookup(engine, ledger->id, at, ledger->last_entry, WK_LOOKUP_ALL, NULL, 0, &found, error);
		bool hole = status == WK_OK && found.file == NULL;
		wk_stretch_release(engine, &found);
		if (hole) { /* wk_loss_make_gaps sees it as it is */
			if (found.last_entry >= ledger->last_entry)
				break;
			at = found.last_entry + 1;
			continue;
		}
		span->buffer = NULL;
		status = wk_read_entries(engine, ledger->id, at, ledger->last_entry, 1 << 20, span, error);
		if (status == WK_OK) {
			at = span->entries[span->count - 1].entry_id + 1;
			wk_buffer_release(span->buffer);
		} else if (wk_is_unreadable(status, error)) { /* what the machine refuses for another reason is not lost */
			status = lose(engine, ledger, at++, span);
		}
	}
	return status;
}

wk_status wk_loss_check_all(wk_engine *engine, wk_error *error) {
	wk_span *span = malloc(sizeof *span);
	engine->loss = engine->loss != NULL ? engine->loss : wk_loss_new(); /* entries that no file has are lost, too */
	wk_error found = {0};
	wk_status status = span != NULL && engine->loss != NULL ? WK_OK : WK_NO_MEMORY;
	for (uint32_t i = 0; i < engine->ledgers_capacity && status == WK_OK; i++)
		if (engine->ledgers[i] != NULL && engine->ledgers[i]->id != WK_CATALOGUE_LEDGER)
			status = check_ledger(engine, engine->ledgers[i], span, &found);
	free(span);
	if (status == WK_IO && error != NULL)
		*error = found;
	return status == WK_OK || status == WK_IO
	           ? status
	           : wk_fail(error, status, "checking all entries of %s: no memory", engine->path);
}
