/* inspect_index.c: what an index file says of files, ledgers and runs. */
#include "core/index_file.h"
#include "engine/base/file_name.h"
#include "engine/check/inspector.h"

static wk_status put_header(wk_inspector *inspector, const wk_index_header *header) {
	wk_json *json = &inspector->json;
	wk_json_begin(json);
	wk_json_string(json, "kind", "index");
	wk_json_unsigned(json, "size", inspector->view.size);
	wk_json_string(json, "crc", header != NULL ? "ok" : "bad");
	if (header != NULL) {
		wk_json_unsigned(json, "generation", header->generation);
		wk_json_hex(json, "directory_id", header->directory_id, sizeof header->directory_id);
		wk_json_unsigned(json, "replay_epoch", header->replay_epoch);
		wk_json_unsigned(json, "replay_sequence", header->replay_sequence);
		wk_json_unsigned(json, "files", header->files_count);
		wk_json_unsigned(json, "ledgers", header->ledgers_count);
		wk_json_unsigned(json, "ranges", header->ranges_count);
	}
	return wk_inspector_line(inspector);
}

static wk_status put_file(wk_inspector *inspector, uint32_t number, const wk_footer *file) {
	wk_json *json = &inspector->json;
	wk_json_begin(json);
	wk_json_unsigned(json, "file", number);
	wk_json_unsigned(json, "id", file->file_id);
	wk_json_string(json, "name", wk_file_name_of(file->file_id, file->kind).text);
	wk_json_string(json, "kind", file->kind == WK_FILE_JOURNAL ? "journal" : "entry log");
	wk_json_unsigned(json, "size", file->file_size);
	wk_json_unsigned(json, "first_sequence", file->first_sequence);
	wk_json_unsigned(json, "last_sequence", file->last_sequence);
	wk_json_unsigned(json, "incarnation", file->incarnation);
	wk_json_unsigned(json, "end_offset", file->end_offset);
	wk_json_unsigned(json, "items", file->items_count);
	wk_json_unsigned(json, "runs", file->runs_count);
	wk_json_unsigned(json, "states", file->states_count);
	return wk_inspector_line(inspector);
}

static wk_status put_ledger(wk_inspector *inspector, const wk_index_ledger *ledger) {
	wk_json *json = &inspector->json;
	wk_json_begin(json);
	wk_json_integer(json, "ledger", ledger->ledger_id);
	wk_json_integer(json, "last_entry", ledger->last_entry);
	wk_json_integer(json, "first_live", ledger->first_live);
	wk_json_integer(json, "length", ledger->length);
	wk_json_boolean(json, "fenced", (ledger->bits & WK_LEDGER_FENCED) != 0);
	/* A master key is a secret: that there is one is told, not which. */
	wk_json_boolean(json, "has_key", (ledger->bits & WK_LEDGER_HAS_KEY) != 0);
	wk_json_boolean(json, "has_lac", (ledger->bits & WK_LEDGER_HAS_LAC) != 0);
	wk_json_hex(json, "lac", ledger->lac, ledger->lac_size);
	return wk_inspector_line(inspector);
}

static wk_status put_range(wk_inspector *inspector, uint32_t number, const wk_index_range *range) {
	wk_json *json = &inspector->json;
	wk_json_begin(json);
	wk_json_unsigned(json, "range", number);
	wk_json_integer(json, "ledger", range->ledger_id);
	wk_json_integer(json, "first_entry", range->first_entry);
	wk_json_integer(json, "last_entry", range->last_entry);
	wk_json_unsigned(json, "count", range->count);
	wk_json_unsigned(json, "dead", range->dead);
	wk_json_boolean(json, "uncounted", range->uncounted != 0);
	wk_json_unsigned(json, "bytes", range->bytes);
	wk_json_unsigned(json, "file", range->file);
	wk_json_unsigned(json, "runs", range->runs_count);
	wk_json_unsigned(json, range->runs_count == 1 ? "first_item" : "first_run", range->start);
	return wk_inspector_line(inspector);
}

static wk_status put_files(wk_inspector *inspector, const void *header, const uint8_t *page, uint64_t at,
                           uint32_t first) {
	wk_footer files[WK_INDEX_PAGE_FILES];
	uint32_t count;
	wk_status status = wk_index_files(header, page, at, files, &count);
	for (uint32_t i = 0; status == WK_OK && i < count; i++)
		status = put_file(inspector, first + i, &files[i]);
	return status;
}

static wk_status put_ledgers(wk_inspector *inspector, const void *header, const uint8_t *page, uint64_t at,
                             uint32_t first) {
	(void)first;
	wk_index_ledger ledgers[WK_INDEX_PAGE_LEDGERS];
	uint32_t count;
	wk_status status = wk_index_ledgers(header, page, at, ledgers, &count);
	for (uint32_t i = 0; status == WK_OK && i < count; i++)
		status = put_ledger(inspector, &ledgers[i]);
	return status;
}

static wk_status put_ranges(wk_inspector *inspector, const void *header, const uint8_t *page, uint64_t at,
                            uint32_t first) {
	wk_index_range ranges[WK_INDEX_PAGE_RANGES];
	uint32_t count;
	wk_status status = wk_index_ranges(header, page, at, ranges, &count);
	for (uint32_t i = 0; status == WK_OK && i < count; i++)
		status = put_range(inspector, first + i, &ranges[i]);
	return status;
}

static const wk_inspect_kind files_kind = {"files", WK_INDEX_PAGE_FILES, put_files};
static const wk_inspect_kind ledgers_kind = {"ledgers", WK_INDEX_PAGE_LEDGERS, put_ledgers};
static const wk_inspect_kind ranges_kind = {"ranges", WK_INDEX_PAGE_RANGES, put_ranges};

wk_status wk_inspect_index(wk_inspector *inspector) {
	const uint8_t *page;
	wk_index_header header;
	wk_status status = wk_inspect_page_at(inspector, 0, &page);
	if (status == WK_OK)
		status = wk_index_decode(page, &header);
	if (status == WK_UNSUPPORTED)
		return wk_fail(inspector->error, status, "%s was written by a newer version of walkeeper: use that one",
		               inspector->view.path);
	if (status != WK_OK && status != WK_CORRUPT && status != WK_END)
		return status;
	if (status != WK_OK) { /* how many of what it has cannot be told */
		wk_inspector_damage(inspector, "the header is not whole");
		return put_header(inspector, NULL);
	}
	uint64_t size = wk_index_size(header.files_count, header.ledgers_count, header.ranges_count);
	if (size != inspector->view.size)
		wk_inspector_damage(inspector, "it is %llu bytes long, where its header says %llu",
		                    (unsigned long long)inspector->view.size, (unsigned long long)size);
	status = put_header(inspector, &header);
	if (status == WK_OK && header.files_count > 0)
		status = wk_inspect_pages(inspector, &files_kind, &header, header.files_count, wk_index_file_page(&header, 0));
	if (status == WK_OK && header.ledgers_count > 0)
		status = wk_inspect_pages(inspector, &ledgers_kind, &header, header.ledgers_count,
		                          wk_index_ledger_page(&header, 0));
	if (status == WK_OK && header.ranges_count > 0)
		status = wk_inspect_pages(inspector, &ranges_kind, &header, header.ranges_count,
		                          wk_index_range_page(&header, 0));
	return status;
}
