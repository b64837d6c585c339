/*
 * sqlite.h: SQLite databases whose write-ahead log is a log of walkeeper. Every COMMIT that returned is in the log before
 * any connection sees it; the database file is a cache, and is made anew from the log where it is lost.
 *
 * A database is opened by wk_database_open, or by the first connection that names its log:
 *
 *     file:app.db?vfs=walkeeper&wk_root=/var/lib/app/wal&wk_log=app
 *     file:app.db?vfs=walkeeper&wk_gateway=localhost:4590&wk_token_file=/etc/app/token&wk_log=app
 *
 * Connections find a database that is open in this process by its path. The VFS "walkeeper" is registered by the entry
 * point of the loadable extension (sqlite3_walkeeper_init), once for each SQLite in the process.
 *
 * The conventions are those of core.h. Calls may be made from any thread; of one database, wk_database_close is the last.
 */
#ifndef WALKEEPER_SQLITE_H
#define WALKEEPER_SQLITE_H
#include "walkeeper/log.h"

/* A record of the log: its payload, and where it is. Any answer but WK_OK ends the read, and is its answer. */
typedef wk_status (*wk_database_record_fn)(void *context, const uint8_t *payload, size_t size, int64_t sequence_id,
                                           int64_t txid);

/*
 * What a database needs of a log. Of one that is only read `append`, `submit` and `wait` are NULL. `append` returns once all
 * records are durable; *last is the sequence id of the last one. Where it fails, error->outcome_unknown says whether a record may be durable all the same. `read` gives every record from
 * the sequence id `from` on, in order, and ends with WK_OK behind the last durable one. `close` lets go of it.
 */
typedef struct wk_database_log {
	void *context;
	uint64_t log_id;
	/* Opens the log's writer, which fences the one before it. NULL: the log is only read. Before it nothing is appended. */
	wk_status (*take_over)(void *context, wk_error *error);
	wk_status (*append)(void *context, const uint8_t *bytes, const uint32_t *sizes, size_t count, int64_t *last,
	                    wk_error *error);
	/*
	 * The same without the wait: *last is the sequence id that the last one gets, *ticket goes to `wait`, which returns once
	 * the records of it and of earlier tickets are durable. Both may be NULL: there is no group acknowledgement.
	 */
	wk_status (*submit)(void *context, const uint8_t *bytes, const uint32_t *sizes, size_t count, int64_t *last,
	                    uint64_t *ticket, wk_error *error);
	wk_status (*wait)(void *context, uint64_t ticket, wk_error *error);
	wk_status (*read)(void *context, int64_t from, wk_database_record_fn record, void *record_context, wk_error *error);
	/* The first record that is not truncated, and the number that the next one gets. */
	wk_status (*range)(void *context, int64_t *first, int64_t *next, wk_error *error);
	void (*close)(void *context);
} wk_database_log;

/*
 * The log `name` in the directory `root`. With `write` it is made where there is none, and wk_database_open opens its writer.
 */
WK_API wk_status wk_database_log_open(const char *root, const char *name, bool write, wk_database_log *log,
                                      wk_error *error);

/*
 * A log that is open, only to read. It stays the caller's, who releases it behind `close`. WK_CLOSED, WK_DELETED, as wk_log_describe;
 * WK_NO_MEMORY.
 */
WK_API wk_status wk_database_log_of(wk_log *open, wk_database_log *log, wk_error *error);

typedef struct wk_cluster_writer wk_cluster_writer; /* cluster.h */
/*
 * The control plane of a log on bookies: it keeps the log's metadata. `take_over` opens the log's writer, which lives until
 * `close`; NULL: the log is only read. `next_segment` is called where the writer answers WK_NEEDS_SEGMENT, with the txid of its
 * error, and the records are appended again behind it. `explain` is given each other failure, and may know whether a record was
 * written: it returns the status, and sets error->outcome_unknown. The rest is as in wk_database_log.
 */
typedef struct wk_cluster_log_control {
	void *context;
	wk_status (*take_over)(void *context, wk_cluster_writer **writer, wk_error *error);
	wk_status (*next_segment)(void *context, int64_t txid, wk_error *error);
	wk_status (*explain)(void *context, wk_status status, wk_error *error);
	wk_status (*read)(void *context, int64_t from, wk_database_record_fn record, void *record_context, wk_error *error);
	wk_status (*range)(void *context, int64_t *first, int64_t *next, wk_error *error);
	void (*close)(void *context);
} wk_cluster_log_control;
/* A log on bookies, whose commits are appended without the control plane. WK_NO_MEMORY; the control is the caller's then. */
WK_API wk_status wk_database_log_on_bookies(const wk_cluster_log_control *control, uint64_t log_id,
                                            wk_database_log *log, wk_error *error);
typedef struct wk_gateway_options {
	const char *token;      /* what the gateway wants to be shown; NULL: the first line of token_file */
	const char *token_file; /* NULL: in the environment WALKEEPER_TOKEN, or WALKEEPER_TOKEN_FILE */
	uint64_t timeout_ns;    /* of each answer (default 60 s) */
} wk_gateway_options;
WK_API void wk_gateway_options_init(wk_gateway_options *options);
/*
 * The same through a gateway (docs/gateway.md) on this machine: `address` is HOST:PORT of loopback, or unix:PATH. `options` may be NULL.
 * An append whose answer does not come has an unknown outcome; where the gateway could not be asked, nothing was written, and
 * the next append connects again. WK_UNSUPPORTED: the address is another machine's, which wants TLS. WK_INVALID: the token
 * is none. WK_UNAVAILABLE, WK_TIMEOUT: no gateway answers. WK_CORRUPT: what answers is none.
 */
WK_API wk_status wk_database_log_connect(const char *address, const char *name, bool write,
                                         const wk_gateway_options *options, wk_database_log *log, wk_error *error);

/*
 * How COMMIT waits. STRICT: nobody sees the commit, and nobody else commits, before it is in the log. GROUP: the next
 * transaction begins, and readers of this machine see the commit, while it waits for the log; COMMIT returns when it is
 * there. Where it does not come there, the database is poisoned, for readers too.
 */
enum wk_acknowledge { WK_ACKNOWLEDGE_STRICT = 0, WK_ACKNOWLEDGE_GROUP = 1 };

typedef struct wk_database_options {
	uint32_t page_size;   /* of a database that is made: a power of two from 512 to 65536 (default 4096) */
	uint32_t acknowledge; /* enum wk_acknowledge (default STRICT) */
	const char *name;     /* of a database beside the one whose the log is; NULL (default): it is that one */
} wk_database_options;
WK_API void wk_database_options_init(wk_database_options *options);

/* The file that this code was loaded from, for SQLite to load it as an extension: a process has it once. NULL: not known. */
WK_API const char *wk_database_library(void);
/* Whether a SQLite of this process has loaded it. */
WK_API bool wk_database_has_host(void);

typedef struct wk_database wk_database;

/*
 * Opens the database file `path` on its log, and the log's writer; the log is the database's from then on, and is closed with it (on
 * failure too). The file is brought to the last record of the log. Where there is no file, it is made from the log; where
 * the log is empty too, an empty database is made; where only the log is empty, the file's pages are its first records.
 *
 * WK_LOCKED: another process, or a connection without this VFS, has the database open. WK_EXISTS: it is open in this
 * process. WK_INVALID: the file is not this log's, or no database. WK_CORRUPT: a record that is none of ours.
 * WK_UNSUPPORTED: no SQLite of this process has loaded the extension. WK_IO.
 */
WK_API wk_status wk_database_open(const char *path, const wk_database_log *log, const wk_database_options *options,
                                  wk_database **database, wk_error *error);
/*
 * Opens another database on the log of the first, and its writer, by options->name, from 1 to 255 bytes. Both have group acknowledgement.
 * A transaction over databases of one log, which one connection has attached to each other, is one record: a restart, a restoration and a
 * follower have all of it or nothing. Where the log refuses it when connections have seen a part, these databases are poisoned.
 *
 * As wk_database_open answers. Where the log has no database of this name, the file is taken over, or an empty one is made.
 */
WK_API wk_status wk_database_open_beside(wk_database *first, const char *path, const wk_database_options *options,
                                         wk_database **database, wk_error *error);
/* Connections that are open go on; the log is closed with the last of them. */
WK_API void wk_database_close(wk_database *database);

enum wk_database_state {
	WK_DATABASE_OPEN = 0,
	WK_DATABASE_FENCED = 1, /* another writer has the log: this one reads what it had */
	/* an append of unknown outcome, or local files that could not follow the log: close all connections and open again */
	WK_DATABASE_POISONED = 2,
	WK_DATABASE_FOLLOWING = 3, /* it follows the log of another writer */
};

typedef struct wk_database_status {
	uint32_t state;       /* enum wk_database_state */
	uint64_t id;          /* the database's, in every record */
	int64_t lsn;          /* the sequence id of the last commit's last record; -1: none */
	uint64_t transaction; /* the number of the last commit */
	int64_t redo;         /* the sequence id from which a restart reads */
	uint64_t commits;     /* since it was opened */
	uint64_t healed;      /* commits whose frames SQLite had left with wrong checksums */
	uint64_t log_bytes;   /* payload of the records of these commits */
	uint32_t page_size;
	uint32_t pages;
	char reason[WK_ERROR_TEXT_MAX];  /* why it is not open */
	char refusal[WK_ERROR_TEXT_MAX]; /* why the log refused a commit the last time; empty: it never did */
} wk_database_status;
WK_API void wk_database_status_get(wk_database *database, wk_database_status *status);
/* The database that is open in this process, or NULL; let go of by wk_database_close. `path` as SQLite has it: absolute. */
WK_API wk_database *wk_database_find(const char *path);

/*
 * A snapshot: all pages as of one commit become records of the log, so that a restart and a restoration can begin there, and
 * records before it can be truncated. The caller sees to it that nobody commits during wk_database_snapshot_begin (BEGIN
 * IMMEDIATE), and that a read transaction which began meanwhile stays open until the end. Commits go on in between.
 */
typedef struct wk_database_snapshot wk_database_snapshot;
WK_API wk_status wk_database_snapshot_begin(wk_database *database, wk_database_snapshot **snapshot, wk_error *error);
/* Appends up to so many more pages; *left says how many there are still: 0 behind the last record. What an append answers. */
WK_API wk_status wk_database_snapshot_append(wk_database_snapshot *snapshot, uint32_t pages, uint32_t *left,
                                             wk_error *error);
/* The sequence id of its first record: what is before may be truncated once it is whole. */
WK_API int64_t wk_database_snapshot_lsn(const wk_database_snapshot *snapshot);
WK_API void wk_database_snapshot_free(wk_database_snapshot *snapshot);

/*
 * A file that follows the log: any SQLite of another process reads it, without this VFS, and in this process the one that
 * follows. Each commit is seen whole. Nobody writes to the file. It is opened as wk_database_open does, with a log that is only read; then it is given every record behind
 * `wk_follower_lsn`, in their order.
 */
typedef struct wk_follower wk_follower;
/* What wk_database_open answers, and WK_NOT_FOUND: the log has no whole snapshot yet. The log is the follower's from then on. */
WK_API wk_status wk_follower_open(const char *path, const char *name, const wk_database_log *log,
                                  wk_follower **follower, wk_error *error);
/*
 * The next record of the log. WK_LOCKED: a reader kept the file for ten seconds; nothing was done: give it again. WK_CORRUPT; WK_IO.
 * WK_INVALID: another program wrote to the file. Behind an answer that is neither WK_OK nor WK_LOCKED the follower is only closed.
 */
WK_API wk_status wk_follower_record(wk_follower *follower, const uint8_t *payload, size_t size, int64_t sequence_id,
                                    int64_t txid, wk_error *error);
/* The sequence id of the last commit that readers see. From any thread. */
WK_API int64_t wk_follower_lsn(wk_follower *follower);
WK_API void wk_follower_close(wk_follower *follower);

typedef struct wk_database_restored {
	int64_t lsn; /* of the last commit that the file has */
	int64_t txid;
	uint64_t transaction;
	uint32_t page_size, pages;
} wk_database_restored;
/*
 * Makes the file `path`, which must not exist, from the log: with every commit up to the sequence id `lsn` (-1: all) and
 * up to the txid `txid` (-1: all; on a log with the clock's txids, milliseconds). `from`: where the snapshot that is to be used
 * begins; -1: the newest is looked for in all of the log. WK_NOT_FOUND: there is no snapshot before them.
 */
WK_API wk_status wk_database_restore(const wk_database_log *log, const char *name, const char *path, int64_t from,
                                     int64_t lsn, int64_t txid, wk_database_restored *restored, wk_error *error);
#endif
