#include "database.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "vfs.h"

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t registry_changed = PTHREAD_COND_INITIALIZER;
static wk_database *registry;

void wk_database_options_init(wk_database_options *options) {
	*options = (wk_database_options){.page_size = 4096};
}

const char *wk_database_library(void) {
	Dl_info info;
	return dladdr((void *)wk_database_library, &info) != 0 ? info.dli_fname : NULL;
}

bool wk_database_has_host(void) {
	return wk_vfs_registered();
}

static wk_database *look_locked(const char *path) {
	for (wk_database *db = registry; db != NULL; db = db->next)
		if (strcmp(db->path, path) == 0)
			return db;
	return NULL;
}

/* One that is being opened or closed is awaited. */
static wk_database *find_locked(const char *path) {
	wk_database *db = look_locked(path);
	while (db != NULL && db->changing) {
		pthread_cond_wait(&registry_changed, &registry_lock);
		db = look_locked(path);
	}
	return db;
}

static void remove_locked(wk_database *db) {
	wk_database **at = &registry;
	while (*at != db)
		at = &(*at)->next;
	*at = db->next;
	pthread_cond_broadcast(&registry_changed);
}

wk_database *wk_database_find(const char *path) {
	pthread_mutex_lock(&registry_lock);
	wk_database *db = find_locked(path);
	if (db != NULL)
		db->references++;
	pthread_mutex_unlock(&registry_lock);
	return db;
}

wk_database *wk_database_retain(wk_database *database) {
	pthread_mutex_lock(&registry_lock);
	wk_database *db = registry;
	while (db != NULL && db != database)
		db = db->next;
	if (db != NULL && db->changing)
		db = NULL;
	if (db != NULL)
		db->references++;
	pthread_mutex_unlock(&registry_lock);
	return db;
}

/* From now on others may open the file. */
static void let_go(wk_database *db) {
	wk_shared_log_leave(db->shared, db);
	wk_state_file_close(&db->state_file);
}

static void free_database(wk_database *db) {
	wk_wal_free(&db->wal);
	wk_record_writer_free(&db->writer);
	pthread_mutex_destroy(&db->lock);
	wk_write_queue_destroy(&db->write_queue);
	free(db->pages);
	free(db->path);
	free(db->name);
	free(db);
}

/* Notes that the file has all commits, where it has: what is changed in it from now on is none of ours. */
static void note_close(wk_database *db) {
	wk_error error;
	if (db->status.state == WK_DATABASE_FOLLOWING)
		db->unconnected = wk_file_stamp_of(db->path);
	bool whole = db->status.state == WK_DATABASE_OPEN || db->status.state == WK_DATABASE_FOLLOWING;
	if (whole && wk_database_is_mine(db) && db->at.lsn >= 0 && db->at.lsn == db->state_file.at.lsn && !db->wal.known)
		(void)wk_state_file_store(&db->state_file, &db->at, db->unconnected, &error);
}

void wk_database_close(wk_database *db) {
	pthread_mutex_lock(&registry_lock);
	bool last = --db->references == 0;
	db->changing = last;
	pthread_mutex_unlock(&registry_lock);
	if (!last)
		return;
	wk_vfs_close_keeper(wk_database_keep(db, NULL));
	note_close(db);
	let_go(db);
	pthread_mutex_lock(&registry_lock);
	remove_locked(db);
	pthread_mutex_unlock(&registry_lock);
	free_database(db);
}

static wk_database *new_database(const char *path, const wk_database_options *options) {
	wk_database *db = calloc(1, sizeof *db);
	if (db == NULL)
		return NULL;
	db->references = 1;
	db->process = getpid();
	db->state_file.fd = -1;
	db->at = (wk_redo_point){.lsn = -1, .txid = -1};
	pthread_mutex_init(&db->lock, NULL);
	wk_write_queue_init(&db->write_queue);
	db->path = strdup(path);
	db->pages = malloc(2 * WK_PAGE_SIZE_MAX);
	db->name = options->name != NULL ? strdup(options->name) : NULL;
	db->writer.named = options->name != NULL;
	bool whole = wk_wal_init(&db->wal, wk_database_commit, db) && db->path != NULL && db->pages != NULL &&
	             (db->name != NULL || options->name == NULL);
	if (!whole) {
		free_database(db);
		return NULL;
	}
	db->acknowledge = options->acknowledge;
	return db;
}

static wk_status add(wk_database *db, wk_error *error) {
	pthread_mutex_lock(&registry_lock);
	bool open = find_locked(db->path) != NULL;
	if (!open) {
		db->changing = true;
		db->next = registry;
		registry = db;
	}
	pthread_mutex_unlock(&registry_lock);
	return open ? wk_database_fail(error, WK_EXISTS, "the database %s is open in this process", db->path) : WK_OK;
}

/* What can be said before anything is touched. */
static wk_status check_options(const wk_database *db, const wk_database_options *options, wk_error *error) {
	size_t length = options->name != NULL ? strlen(options->name) : 1;
	if (options->acknowledge > WK_ACKNOWLEDGE_GROUP)
		return wk_database_fail(error, WK_INVALID, "opening %s: acknowledge is %u", db->path, options->acknowledge);
	if (options->acknowledge == WK_ACKNOWLEDGE_GROUP && db->log.submit == NULL)
		return wk_database_fail(error, WK_UNSUPPORTED, "opening %s: its log has no group acknowledgement", db->path);
	if (length == 0 || length > WK_DATABASE_NAME_MAX)
		return wk_database_fail(error, WK_INVALID, "opening %s: its name has %zu bytes, and may have 1 to %d", db->path,
		                        length, WK_DATABASE_NAME_MAX);
	return WK_OK;
}

/* Without the registry's lock: the log may take its time, or run code that closes other databases. */
static wk_status open_added(wk_database *db, const wk_database_options *options, wk_error *error) {
	wk_status status = check_options(db, options, error);
	if (status == WK_OK)
		status = wk_state_file_open(db->path, &db->state_file, error);
	if (status == WK_OK)
		status = wk_database_recover(db, options, error);
	if (status != WK_OK)
		let_go(db);
	atomic_store(&db->redo, db->state_file.at.lsn + 1);
	pthread_mutex_lock(&registry_lock);
	db->changing = false;
	pthread_cond_broadcast(&registry_changed);
	if (status != WK_OK)
		remove_locked(db);
	pthread_mutex_unlock(&registry_lock);
	return status;
}

/* In the log, which it leaves where this fails, too. */
static wk_status open_in(const char *path, wk_shared_log *shared, const wk_database_options *options, uint32_t state,
                         wk_database **opened, wk_error *error) {
	char full[PATH_MAX + 1];
	wk_status status = wk_vfs_full_path(path, full, sizeof full, error);
	wk_database *db = status == WK_OK ? new_database(full, options) : NULL;
	if (db == NULL) {
		wk_shared_log_leave(shared, NULL);
		return status != WK_OK ? status : wk_database_fail(error, WK_NO_MEMORY, "opening %s: no memory", path);
	}
	db->shared = shared;
	db->log = shared->log;
	db->status.state = state;
	bool first;
	if (!wk_shared_log_join(shared, db, &first))
		status = wk_database_fail(error, WK_INVALID, "opening %s: its log has %d databases, and may have no more", full,
		                          WK_DATABASES_OF_A_LOG_MAX);
	if (!first) /* the first one has its writer */
		db->log.take_over = NULL;
	if (status == WK_OK)
		status = add(db, error);
	if (status == WK_OK)
		status = open_added(db, options, error);
	else
		wk_shared_log_leave(shared, db);
	if (status != WK_OK) {
		free_database(db);
		return status;
	}
	*opened = db;
	return WK_OK;
}

/* Takes the log over, and gives it back closed where it fails. */
static wk_status open_on(const char *path, const wk_database_log *log, const wk_database_options *options,
                         uint32_t state, wk_database **opened, wk_error *error) {
	wk_shared_log *shared = wk_shared_log_new(log);
	if (shared != NULL)
		return open_in(path, shared, options, state, opened, error);
	log->close(log->context);
	return wk_database_fail(error, WK_NO_MEMORY, "opening %s: no memory", path);
}

wk_status wk_database_open_beside(wk_database *first, const char *path, const wk_database_options *options,
                                  wk_database **opened, wk_error *error) {
	if (options == NULL || options->name == NULL)
		return wk_database_fail(error, WK_INVALID, "%s is opened beside %s, and has no name", path, first->path);
	if (options->acknowledge != WK_ACKNOWLEDGE_GROUP || first->acknowledge != WK_ACKNOWLEDGE_GROUP)
		return wk_database_fail(
		    error, WK_INVALID,
		    "%s is opened beside %s: both must have group acknowledgement, as SQLite shows the commit "
		    "of one before it has that of the other",
		    path, first->path);
	return open_in(path, first->shared, options, WK_DATABASE_OPEN, opened, error);
}

wk_status wk_database_open(const char *path, const wk_database_log *log, const wk_database_options *options,
                           wk_database **opened, wk_error *error) {
	wk_database_options defaults;
	wk_database_options_init(&defaults);
	return open_on(path, log, options != NULL ? options : &defaults, WK_DATABASE_OPEN, opened, error);
}

wk_status wk_database_open_following(const char *path, const char *name, const wk_database_log *log,
                                     wk_database **opened, wk_error *error) {
	wk_database_options options;
	wk_database_options_init(&options);
	options.name = name;
	if (opened != NULL)
		return open_on(path, log, &options, WK_DATABASE_FOLLOWING, opened, error);
	log->close(log->context);
	return wk_database_fail(error, WK_NO_MEMORY, "following into %s: no memory", path);
}

/* Where this fails, the file is looked at more closely behind a crash. */
static void note_live(wk_database *db, uint32_t state, wk_file_stamp stamp) {
	wk_error error;
	pthread_mutex_lock(&db->lock);
	db->live.state = state;
	bool follows = db->status.state == WK_DATABASE_FOLLOWING; /* its WAL does not begin where that of the writer did */
	db->live.acknowledge = follows ? WK_ACKNOWLEDGE_GROUP : db->acknowledge;
	db->live.stamp = stamp;
	(void)wk_state_file_note(&db->state_file, db->live, &error);
	pthread_mutex_unlock(&db->lock);
}

void wk_database_file_changes(wk_database *db) {
	note_live(db, WK_LIVE_CHANGING, (wk_file_stamp){0});
}

void wk_database_file_written(wk_database *db) {
	note_live(db, WK_LIVE_WRITTEN, wk_file_stamp_of(db->path));
}

/* (locked) Before the state is stored: the WAL there is has earlier commits. */
static void note_wal(wk_database *db, const uint8_t *salt) {
	static const uint8_t NONE[sizeof db->live.salt];
	wk_error error;
	if (memcmp(db->live.salt, NONE, sizeof NONE) != 0)
		memcpy(db->live.earlier, db->live.salt, sizeof NONE);
	memcpy(db->live.salt, salt != NULL ? salt : NONE, sizeof NONE);
	(void)wk_state_file_note(&db->state_file, db->live, &error);
}

wk_status wk_database_checkpointed(wk_database *db, const uint8_t *salt, wk_error *error) {
	pthread_mutex_lock(&db->lock);
	const wk_live_file before = db->live;
	wk_redo_point at = db->at;
	note_wal(db, salt);
	pthread_mutex_unlock(&db->lock);
	if (at.lsn == db->state_file.at.lsn)
		return WK_OK;
	wk_status status = wk_state_file_store(&db->state_file, &at, (wk_file_stamp){0}, error);
	atomic_store(&db->redo, db->state_file.at.lsn + 1);
	if (status != WK_OK) { /* no WAL is begun */
		wk_error ignored;
		pthread_mutex_lock(&db->lock);
		memcpy(db->live.salt, before.salt, sizeof before.salt);
		memcpy(db->live.earlier, before.earlier, sizeof before.earlier);
		(void)wk_state_file_note(&db->state_file, db->live, &ignored);
		pthread_mutex_unlock(&db->lock);
	}
	return status;
}

void wk_database_wal_begins_later(wk_database *db, const uint8_t salt[8]) {
	pthread_mutex_lock(&db->lock);
	memcpy(db->live.salt, salt, sizeof db->live.salt);
	note_wal(db, NULL); /* which makes it the earlier one: it is known, and not compared */
	pthread_mutex_unlock(&db->lock);
}

static bool is_opened_file(const wk_database *db, const struct stat *file) {
	return db->device == file->st_dev && db->inode == file->st_ino;
}

bool wk_database_connected(wk_database *db, void *host) {
	pthread_mutex_lock(&db->lock);
	if (db->connections > 0 && db->host != host) {
		pthread_mutex_unlock(&db->lock);
		return false;
	}
	bool first = db->connections++ == 0;
	struct stat file;
	bool found = stat(db->path, &file) == 0;
	/* what is written to a WAL that was kept is seen in the wal-index */
	bool changed = first && (db->keeper != NULL ? !found || !is_opened_file(db, &file)
	                                            : !wk_file_stamp_equal(db->unconnected, wk_file_stamp_of(db->path)));
	if (first && found) {
		db->device = file.st_dev;
		db->inode = file.st_ino;
	}
	wk_error error;
	bool clean = first && !changed && db->state_file.closed.size != 0 && db->state_file.closed.size != WK_FILE_SPOILED;
	if (clean && wk_state_file_store(&db->state_file, &db->state_file.at, (wk_file_stamp){0}, &error) != WK_OK) {
		db->connections--;
		pthread_mutex_unlock(&db->lock);
		return false;
	}
	void *stranger = db->host != host ? db->keeper : NULL; /* closing it later would take this SQLite's locks */
	if (stranger != NULL)
		db->keeper = NULL;
	db->host = host;
	pthread_mutex_unlock(&db->lock);
	wk_vfs_close_keeper(stranger);
	if (changed)
		wk_database_spoiled(
		    db,
		    "another program changed the file without the VFS walkeeper: move it away, and it is made from the log");
	return true;
}

void *wk_database_host(wk_database *db) {
	pthread_mutex_lock(&db->lock);
	void *host = db->host;
	pthread_mutex_unlock(&db->lock);
	return host;
}

bool wk_database_in_place(wk_database *db) {
	struct stat file;
	bool found = stat(db->path, &file) == 0;
	pthread_mutex_lock(&db->lock);
	bool same = db->connections == 0 || (found && is_opened_file(db, &file));
	pthread_mutex_unlock(&db->lock);
	return same;
}

void wk_database_spoiled(wk_database *db, const char *reason) {
	wk_error error;
	wk_database_stop(db, WK_DATABASE_POISONED, reason);
	if (db->state_file.closed.size != WK_FILE_SPOILED)
		(void)wk_state_file_store(&db->state_file, &db->state_file.at, (wk_file_stamp){.size = WK_FILE_SPOILED},
		                          &error);
}

bool wk_database_disconnecting(wk_database *db) {
	pthread_mutex_lock(&db->lock);
	bool last = ++db->closing == db->connections;
	pthread_mutex_unlock(&db->lock);
	return last && db->wal.known && wk_database_is_mine(db);
}

void *wk_database_keep(wk_database *db, void *keeper) {
	pthread_mutex_lock(&db->lock);
	void *earlier = db->keeper;
	db->keeper = keeper;
	pthread_mutex_unlock(&db->lock);
	return earlier;
}

void wk_database_disconnected(wk_database *db) {
	struct stat file;
	pthread_mutex_lock(&db->lock);
	db->closing--;
	bool last = --db->connections == 0;
	bool replaced = last && stat(db->path, &file) == 0 && !is_opened_file(db, &file);
	if (last)
		db->unconnected = wk_file_stamp_of(db->path);
	pthread_mutex_unlock(&db->lock);
	if (replaced)
		wk_database_spoiled(db, "another file was put in the place of the database while connections had it open: move "
		                        "it away, and the database is made from the log");
}

void wk_database_stop(wk_database *db, uint32_t state, const char *reason) {
	pthread_mutex_lock(&db->lock);
	if (db->status.state == WK_DATABASE_OPEN || db->status.state == WK_DATABASE_FOLLOWING ||
	    (db->status.state == WK_DATABASE_FENCED && state != WK_DATABASE_FENCED)) {
		db->status.state = state;
		size_t size = strnlen(reason, sizeof db->status.reason - 1);
		memcpy(db->status.reason, reason, size);
		db->status.reason[size] = 0;
	}
	pthread_mutex_unlock(&db->lock);
}

bool wk_database_is_mine(const wk_database *db) {
	return db->process == getpid();
}

uint32_t wk_database_state_of(wk_database *db) {
	pthread_mutex_lock(&db->lock);
	uint32_t state = db->status.state;
	pthread_mutex_unlock(&db->lock);
	return state;
}

void wk_database_status_get(wk_database *db, wk_database_status *status) {
	pthread_mutex_lock(&db->lock);
	*status = db->status;
	status->id = db->at.database;
	status->lsn = db->at.lsn;
	status->transaction = db->at.transaction;
	status->redo = atomic_load(&db->redo);
	status->healed = db->wal.healed;
	status->page_size = db->at.page_size;
	status->pages = db->at.pages;
	pthread_mutex_unlock(&db->lock);
}
