/* inspect_footer.c: the index of a sealed file, and the file that is nothing but entries and their index. */
#include "engine/base/file_name.h"
#include "engine/check/inspector.h"

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

static wk_status put_runs(wk_inspector *inspector, const void *footer, const uint8_t *page, uint64_t at,
                          uint32_t first) {
	wk_footer_run runs[WK_PAGE_RUNS];
	uint32_t count;
	wk_status status = wk_footer_runs(footer, page, at, runs, &count);
	for (uint32_t i = 0; status == WK_OK && i < count; i++)
		status = put_run(inspector, first + i, &runs[i]);
	return status;
}

static wk_status put_states(wk_inspector *inspector, const void *footer, const uint8_t *page, uint64_t at,
                            uint32_t first) {
	wk_footer_state states[WK_PAGE_STATES];
	uint32_t count;
	wk_status status = wk_footer_states(footer, page, at, states, &count);
	for (uint32_t i = 0; status == WK_OK && i < count; i++)
		status = put_state(inspector, first + i, &states[i]);
	return status;
}

/* Items are too many to list: only pages that are not whole are told. In an entry log, each leads to its entry. */
static wk_status put_items(wk_inspector *inspector, const void *of, const uint8_t *page, uint64_t at, uint32_t first) {
	(void)first;
	const wk_footer *footer = of;
	wk_footer_item items[WK_PAGE_ITEMS];
	uint32_t count;
	wk_status status = wk_footer_items(footer, page, at, items, &count);
	bool entries = inspector->entries && footer->kind == WK_FILE_ENTRY_LOG;
	for (uint32_t n = 0; entries && status == WK_OK && n < count; n++) {
		const uint8_t *bytes;
		size_t available;
		status = wk_file_view_at(&inspector->view, items[n].offset, items[n].size, &bytes, &available,
		                         inspector->error);
		if (status == WK_OK)
			status = wk_inspect_entry(inspector, items[n].offset, bytes,
			                          available < items[n].size ? available : items[n].size);
	}
	return status;
}

static const wk_inspect_kind runs_kind = {"runs", WK_PAGE_RUNS, put_runs};
static const wk_inspect_kind states_kind = {"states", WK_PAGE_STATES, put_states};
static const wk_inspect_kind items_kind = {"items", WK_PAGE_ITEMS, put_items};

wk_status wk_inspect_footer(wk_inspector *inspector, const wk_footer *footer) {
	wk_status status = put_footer(inspector, footer);
	if (status == WK_OK && footer->runs_count > 0)
		status = wk_inspect_pages(inspector, &runs_kind, footer, footer->runs_count, wk_footer_run_page(footer, 0));
	if (status == WK_OK && footer->states_count > 0)
		status = wk_inspect_pages(inspector, &states_kind, footer, footer->states_count,
		                          wk_footer_state_page(footer, 0));
	if (status == WK_OK && footer->items_count > 0)
		status = wk_inspect_pages(inspector, &items_kind, footer, footer->items_count, wk_footer_item_page(footer, 0));
	return status;
}

wk_status wk_inspect_entry_log(wk_inspector *inspector, const wk_footer *footer) {
	wk_json *json = &inspector->json;
	wk_json_begin(json);
	wk_json_string(json, "kind", "entry log");
	wk_json_unsigned(json, "size", inspector->view.size);
	wk_json_unsigned(json, "id", footer->file_id);
	wk_json_string(json, "name", wk_file_name_of(footer->file_id, WK_FILE_ENTRY_LOG).text);
	wk_json_hex(json, "directory_id", footer->directory_id, sizeof footer->directory_id);
	wk_status status = wk_inspector_line(inspector);
	return status == WK_OK ? wk_inspect_footer(inspector, footer) : status;
}
