/* inspect_footer.c: the index of a sealed file, and the file that is nothing but entries and their index. */
#include "engine/inspector.h"

static wk_status put_footer(wk_inspector *inspector, const wk_footer *footer) {
	wk_json *json = &inspector->json;
	wk_json_begin(json);
	wk_json_unsigned(json, "footer",
	                 footer->file_size - wk_footer_size(footer->items_count, footer->runs_count, footer->states_count));
	wk_json_unsigned(json, "first_sequence", footer->first_sequence);
	wk_json_unsigned(json, "last_sequence", footer->last_sequence);
	wk_json_unsigned(json, "incarnation", footer->incarnation);
	wk_json_unsigned(json, "end_offset", footer->end_offset);
	wk_json_unsigned(json, "items", footer->items_count);
	wk_json_unsigned(json, "runs", footer->runs_count);
	wk_json_unsigned(json, "states", footer->states_count);
	return wk_inspector_line(inspector);
}

static wk_status put_run(wk_inspector *inspector, uint32_t number, const wk_footer_run *run) {
	wk_json *json = &inspector->json;
	wk_json_begin(json);
	wk_json_unsigned(json, "run", number);
	wk_json_integer(json, "ledger", run->ledger_id);
	wk_json_integer(json, "first_entry", run->first_entry);
	wk_json_unsigned(json, "count", run->count);
	wk_json_unsigned(json, "bytes", run->bytes);
	wk_json_unsigned(json, "first_item", run->first_item);
	return wk_inspector_line(inspector);
}

static wk_status put_state(wk_inspector *inspector, uint32_t number, const wk_footer_state *state) {
	wk_json *json = &inspector->json;
	wk_json_begin(json);
	wk_json_unsigned(json, "state", number);
	wk_json_integer(json, "ledger", state->ledger_id);
	wk_json_unsigned(json, "type", state->type);
	wk_json_hex(json, "data", state->data, state->size <= WK_STATE_DATA_SIZE ? state->size : WK_STATE_DATA_SIZE);
	return wk_inspector_line(inspector);
}

static wk_status put_bad_page(wk_inspector *inspector, const char *what, uint64_t offset) {
	wk_inspector_damage(inspector, "the footer's page of %s at offset %llu is not whole", what,
	                    (unsigned long long)offset);
	wk_json_begin(&inspector->json);
	wk_json_unsigned(&inspector->json, "page", offset);
	wk_json_string(&inspector->json, "kind", what);
	wk_json_string(&inspector->json, "crc", "bad");
	return wk_inspector_line(inspector);
}

static wk_status page_at(wk_inspector *inspector, uint64_t offset, const uint8_t **page) {
	size_t available;
	wk_status status = wk_file_view_at(&inspector->view, offset, WK_PAGE_SIZE, page, &available, inspector->error);
	return status == WK_OK && available < WK_PAGE_SIZE
	           ? wk_fail(inspector->error, WK_IO, "reading %s: it became shorter meanwhile", inspector->view.path)
	           : status;
}

static wk_status put_runs(wk_inspector *inspector, const wk_footer *footer) {
	wk_status status = WK_OK;
	for (uint32_t i = 0; i < footer->runs_count && status == WK_OK; i += WK_PAGE_RUNS) {
		uint64_t at = wk_footer_run_page(footer, i);
		const uint8_t *page;
		wk_footer_run runs[WK_PAGE_RUNS];
		uint32_t count;
		status = page_at(inspector, at, &page);
		if (status == WK_OK && wk_footer_runs(footer, page, at, runs, &count) != WK_OK)
			status = put_bad_page(inspector, "runs", at);
		else
			for (uint32_t r = 0; status == WK_OK && r < count; r++)
				status = put_run(inspector, i + r, &runs[r]);
	}
	return status;
}

static wk_status put_states(wk_inspector *inspector, const wk_footer *footer) {
	wk_status status = WK_OK;
	for (uint32_t i = 0; i < footer->states_count && status == WK_OK; i += WK_PAGE_STATES) {
		uint64_t at = wk_footer_state_page(footer, i);
		const uint8_t *page;
		wk_footer_state states[WK_PAGE_STATES];
		uint32_t count;
		status = page_at(inspector, at, &page);
		if (status == WK_OK && wk_footer_states(footer, page, at, states, &count) != WK_OK)
			status = put_bad_page(inspector, "states", at);
		else
			for (uint32_t s = 0; status == WK_OK && s < count; s++)
				status = put_state(inspector, i + s, &states[s]);
	}
	return status;
}

/* Items are too many to list: only pages that are not whole are told. In an entry log, each leads to its entry. */
static wk_status put_items(wk_inspector *inspector, const wk_footer *footer, bool entries) {
	wk_status status = WK_OK;
	for (uint32_t i = 0; i < footer->items_count && status == WK_OK; i += WK_PAGE_ITEMS) {
		uint64_t at = wk_footer_item_page(footer, i);
		const uint8_t *page;
		wk_footer_item items[WK_PAGE_ITEMS];
		uint32_t count;
		status = page_at(inspector, at, &page);
		if (status == WK_OK && wk_footer_items(footer, page, at, items, &count) != WK_OK) {
			status = put_bad_page(inspector, "items", at);
			continue;
		}
		for (uint32_t n = 0; entries && status == WK_OK && n < count; n++) {
			const uint8_t *bytes;
			size_t available;
			status = wk_file_view_at(&inspector->view, items[n].offset, items[n].size, &bytes, &available,
			                         inspector->error);
			if (status == WK_OK)
				status = wk_inspect_entry(inspector, items[n].offset, bytes,
				                          available < items[n].size ? available : items[n].size);
		}
	}
	return status;
}

wk_status wk_inspect_footer(wk_inspector *inspector, const wk_footer *footer) {
	wk_status status = put_footer(inspector, footer);
	if (status == WK_OK)
		status = put_runs(inspector, footer);
	if (status == WK_OK)
		status = put_states(inspector, footer);
	if (status == WK_OK)
		status = put_items(inspector, footer, inspector->entries && footer->kind == WK_FILE_ENTRY_LOG);
	return status;
}

wk_status wk_inspect_entry_log(wk_inspector *inspector, const wk_footer *footer) {
	wk_json *json = &inspector->json;
	wk_json_begin(json);
	wk_json_string(json, "kind", "entry log");
	wk_json_unsigned(json, "size", inspector->view.size);
	wk_json_unsigned(json, "id", footer->file_id);
	wk_json_hex(json, "directory_id", footer->directory_id, sizeof footer->directory_id);
	wk_status status = wk_inspector_line(inspector);
	return status == WK_OK ? wk_inspect_footer(inspector, footer) : status;
}
