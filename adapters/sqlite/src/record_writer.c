#include "record_writer.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"

/* There is room for a header and an image behind what is used. */
static wk_status reserve(wk_record_writer *w) {
	size_t needed = w->used + WK_PAGES_RECORD_HEADER + WK_PAGES_IMAGE_MAX;
	if (needed <= w->room)
		return WK_OK;
	uint8_t *grown = realloc(w->bytes, 2 * needed);
	if (grown == NULL)
		return wk_database_fail(&w->error, WK_NO_MEMORY, "no memory for a record of %zu bytes", needed);
	w->bytes = grown;
	w->room = 2 * needed;
	return WK_OK;
}

static wk_status begin_record(wk_record_writer *w) {
	w->record.count = 0;
	w->used = w->sealed + WK_PAGES_RECORD_HEADER;
	return reserve(w);
}

wk_status wk_record_writer_begin(wk_record_writer *w, const wk_database_log *log, const wk_pages_record *record) {
	w->log = log;
	w->record = *record;
	w->record.part = 0;
	w->sealed = w->sealed_count = 0;
	w->payload_bytes = 0;
	w->lsn = -1;
	return begin_record(w);
}

static void seal_record(wk_record_writer *w, uint32_t pages) {
	w->record.flags = (w->record.part == 0 ? WK_PAGES_FIRST : 0) | (pages > 0 ? WK_PAGES_LAST : 0) |
	                  (w->named ? WK_PAGES_NAMED : 0);
	w->record.pages = pages;
	size_t size = w->used - w->sealed;
	w->record.before = wk_pages_record_seal(w->bytes + w->sealed, size, &w->record);
	w->record.part++;
	w->sizes[w->sealed_count++] = (uint32_t)size;
	w->sealed = w->used;
}

static wk_status append_sealed(wk_record_writer *w, uint64_t *ticket) {
	const wk_database_log *log = w->log;
	wk_status status;
	w->error = (wk_error){.outcome_unknown = true}; /* unless the log says that it is known */
	if (ticket != NULL)
		status = log->submit(log->context, w->bytes, w->sizes, w->sealed_count, &w->lsn, ticket, &w->error);
	else
		status = log->append(log->context, w->bytes, w->sizes, w->sealed_count, &w->lsn, &w->error);
	w->payload_bytes += w->sealed;
	w->sealed = w->sealed_count = w->used = 0;
	return status;
}

wk_status wk_record_writer_add(wk_record_writer *w, uint32_t number, const uint8_t *page, const uint8_t *base) {
	wk_status status = WK_OK;
	if (w->used - w->sealed + WK_PAGES_IMAGE_MAX > WK_PAGES_RECORD_MAX) {
		seal_record(w, 0);
		if (w->sealed_count == WK_RECORDS_AT_ONCE)
			status = append_sealed(w, NULL);
		if (status == WK_OK)
			status = begin_record(w);
	}
	if (status == WK_OK)
		status = reserve(w);
	if (status != WK_OK)
		return status;
	w->used += wk_pages_image_encode(number, page, base, w->record.page_size, w->bytes + w->used);
	w->record.count++;
	return WK_OK;
}

wk_status wk_record_writer_flush(wk_record_writer *w) {
	seal_record(w, 0);
	wk_status status = append_sealed(w, NULL);
	return status == WK_OK ? begin_record(w) : status;
}

wk_status wk_record_writer_end(wk_record_writer *w, uint32_t pages, uint64_t *ticket) {
	seal_record(w, pages);
	return append_sealed(w, ticket);
}

wk_status wk_record_writer_hold(wk_record_writer *w, uint32_t pages) {
	wk_status status = WK_OK;
	if (w->sealed_count > 0 || w->used > WK_HELD_RECORD_MAX)
		status = wk_record_writer_flush(w);
	if (status == WK_OK)
		seal_record(w, pages);
	return status;
}

void wk_record_writer_let_go(wk_record_writer *w, int64_t lsn) {
	w->lsn = lsn;
	w->payload_bytes += w->sealed;
	w->sealed = w->sealed_count = w->used = 0;
}

wk_status wk_record_writer_name(wk_record_writer *w, const wk_database_log *log, const wk_pages_record *record,
                                const char *name) {
	wk_status status = wk_record_writer_begin(w, log, record);
	if (status != WK_OK)
		return status;
	size_t size = strlen(name);
	memcpy(w->bytes + w->used, name, size);
	w->used += size;
	w->record.kind = WK_PAGES_NAME;
	seal_record(w, 0);
	return append_sealed(w, NULL);
}

void wk_record_writer_free(wk_record_writer *w) {
	free(w->bytes);
	w->bytes = NULL;
	w->room = 0;
}
