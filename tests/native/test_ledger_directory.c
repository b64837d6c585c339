/*
 * test_ledger_directory.c: a ledger store as a directory: its kind, how it may be opened, and what backup, verify and
 * inspect make of it on a real disk.
 */
#include "engine/manual.h"
#include "ledger_store.h"
#include "small_directory.h"
#include "walkeeper/inspect.h"

/* ---- its kind ---- */

TEST(a_directory_is_of_one_kind_for_ever) {
	wk_io *io = new_disk(1);
	wk_namespace *ns = open_store(io), *other = NULL;
	add_entry(ns, 0, 0);
	wk_log *log;
	wk_error error;
	char *names;
	size_t size;
	uint64_t count;
	CHECK_EQ(wk_log_open(ns, "log", 3, true, NULL, &log, &error), WK_INVALID);
	CHECK(strstr(error.text, "ledger store") != NULL);
	CHECK_EQ(wk_log_delete(ns, "log", 3, &error), WK_INVALID);
	CHECK_EQ(wk_log_rename(ns, "log", 3, "gol", 3, &error), WK_INVALID);
	CHECK_EQ(wk_log_names(ns, "", 0, &names, &size, &count, &error), WK_INVALID);
	close_store(ns);
	wk_open_options options = store_options();
	options.kind = WK_KIND_LOGS;
	CHECK_EQ(wk_open_on(io, "store", &options, &other, &error), WK_INVALID);
	CHECK(strstr(error.text, "store is a ledger store") != NULL);
	check_ok(wk_open_on(io, "logs", &options, &other, &error), &error, "a namespace of logs opens");
	wk_ledger_info info;
	CHECK_EQ(wk_ledger_describe(other, 0, &info, &error), WK_INVALID);
	CHECK(strstr(error.text, "namespace of logs") != NULL);
	CHECK_EQ(add_version(other, 1, 1, 1, 0, NULL), WK_INVALID);
	close_store(other);
	options.kind = WK_KIND_LEDGERS;
	CHECK_EQ(wk_open_on(io, "logs", &options, &other, &error), WK_INVALID);
	options.kind = 2;
	CHECK_EQ(wk_open_on(io, "logs", &options, &other, &error), WK_INVALID);
	ns = open_store(io);
	CHECK_EQ(version_of(ns, 0, 0), 1); /* the refused opens did nothing to it */
	close_store(ns);
	io->operations->destroy(io);
}

TEST(a_store_is_not_opened_read_only_nor_at_a_point_in_time) {
	wk_io *io = new_disk(2);
	close_store(open_store(io));
	wk_open_options options = store_options();
	wk_namespace *ns;
	options.read_only = true;
	CHECK_EQ(wk_open_on(io, "store", &options, &ns, NULL), WK_UNSUPPORTED);
	options.read_only = false;
	options.on_damage = WK_ON_DAMAGE_POINT_IN_TIME;
	CHECK_EQ(wk_open_on(io, "store", &options, &ns, NULL), WK_UNSUPPORTED);
	io->operations->destroy(io);
}

/* ---- on a real disk: backup, verify, inspect ---- */

/* Ledger after ledger, of all but the last two nothing is left. */
static void fill_one_after_another(wk_namespace *ns, int64_t ledgers, int64_t entries) {
	static uint8_t bytes[3000];
	for (int64_t ledger_id = 0; ledger_id < ledgers; ledger_id++) {
		for (int64_t id = 0; id < entries; id++) {
			wk_store_be64(bytes, (uint64_t)ledger_id);
			wk_store_be64(bytes + 8, (uint64_t)id);
			wk_add add = an_add(bytes, sizeof bytes, 0);
			CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
		}
		if (ledger_id >= 2)
			CHECK_EQ(wk_ledger_delete(ns, ledger_id - 2, UINT64_MAX, NULL, NULL), WK_OK);
	}
}

static void wait_until_recycled(wk_namespace *ns) {
	for (int i = 0; i < 5000 && stats_of(ns).recycled_files == 0; i++)
		usleep(1000);
	CHECK(stats_of(ns).recycled_files > 0);
}

static void flip_in_an_entry(const char *path) {
	char file[160];
	for (uint64_t id = 1; id < 200; id++) {
		snprintf(file, sizeof file, "%s/journal/%016llx.wkj", path, (unsigned long long)id);
		if (access(file, R_OK) != 0)
			continue;
		flip_bit(file, 2000);
		return;
	}
}

static wk_namespace *open_at(const char *path) {
	wk_open_options options = store_options();
	options.internal = 0;
	options.file_size_max = options.file_size_min;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the store opens");
	return ns;
}

static void verify_at(const char *path, uint64_t entries_min) {
	wk_verify_report report;
	wk_error error = {0};
	check_ok(wk_verify_directory(path, 0, NULL, NULL, &report, &error), &error, "verify");
	CHECK_EQ(report.damaged, 0);
	CHECK(report.entries >= entries_min);
}

typedef struct lines {
	uint64_t entries, states;
} lines;

static bool count_line(void *context, const char *json) {
	lines *found = context;
	found->entries += strstr(json, "\"sum\": \"ok\"") != NULL || strstr(json, "\"sum\":\"ok\"") != NULL;
	found->states += strstr(json, "\"record_at\"") != NULL;
	return true;
}

TEST(a_backup_has_the_states_too_and_verify_and_inspect_know_the_entries) {
	char path[64], copy[80], file[160];
	strcpy(path, temporary());
	snprintf(copy, sizeof copy, "%s.copy", path);
	wk_namespace *ns = open_at(path);
	CHECK_EQ(fence(ns, 500), WK_OK);
	fill_one_after_another(ns, 8, 40);
	wait_until_recycled(ns);
	verify_at(path, 40);
	wk_error error = {0};
	check_ok(wk_namespace_backup(ns, copy, &error), &error, "the backup");
	close_store(ns);
	verify_at(path, 40);
	verify_at(copy, 40);
	ns = open_at(copy);
	CHECK(info_of(ns, 500).fenced);
	CHECK(!is_known(ns, 3));
	CHECK_EQ(entries_of(ns, 7), 40);
	close_store(ns);
	lines found = {0};
	for (uint64_t id = 1; id < 200; id++) {
		snprintf(file, sizeof file, "%s/journal/%016llx.wkj", path, (unsigned long long)id);
		if (access(file, R_OK) == 0)
			check_ok(wk_inspect_file(file, true, count_line, &found, &error), &error, "inspect");
	}
	CHECK(found.entries >= 40);
	CHECK(found.states > 0);
	/* verify finds a bit of an entry that is not what it was */
	flip_in_an_entry(path);
	wk_verify_report report;
	CHECK_EQ(wk_verify_directory(path, 0, NULL, NULL, &report, &error), WK_DAMAGED);
	remove_tree(path);
	remove_tree(copy);
}

int main(void) {
	RUN(a_directory_is_of_one_kind_for_ever);
	RUN(a_store_is_not_opened_read_only_nor_at_a_point_in_time);
	RUN(a_backup_has_the_states_too_and_verify_and_inspect_know_the_entries);
	return check_done();
}
