/* extension.c: the loadable extension: the VFS, and the SQL functions of every connection. */
#include <inttypes.h>
#include <stdio.h>

#include "vfs_sqlite.h"

/* The database of main, or of the schema that is the first argument; NULL: it is none of ours. */
static wk_database *asked(const sqlite3_api_routines *sqlite3_api, sqlite3_context *context, int count,
                          sqlite3_value **values) {
	wk_database *database = NULL;
	const char *schema = count > 0 ? (const char *)sqlite3_value_text(values[0]) : "main";
	sqlite3 *connection = sqlite3_context_db_handle(context);
	int rc = sqlite3_file_control(connection, schema, WK_FCNTL_DATABASE, &database);
	return rc == SQLITE_OK ? database : NULL;
}

/* walkeeper_lsn([schema]): the sequence id of the last commit; NULL: not a database of walkeeper. */
static void lsn(const sqlite3_api_routines *sqlite3_api, sqlite3_context *context, int count, sqlite3_value **values) {
	wk_database *database = asked(sqlite3_api, context, count, values);
	wk_database_status status;
	if (database == NULL)
		return;
	wk_database_status_get(database, &status);
	sqlite3_result_int64(context, status.lsn);
}

/* walkeeper_status([schema]): a JSON object. */
static void status_json(const sqlite3_api_routines *sqlite3_api, sqlite3_context *context, int count,
                        sqlite3_value **values) {
	static const char *const STATES[] = {"open", "fenced", "poisoned", "following"};
	wk_database *database = asked(sqlite3_api, context, count, values);
	wk_database_status s;
	if (database == NULL)
		return;
	wk_database_status_get(database, &s);
	char *reason = NULL, *json;
	if (s.state != WK_DATABASE_OPEN)
		reason = sqlite3_mprintf("%s", s.reason);
	for (char *at = reason; at != NULL && *at != 0;
	     at++) /* texts of ours have neither quotes nor backslashes, paths may */
		if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ')
			*at = '?';
	json = sqlite3_mprintf(
	    "{\"state\":\"%s\",\"database\":\"%016llx\",\"lsn\":%lld,\"transaction\":%llu,\"redo\":%lld,"
	    "\"commits\":%llu,\"healed\":%llu,\"log_bytes\":%llu,\"page_size\":%u,\"pages\":%u,\"reason\":%s%s%s}",
	    STATES[s.state], (unsigned long long)s.id, (long long)s.lsn, (unsigned long long)s.transaction,
	    (long long)s.redo, (unsigned long long)s.commits, (unsigned long long)s.healed, (unsigned long long)s.log_bytes,
	    s.page_size, s.pages, reason ? "\"" : "", reason ? reason : "null", reason ? "\"" : "");
	sqlite3_free(reason);
	if (json == NULL)
		sqlite3_result_error_nomem(context);
	else
		sqlite3_result_text(context, json, -1, sqlite3_api->free);
}

/* SQLite gives a function nothing by which to tell whose it is before it is asked: each SQLite has functions of its own. */
#define FUNCTIONS_OF(number)                                                                   \
	static void lsn_##number(sqlite3_context *context, int count, sqlite3_value **values) {    \
		lsn(wk_vfs_api(number), context, count, values);                                       \
	}                                                                                          \
	static void status_##number(sqlite3_context *context, int count, sqlite3_value **values) { \
		status_json(wk_vfs_api(number), context, count, values);                               \
	}
FUNCTIONS_OF(0)
FUNCTIONS_OF(1)
FUNCTIONS_OF(2)
FUNCTIONS_OF(3)

typedef void (*wk_function)(sqlite3_context *, int, sqlite3_value **);
static const wk_function LSN[] = {lsn_0, lsn_1, lsn_2, lsn_3};
static const wk_function STATUS[] = {status_0, status_1, status_2, status_3};

static int begin_connection(sqlite3 *connection, char **error, const sqlite3_api_routines *api) {
	(void)error;
	const sqlite3_api_routines *sqlite3_api = api;
	size_t number = wk_vfs_number(api);
	if (number >= sizeof LSN / sizeof LSN[0])
		return SQLITE_OK;
	int rc = SQLITE_OK;
	for (int arguments = 0; rc == SQLITE_OK && arguments <= 1; arguments++) {
		rc = sqlite3_create_function_v2(connection, "walkeeper_lsn", arguments, SQLITE_UTF8, NULL, LSN[number], NULL,
		                                NULL, NULL);
		if (rc == SQLITE_OK)
			rc = sqlite3_create_function_v2(connection, "walkeeper_status", arguments, SQLITE_UTF8, NULL,
			                                STATUS[number], NULL, NULL, NULL);
	}
	return rc;
}

WK_API int sqlite3_walkeeper_init(sqlite3 *connection, char **error, const sqlite3_api_routines *api);
/* What load_extension looks for by the name of the file. */
WK_API int sqlite3_walkeepersqlite_init(sqlite3 *connection, char **error, const sqlite3_api_routines *api);

int sqlite3_walkeeper_init(sqlite3 *connection, char **error, const sqlite3_api_routines *api) {
	const sqlite3_api_routines *sqlite3_api = api;
	int rc = wk_vfs_register(api);
	if (rc != SQLITE_OK) {
		*error = sqlite3_mprintf(
		    "the VFS walkeeper wants SQLite 3.35 or newer, and at most four SQLites in a process; this is %s",
		    sqlite3_libversion());
		return rc;
	}
	rc = sqlite3_auto_extension((void (*)(void))begin_connection);
	if (rc == SQLITE_OK)
		rc = begin_connection(connection, error, api);
	return rc == SQLITE_OK ? SQLITE_OK_LOAD_PERMANENTLY : rc;
}

int sqlite3_walkeepersqlite_init(sqlite3 *connection, char **error, const sqlite3_api_routines *api) {
	return sqlite3_walkeeper_init(connection, error, api);
}
