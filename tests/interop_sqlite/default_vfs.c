/*
 * default_vfs.c: a loadable extension for the suites of other projects: a VFS that is SQLite's default, so that every database
 * which a suite opens by its bare name is one of walkeeper.
 *
 * With WALKEEPER_SQLITE_ROOT each database has a log of its own in that directory. Suites delete databases, make them anew
 * under the same name, and write into the files: a file that is not there, or that changed meanwhile, begins a new log.
 *
 * Without WALKEEPER_SQLITE_ROOT it is the base that the suites are compared with: SQLite's own VFS, under the conditions
 * that walkeeper makes: every database is in WAL mode from its first page on, has one page size, and stays in WAL mode.
 *
 * WALKEEPER_SQLITE_COUNTS names a file that gets a line at the end of each process. WALKEEPER_SQLITE_PRELOAD names the SQLite into
 * which LD_PRELOAD brings it; WALKEEPER_SQLITE_LOG prints what that SQLite logs.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3ext.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "walkeeper/sqlite.h"

SQLITE_EXTENSION_INIT1

int sqlite3_walkeeper_init(sqlite3 *connection, char **error, const sqlite3_api_routines *api);
int sqlite3_defaultvfs_init(sqlite3 *connection, char **error, const sqlite3_api_routines *api);

enum { PATH_SIZE = 4096, METHODS_MAX = 32, NO_LOG = 0, CONFIG_LOG = 16 /* SQLITE_CONFIG_LOG */ };

/* A database of the suite, by its path, for the life of the process. */
typedef struct suite_database {
	struct suite_database *next;
	char *path;
	uint64_t log;
	uint32_t open;
	struct timespec
	    left[2]; /* when its file, and its WAL, were changed last, as they were at the end of the last connection */
} suite_database;

/* A name with its URI parameters, as SQLite lays it out. Files keep it, so it is never let go of. */
typedef struct interned_name {
	struct interned_name *next;
	size_t size;
	char bytes[];
} interned_name;

/* The methods of a file, with ours in place of some. */
typedef struct replaced_methods {
	sqlite3_io_methods ours;
	const sqlite3_io_methods *theirs;
} replaced_methods;

typedef struct open_file {
	struct open_file *next;
	const sqlite3_file *file;
	suite_database *database;
} open_file;

typedef struct counts {
	uint64_t opens, databases, adopted_anew, refused, commits, healed, poisoned;
	char reason[WK_ERROR_TEXT_MAX]; /* of the first poisoned database */
} counts;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static suite_database *databases;
static open_file *files;
static interned_name *names;
static replaced_methods methods[METHODS_MAX];
static size_t methods_count;
static uint64_t logs_count;
static counts total;

static sqlite3_vfs *real;       /* "walkeeper", or SQLite's own */
static char root[PATH_SIZE];    /* of the logs of this process; empty: the base */
static char page_size[16];      /* of databases that are made */
static wk_namespace *open_root; /* it is held, so that no database opens the directory anew */

/* ---- what a suite has opened ---- */

static suite_database *database_at(const char *path) {
	suite_database *db = databases;
	while (db != NULL && strcmp(db->path, path) != 0)
		db = db->next;
	if (db == NULL) {
		db = calloc(1, sizeof *db);
		*db = (suite_database){.next = databases, .path = strdup(path)};
		databases = db;
	}
	return db;
}

static bool is_new(const char *path) {
	struct stat file;
	return stat(path, &file) != 0 || file.st_size == 0;
}

static void look_at(const suite_database *db, struct timespec changed[2]) {
	static const char *const SUFFIXES[] = {"", "-wal"};
	for (int i = 0; i < 2; i++) {
		char path[PATH_SIZE];
		struct stat file;
		snprintf(path, sizeof path, "%s%s", db->path, SUFFIXES[i]);
		changed[i] = stat(path, &file) == 0 ? file.st_ctim : (struct timespec){0};
	}
}

/* The suite wrote into the files, or put others in their place. */
static bool is_changed(const suite_database *db) {
	struct timespec now[2];
	look_at(db, now);
	return memcmp(now, db->left, sizeof now) != 0;
}

/* Whether no other process has the database. */
static bool begin_log(suite_database *db) {
	char state[PATH_SIZE];
	struct flock write_lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	snprintf(state, sizeof state, "%s-wk", db->path);
	int fd = open(state, O_RDWR | O_CLOEXEC);
	bool ours = fd < 0 || fcntl(fd, F_OFD_SETLK, &write_lock) == 0;
	if (ours && fd >= 0)
		unlink(state);
	if (fd >= 0)
		close(fd);
	if (ours) {
		db->log = ++logs_count;
		total.databases++;
	}
	return ours;
}

static char *append(char *at, const char *text) {
	size_t size = strlen(text) + 1;
	memcpy(at, text, size);
	return at + size;
}

/* Four zeros, the path, the parameters that it came with, ours, and the end (sqlite3_create_filename). */
static const char *intern(const char *name, uint64_t log_number) {
	char bytes[4 * PATH_SIZE] = {0}, log[32] = "";
	char *at = append(bytes + 4, name);
	const char *key;
	for (int i = 0; (key = sqlite3_uri_key(name, i)) != NULL; i++) {
		at = append(at, key);
		at = append(at, sqlite3_uri_parameter(name, key));
	}
	if (log_number != NO_LOG)
		snprintf(log, sizeof log, "%llu", (unsigned long long)log_number);
	at = append(append(at, "wk_root"), root);
	at = append(append(at, "wk_log"), log);
	at = append(append(at, "wk_page_size"), page_size);
	size_t size = (size_t)(at - bytes) + 4;
	interned_name *interned = names;
	while (interned != NULL && (interned->size != size || memcmp(interned->bytes, bytes, size) != 0))
		interned = interned->next;
	if (interned == NULL) {
		interned = malloc(sizeof *interned + size);
		interned->next = names;
		interned->size = size;
		memcpy(interned->bytes, bytes, size);
		names = interned;
	}
	return interned->bytes + 4;
}

/* ---- counting ---- */

static void count(const wk_database_status *status) {
	total.commits += status->commits;
	total.healed += status->healed;
	if (status->state != WK_DATABASE_POISONED)
		return;
	if (total.poisoned++ == 0)
		memcpy(total.reason, status->reason, sizeof total.reason);
}

static void report(void) {
	const char *path = getenv("WALKEEPER_SQLITE_COUNTS");
	FILE *file = path != NULL ? fopen(path, "a") : NULL;
	if (file == NULL)
		return;
	pthread_mutex_lock(&lock);
	for (suite_database *db = databases; root[0] != 0 && db != NULL; db = db->next) {
		wk_database *open = wk_database_find(db->path);
		if (open == NULL)
			continue;
		wk_database_status status;
		wk_database_status_get(open, &status);
		count(&status);
	}
	fprintf(
	    file,
	    "opens=%llu databases=%llu adopted_anew=%llu refused=%llu commits=%llu healed=%llu poisoned=%llu reason=%s\n",
	    (unsigned long long)total.opens, (unsigned long long)total.databases, (unsigned long long)total.adopted_anew,
	    (unsigned long long)total.refused, (unsigned long long)total.commits, (unsigned long long)total.healed,
	    (unsigned long long)total.poisoned, total.reason);
	pthread_mutex_unlock(&lock);
	fclose(file);
}

/* ---- files ---- */

static const sqlite3_io_methods *theirs(const sqlite3_file *file) {
	return ((const replaced_methods *)(const void *)file->pMethods)->theirs;
}

static suite_database *of(const sqlite3_file *file) {
	open_file *at = files;
	while (at->file != file)
		at = at->next;
	return at->database;
}

static void forget(const sqlite3_file *file) {
	open_file **at = &files;
	while ((*at)->file != file)
		at = &(*at)->next;
	open_file *gone = *at;
	*at = gone->next;
	gone->database->open--;
	free(gone);
}

/* With the last connection a database is gone, and its counts with it. */
static int close_database(sqlite3_file *file) {
	const sqlite3_io_methods *their = theirs(file);
	wk_database_status status = {0};
	pthread_mutex_lock(&lock);
	suite_database *db = of(file);
	wk_database *database = root[0] != 0 ? wk_database_find(db->path) : NULL;
	if (database != NULL)
		wk_database_status_get(database, &status);
	int rc = their->xClose(file);
	forget(file);
	if (database != NULL)
		wk_database_close(database);
	if (database != NULL && db->open == 0)
		count(&status);
	if (db->open == 0)
		look_at(db, db->left);
	pthread_mutex_unlock(&lock);
	return rc;
}

/* What walkeeper answers. */
static int control_base(sqlite3_file *file, int operation, void *argument) {
	if (operation == SQLITE_FCNTL_PRAGMA) {
		char **arguments = argument;
		bool leaves = sqlite3_stricmp(arguments[1], "journal_mode") == 0 && arguments[2] != NULL &&
		              sqlite3_stricmp(arguments[2], "wal") != 0;
		if (leaves) {
			arguments[0] = sqlite3_mprintf(
			    "the journal mode of a database of walkeeper is wal: its write-ahead log is what is kept");
			return SQLITE_ERROR;
		}
	}
	return theirs(file)->xFileControl(file, operation, argument);
}

static void replace_methods(sqlite3_file *file) {
	size_t i = 0;
	while (i < methods_count && methods[i].theirs != file->pMethods)
		i++;
	if (i == METHODS_MAX)
		abort();
	if (i == methods_count) {
		methods[methods_count++] = (replaced_methods){.ours = *file->pMethods, .theirs = file->pMethods};
		methods[i].ours.xClose = close_database;
		if (root[0] == 0)
			methods[i].ours.xFileControl = control_base;
	}
	file->pMethods = &methods[i].ours;
}

static int note_open(sqlite3_file *file, suite_database *db) {
	open_file *opened = malloc(sizeof *opened);
	*opened = (open_file){.next = files, .file = file, .database = db};
	files = opened;
	db->open++;
	total.opens++;
	replace_methods(file);
	return SQLITE_OK;
}

/* ---- the base ---- */

static int answer_of(const char *path, const char *sql) {
	sqlite3 *connection = NULL;
	int rc = sqlite3_open_v2(path, &connection, SQLITE_OPEN_READWRITE | SQLITE_OPEN_PRIVATECACHE, real->zName);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(connection, sql, NULL, NULL, NULL);
	sqlite3_close(connection);
	return rc;
}

/* As walkeeper makes it: one empty page, or what is there in WAL mode. */
static int prepare_base(const suite_database *db, int flags) {
	char sql[128];
	bool make = is_new(db->path);
	if ((flags & SQLITE_OPEN_READWRITE) == 0 || (make && (flags & SQLITE_OPEN_CREATE) == 0))
		return SQLITE_OK;
	if (make) {
		FILE *file = fopen(db->path, "a");
		if (file == NULL)
			return SQLITE_CANTOPEN;
		fclose(file);
	}
	snprintf(sql, sizeof sql, "PRAGMA page_size=%s; PRAGMA journal_mode=WAL; %s", make ? page_size : "0",
	         make ? "" : "PRAGMA wal_checkpoint(TRUNCATE)");
	return answer_of(db->path, sql);
}

/* ---- opening ---- */

static int open_plain(const char *name, sqlite3_file *file, int flags, int *out_flags) {
	return real->xOpen(real, name, file, flags, out_flags);
}

static int open_base(suite_database *db, const char *name, sqlite3_file *file, int flags, int *out_flags) {
	if (db->open == 0)
		(void)prepare_base(db, flags); /* what is no database stays as it is, and SQLite says so */
	int rc = open_plain(name, file, flags, out_flags);
	return rc == SQLITE_OK ? note_open(file, db) : rc;
}

static int open_as_log(const char *name, uint64_t log, sqlite3_file *file, int flags, int *out_flags) {
	return open_plain(intern(name, log), file, flags, out_flags);
}

/* What is damaged or no database, and so is refused, is opened without a log: the suite asks what SQLite says of it. */
static int open_with_log(suite_database *db, const char *name, sqlite3_file *file, int flags, int *out_flags) {
	bool begun = db->log != 0 && (db->open > 0 || (!is_new(db->path) && !is_changed(db)));
	if (!begun && !begin_log(db))
		return SQLITE_CANTOPEN;
	int rc = open_as_log(name, db->log, file, flags, out_flags);
	if (rc != SQLITE_OK && begun && db->open == 0 && begin_log(db)) {
		total.adopted_anew++;
		rc = open_as_log(name, db->log, file, flags, out_flags);
	}
	if (rc == SQLITE_OK)
		return note_open(file, db);
	if (db->open > 0 || is_new(db->path))
		return rc;
	total.refused++;
	return open_as_log(name, NO_LOG, file, flags, out_flags);
}

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags) {
	(void)vfs;
	if (name == NULL || (flags & SQLITE_OPEN_MAIN_DB) == 0)
		return open_plain(name, file, flags, out_flags);
	pthread_mutex_lock(&lock);
	file->pMethods = NULL;
	suite_database *db = database_at(name);
	int rc = root[0] == 0 ? open_base(db, name, file, flags, out_flags)
	                      : open_with_log(db, name, file, flags, out_flags);
	pthread_mutex_unlock(&lock);
	return rc;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync) {
	(void)vfs;
	return real->xDelete(real, name, sync);
}
static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *answer) {
	(void)vfs;
	return real->xAccess(real, name, flags, answer);
}
static int vfs_full_pathname(sqlite3_vfs *vfs, const char *name, int size, char *full) {
	(void)vfs;
	return real->xFullPathname(real, name, size, full);
}
static void *vfs_dl_open(sqlite3_vfs *vfs, const char *name) {
	(void)vfs;
	return real->xDlOpen(real, name);
}
static void vfs_dl_error(sqlite3_vfs *vfs, int size, char *text) {
	(void)vfs;
	real->xDlError(real, size, text);
}
static void (*vfs_dl_sym(sqlite3_vfs *vfs, void *library, const char *symbol))(void) {
	(void)vfs;
	return real->xDlSym(real, library, symbol);
}
static void vfs_dl_close(sqlite3_vfs *vfs, void *library) {
	(void)vfs;
	real->xDlClose(real, library);
}
static int vfs_randomness(sqlite3_vfs *vfs, int size, char *bytes) {
	(void)vfs;
	return real->xRandomness(real, size, bytes);
}
static int vfs_sleep(sqlite3_vfs *vfs, int microseconds) {
	(void)vfs;
	return real->xSleep(real, microseconds);
}
static int vfs_current_time(sqlite3_vfs *vfs, double *now) {
	(void)vfs;
	return real->xCurrentTime(real, now);
}
static int vfs_last_error(sqlite3_vfs *vfs, int size, char *text) {
	(void)vfs;
	return real->xGetLastError(real, size, text);
}
static int vfs_current_time_int64(sqlite3_vfs *vfs, sqlite3_int64 *now) {
	(void)vfs;
	return real->xCurrentTimeInt64(real, now);
}

static sqlite3_vfs default_vfs = {
    .iVersion = 2,
    .zName = "interop",
    .xOpen = vfs_open,
    .xDelete = vfs_delete,
    .xAccess = vfs_access,
    .xFullPathname = vfs_full_pathname,
    .xDlOpen = vfs_dl_open,
    .xDlError = vfs_dl_error,
    .xDlSym = vfs_dl_sym,
    .xDlClose = vfs_dl_close,
    .xRandomness = vfs_randomness,
    .xSleep = vfs_sleep,
    .xCurrentTime = vfs_current_time,
    .xGetLastError = vfs_last_error,
    .xCurrentTimeInt64 = vfs_current_time_int64,
};

/* ---- the extension ---- */

static int begin_root(const char *parent, char **error) {
	wk_open_options options;
	wk_error failure;
	wk_open_options_init(&options);
	snprintf(root, sizeof root, "%s/%ld", parent, (long)getpid());
	if (wk_open(root, &options, &open_root, &failure) == WK_OK)
		return SQLITE_OK;
	*error = sqlite3_mprintf("%s", failure.text);
	return SQLITE_ERROR;
}

/* Once for a process, and again where sqlite3_initialize has made SQLite's own VFS the default. */
int sqlite3_defaultvfs_init(sqlite3 *connection, char **error, const sqlite3_api_routines *api) {
	SQLITE_EXTENSION_INIT2(api);
	const char *parent = getenv("WALKEEPER_SQLITE_ROOT"), *size = getenv("WALKEEPER_SQLITE_PAGE_SIZE");
	int rc = SQLITE_OK;
	if (parent != NULL) {
		rc = sqlite3_walkeeper_init(connection, error, api);
		if (rc == SQLITE_OK_LOAD_PERMANENTLY)
			rc = root[0] == 0 ? begin_root(parent, error) : SQLITE_OK;
	}
	if (rc != SQLITE_OK)
		return rc;
	if (real == NULL) {
		snprintf(page_size, sizeof page_size, "%s", size != NULL ? size : "4096");
		real = sqlite3_vfs_find(parent != NULL ? "walkeeper" : NULL);
		default_vfs.szOsFile = real->szOsFile;
		default_vfs.mxPathname = real->mxPathname;
		atexit(report);
	}
	sqlite3_vfs_register(&default_vfs, 1);
	return SQLITE_OK_LOAD_PERMANENTLY;
}

static void print_log(void *context, int code, const char *text) {
	(void)context;
	fprintf(stderr, "sqlite: %d: %s\n", code, text);
}

/* By LD_PRELOAD: into the SQLite that the program will load, or has been linked with. */
__attribute__((constructor)) static void preload(void) {
	const char *library = getenv("WALKEEPER_SQLITE_PRELOAD");
	void *sqlite = library != NULL ? dlopen(library, RTLD_NOW | RTLD_GLOBAL) : NULL;
	if (sqlite == NULL)
		return;
	int (*open)(const char *, sqlite3 **), (*enable)(sqlite3 *, int), (*close)(sqlite3 *);
	int (*load)(sqlite3 *, const char *, const char *, char **);
	int (*config)(int, ...);
	*(void **)&config = dlsym(sqlite, "sqlite3_config");
	*(void **)&open = dlsym(sqlite, "sqlite3_open");
	*(void **)&enable = dlsym(sqlite, "sqlite3_enable_load_extension");
	*(void **)&load = dlsym(sqlite, "sqlite3_load_extension");
	*(void **)&close = dlsym(sqlite, "sqlite3_close");
	if (getenv("WALKEEPER_SQLITE_LOG") != NULL)
		config(CONFIG_LOG, print_log, NULL);
	Dl_info self;
	sqlite3 *connection;
	char *error = NULL;
	if (dladdr(&default_vfs, &self) == 0 || open(":memory:", &connection) != SQLITE_OK)
		abort();
	enable(connection, 1);
	if (load(connection, self.dli_fname, "sqlite3_defaultvfs_init", &error) != SQLITE_OK) {
		fprintf(stderr, "%s\n", error);
		abort();
	}
	close(connection);
}
