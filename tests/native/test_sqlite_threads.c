/*
 * test_sqlite_threads.c: connections of eight threads to one database: four write, one reads, one checkpoints, one takes snapshots, one
 * looks at the status; and a ninth thread follows the log into a file of its own. Every row that was committed is there, and what the
 * follower made is the database.
 */
#include <sqlite3.h>
#include <stdatomic.h>
#include <unistd.h>

#include "check_status.h"
#include "walkeeper/sqlite.h"
#include "watched_threads.h"

enum { WRITERS = 4, SECONDS = 2, BUSY_MS = 60000, SNAPSHOT_PAGES = 3, PATH = 128 };

static char place[] = "/tmp/walkeeper-sqlite-XXXXXX", root[PATH], file[PATH], copy[PATH], uri[2 * PATH];
static wk_database *database;
static _Atomic int writing, committed;

static void make_place(void) {
	strcpy(place + sizeof place - 7, "XXXXXX");
	CHECK(mkdtemp(place) != NULL);
	snprintf(root, sizeof root, "%s/wal", place);
	snprintf(file, sizeof file, "%s/app.db", place);
	snprintf(copy, sizeof copy, "%s/copy.db", place);
	snprintf(uri, sizeof uri, "file:%s?vfs=walkeeper", file);
}

static void run_command(const char *format, const char *first, const char *second) {
	char command[3 * PATH];
	snprintf(command, sizeof command, format, first, second);
	CHECK_EQ(system(command), 0);
}

static void load_extension(void) {
	sqlite3 *loader;
	CHECK_EQ(sqlite3_open(":memory:", &loader), SQLITE_OK);
	CHECK_EQ(sqlite3_enable_load_extension(loader, 1), SQLITE_OK);
	CHECK_EQ(sqlite3_load_extension(loader, wk_database_library(), "sqlite3_walkeeper_init", NULL), SQLITE_OK);
	sqlite3_close(loader);
}

static sqlite3 *connected(void) {
	sqlite3 *connection;
	CHECK_EQ(sqlite3_open_v2(uri, &connection, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, NULL), SQLITE_OK);
	CHECK_EQ(sqlite3_busy_timeout(connection, BUSY_MS), SQLITE_OK);
	return connection;
}

static void run(sqlite3 *connection, const char *sql) {
	char *error = NULL;
	int rc = sqlite3_exec(connection, sql, NULL, NULL, &error);
	if (rc != SQLITE_OK)
		printf("%s: %s\n", sql, error);
	sqlite3_free(error);
	CHECK_EQ(rc, SQLITE_OK);
}

static int64_t asked(sqlite3 *connection, const char *sql) {
	sqlite3_stmt *statement;
	CHECK_EQ(sqlite3_prepare_v2(connection, sql, -1, &statement, NULL), SQLITE_OK);
	CHECK_EQ(sqlite3_step(statement), SQLITE_ROW);
	int64_t answer = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return answer;
}

/* ---- what the threads do ---- */

static void *write_rows(void *context) {
	const char *pragma = context;
	sqlite3 *connection = connected();
	run(connection, pragma);
	for (int row = 0; goes_on(); row++) {
		run(connection, row % 7 == 0 ? "BEGIN; INSERT INTO t(x) VALUES(1); SAVEPOINT s; INSERT INTO t(x) VALUES(2);"
		                               "ROLLBACK TO s; UPDATE t SET y = randomblob(900) WHERE id % 50 = 3; COMMIT"
		                             : "INSERT INTO t(x, y) VALUES(1, randomblob(300))");
		atomic_fetch_add(&committed, 1);
		if (row % 40 == 39) {
			sqlite3_close(connection);
			connection = connected();
			run(connection, pragma);
		}
	}
	sqlite3_close(connection);
	atomic_fetch_sub(&writing, 1);
	return NULL;
}

static bool others_write(void) {
	goes_on();
	return atomic_load(&writing) > 0;
}

static void *read_rows(void *context) {
	(void)context;
	int64_t seen = 0;
	sqlite3 *connection = connected();
	while (others_write()) {
		int64_t count = asked(connection, "SELECT count(*) FROM t");
		CHECK(count >= seen);
		CHECK_EQ(asked(connection, "SELECT count(*) FROM t WHERE x != 1"), 0);
		seen = count;
	}
	sqlite3_close(connection);
	return NULL;
}

static void *checkpoint(void *context) {
	static const char *const MODES[] = {"PASSIVE", "FULL", "RESTART", "TRUNCATE"};
	(void)context;
	sqlite3 *connection = connected();
	sqlite3_busy_timeout(connection, 20);
	for (int i = 0; others_write(); i++) {
		char sql[64];
		snprintf(sql, sizeof sql, "PRAGMA wal_checkpoint(%s)", MODES[i % 4]);
		(void)asked(connection, sql);
		nap_ms(3);
	}
	sqlite3_close(connection);
	return NULL;
}

static void *take_snapshots(void *context) {
	(void)context;
	wk_error error;
	sqlite3 *alone = connected(), *reading = connected();
	while (others_write()) {
		wk_database_snapshot *snapshot;
		run(alone, "BEGIN IMMEDIATE");
		run(reading, "BEGIN");
		(void)asked(reading, "SELECT count(*) FROM t");
		check_ok(wk_database_snapshot_begin(database, &snapshot, &error), &error, "beginning a snapshot");
		run(alone, "ROLLBACK");
		for (uint32_t left = 1; left > 0;)
			check_ok(wk_database_snapshot_append(snapshot, SNAPSHOT_PAGES, &left, &error), &error, "a snapshot");
		wk_database_snapshot_free(snapshot);
		run(reading, "COMMIT");
		nap_ms(20);
	}
	sqlite3_close(alone);
	sqlite3_close(reading);
	return NULL;
}

static void *look_at_status(void *context) {
	(void)context;
	int64_t lsn = -1;
	sqlite3 *connection = connected();
	while (others_write()) {
		wk_database_status status;
		wk_database *found = wk_database_find(file);
		CHECK(found == database);
		wk_database_status_get(found, &status);
		CHECK_EQ(status.state, WK_DATABASE_OPEN);
		CHECK(status.lsn >= lsn);
		lsn = status.lsn;
		CHECK(asked(connection, "SELECT walkeeper_lsn()") >= lsn);
		CHECK_EQ(asked(connection, "SELECT length(walkeeper_status()) > 0"), 1);
		wk_database_close(found);
	}
	sqlite3_close(connection);
	return NULL;
}

static wk_status give(void *context, const uint8_t *payload, size_t size, int64_t sequence_id, int64_t txid) {
	wk_error error;
	wk_status status;
	do
		status = wk_follower_record(context, payload, size, sequence_id, txid, &error);
	while (status == WK_LOCKED);
	check_ok(status, &error, "following");
	return WK_OK;
}

static bool is_behind(wk_follower *follower) {
	wk_database_status status;
	wk_database_status_get(database, &status);
	return wk_follower_lsn(follower) < status.lsn;
}

static void *follow(void *context) {
	(void)context;
	wk_error error;
	wk_database_log log, again;
	wk_follower *follower;
	check_ok(wk_database_log_open(root, "app", false, &log, &error), &error, "the log that is followed");
	check_ok(wk_database_log_open(root, "app", false, &again, &error), &error, "the log that is read");
	check_ok(wk_follower_open(copy, NULL, &log, &follower, &error), &error, "a follower");
	sqlite3 *reader;
	CHECK_EQ(sqlite3_open(copy, &reader), SQLITE_OK);
	while (others_write() || is_behind(follower)) {
		check_ok(again.read(again.context, wk_follower_lsn(follower) + 1, give, follower, &error), &error, "reading");
		CHECK_EQ(asked(reader, "SELECT count(*) FROM t WHERE x != 1"), 0);
	}
	sqlite3_close(reader);
	wk_follower_close(follower);
	again.close(again.context);
	return NULL;
}

/* ---- */

static void live(uint32_t acknowledge) {
	static char often[] = "PRAGMA wal_autocheckpoint=10", small[] = "PRAGMA cache_size=2";
	wk_error error;
	wk_database_log log;
	wk_database_options options;
	wk_database_options_init(&options);
	options.acknowledge = acknowledge;
	make_place();
	check_ok(wk_database_log_open(root, "app", true, &log, &error), &error, "the log");
	check_ok(wk_database_open(file, &log, &options, &database, &error), &error, "the database");
	sqlite3 *connection = connected();
	run(connection, "CREATE TABLE t(id INTEGER PRIMARY KEY, x, y)");
	atomic_store(&stop, false);
	atomic_store(&committed, 0);
	atomic_store(&writing, WRITERS);
	for (int i = 0; i < WRITERS; i++)
		start_thread("writer", write_rows, i % 2 == 0 ? often : small);
	start_thread("reader", read_rows, NULL);
	start_thread("checkpoints", checkpoint, NULL);
	start_thread("snapshots", take_snapshots, NULL);
	start_thread("status", look_at_status, NULL);
	start_thread("follower", follow, NULL);
	watch(SECONDS);
	CHECK(atomic_load(&committed) > WRITERS);
	CHECK_EQ(asked(connection, "SELECT count(*) FROM t"), atomic_load(&committed));
	CHECK_EQ(asked(connection, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
	sqlite3_close(connection);
	wk_database_close(database);
	run_command("cmp %s %s", file, copy);
	run_command("rm -r %s%s", place, "");
}

TEST(threads_that_wait_for_each_other_commit_all_that_they_say) {
	live(WK_ACKNOWLEDGE_STRICT);
}

TEST(threads_that_commit_at_once_commit_all_that_they_say) {
	live(WK_ACKNOWLEDGE_GROUP);
}

int main(void) {
	load_extension();
	RUN(threads_that_wait_for_each_other_commit_all_that_they_say);
	RUN(threads_that_commit_at_once_commit_all_that_they_say);
	return check_done();
}
