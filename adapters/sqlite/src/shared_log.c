#include "shared_log.h"

#include <stdlib.h>
#include <string.h>

#include "database.h"
#include "error.h"
#include "little_endian.h"

wk_shared_log *wk_shared_log_new(const wk_database_log *log) {
	wk_shared_log *shared = calloc(1, sizeof *shared);
	if (shared == NULL)
		return NULL;
	shared->log = *log;
	pthread_mutex_init(&shared->lock, NULL);
	return shared;
}

bool wk_shared_log_join(wk_shared_log *shared, wk_database *db, bool *first) {
	pthread_mutex_lock(&shared->lock);
	*first = shared->count == 0;
	bool room = shared->count < WK_DATABASES_OF_A_LOG_MAX;
	if (room)
		shared->members[shared->count++] = db;
	pthread_mutex_unlock(&shared->lock);
	return room;
}

void wk_shared_log_leave(wk_shared_log *shared, wk_database *db) {
	pthread_mutex_lock(&shared->lock);
	for (size_t i = 0; i < shared->count; i++)
		if (shared->members[i] == db)
			shared->members[i] = shared->members[--shared->count];
	bool last = shared->count == 0;
	pthread_mutex_unlock(&shared->lock);
	if (!last)
		return;
	shared->log.close(shared->log.context);
	pthread_mutex_destroy(&shared->lock);
	free(shared);
}

static bool is_partner(wk_database *db, wk_database *other) {
	void *writer = atomic_load(&db->writer_connection);
	return other != db && writer != NULL && atomic_load(&other->writer_connection) == writer;
}

bool wk_shared_log_has_partners(wk_database *db) {
	wk_shared_log *shared = db->shared;
	bool found = false;
	pthread_mutex_lock(&shared->lock);
	for (size_t i = 0; i < shared->count; i++)
		found |= is_partner(db, shared->members[i]);
	pthread_mutex_unlock(&shared->lock);
	return found;
}

bool wk_shared_log_awaits_partners(wk_database *db) {
	wk_shared_log *shared = db->shared;
	bool found = false;
	pthread_mutex_lock(&shared->lock);
	for (size_t i = 0; i < shared->count; i++)
		found |= is_partner(db, shared->members[i]) && !atomic_load(&shared->members[i]->holds_commit);
	pthread_mutex_unlock(&shared->lock);
	return found;
}

bool wk_shared_log_has_failed_partners(wk_database *db) {
	wk_shared_log *shared = db->shared;
	bool found = false;
	pthread_mutex_lock(&shared->lock);
	for (size_t i = 0; i < shared->count; i++)
		found |= is_partner(db, shared->members[i]) && !atomic_load(&shared->members[i]->holds_commit) &&
		         wk_wal_has_begun(&shared->members[i]->wal);
	pthread_mutex_unlock(&shared->lock);
	return found;
}

/* Of the database and its partners, those that hold a commit. */
static size_t holders(wk_database *db, wk_database **found) {
	wk_shared_log *shared = db->shared;
	size_t count = 0;
	pthread_mutex_lock(&shared->lock);
	for (size_t i = 0; i < shared->count; i++)
		if ((shared->members[i] == db || is_partner(db, shared->members[i])) &&
		    atomic_load(&shared->members[i]->holds_commit))
			found[count++] = shared->members[i];
	pthread_mutex_unlock(&shared->lock);
	return count;
}

/* One record of all that they hold; NULL: no memory. */
static uint8_t *join_records(wk_database *const *databases, size_t count, size_t *size) {
	*size = WK_PAGES_RECORD_HEADER;
	for (size_t i = 0; i < count; i++)
		*size += 4 + databases[i]->writer.sealed;
	uint8_t *bytes = malloc(*size), *at = bytes + WK_PAGES_RECORD_HEADER;
	if (bytes == NULL)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		const wk_record_writer *w = &databases[i]->writer;
		wk_put32(at, (uint32_t)w->sealed);
		memcpy(at + 4, w->bytes, w->sealed);
		at += 4 + w->sealed;
	}
	const wk_pages_record joint = {
	    .kind = WK_PAGES_JOINT,
	    .flags = WK_PAGES_FIRST | WK_PAGES_LAST,
	    .page_size = databases[0]->writer.record.page_size,
	    .database = databases[0]->writer.record.database,
	    .transaction = databases[0]->writer.record.transaction,
	    .count = (uint32_t)count,
	};
	wk_pages_record_seal(bytes, *size, &joint);
	return bytes;
}

static wk_status submit(const wk_shared_log *shared, wk_database *const *databases, size_t count, int64_t *lsn,
                        uint64_t *ticket, wk_error *error) {
	size_t size;
	*error = (wk_error){.outcome_unknown = true}; /* unless the log says that it is known */
	uint8_t *joint = count > 1 ? join_records(databases, count, &size) : NULL;
	if (count > 1 && joint == NULL) {
		error->outcome_unknown = false;
		return wk_database_fail(error, WK_NO_MEMORY, "a commit of %zu databases: no memory", count);
	}
	uint32_t sizes[1] = {(uint32_t)(joint != NULL ? size : databases[0]->writer.sealed)};
	const uint8_t *bytes = joint != NULL ? joint : databases[0]->writer.bytes;
	wk_status status = shared->log.submit(shared->log.context, bytes, sizes, 1, lsn, ticket, error);
	free(joint);
	return status;
}

wk_status wk_shared_log_submit(wk_database *db, wk_database *last, wk_error *error) {
	wk_database *databases[WK_DATABASES_OF_A_LOG_MAX];
	size_t count = holders(db, databases);
	if (count == 0)
		return WK_OK;
	int64_t lsn;
	uint64_t ticket;
	wk_status status = submit(db->shared, databases, count, &lsn, &ticket, error);
	for (size_t i = 0; i < count; i++) {
		if (status == WK_OK) {
			wk_record_writer_let_go(&databases[i]->writer, lsn);
			wk_database_submitted(databases[i], lsn, ticket);
		} else if (databases[i] != last) {
			wk_database_stop(databases[i], WK_DATABASE_POISONED, error->text);
		}
		atomic_store(&databases[i]->holds_commit, false);
	}
	return status;
}

void wk_shared_log_abandon(wk_database *db) {
	wk_database *databases[WK_DATABASES_OF_A_LOG_MAX];
	size_t count = holders(db, databases);
	for (size_t i = 0; i < count; i++) {
		wk_database_stop(
		    databases[i], WK_DATABASE_POISONED,
		    "a transaction over several databases failed when connections had seen a part of it; the log has "
		    "nothing of it: close all connections and open again");
		atomic_store(&databases[i]->holds_commit, false);
	}
}
