#include "engine/recovery/tail_scan.h"

void wk_tail_scan_note_cut(wk_walk *s, const wk_store_file *file, uint64_t offset, const uint8_t *bytes,
                           size_t available) {
	wk_block_header header;
	s->cut_bytes = wk_block_peek(bytes, available, &header) == WK_OK ? header.size : WK_BLOCK_ALIGNMENT;
	s->cut_file = file->id;
	s->cut_offset = offset;
}

static bool has_witness(const wk_walk *s) {
	return wk_scan_damaged(&s->scan);
}

static bool has_witness_and_later(const wk_walk *s) {
	return has_witness(s) && s->highest > s->scan.sequence;
}

/* Until it is enough: where every other block is damaged, each asks what stands behind it. */
static wk_status gather(wk_walk *s, wk_store_file *file, uint64_t offset, bool (*is_enough)(const wk_walk *),
                        wk_error *error) {
	wk_journal_reader_file(&s->reader, file);
	for (uint64_t at = offset; at < file->size && !is_enough(s);) {
		const uint8_t *bytes;
		size_t available;
		wk_status status = wk_journal_reader_at(&s->reader, at, &bytes, &available, error);
		if (status != WK_OK)
			return status;
		wk_block_header header;
		if (wk_block_decode(bytes, available, &header) == WK_OK && header.epoch == file->id && header.offset == at) {
			wk_scan_later(&s->scan, &header);
			s->highest = header.sequence > s->highest ? header.sequence : s->highest;
			if (header.sequence > s->scan.sequence && s->leftovers_count < WK_LEFTOVERS_MAX)
				s->leftovers[s->leftovers_count++] = (wk_leftover){file, at};
			at += header.size;
		} else {
			at += WK_BLOCK_ALIGNMENT;
		}
	}
	return WK_OK;
}

wk_status wk_tail_scan_gather(wk_walk *s, wk_store_file *file, uint64_t offset, wk_error *error) {
	return gather(s, file, offset, has_witness, error);
}

bool wk_tail_scan_counts(const wk_engine *engine, const wk_store_file *file) {
	bool came_back = file->id < engine->index.mark && file->footer.file_id != file->id;
	return file->kind == WK_FILE_JOURNAL && !came_back;
}

wk_status wk_tail_scan_of_next(wk_walk *s, wk_store_file *file, uint64_t offset, bool *broken, bool *whole,
                               wk_error *error) {
	wk_scan probe = s->scan;
	wk_block_header header;
	const uint8_t *bytes;
	size_t available;
	wk_scan_file(&probe, file->id);
	probe.offset = offset;
	wk_journal_reader_file(&s->reader, file);
	*broken = false;
	wk_status status = offset < file->size ? wk_journal_reader_at(&s->reader, offset, &bytes, &available, error)
	                                       : WK_OK;
	if (status == WK_OK && offset < file->size)
		*broken = wk_scan_block(&probe, bytes, available, &header) == WK_SCAN_BROKEN;
	if (*broken && s->cut_bytes == 0)
		wk_tail_scan_note_cut(s, file, offset, bytes, available);
	if (status != WK_OK || whole == NULL)
		return status;
	uint64_t highest = s->highest;
	s->highest = 0;
	status = gather(s, file, offset, has_witness_and_later, error);
	*whole = s->highest > s->scan.sequence;
	s->highest = highest > s->highest ? highest : s->highest;
	return status;
}

wk_status wk_tail_scan_witness(wk_walk *s, uint32_t at, wk_error *error) {
	wk_status status = WK_OK;
	for (; at < s->engine->files_count && status == WK_OK && !wk_scan_damaged(&s->scan); at++)
		if (wk_tail_scan_counts(s->engine, s->engine->files[at]))
			status = wk_tail_scan_gather(s, s->engine->files[at], 0, error);
	return status;
}

bool wk_tail_scan_are_missing(const wk_walk *s, uint64_t last, uint64_t first) {
	uint64_t accounted = wk_superblock_accounted(&s->engine->superblock);
	return wk_engine_holds_ledgers(s->engine) && first > (accounted > last ? accounted : last) + 1;
}
