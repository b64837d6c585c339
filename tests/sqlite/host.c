/*
 * host.c: a program with SQLite and without Python: host LIBRARY URI. It carries out the lines of its input, and says `ok`, or `error CODE
 * TEXT`, behind what a line gives: `row …` for each row, `log …` for what SQLite's error log was told.
 *
 *	SQL            one statement, by the connection, which is opened where there is none
 *	.close         closes it
 *	.signals       from now on a signal comes each millisecond to what a line does, and calls of the kernel are not restarted
 *	.restore ADDRESS PATH    makes a file from the log "app" behind a gateway, and says its LSN
 *	.snapshot PATH           of the database that is open there; says its LSN
 *	.submit ADDRESS          submits two records to the log "app"; waits for the first, appends a third, waits for the second: says the statuses
 *	.rows N COUNT  N threads, each with a connection, insert COUNT rows into t(id, x); `id` is said behind each COMMIT
 */
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "walkeeper/sqlite.h"

static const char *uri;
static sqlite3 *db;
static int rows_of_each;

static void said(void *context, int code, const char *text) {
	(void)context;
	printf("log %d %s\n", code, text);
}

static int row(void *context, int count, char **values, char **names) {
	(void)context;
	(void)names;
	printf("row ");
	for (int i = 0; i < count; i++)
		printf("%s%s", i > 0 ? "|" : "", values[i] != NULL ? values[i] : "");
	printf("\n");
	return 0;
}

static int open_connection(sqlite3 **opened) {
	int rc = sqlite3_open_v2(uri, opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, NULL);
	if (rc != SQLITE_OK) {
		sqlite3_close(*opened);
		*opened = NULL;
		return rc;
	}
	sqlite3_extended_result_codes(*opened, 1);
	return sqlite3_busy_timeout(*opened, 60000);
}

static void ignore(int signal) {
	(void)signal;
}

static void begin_signals(void) {
	const struct sigaction action = {.sa_handler = ignore};
	const struct itimerval each = {.it_interval = {.tv_usec = 1000}, .it_value = {.tv_usec = 1000}};
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &each, NULL);
}

static void *insert_rows(void *context) {
	(void)context;
	sqlite3 *mine = NULL;
	int rc = open_connection(&mine);
	for (int i = 0; rc == SQLITE_OK && i < rows_of_each; i++) {
		rc = sqlite3_exec(mine, "INSERT INTO t(x) VALUES(randomblob(100))", NULL, NULL, NULL);
		if (rc == SQLITE_OK) {
			printf("id %lld\n", (long long)sqlite3_last_insert_rowid(mine));
			fflush(stdout);
		}
	}
	sqlite3_close(mine);
	return rc == SQLITE_OK ? NULL : (void *)uri;
}

/* Whether all of them did it. */
static int insert_by_threads(int count) {
	pthread_t threads[64];
	int failed = 0;
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, insert_rows, NULL) != 0)
			abort();
	for (int i = 0; i < count; i++) {
		void *result;
		pthread_join(threads[i], &result);
		failed |= result != NULL;
	}
	return failed ? SQLITE_ERROR : SQLITE_OK;
}

static int restore(const char *address, const char *path) {
	wk_database_log log;
	wk_database_restored restored;
	wk_error error;
	wk_status status = wk_database_log_connect(address, "app", false, NULL, &log, &error);
	if (status == WK_OK) {
		status = wk_database_restore(&log, NULL, path, -1, -1, -1, &restored, &error);
		log.close(log.context);
	}
	if (status == WK_OK)
		printf("row %lld\n", (long long)restored.lsn);
	else
		printf("log %d %s\n", status, error.text);
	return status == WK_OK ? SQLITE_OK : SQLITE_ERROR;
}

static int snapshot(const char *path) {
	wk_database *database = wk_database_find(path);
	wk_database_snapshot *made;
	wk_error error;
	uint32_t left = 1;
	int rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	if (rc != SQLITE_OK || database == NULL)
		abort();
	wk_status status = wk_database_snapshot_begin(database, &made, &error);
	if (status == WK_OK) {
		while (status == WK_OK && left > 0)
			status = wk_database_snapshot_append(made, 1, &left, &error);
		printf("row %lld\n", (long long)wk_database_snapshot_lsn(made));
		wk_database_snapshot_free(made);
	}
	if (status != WK_OK)
		printf("log %d %s\n", status, error.text);
	wk_database_close(database);
	rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
	return status == WK_OK ? rc : SQLITE_ERROR;
}

static int submit(const char *address) {
	static const uint8_t record[] = "record";
	const uint32_t size = sizeof record;
	wk_database_log log;
	wk_error error;
	int64_t last;
	uint64_t first, second;
	wk_status status = wk_database_log_connect(address, "app", true, NULL, &log, &error);
	if (status != WK_OK)
		return SQLITE_ERROR;
	status = log.take_over(log.context, &error);
	if (status == WK_OK)
		status = log.submit(log.context, record, &size, 1, &last, &first, &error);
	if (status == WK_OK)
		status = log.submit(log.context, record, &size, 1, &last, &second, &error);
	if (status == WK_OK) {
		wk_status of_first = log.wait(log.context, first, &error);
		wk_status of_third = log.append(log.context, record, &size, 1, &last, &error);
		printf("row %d|%d|%d\n", of_first, of_third, log.wait(log.context, second, &error));
	}
	log.close(log.context);
	return status == WK_OK ? SQLITE_OK : SQLITE_ERROR;
}

/* The host itself is not interrupted. */
static void let_signals(bool come) {
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(come ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
}

static int carry_out(const char *line) {
	int threads;
	char address[256], path[256];
	if (strcmp(line, ".close") == 0) {
		int rc = sqlite3_close(db);
		db = NULL;
		return rc;
	}
	if (strcmp(line, ".signals") == 0) {
		begin_signals();
		return SQLITE_OK;
	}
	if (sscanf(line, ".restore %255s %255s", address, path) == 2)
		return restore(address, path);
	if (sscanf(line, ".snapshot %255s", path) == 1)
		return snapshot(path);
	if (sscanf(line, ".submit %255s", address) == 1)
		return submit(address);
	if (sscanf(line, ".rows %d %d", &threads, &rows_of_each) == 2)
		return insert_by_threads(threads);
	int rc = db == NULL ? open_connection(&db) : SQLITE_OK;
	return rc == SQLITE_OK ? sqlite3_exec(db, line, row, NULL, NULL) : rc;
}

int main(int argc, char **argv) {
	if (argc != 3)
		return 2;
	sqlite3 *loader;
	char *text = NULL;
	uri = argv[2];
	sqlite3_config(SQLITE_CONFIG_LOG, said, NULL);
	if (sqlite3_open(":memory:", &loader) != SQLITE_OK || sqlite3_enable_load_extension(loader, 1) != SQLITE_OK ||
	    sqlite3_load_extension(loader, argv[1], "sqlite3_walkeeper_init", &text) != SQLITE_OK) {
		fprintf(stderr, "host: %s\n", text != NULL ? text : "no SQLite");
		return 1;
	}
	sqlite3_close(loader);
	let_signals(false);
	char *line = NULL;
	size_t room = 0;
	ssize_t length;
	while ((length = getline(&line, &room, stdin)) > 0) {
		line[length - 1] = 0;
		let_signals(true);
		int rc = carry_out(line);
		let_signals(false);
		if (rc == SQLITE_OK)
			printf("ok\n");
		else
			printf("error %d %s\n", rc, db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(rc));
		fflush(stdout);
	}
	free(line);
	sqlite3_close(db);
	return 0;
}
