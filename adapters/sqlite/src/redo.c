#include "redo.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "little_endian.h"

enum { PENDING_MAX = 32 * 1024 * 1024 };

wk_status wk_redo_begin(wk_redo *redo, const wk_redo_file *file, const wk_redo_point *at, uint32_t kind,
                        wk_error *error) {
	*redo = (wk_redo){.file = *file, .at = *at, .kind = kind, .lsn = -1, .txid = -1};
	redo->page = malloc(WK_PAGE_SIZE_MAX);
	return redo->page != NULL ? WK_OK : wk_database_fail(error, WK_NO_MEMORY, "redo: no memory");
}

static void drop_parts(wk_redo *redo) {
	redo->parts = 0;
	redo->pending_size = 0;
	if (redo->spilled != NULL)
		fclose(redo->spilled);
	redo->spilled = NULL;
}

void wk_redo_free(wk_redo *redo) {
	drop_parts(redo);
	free(redo->pending);
	free(redo->page);
	*redo = (wk_redo){0};
}

static wk_status spill(wk_redo *redo, const void *bytes, size_t size, wk_error *error) {
	if (fwrite(bytes, 1, size, redo->spilled) == size)
		return WK_OK;
	return wk_database_fail(error, WK_IO, "redo: a temporary file for a large transaction cannot be written");
}

/* Keeps a part until the last one has come. */
static wk_status keep_part(wk_redo *redo, const uint8_t *payload, size_t size, wk_error *error) {
	uint8_t head[4];
	wk_put32(head, (uint32_t)size);
	size_t needed = redo->pending_size + sizeof head + size;
	if (redo->spilled == NULL && needed > PENDING_MAX) {
		redo->spilled = tmpfile();
		if (redo->spilled == NULL)
			return wk_database_fail(error, WK_IO, "redo: no temporary file for a large transaction");
		wk_status status = spill(redo, redo->pending, redo->pending_size, error);
		if (status != WK_OK)
			return status;
	}
	if (redo->spilled != NULL) {
		wk_status status = spill(redo, head, sizeof head, error);
		return status == WK_OK ? spill(redo, payload, size, error) : status;
	}
	if (needed > redo->pending_room) {
		size_t room = 2 * needed;
		uint8_t *grown = realloc(redo->pending, room);
		if (grown == NULL)
			return wk_database_fail(error, WK_NO_MEMORY, "redo: no memory for a transaction of %zu bytes", needed);
		redo->pending = grown;
		redo->pending_room = room;
	}
	memcpy(redo->pending + redo->pending_size, head, sizeof head);
	memcpy(redo->pending + redo->pending_size + sizeof head, payload, size);
	redo->pending_size = needed;
	return WK_OK;
}

static wk_status apply_image(wk_redo *redo, const wk_pages_image *image, uint32_t page_size, wk_error *error) {
	uint64_t offset = (uint64_t)(image->number - 1) * page_size;
	wk_status status = WK_OK;
	if (image->delta)
		status = redo->file.read(redo->file.context, redo->page, page_size, offset, error);
	else
		memset(redo->page, 0, page_size);
	if (status != WK_OK)
		return status;
	if (wk_pages_image_apply(image, redo->page, page_size) != WK_OK)
		return wk_database_fail(error, WK_CORRUPT, "redo: the image of page %" PRIu32 " is no image", image->number);
	return redo->file.write(redo->file.context, redo->page, page_size, offset, error);
}

static wk_status apply_part(wk_redo *redo, const uint8_t *payload, size_t size, uint32_t page_size, wk_error *error) {
	wk_pages_image image;
	size_t offset = 0;
	while (wk_pages_image_next(payload, size, &offset, &image) == WK_OK) {
		wk_status status = apply_image(redo, &image, page_size, error);
		if (status != WK_OK)
			return status;
	}
	return WK_OK;
}

static wk_status apply_spilled(wk_redo *redo, uint32_t page_size, wk_error *error) {
	uint8_t *part = malloc(WK_PAGES_RECORD_MAX), head[4];
	if (part == NULL)
		return wk_database_fail(error, WK_NO_MEMORY, "redo: no memory");
	wk_status status = WK_OK;
	rewind(redo->spilled);
	while (status == WK_OK && fread(head, 1, sizeof head, redo->spilled) == sizeof head) {
		size_t size = wk_get32(head);
		if (size > WK_PAGES_RECORD_MAX || fread(part, 1, size, redo->spilled) != size)
			status = wk_database_fail(error, WK_IO, "redo: a temporary file cannot be read");
		else
			status = apply_part(redo, part, size, page_size, error);
	}
	if (status == WK_OK && ferror(redo->spilled))
		status = wk_database_fail(error, WK_IO, "redo: a temporary file cannot be read");
	free(part);
	return status;
}

static wk_status apply_kept(wk_redo *redo, uint32_t page_size, wk_error *error) {
	if (redo->spilled != NULL)
		return apply_spilled(redo, page_size, error);
	wk_status status = WK_OK;
	for (size_t at = 0; status == WK_OK && at < redo->pending_size;) {
		size_t size = wk_get32(redo->pending + at);
		status = apply_part(redo, redo->pending + at + 4, size, page_size, error);
		at += 4 + size;
	}
	return status;
}

/* Whether the part goes on where the last one ended; a first part begins a new group, and the unfinished one is passed over. */
static wk_status place_part(wk_redo *redo, const wk_pages_record *record, int64_t sequence_id, wk_error *error) {
	bool snapshot = record->kind == WK_PAGES_SNAPSHOT;
	if (redo->at.database != 0 && record->database != redo->at.database)
		return wk_database_fail(error, WK_CORRUPT,
		                        "record %" PRId64 " is of database %016" PRIx64 ", not of %016" PRIx64, sequence_id,
		                        record->database, redo->at.database);
	if ((record->flags & WK_PAGES_FIRST) != 0) {
		drop_parts(redo);
		if (!snapshot && (record->transaction != redo->at.transaction + 1 || record->before != redo->at.crc))
			return wk_database_fail(error, WK_CORRUPT,
			                        "record %" PRId64 " is of transaction %" PRIu64
			                        ", and does not follow transaction %" PRIu64,
			                        sequence_id, record->transaction, redo->at.transaction);
		redo->group.transaction = record->transaction;
		redo->group.database = record->database;
		redo->group.page_size = record->page_size;
		if (snapshot)
			redo->at.crc = record->before;
	} else if (record->part != redo->parts || record->transaction != redo->group.transaction ||
	           record->before != redo->group.crc || record->page_size != redo->group.page_size) {
		return wk_database_fail(error, WK_CORRUPT,
		                        "record %" PRId64 " is part %" PRIu32 " of transaction %" PRIu64
		                        ", and does not follow the record before it",
		                        sequence_id, record->part, record->transaction);
	}
	redo->group.crc = record->crc;
	redo->parts++;
	return WK_OK;
}

/* Other databases may have the log too: those that have names, and the one that has none. */
static bool is_beside(const wk_redo *redo, const wk_pages_record *record) {
	return record->database != redo->at.database && (redo->at.named || (record->flags & WK_PAGES_NAMED) != 0);
}

static wk_status redo_joint(wk_redo *redo, const uint8_t *payload, size_t size, int64_t sequence_id, int64_t txid,
                            wk_error *error) {
	const uint8_t *record;
	size_t offset = 0, record_size;
	wk_status status = WK_OK;
	while (status == WK_OK && wk_pages_joint_next(payload, size, &offset, &record, &record_size) == WK_OK)
		status = wk_redo_record(redo, record, record_size, sequence_id, txid, error);
	return status;
}

wk_status wk_redo_record(wk_redo *redo, const uint8_t *payload, size_t size, int64_t sequence_id, int64_t txid,
                         wk_error *error) {
	wk_pages_record record;
	wk_status status = wk_pages_record_decode(payload, size, &record);
	if (status != WK_OK)
		return wk_database_fail(error, status, "record %" PRId64 " is no record of a SQLite database: %s", sequence_id,
		                        wk_status_text(status));
	if ((redo->lsn >= 0 && sequence_id > redo->lsn) || (redo->txid >= 0 && txid > redo->txid))
		return WK_END;
	if (record.kind == WK_PAGES_JOINT)
		return redo_joint(redo, payload, size, sequence_id, txid, error);
	if (record.kind != redo->kind || is_beside(redo, &record))
		return WK_OK;
	bool last = (record.flags & WK_PAGES_LAST) != 0;
	if (last && redo->file.begin != NULL) /* before anything changes: the caller may give the record again */
		status = redo->file.begin(redo->file.context, record.page_size, error);
	if (status == WK_OK)
		status = place_part(redo, &record, sequence_id, error);
	bool snapshot = record.kind == WK_PAGES_SNAPSHOT; /* the caller knows that it is whole */
	if (status == WK_OK && snapshot)
		status = apply_part(redo, payload, size, record.page_size, error);
	else if (status == WK_OK && (!last || redo->parts > 1))
		status = keep_part(redo, payload, size, error);
	if (status != WK_OK || !last)
		return status;
	if (!snapshot)
		status = redo->parts > 1 ? apply_kept(redo, record.page_size, error)
		                         : apply_part(redo, payload, size, record.page_size, error);
	if (status == WK_OK && redo->file.commit != NULL)
		status = redo->file.commit(redo->file.context, record.pages, error);
	if (status != WK_OK)
		return status;
	redo->at = (wk_redo_point){
	    .database = record.database,
	    .named = (record.flags & WK_PAGES_NAMED) != 0,
	    .transaction = record.transaction,
	    .crc = record.kind == WK_PAGES_COMMIT ? record.crc : redo->at.crc,
	    .page_size = record.page_size,
	    .pages = record.pages,
	    .lsn = sequence_id,
	    .txid = txid,
	};
	drop_parts(redo);
	return WK_OK;
}
