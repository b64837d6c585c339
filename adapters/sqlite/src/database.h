/*
 * database.h: a database that is open in this process: its log, its state file, and what its connections share. Private.
 *
 * `lock` guards what is marked so, another one the registry of open databases. What the WAL's writer changes is guarded by SQLite's WAL_WRITE_LOCK.
 */
#ifndef WK_SQLITE_DATABASE_H
#define WK_SQLITE_DATABASE_H
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "record_writer.h"
#include "shared_log.h"
#include "state_file.h"
#include "wal.h"
#include "walkeeper/sqlite.h"
#include "write_queue.h"

struct wk_file;
struct wk_database {
	wk_database *next; /* of the registry */
	uint32_t references;
	bool changing; /* it is being opened or closed; the registry's lock guards it, as what is above */
	pid_t process; /* that opened it: a fork of it is none */
	char *path;
	char *name; /* NULL: the log is this database's, and that of those beside it */
	wk_shared_log *shared;
	wk_database_log log; /* the same, as it is called */
	wk_state_file state_file;
	wk_wal wal;
	wk_record_writer writer;
	uint8_t *pages;                   /* memory for two */
	_Atomic(struct wk_file *) holder; /* the file whose connection may write: it has the WAL_WRITE_LOCK, or all locks */
	_Atomic(void *) writer_connection;   /* the connection of the holder, as SQLite's address; NULL: none */
	atomic_bool holds_commit;            /* in `writer`, until those of the same transaction have come */
	_Atomic(struct wk_file *) writing;   /* the WAL's file through which the last frame was written */
	uint32_t acknowledge;                /* enum wk_acknowledge */
	_Atomic uint64_t submitted, durable; /* tickets of commits, of which the log has all up to the second */
	atomic_uint wals;                    /* so many times the WAL was begun anew, or cut */
	_Atomic int64_t redo;                /* the sequence id from which a restart reads, as the state file says */
	atomic_bool unsynced;                /* pages were written to the database file since its last sync */
	atomic_uint frames_unsynced;         /* were committed since then */
	wk_write_queue write_queue;
	pthread_mutex_t lock;          /* of the fields below */
	uint32_t connections, closing; /* of which so many are being closed */
	void *host;                    /* the SQLite that they are of: its VFS */
	dev_t device;                  /* of the file that they have open */
	ino_t inode;
	wk_file_stamp unconnected; /* the file when the last connection was closed */
	/*
	 * Where that left a WAL, as another program reads: the host's file, with a lock, so that what that program closes does not empty
	 * the WAL into the database, which would look as if it had been written to. Else NULL.
	 */
	void *keeper;
	wk_live_file live; /* as it was noted */
	wk_redo_point at;  /* the last commit */
	wk_database_status status;
};

/* SQLITE_OK, or what fails the write that completed the transaction (wk_wal_commit_fn). */
int wk_database_commit(void *database, const wk_wal_file *file, uint32_t last, uint32_t pages);
/*
 * What an append that failed leaves: no database goes on behind one whose outcome is not known, of a snapshot either, as its log's
 * writer may take nothing more.
 */
void wk_database_append_failed(wk_database *database, wk_status status, const wk_error *error);
/*
 * All commits are in the database file, which is synced: a restart need not read them again, and pages have their first image anew.
 * Later commits go into a WAL with this salt of 8 bytes; NULL: there is none yet. WK_IO.
 */
wk_status wk_database_checkpointed(wk_database *database, const uint8_t *salt, wk_error *error);
/* A WAL with this salt is begun, and commits before it are not safe in the database file. */
void wk_database_wal_begins_later(wk_database *database, const uint8_t salt[8]);
/* As wk_database_open, of a file that nobody writes to: the log is only read. `opened` NULL: WK_NO_MEMORY; the log is closed. */
wk_status wk_database_open_following(const char *path, const char *name, const wk_database_log *log,
                                     wk_database **opened, wk_error *error);
/* Before the first page is written to the file, and behind the last one: what a crash leaves can be told from what others do to it then. */
void wk_database_file_changes(wk_database *database);
void wk_database_file_written(wk_database *database);
/* The same database with one more reference, where it is open still; NULL: it is not. */
wk_database *wk_database_retain(wk_database *database);
/* Whether this process opened it, and not one that was forked from that. */
bool wk_database_is_mine(const wk_database *database);
/* A held commit was appended: what it waits for, and where it is. */
void wk_database_submitted(wk_database *database, int64_t lsn, uint64_t ticket);
/* Waits until the log has all commits up to the ticket. False: it never will; the database is poisoned. */
bool wk_database_wait(wk_database *database, uint64_t ticket);
/*
 * A connection opens the file, has closed it. With the first one it is looked whether another program changed the file. False: a
 * connection of another SQLite of this process has it open, whose locks would go when this one closes the file.
 */
bool wk_database_connected(wk_database *database, void *host);
/* The SQLite of the connections, as its VFS: another one of this process would take their locks. */
void *wk_database_host(wk_database *database);
/* Whether the path still leads to the file that the connections have open. */
bool wk_database_in_place(wk_database *database);
/* Before the file is closed. True: no other connection is left, and there is a WAL. */
bool wk_database_disconnecting(wk_database *database);
void wk_database_disconnected(wk_database *database);
/* Takes what keeps the WAL, for `keeper`, which may be NULL; what is returned is to be closed. */
void *wk_database_keep(wk_database *database, void *keeper);
/* The file has what the log does not have: nobody uses it again, in this process or a later one. */
void wk_database_spoiled(wk_database *database, const char *reason);
/* No more commits, and no more reads but where `state` is WK_DATABASE_FENCED. The first reason stays. */
void wk_database_stop(wk_database *database, uint32_t state, const char *reason);
uint32_t wk_database_state_of(wk_database *database);
/* Brings the file to the end of the log, or makes it, or makes the log from it; `at` and the state file are set (recovery.c). */
wk_status wk_database_recover(wk_database *database, const wk_database_options *options, wk_error *error);
#endif
