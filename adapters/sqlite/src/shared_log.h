/*
 * shared_log.h: the log of one database, or of several that are open beside it. A transaction over several of them is one record: the
 * commits of its databases are held until the last one has come, and then appended together. Private.
 */
#ifndef WK_SQLITE_SHARED_LOG_H
#define WK_SQLITE_SHARED_LOG_H
#include <pthread.h>

#include "walkeeper/sqlite.h"

/* As many as a connection of SQLite has by default: main, and ten that are attached. */
enum { WK_DATABASES_OF_A_LOG_MAX = 11 };

struct wk_database;
typedef struct wk_shared_log {
	wk_database_log log;
	pthread_mutex_t lock;
	struct wk_database *members[WK_DATABASES_OF_A_LOG_MAX];
	size_t count;
} wk_shared_log;

/* A log of nobody yet, who then closes it. NULL: no memory; the log is the caller's. */
wk_shared_log *wk_shared_log_new(const wk_database_log *log);
/* False: it has as many databases as it may. *first: there is no other one, and nobody has the log's writer. */
bool wk_shared_log_join(wk_shared_log *shared, struct wk_database *database, bool *first);
/* With the last one the log is closed. */
void wk_shared_log_leave(wk_shared_log *shared, struct wk_database *database);

/* Whether another database of the log takes part in the transaction: its connection has the write lock there too. */
bool wk_shared_log_has_partners(struct wk_database *database);
/* Whether a partner has yet to commit. */
bool wk_shared_log_awaits_partners(struct wk_database *database);
/* Whether one of those wrote frames that it did not commit: the transaction is being rolled back. */
bool wk_shared_log_has_failed_partners(struct wk_database *database);
/*
 * Appends what the database and its partners hold. Where the log refuses, those of them whose commits connections have seen are poisoned;
 * `last`, which nobody has seen, is not.
 */
wk_status wk_shared_log_submit(struct wk_database *database, struct wk_database *last, wk_error *error);
/* The transaction failed when a part of it had been seen: nothing of it is appended, and these databases are poisoned. */
void wk_shared_log_abandon(struct wk_database *database);
#endif
