/* commit.c: the records of a transaction, from its frames in the WAL. */
#include <assert.h>
#include <string.h>

#include "database.h"
#include "host.h"

void wk_database_append_failed(wk_database *db, wk_status status, const wk_error *error) {
	if (error->outcome_unknown)
		wk_database_stop(db, WK_DATABASE_POISONED, error->text);
	else if (status == WK_FENCED)
		wk_database_stop(db, WK_DATABASE_FENCED, error->text);
}

/* SQLite's code of an append that failed. */
static int refusal(wk_database *db, wk_status status) {
	const wk_error *error = &db->writer.error;
	if (status == WK_NO_MEMORY && !error->outcome_unknown)
		return WK_HOST_NOMEM;
	wk_database_append_failed(db, status, error);
	pthread_mutex_lock(&db->lock);
	memcpy(db->status.refusal, error->text, sizeof error->text);
	pthread_mutex_unlock(&db->lock);
	wk_host_log(WK_HOST_IOERR_WRITE, error->text);
	return status == WK_NO_SPACE && !error->outcome_unknown ? WK_HOST_FULL : WK_HOST_IOERR_WRITE;
}

static int read_page(const wk_wal *wal, const wk_wal_file *file, uint32_t frame, uint8_t *page) {
	uint64_t at = wk_wal_frame_offset(&wal->format, frame) + WK_WAL_FRAME_HEADER;
	return file->read(file->context, page, wal->format.page_size, at);
}

static int add_image(wk_database *db, const wk_wal_file *file, uint32_t frame, uint32_t number) {
	const uint8_t *page = db->pages;
	uint8_t *base = NULL;
	uint32_t earlier = wk_page_map_get(&db->wal.pages, number);
	int rc = 0;
	if (earlier != 0) {
		base = db->pages + WK_PAGE_SIZE_MAX;
		rc = read_page(&db->wal, file, earlier, base);
	}
	if (frame == db->wal.mark_frame) /* its checksum was the last to be looked at */
		page = db->wal.frame + WK_WAL_FRAME_HEADER;
	else if (rc == 0)
		rc = read_page(&db->wal, file, frame, db->pages);
	if (rc != 0)
		return rc;
	wk_status status = wk_record_writer_add(&db->writer, number, page, base);
	return status == WK_OK ? 0 : refusal(db, status);
}

static int page_of(const wk_wal *wal, const wk_wal_file *file, uint32_t frame, uint32_t *number) {
	uint8_t header[4];
	if (frame == wal->mark_frame) {
		*number = wk_wal_get32(wal->mark);
		return 0;
	}
	int rc = file->read(file->context, header, sizeof header, wk_wal_frame_offset(&wal->format, frame));
	*number = wk_wal_get32(header);
	return rc;
}

/* A page that stands in several frames counts with the last; pages behind the end of the database do not. */
static int add_images(wk_database *db, const wk_wal_file *file, wk_page_map *fresh, uint32_t last, uint32_t pages) {
	uint32_t number, first = db->wal.committed + 1;
	int rc = 0;
	for (uint32_t frame = first; rc == 0 && frame <= last; frame++) {
		rc = page_of(&db->wal, file, frame, &number);
		if (rc == 0 && number > 0 && number <= pages)
			wk_page_map_set(fresh, number, frame);
	}
	for (uint32_t frame = first; rc == 0 && frame <= last; frame++) {
		rc = page_of(&db->wal, file, frame, &number);
		if (rc == 0 && number > 0 && wk_page_map_get(fresh, number) == frame)
			rc = add_image(db, file, frame, number);
	}
	return rc;
}

static void accept(wk_database *db, const wk_page_map *fresh, uint32_t pages) {
	if (pages < db->at.pages)
		wk_page_map_cut(&db->wal.pages, pages);
	for (size_t i = 0; i < fresh->size; i++)
		if (fresh->slots[i].page != 0)
			wk_page_map_set(&db->wal.pages, fresh->slots[i].page, fresh->slots[i].frame);
	pthread_mutex_lock(&db->lock);
	db->at.transaction = db->writer.record.transaction;
	db->at.crc = db->writer.record.before;
	db->at.page_size = db->writer.record.page_size;
	db->at.pages = pages;
	db->status.commits++;
	pthread_mutex_unlock(&db->lock);
}

void wk_database_submitted(wk_database *db, int64_t lsn, uint64_t ticket) {
	pthread_mutex_lock(&db->lock);
	db->at.lsn = lsn;
	db->status.log_bytes += db->writer.payload_bytes;
	pthread_mutex_unlock(&db->lock);
	if (ticket != 0)
		atomic_store(&db->submitted, ticket);
}

static wk_status append_commit(wk_database *db, uint32_t pages) {
	uint64_t ticket = 0;
	bool group = db->acknowledge == WK_ACKNOWLEDGE_GROUP;
	wk_status status = wk_record_writer_end(&db->writer, pages, group ? &ticket : NULL);
	if (status == WK_OK)
		wk_database_submitted(db, db->writer.lsn, ticket);
	return status;
}

/* The commit of one of several databases: with the last one all are appended. */
static wk_status hold_commit(wk_database *db, uint32_t pages) {
	wk_status status = wk_record_writer_hold(&db->writer, pages);
	if (status != WK_OK)
		return status;
	atomic_store(&db->holds_commit, true);
	return wk_shared_log_awaits_partners(db) ? WK_OK : wk_shared_log_submit(db, db, &db->writer.error);
}

bool wk_database_wait(wk_database *db, uint64_t ticket) {
	if (ticket <= atomic_load(&db->durable))
		return true;
	if (wk_database_state_of(db) == WK_DATABASE_POISONED)
		return false;
	wk_error error;
	if (db->log.wait(db->log.context, ticket, &error) != WK_OK) {
		wk_database_stop(db, WK_DATABASE_POISONED, error.text);
		wk_host_log(WK_HOST_IOERR_WRITE, error.text);
		return false;
	}
	uint64_t durable = atomic_load(&db->durable);
	while (durable < ticket && !atomic_compare_exchange_weak(&db->durable, &durable, ticket)) {
	}
	return true;
}

int wk_database_commit(void *database, const wk_wal_file *file, uint32_t last, uint32_t pages) {
	wk_database *db = database;
	assert(last > db->wal.committed && pages > 0);
	if (atomic_load(&db->holds_commit)) /* of a transaction that was rolled back, and of which nothing was said */
		wk_shared_log_abandon(db);
	if (wk_database_state_of(db) != WK_DATABASE_OPEN)
		return WK_HOST_IOERR_WRITE;
	const wk_pages_record record = {
	    .kind = WK_PAGES_COMMIT,
	    .page_size = db->wal.format.page_size,
	    .database = db->at.database,
	    .transaction = db->at.transaction + 1,
	    .before = db->at.crc,
	};
	wk_page_map fresh = {0};
	uint32_t count = last - db->wal.committed;
	int rc = wk_page_map_reserve(&fresh, count) && wk_page_map_reserve(&db->wal.pages, count) ? 0 : WK_HOST_NOMEM;
	wk_status status = rc == 0 ? wk_record_writer_begin(&db->writer, &db->log, &record) : WK_OK;
	if (rc == 0 && status == WK_OK)
		rc = add_images(db, file, &fresh, last, pages);
	if (rc == 0 && status == WK_OK)
		status = wk_shared_log_has_partners(db) ? hold_commit(db, pages) : append_commit(db, pages);
	if (status != WK_OK)
		rc = refusal(db, status);
	if (rc == 0)
		accept(db, &fresh, pages);
	if (rc == 0)
		atomic_fetch_add(&db->frames_unsynced, count);
	wk_page_map_free(&fresh);
	return rc;
}
