#include "strangers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "new_file.h"
#include "restore.h"
#include "vfs_sqlite.h"

wk_status wk_strangers_refuse(const wk_database *db, wk_error *error) {
	return wk_database_fail(
	    error, WK_INVALID,
	    "%s was changed without the VFS walkeeper, and the log does not have the change. To keep what "
	    "the log has, move the file, its -wal and its -wk away, and attach again; to keep what the "
	    "file has, move its -wk away, and attach it to a new log",
	    db->path);
}

/* ---- the file, beside what the log makes ---- */

/* The database is made from the log once more, in a file without a name, and it is counted how many of its pages the file has otherwise. */
typedef struct wk_compared {
	wk_redo_file file; /* the database file */
	uint64_t size;     /* of it */
	wk_new_file made;
	uint32_t page_size, pages; /* of `made` */
	uint8_t *differs;          /* a bit for each page */
	uint32_t room;             /* pages that it has bits for */
	uint32_t differing;
	bool equal; /* behind a commit it was so */
	uint8_t *page;
} wk_compared;

/* Without a name, so that a process that is killed leaves nothing. */
static wk_status make_nameless(wk_new_file *file, const char *path, wk_error *error) {
	wk_status status = wk_new_file_make(file, path, "comparing", error);
	if (status == WK_OK)
		unlink(file->name);
	return status;
}

static void set_difference(wk_compared *c, uint32_t number, bool differs) {
	uint8_t *byte = c->differs + number / 8, bit = (uint8_t)(1 << number % 8);
	bool before = (*byte & bit) != 0;
	*byte = (uint8_t)(differs ? *byte | bit : *byte & ~bit);
	c->differing += (uint32_t)differs - (uint32_t)before;
}

static wk_status make_room(wk_compared *c, uint32_t number, wk_error *error) {
	if (number < c->room)
		return WK_OK;
	uint32_t room = number < UINT32_MAX / 2 ? 2 * number + 64 : UINT32_MAX;
	size_t before = c->room != 0 ? c->room / 8 + 1 : 0, bytes = room / 8 + 1;
	uint8_t *grown = realloc(c->differs, bytes);
	if (grown == NULL)
		return wk_database_fail(error, WK_NO_MEMORY, "comparing the database with its log: no memory");
	memset(grown + before, 0, bytes - before);
	c->differs = grown;
	c->room = room;
	return WK_OK;
}

static wk_status compare_page(wk_compared *c, const uint8_t *page, uint32_t number, wk_error *error) {
	uint8_t *theirs = c->page + WK_PAGE_SIZE_MAX;
	wk_status status = make_room(c, number, error);
	if (status != WK_OK || wk_page_is_never_written(number, c->page_size))
		return status;
	status = c->file.read(c->file.context, theirs, c->page_size, (uint64_t)(number - 1) * c->page_size, error);
	if (status == WK_OK)
		set_difference(c, number, memcmp(page, theirs, c->page_size) != 0);
	return status;
}

static wk_status end_commit(void *context, uint32_t pages, wk_error *error) {
	wk_compared *c = context;
	(void)error;
	for (uint32_t number = pages + 1; number <= c->pages && number < c->room; number++)
		set_difference(c, number, false);
	c->pages = pages;
	c->equal |= c->differing == 0 && c->size >= (uint64_t)pages * c->page_size; /* what is behind them is none of it */
	return WK_OK;
}

static wk_status read_made(void *context, uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	wk_compared *c = context;
	return wk_new_file_read(&c->made, bytes, size, offset, error);
}

static wk_status write_made(void *context, const uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	wk_compared *c = context;
	wk_status status = wk_new_file_write(&c->made, bytes, size, offset, error);
	return status == WK_OK ? compare_page(c, bytes, (uint32_t)(offset / c->page_size + 1), error) : status;
}

static wk_status compare_all(wk_compared *c, const wk_redo_point *at, wk_error *error) {
	wk_status status = WK_OK;
	c->page_size = at->page_size;
	c->pages = at->pages;
	for (uint32_t number = 1; status == WK_OK && number <= at->pages; number++) {
		uint64_t offset = (uint64_t)(number - 1) * at->page_size;
		status = wk_new_file_read(&c->made, c->page, at->page_size, offset, error);
		if (status == WK_OK)
			status = compare_page(c, c->page, number, error);
	}
	return status == WK_OK ? end_commit(c, at->pages, error) : status;
}

/* From the commit on that the file had safely: it was left with this one, or with any later one. */
static wk_status compare(wk_database *db, wk_compared *c, wk_error *error) {
	const wk_redo_point *stored = &db->state_file.at;
	const wk_redo_file base = {.context = &c->made, .read = wk_new_file_read, .write = wk_new_file_write};
	const wk_redo_file compared = {.context = c, .read = read_made, .write = write_made, .commit = end_commit};
	wk_snapshot_place place;
	wk_redo_point at;
	c->page = malloc(2 * WK_PAGE_SIZE_MAX);
	if (c->page == NULL)
		return wk_database_fail(error, WK_NO_MEMORY, "comparing %s with its log: no memory", db->path);
	wk_status status = make_nameless(&c->made, db->path, error);
	if (status != WK_OK)
		return status;
	status = wk_snapshot_find(&db->log, stored->database, db->name, stored->lsn, -1, &place, error);
	if (status == WK_NOT_FOUND) { /* it was truncated: the process had all commits up to the last snapshot at least */
		c->page_size = stored->page_size;
		status = wk_snapshot_find(&db->log, stored->database, db->name, -1, -1, &place, error);
		return status == WK_OK ? wk_restore_into(&db->log, &compared, &place, -1, -1, &at, error) : status;
	}
	if (status == WK_OK)
		status = wk_restore_into(&db->log, &base, &place, stored->lsn, -1, &at, error);
	if (status == WK_OK)
		status = compare_all(c, &at, error);
	return status == WK_OK ? wk_redo_log(&db->log, &compared, at.lsn + 1, -1, -1, &at, error) : status;
}

/* ---- the WAL, beside the log ---- */

typedef struct wk_wal_reader {
	int fd;
	wk_wal_format format;
	uint32_t checksum[2], frame; /* of the last one that was read */
	uint8_t *bytes;              /* it */
} wk_wal_reader;

static void close_wal(wk_wal_reader *wal) {
	if (wal->fd >= 0)
		close(wal->fd);
	free(wal->bytes);
	*wal = (wk_wal_reader){.fd = -1};
}

/* fd -1: there is none. bytes NULL: it has no header. */
static wk_status open_wal(wk_wal_reader *wal, const char *path, wk_error *error) {
	char name[PATH_MAX + sizeof "-wal"];
	uint8_t header[WK_WAL_HEADER];
	snprintf(name, sizeof name, "%s-wal", path);
	*wal = (wk_wal_reader){.fd = open(name, O_RDONLY | O_CLOEXEC)};
	if (wal->fd < 0)
		return errno == ENOENT ? WK_OK : wk_database_fail_system(error, "opening", name, "");
	ssize_t got = pread(wal->fd, header, sizeof header, 0);
	if (got < 0)
		return wk_database_fail_system(error, "reading", name, "");
	if (got != (ssize_t)sizeof header || !wk_wal_header_decode(header, &wal->format, wal->checksum))
		return WK_OK;
	wal->bytes = malloc(WK_WAL_FRAME_HEADER + wal->format.page_size);
	return wal->bytes != NULL ? WK_OK : wk_database_fail(error, WK_NO_MEMORY, "opening %s: no memory", path);
}

/* The next frame, as a recovery by SQLite would find it. False: there is none. */
static bool next_frame(wk_wal_reader *wal) {
	size_t size = WK_WAL_FRAME_HEADER + wal->format.page_size;
	ssize_t got = wal->bytes != NULL
	                  ? pread(wal->fd, wal->bytes, size, (off_t)wk_wal_frame_offset(&wal->format, wal->frame + 1))
	                  : -1;
	if (got != (ssize_t)size)
		return false;
	wal->frame++;
	wk_wal_frame_checksum(&wal->format, wal->bytes, wal->bytes + WK_WAL_FRAME_HEADER, wal->checksum);
	return wk_wal_frame_has(&wal->format, wal->bytes, wal->checksum);
}

static bool ends_commit(const wk_wal_reader *wal) {
	return wk_wal_get32(wal->bytes + 4) != 0;
}

/* SQLite adds one to the first word when it begins a WAL anew. */
static bool is_salt_before(const uint8_t salt[8], const uint8_t later[8]) {
	enum { TRIES = 16 }; /* that failed */
	uint32_t behind = wk_wal_get32(later) - wk_wal_get32(salt);
	return memcmp(salt, later, 8) == 0 || (behind > 0 && behind <= TRIES);
}

/* The log makes the pages that it has behind those that the file has safely, and the WAL was begun there. */
typedef struct wk_wal_compared {
	wk_wal_reader wal;
	wk_new_file made;
	wk_page_map known; /* pages that the log has made */
	wk_page_map last;  /* of a commit of the WAL the pages and their last frames */
	bool wrote;        /* the commit of the log has pages */
	bool ended, differs;
	uint8_t *pages; /* memory for two */
} wk_wal_compared;

/* Reads it up to its last frame; false: it is not there. */
static bool read_commit(wk_wal_compared *c, bool *memory) {
	wk_page_map_clear(&c->last);
	while (next_frame(&c->wal)) {
		*memory = *memory && wk_page_map_reserve(&c->last, 1);
		if (*memory && wk_wal_get32(c->wal.bytes) != 0)
			wk_page_map_set(&c->last, wk_wal_get32(c->wal.bytes), c->wal.frame);
		if (ends_commit(&c->wal))
			return true;
	}
	return false;
}

static wk_status compare_frame(wk_wal_compared *c, uint32_t number, uint32_t frame, wk_error *error) {
	size_t size = c->wal.format.page_size;
	uint8_t *ours = c->pages, *theirs = c->pages + WK_PAGE_SIZE_MAX;
	if (wk_page_map_get(&c->known, number) == 0) {
		c->differs = true;
		return WK_OK;
	}
	wk_status status = wk_new_file_read(&c->made, ours, size, (uint64_t)(number - 1) * size, error);
	off_t at = (off_t)wk_wal_frame_offset(&c->wal.format, frame) + WK_WAL_FRAME_HEADER;
	if (status == WK_OK)
		c->differs |= pread(c->wal.fd, theirs, size, at) != (ssize_t)size || memcmp(ours, theirs, size) != 0;
	return status;
}

static wk_status compare_commit(void *context, uint32_t pages, wk_error *error) {
	wk_wal_compared *c = context;
	bool memory = true, wrote = c->wrote;
	c->wrote = false;
	if (c->ended || c->differs)
		return WK_OK;
	c->ended = !read_commit(c, &memory);
	if (!memory)
		return wk_database_fail(error, WK_NO_MEMORY, "comparing a WAL with its log: no memory");
	if (c->ended)
		return WK_OK;
	c->differs = wk_wal_get32(c->wal.bytes + 4) != pages;
	wk_status status = WK_OK;
	for (size_t i = 0; status == WK_OK && wrote && i < c->last.size; i++)
		if (c->last.slots[i].page != 0 && c->last.slots[i].page <= pages)
			status = compare_frame(c, c->last.slots[i].page, c->last.slots[i].frame, error);
	return status;
}

static wk_status read_logged(void *context, uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	wk_wal_compared *c = context;
	return wk_new_file_read(&c->made, bytes, size, offset, error);
}

static wk_status write_logged(void *context, const uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	wk_wal_compared *c = context;
	c->wrote = true;
	if (!wk_page_map_reserve(&c->known, 1))
		return wk_database_fail(error, WK_NO_MEMORY, "comparing a WAL with its log: no memory");
	wk_page_map_set(&c->known, (uint32_t)(offset / size) + 1, 1);
	return wk_new_file_write(&c->made, bytes, size, offset, error);
}

static wk_status compare_wal(wk_database *db, wk_wal_compared *c, wk_error *error) {
	const wk_redo_file logged = {.context = c, .read = read_logged, .write = write_logged, .commit = compare_commit};
	wk_redo_point at = db->state_file.at;
	at.named = db->name != NULL;
	c->pages = malloc(2 * WK_PAGE_SIZE_MAX);
	if (c->pages == NULL)
		return wk_database_fail(error, WK_NO_MEMORY, "comparing %s-wal with its log: no memory", db->path);
	wk_status status = make_nameless(&c->made, db->path, error);
	if (status == WK_OK)
		status = open_wal(&c->wal, db->path, error);
	if (status == WK_OK)
		status = wk_redo_log(&db->log, &logged, at.lsn + 1, -1, -1, &at, error);
	bool memory = true;
	if (status == WK_OK && !c->ended) /* more commits than the log has? */
		c->differs |= read_commit(c, &memory);
	return status;
}

static wk_status check_wal(wk_database *db, wk_error *error) {
	wk_wal_compared c = {.wal = {.fd = -1}, .made = {.fd = -1}};
	wk_status status = compare_wal(db, &c, error);
	close_wal(&c.wal);
	wk_new_file_free(&c.made);
	wk_page_map_free(&c.known);
	wk_page_map_free(&c.last);
	free(c.pages);
	return status == WK_OK && c.differs ? wk_strangers_refuse(db, error) : status;
}

static wk_status check_file(wk_database *db, const wk_redo_file *file, uint64_t size, wk_error *error) {
	wk_compared compared = {.file = *file, .size = size, .made = {.fd = -1}};
	wk_status status = compare(db, &compared, error);
	wk_new_file_free(&compared.made);
	free(compared.differs);
	free(compared.page);
	return status == WK_OK && !compared.equal ? wk_strangers_refuse(db, error) : status;
}

/* ---- */

static bool has_commit(wk_wal_reader *wal) {
	while (next_frame(wal))
		if (ends_commit(wal))
			return true;
	return false;
}

/* What is said of the WAL of a file that was not closed. */
static wk_status look_at_wal(wk_database *db, wk_wal_reader *wal, wk_stranger_signs *signs, wk_error *error) {
	const wk_live_file *live = &db->state_file.live;
	bool ours = memcmp(wal->format.salt, live->salt, sizeof live->salt) == 0;
	if (!ours && !is_salt_before(wal->format.salt, live->earlier) && !is_salt_before(wal->format.salt, live->salt))
		return has_commit(wal) ? wk_strangers_refuse(db, error) : WK_OK;
	/* With group acknowledgement commits may stand there, and nobody was told of them. */
	signs->wal = ours && live->acknowledge == WK_ACKNOWLEDGE_STRICT;
	return WK_OK;
}

static wk_status look(wk_database *db, wk_wal_reader *wal, wk_stranger_signs *signs, wk_error *error) {
	const wk_live_file *live = &db->state_file.live;
	const wk_file_stamp closed = db->state_file.closed, now = wk_file_stamp_of(db->path);
	wk_status status = open_wal(wal, db->path, error);
	if (status != WK_OK)
		return status;
	if (signs->closed) {
		signs->touched = !wk_file_stamp_equal(closed, now);
		return has_commit(wal) ? wk_strangers_refuse(db, error) : WK_OK;
	}
	/* A checkpoint that was killed leaves a WAL. */
	signs->touched = live->state == WK_LIVE_WRITTEN ? !wk_file_stamp_equal(live->stamp, now) : wal->fd < 0;
	return wal->bytes != NULL ? look_at_wal(db, wal, signs, error) : WK_OK;
}

wk_status wk_strangers_look(wk_database *db, wk_stranger_signs *signs, wk_error *error) {
	const wk_redo_point *stored = &db->state_file.at;
	*signs = (wk_stranger_signs){.closed = db->state_file.closed.size != 0};
	bool was_open = stored->database != 0 && stored->pages != 0 && stored->lsn >= 0;
	uint32_t state = db->state_file.live.state;
	bool known = signs->closed || state == WK_LIVE_WRITTEN || state == WK_LIVE_CHANGING;
	if (!was_open || !known || wk_file_stamp_of(db->path).size == 0)
		return WK_OK;
	wk_wal_reader wal;
	wk_status status = look(db, &wal, signs, error);
	close_wal(&wal);
	return status;
}

wk_status wk_strangers_check(wk_database *db, const wk_redo_file *file, uint64_t size, wk_stranger_signs *signs,
                             wk_error *error) {
	int64_t first, next;
	const wk_redo_point *stored = &db->state_file.at;
	if (!signs->touched && !signs->wal)
		return WK_OK;
	wk_status status = db->log.range(db->log.context, &first, &next, error);
	if (status != WK_OK || stored->lsn >= next) /* bookies may know the end later */
		return status;
	if (signs->touched)
		status = check_file(db, file, size, error);
	if (status == WK_OK && signs->wal && stored->lsn + 1 >= first) /* else it is made anew */
		status = check_wal(db, error);
	if (status == WK_OK)
		*signs = (wk_stranger_signs){0};
	return status;
}
