#include "wal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { FRAME_MAX = WK_WAL_FRAME_HEADER + 65536 };

bool wk_wal_init(wk_wal *wal, wk_wal_commit_fn commit, void *context) {
	*wal = (wk_wal){
	    .commit = commit,
	    .context = context,
	    .frame = malloc(FRAME_MAX),
	    .mark_bytes = malloc(FRAME_MAX - WK_WAL_FRAME_HEADER),
	};
	return wal->frame != NULL && wal->mark_bytes != NULL;
}

void wk_wal_free(wk_wal *wal) {
	wk_page_map_free(&wal->pages);
	free(wal->frame);
	free(wal->mark_bytes);
	*wal = (wk_wal){0};
}

void wk_wal_forget(wk_wal *wal) {
	wk_wal_rollback(wal);
	wk_page_map_clear(&wal->pages);
	wal->committed = 0;
	wal->known = false;
}

bool wk_wal_begin(wk_wal *wal, const uint8_t header[WK_WAL_HEADER]) {
	wk_wal_forget(wal);
	wal->known = wk_wal_header_decode(header, &wal->format, wal->checksum);
	return wal->known;
}

void wk_wal_rollback(wk_wal *wal) {
	wal->mark_frame = 0;
	wal->mark_page = false;
	wal->header_frame = 0;
}

int wk_wal_frame(const wk_wal *wal, const wk_wal_file *file, uint32_t frame, uint8_t *bytes) {
	size_t size = WK_WAL_FRAME_HEADER + wal->format.page_size;
	if (frame != wal->mark_frame || !wal->mark_page)
		return file->read(file->context, bytes, size, wk_wal_frame_offset(&wal->format, frame));
	memcpy(bytes, wal->mark, sizeof wal->mark);
	memcpy(bytes + sizeof wal->mark, wal->mark_bytes, wal->format.page_size);
	return 0;
}

/* Whether the checksums from the last committed frame to the mark are right; *checksum is that of the mark. */
static int check(wk_wal *wal, const wk_wal_file *file, bool *right, uint32_t checksum[2]) {
	memcpy(checksum, wal->checksum, sizeof wal->checksum);
	*right = true;
	for (uint32_t frame = wal->committed + 1; *right && frame <= wal->mark_frame; frame++) {
		int rc = wk_wal_frame(wal, file, frame, wal->frame);
		if (rc != 0)
			return rc;
		wk_wal_frame_checksum(&wal->format, wal->frame, wal->frame + WK_WAL_FRAME_HEADER, checksum);
		*right = wk_wal_frame_has(&wal->format, wal->frame, checksum);
	}
	return 0;
}

/* Commits, if the transaction is complete. */
static int try_commit(wk_wal *wal, const wk_wal_file *file) {
	bool right;
	uint32_t checksum[2];
	int rc = check(wal, file, &right, checksum);
	if (rc != 0 || !right)
		return rc;
	rc = wal->commit(wal->context, file, wal->mark_frame, wk_wal_get32(wal->mark + 4));
	if (rc != 0)
		return rc;
	wal->committed = wal->mark_frame;
	memcpy(wal->checksum, checksum, sizeof wal->checksum);
	wal->mark_frame = 0;
	wal->mark_page = false;
	return file->write(file->context, wal->mark, sizeof wal->mark, wk_wal_frame_offset(&wal->format, wal->committed));
}

/* A whole header. That of a commit frame is held back, and zeros are written, so that the disk has room for it. */
/* What the file has in the place of a mark that is held back is of an earlier WAL, or of a transaction that was rolled back: no mark. */
static int write_header(wk_wal *wal, const wk_wal_file *file, uint32_t frame) {
	uint64_t offset = wk_wal_frame_offset(&wal->format, frame);
	if (wk_wal_get32(wal->header + 4) == 0) {
		if (frame == wal->mark_frame)
			wal->mark_frame = 0;
		return file->write(file->context, wal->header, sizeof wal->header, offset);
	}
	bool again = frame == wal->mark_frame && wal->mark_page;
	memcpy(wal->mark, wal->header, sizeof wal->mark);
	wal->mark_frame = frame;
	wal->mark_page = again;
	return again ? try_commit(wal, file) : 0;
}

static int write_some(wk_wal *wal, const wk_wal_file *file, const uint8_t *bytes, size_t size, uint64_t offset,
                      size_t *taken) {
	uint64_t frame_size = WK_WAL_FRAME_HEADER + wal->format.page_size;
	uint32_t frame = (uint32_t)((offset - WK_WAL_HEADER) / frame_size + 1);
	size_t at = (size_t)((offset - WK_WAL_HEADER) % frame_size);
	size_t end = at < WK_WAL_FRAME_HEADER ? WK_WAL_FRAME_HEADER : (size_t)frame_size;
	*taken = size < end - at ? size : end - at;
	if (at < WK_WAL_FRAME_HEADER) {
		if (at == 0)
			wal->header_size = 0;
		if (at != wal->header_size ||
		    (at != 0 && wal->header_frame != frame)) /* SQLite writes headers whole, or in order */
			return file->write(file->context, bytes, *taken, offset);
		wal->header_frame = frame;
		memcpy(wal->header + at, bytes, *taken);
		wal->header_size = at + *taken;
		return wal->header_size == WK_WAL_FRAME_HEADER ? write_header(wal, file, frame) : 0;
	}
	int rc = file->write(file->context, bytes, *taken, offset);
	if (rc != 0 || frame != wal->mark_frame)
		return rc;
	memcpy(wal->mark_bytes + at - WK_WAL_FRAME_HEADER, bytes, *taken);
	if (at + *taken < frame_size)
		return 0;
	wal->mark_page = true;
	return try_commit(wal, file);
}

int wk_wal_write(wk_wal *wal, const wk_wal_file *file, const uint8_t *bytes, size_t size, uint64_t offset) {
	assert(wal->known && offset >= WK_WAL_HEADER);
	int rc = 0;
	for (size_t taken; rc == 0 && size > 0; bytes += taken, size -= taken, offset += taken)
		rc = write_some(wal, file, bytes, size, offset, &taken);
	if (rc != 0)
		wk_wal_rollback(wal);
	return rc;
}

/* Gives every frame of the transaction the checksum that it must have. */
static int correct(wk_wal *wal, const wk_wal_file *file, uint32_t before) {
	uint32_t checksum[2] = {wal->checksum[0], wal->checksum[1]};
	bool healed = false;
	for (uint32_t frame = wal->committed + 1; frame <= wal->mark_frame; frame++) {
		int rc = wk_wal_frame(wal, file, frame, wal->frame);
		if (rc != 0)
			return rc;
		wk_wal_frame_checksum(&wal->format, wal->frame, wal->frame + WK_WAL_FRAME_HEADER, checksum);
		if (wk_wal_frame_has(&wal->format, wal->frame, checksum))
			continue;
		healed |= frame <= before;
		wk_wal_frame_sign(&wal->format, wal->frame, checksum);
		if (frame == wal->mark_frame)
			memcpy(wal->mark, wal->frame, sizeof wal->mark);
		else
			rc = file->write(file->context, wal->frame, WK_WAL_FRAME_HEADER, wk_wal_frame_offset(&wal->format, frame));
		if (rc != 0)
			return rc;
	}
	wal->healed += healed;
	return 0;
}

int wk_wal_before_read(wk_wal *wal, const wk_wal_file *file, uint8_t *bytes, size_t size, uint64_t offset,
                       bool *answered) {
	*answered = false;
	if (!wal->known || wal->mark_frame == 0 || !wal->mark_page || size != 8)
		return 0;
	uint32_t before = 0; /* the frame whose checksum is read; 0: that of the header */
	if (offset != 24) {
		uint64_t frame_size = WK_WAL_FRAME_HEADER + wal->format.page_size;
		if (offset < WK_WAL_HEADER || (offset - WK_WAL_HEADER) % frame_size != WK_WAL_CHECKSUM_AT)
			return 0;
		before = (uint32_t)((offset - WK_WAL_HEADER) / frame_size + 1);
	}
	int rc = correct(wal, file, before);
	if (rc == 0 && before >= wal->mark_frame) { /* no header is written behind this read */
		rc = try_commit(wal, file);
		*answered = rc == 0;
		memcpy(bytes, wal->mark + WK_WAL_CHECKSUM_AT, 8);
	}
	if (rc != 0)
		wk_wal_rollback(wal);
	return rc;
}

void wk_wal_after_read(const wk_wal *wal, uint8_t *bytes, size_t size, uint64_t offset) {
	if (!wal->known || wal->mark_frame == 0)
		return;
	uint64_t at = wk_wal_frame_offset(&wal->format, wal->mark_frame);
	for (size_t i = 0; i < sizeof wal->mark; i++)
		if (at + i >= offset && at + i < offset + size)
			bytes[at + i - offset] = wal->mark[i];
}
