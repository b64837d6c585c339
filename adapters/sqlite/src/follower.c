/*
 * follower.c: writes the commits of a log into the WAL of a database that other programs read. The wal-index is kept as SQLite
 * keeps it, so that readers see a commit at once, and never wait for a recovery. Checkpoints are SQLite's own.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "error.h"
#include "restore.h"
#include "vfs_sqlite.h"
#include "wal_index.h"

enum { CHECKPOINT_FRAMES = 1000, LOCK_TRIES = 2000, LOCK_WAIT_US = 5000 };

struct wk_follower {
	wk_database *database; /* its file, its log and its state; none of its connections use the VFS */
	wk_vfs *vfs;
	sqlite3 *connection;
	sqlite3_file *file, *wal;
	wk_redo redo;
	wk_wal_format format;
	uint32_t frames;  /* that were published, and in this WAL */
	uint32_t written; /* with those of the commit that is being written */
	uint32_t checksum[2];
	uint32_t change;
	wk_page_map pages, fresh;
	uint8_t *frame; /* the last one of the commit, not written yet */
	bool has_frame;
	uint32_t checkpoint_at; /* frames */
	bool failed;
	_Atomic int64_t lsn;
};

static wk_status failed(wk_follower *f, int rc, const char *what, wk_error *error) {
	return wk_database_fail(error, rc == SQLITE_FULL ? WK_NO_SPACE : WK_IO, "following into %s: %s (%d)",
	                        f->database->path, what, rc);
}

static void barrier(void *context) {
	sqlite3_file *file = context;
	file->pMethods->xShmBarrier(file);
}

static volatile uint8_t *region(wk_follower *f, uint32_t number) {
	volatile void *mapped = NULL;
	int rc = f->file->pMethods->xShmMap(f->file, (int)number, WK_WAL_INDEX_REGION, 1, &mapped);
	return rc == SQLITE_OK ? mapped : NULL;
}

static wk_status lock(wk_follower *f, wk_error *error) {
	for (int i = 0; i < LOCK_TRIES; i++) {
		int rc = f->file->pMethods->xShmLock(f->file, WK_WAL_WRITE_LOCK, 1, SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE);
		if (rc == SQLITE_OK)
			return WK_OK;
		if (rc != SQLITE_BUSY)
			return failed(f, rc, "its WAL cannot be locked", error);
		usleep(LOCK_WAIT_US);
	}
	return wk_database_fail(error, WK_LOCKED, "following into %s: another program has its WAL locked",
	                        f->database->path);
}

static void unlock(wk_follower *f) {
	f->file->pMethods->xShmLock(f->file, WK_WAL_WRITE_LOCK, 1, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
}

/* A WAL without frames: its header, with the salt that checkpoints published, or a new one. */
static wk_status begin_wal(wk_follower *f, uint32_t page_size, const wk_wal_index_header *index, wk_error *error) {
	uint8_t header[WK_WAL_HEADER];
	f->format = (wk_wal_format){.page_size = page_size, .big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__};
	memcpy(f->format.salt, index->salt, sizeof f->format.salt);
	uint64_t none = 0;
	if (memcmp(f->format.salt, &none, sizeof none) == 0 &&
	    getrandom(f->format.salt, sizeof f->format.salt, 0) != sizeof f->format.salt)
		return wk_database_fail(error, WK_IO, "following: getrandom failed");
	wk_database_wal_begins_later(f->database, f->format.salt);
	wk_wal_header_encode(&f->format, header, f->checksum);
	wk_page_map_clear(&f->pages);
	f->frames = 0;
	int rc = f->wal->pMethods->xWrite(f->wal, header, sizeof header, 0);
	return rc == SQLITE_OK ? WK_OK : failed(f, rc, "its WAL cannot be written", error);
}

/* The wal-index says what this follower left, or that a checkpoint began the WAL anew. */
static wk_status look_at_index(wk_follower *f, uint32_t page_size, wk_error *error) {
	wk_wal_index_header index;
	volatile uint8_t *first = region(f, 0);
	if (first == NULL || !wk_wal_index_read(first, &index))
		return wk_database_fail(error, WK_INVALID, "following into %s: its wal-index is not valid", f->database->path);
	f->change = index.change;
	if (index.frames == 0)
		return begin_wal(f, page_size, &index, error);
	if (index.frames == f->frames && memcmp(index.salt, f->format.salt, sizeof index.salt) == 0)
		return WK_OK;
	wk_database_spoiled(f->database, "another program wrote to the file that follows the log");
	return wk_database_fail(error, WK_INVALID,
	                        "following into %s: another program wrote to it: move it away, and it is made from the log",
	                        f->database->path);
}

static wk_status begin(void *context, uint32_t page_size, wk_error *error) {
	wk_follower *f = context;
	wk_status status = lock(f, error);
	if (status != WK_OK)
		return status;
	status = look_at_index(f, page_size, error);
	f->written = f->frames;
	f->has_frame = false;
	wk_page_map_clear(&f->fresh);
	if (status != WK_OK)
		unlock(f);
	return status;
}

/* The frame that is held, with its checksum, and the next one may come. */
static wk_status write_frame(wk_follower *f, uint32_t pages, wk_error *error) {
	uint32_t number = wk_wal_get32(f->frame);
	wk_wal_frame_begin(f->frame, number, pages);
	wk_wal_frame_checksum(&f->format, f->frame, f->frame + WK_WAL_FRAME_HEADER, f->checksum);
	wk_wal_frame_sign(&f->format, f->frame, f->checksum);
	f->written++;
	volatile uint8_t *at = region(f, wk_wal_index_region_of(f->written));
	if (at == NULL || !wk_page_map_reserve(&f->fresh, 1))
		return wk_database_fail(error, WK_NO_MEMORY, "following into %s: no memory for its wal-index",
		                        f->database->path);
	int rc = f->wal->pMethods->xWrite(f->wal, f->frame, (int)(WK_WAL_FRAME_HEADER + f->format.page_size),
	                                  (sqlite3_int64)wk_wal_frame_offset(&f->format, f->written));
	if (rc != SQLITE_OK)
		return failed(f, rc, "its WAL cannot be written", error);
	wk_wal_index_put(at, f->written, number);
	wk_page_map_set(&f->fresh, number, f->written);
	f->has_frame = false;
	return WK_OK;
}

static wk_status write_page(void *context, const uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	wk_follower *f = context;
	wk_status status = f->has_frame ? write_frame(f, 0, error) : WK_OK;
	if (status != WK_OK)
		return status;
	wk_wal_frame_begin(f->frame, (uint32_t)(offset / size) + 1, 0);
	memcpy(f->frame + WK_WAL_FRAME_HEADER, bytes, size);
	f->has_frame = true;
	return WK_OK;
}

/* As the last commit left it. */
static wk_status read_page(void *context, uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	wk_follower *f = context;
	uint32_t frame = wk_page_map_get(&f->pages, (uint32_t)(offset / size) + 1);
	int rc;
	if (frame != 0)
		rc = f->wal->pMethods->xRead(f->wal, bytes, (int)size,
		                             (sqlite3_int64)wk_wal_frame_offset(&f->format, frame) + WK_WAL_FRAME_HEADER);
	else
		rc = f->file->pMethods->xRead(f->file, bytes, (int)size, (sqlite3_int64)offset);
	return rc == SQLITE_OK || rc == SQLITE_IOERR_SHORT_READ ? WK_OK : failed(f, rc, "it cannot be read", error);
}

static wk_status publish(wk_follower *f, uint32_t pages, wk_error *error) {
	if (!wk_page_map_reserve(&f->pages, f->fresh.count))
		return wk_database_fail(error, WK_NO_MEMORY, "following into %s: no memory", f->database->path);
	wk_wal_index_header index = {
	    .version = 3007000,
	    .change = f->change + 1,
	    .is_init = 1,
	    .big_endian = f->format.big_endian,
	    .page_size = (uint16_t)((f->format.page_size & 0xff00) | f->format.page_size >> 16),
	    .frames = f->written,
	    .pages = pages,
	    .frame_checksum = {f->checksum[0], f->checksum[1]},
	};
	memcpy(index.salt, f->format.salt, sizeof index.salt);
	wk_wal_index_write(region(f, 0), &index, barrier, f->file);
	wk_page_map_cut(&f->pages, pages);
	for (size_t i = 0; i < f->fresh.size; i++)
		if (f->fresh.slots[i].page != 0)
			wk_page_map_set(&f->pages, f->fresh.slots[i].page, f->fresh.slots[i].frame);
	f->frames = f->written;
	return WK_OK;
}

static wk_status commit(void *context, uint32_t pages, wk_error *error) {
	wk_follower *f = context;
	wk_status status = WK_OK;
	if (!f->has_frame) { /* a commit without pages is one of the first page, as it is */
		uint8_t *page = f->redo.page;
		status = read_page(f, page, f->format.page_size, 0, error);
		if (status == WK_OK)
			status = write_page(f, page, f->format.page_size, 0, error);
	}
	if (status == WK_OK)
		status = write_frame(f, pages, error);
	if (status == WK_OK)
		status = publish(f, pages, error);
	if (status == WK_OK)
		unlock(f);
	return status;
}

/* Where no reader is in the way the WAL is emptied; else it grows, and it is tried again soon. */
static wk_status checkpoint(wk_follower *f, wk_error *error) {
	wk_database_file_changes(f->database);
	int rc = f->vfs->api->wal_checkpoint_v2(f->connection, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	wk_database_file_written(f->database);
	f->checkpoint_at = rc == SQLITE_OK ? CHECKPOINT_FRAMES : f->frames + CHECKPOINT_FRAMES / 10;
	if (rc == SQLITE_BUSY)
		return WK_OK;
	if (rc != SQLITE_OK)
		return failed(f, rc, "its WAL cannot be checkpointed", error);
	pthread_mutex_lock(&f->database->lock);
	f->database->at = f->redo.at;
	pthread_mutex_unlock(&f->database->lock);
	return wk_database_checkpointed(f->database, NULL, error);
}

wk_status wk_follower_record(wk_follower *f, const uint8_t *payload, size_t size, int64_t sequence_id, int64_t txid,
                             wk_error *error) {
	if (f->failed)
		return wk_database_fail(error, WK_CLOSED, "following into %s: it failed before", f->database->path);
	wk_status status = wk_redo_record(&f->redo, payload, size, sequence_id, txid, error);
	if (status == WK_OK) {
		atomic_store(&f->lsn, f->redo.at.lsn);
		status = f->frames >= f->checkpoint_at ? checkpoint(f, error) : WK_OK;
	}
	f->failed = status != WK_OK && status != WK_LOCKED;
	return status;
}

int64_t wk_follower_lsn(wk_follower *f) {
	return atomic_load(&f->lsn);
}

static wk_status connect(wk_follower *f, wk_error *error) {
	const sqlite3_api_routines *sqlite3_api = f->vfs->api;
	int rc = sqlite3_open_v2(f->database->path, &f->connection, SQLITE_OPEN_READWRITE, f->vfs->real->zName);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(f->connection, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL); /* opens the WAL */
	if (rc == SQLITE_OK)
		rc = sqlite3_file_control(f->connection, "main", SQLITE_FCNTL_FILE_POINTER, &f->file);
	if (rc == SQLITE_OK)
		rc = sqlite3_file_control(f->connection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &f->wal);
	return rc == SQLITE_OK ? WK_OK : failed(f, rc, "it cannot be opened", error);
}

wk_status wk_follower_open(const char *path, const char *name, const wk_database_log *log, wk_follower **opened,
                           wk_error *error) {
	wk_follower *f = calloc(1, sizeof *f);
	wk_status status = wk_database_open_following(path, name, log, f != NULL ? &f->database : NULL, error);
	if (f == NULL || status != WK_OK) {
		free(f);
		return status;
	}
	f->vfs = wk_vfs_any();
	f->checkpoint_at = CHECKPOINT_FRAMES;
	f->frame = malloc(WK_WAL_FRAME_HEADER + WK_PAGE_SIZE_MAX);
	atomic_store(&f->lsn, f->database->at.lsn);
	const wk_redo_file file = {.context = f, .read = read_page, .write = write_page, .begin = begin, .commit = commit};
	status = wk_redo_begin(&f->redo, &file, &f->database->at, WK_PAGES_COMMIT, error);
	if (f->frame == NULL)
		status = wk_database_fail(error, WK_NO_MEMORY, "following into %s: no memory", f->database->path);
	if (status == WK_OK)
		status = connect(f, error);
	if (status != WK_OK) {
		wk_follower_close(f);
		return status;
	}
	*opened = f;
	return WK_OK;
}

void wk_follower_close(wk_follower *f) {
	wk_error error;
	if (f->wal != NULL && !f->failed)
		(void)checkpoint(f, &error); /* what it does not reach is redone when the file is opened again */
	if (f->connection != NULL)
		f->vfs->api->close_v2(f->connection);
	wk_page_map_free(&f->pages);
	wk_page_map_free(&f->fresh);
	wk_redo_free(&f->redo);
	free(f->frame);
	wk_database_close(f->database);
	free(f);
}
