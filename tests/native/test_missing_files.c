/*
 * test_missing_files.c: files that are not there any more although entries in them are needed: lost by the file system,
 * removed by hand, or nothing but zeros. Acknowledged records are then missing, and that is said: what is left never
 * passes for all there was, and what is appended behind it never takes the ids of what is lost. Storage rule 14.
 */
#include "core/superblock.h"
#include "engine/catalogue/snapshot.h"
#include "engine/directory/directory.h"
#include "engine/directory/handles.h"
#include "engine/manual.h"
#include "small_directory.h"
#include "walkeeper/inspect.h"
#include <dirent.h>

enum { RECORDS = 60, FILES_MAX = 32 };

static const char *path;
static char files[FILES_MAX][40];
static size_t files_count;

static int is_journal_file(const struct dirent *entry) {
	return strstr(entry->d_name, ".wkj") != NULL;
}

static void list_files(void) {
	struct dirent **names;
	int count = scandir(below(path, "journal"), &names, is_journal_file, alphasort);
	CHECK(count >= 0 && count <= FILES_MAX);
	files_count = (size_t)count;
	for (size_t i = 0; i < files_count; i++) {
		snprintf(files[i], sizeof files[0], "journal/%.24s", names[i]->d_name);
		free(names[i]);
	}
	free(names);
}

/* "log" with RECORDS records; where `second`, "more" goes on for as many behind it. The catalogue is in the first file. */
static void make(bool second) {
	path = temporary();
	wk_namespace *ns = open_small(path);
	wk_log *log = log_named(ns, "log"), *more = log_named(ns, "more");
	wk_writer *writer = writer_of(log), *other = writer_of(more);
	append_one(other); /* its segment begins in the first file */
	for (int i = 0; i < RECORDS; i++)
		append_one(writer);
	for (int i = 0; second && i < RECORDS; i++)
		append_one(other);
	check_ok(wk_writer_close(other, UINT64_MAX, NULL), NULL, "closing");
	wk_log_release(more);
	close_all(ns, log, writer);
	list_files();
}

static wk_status open_with(bool read_only, uint32_t policy, bool check_all, wk_namespace **ns, wk_error *error) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.read_only = read_only;
	options.on_damage = policy;
	options.check_all = check_all;
	*ns = NULL;
	return wk_open(path, &options, ns, error);
}

static wk_status try_open(bool read_only, uint32_t policy, wk_namespace **ns, wk_error *error) {
	return open_with(read_only, policy, false, ns, error);
}

/* The journal file of that name has nothing any more. */
static void lose(const char *name, bool zeros) {
	struct stat facts;
	CHECK_EQ(stat(below(path, name), &facts), 0);
	CHECK_EQ(unlink(below(path, name)), 0);
	if (!zeros)
		return;
	FILE *file = fopen(below(path, name), "w");
	CHECK(file != NULL);
	CHECK_EQ(fclose(file), 0);
	CHECK_EQ(truncate(below(path, name), facts.st_size), 0);
}

/* The file that holds the last entry of the log. */
static const char *file_of_last(const char *name) {
	static char found[40];
	wk_namespace *ns = open_small(path);
	wk_log *log = log_named(ns, name);
	wk_writer *writer = writer_of(log);
	wk_engine *engine = ns->engine;
	wk_engine_lock(engine);
	const wk_ledger *ledger = NULL;
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++)
		if (engine->ledgers[i] != NULL && log->state->segments_count > 0 &&
		    engine->ledgers[i]->id == log->state->segments[0].ledger_id)
			ledger = engine->ledgers[i];
	CHECK(ledger != NULL && ledger->ranges_count > 1);
	snprintf(found, sizeof found, "journal/%016llx.wkj",
	         (unsigned long long)ledger->ranges.list[ledger->ranges_count - 1].file->id);
	wk_engine_unlock(engine);
	close_all(ns, log, writer);
	return found;
}

/* Records of "log" up to the first error or the end; *gaps counts the lost ones that are told. */
static wk_status read_log(wk_namespace *ns, int64_t *next, int64_t *gaps, wk_error *error) {
	wk_log *log = log_named(ns, "log");
	wk_read_options options;
	wk_read_options_init(&options);
	wk_reader *reader = NULL;
	*next = *gaps = 0;
	wk_status status = wk_reader_open(log, &options, &reader, error);
	wk_batch *batch;
	while (status == WK_OK && (status = wk_reader_next(reader, 100, 1 << 20, 0, &batch, error)) == WK_OK) {
		size_t count;
		const wk_record *records = wk_batch_records(batch, &count);
		for (size_t i = 0; i < count; i++) {
			bool gap = records[i].kind == WK_RECORD_GAP;
			CHECK_EQ(records[i].at.sequence_id, *next);
			*gaps += gap ? (int64_t)records[i].gap_count : 0;
			*next += gap ? (int64_t)records[i].gap_count : 1;
		}
		wk_batch_release(batch);
	}
	if (reader != NULL)
		wk_reader_release(reader);
	wk_log_release(log);
	return status;
}

static void check_verify(const char *text) {
	wk_verify_report report;
	CHECK_EQ(wk_verify_directory(path, 0, NULL, NULL, &report, NULL), WK_DAMAGED);
	if (strstr(report.first_damage, text) == NULL)
		printf("%s\n", report.first_damage);
	CHECK(strstr(report.first_damage, text) != NULL);
}

/* An open for writing names the file, what it held, and what to do; nothing is changed. */
static void check_refused(const char *name) {
	wk_namespace *ns;
	wk_error error = {0};
	for (int again = 0; again < 2; again++)
		CHECK_EQ(try_open(false, WK_ON_DAMAGE_STOP, &ns, &error), WK_DAMAGED);
	CHECK(strstr(error.text, name) != NULL && strstr(error.text, "is missing") != NULL);
	CHECK(strstr(error.text, "which log ") != NULL && strstr(error.text, "walkeeper recover") != NULL);
}

/* Whose files are named by an index that an open for writing compares with the directory. */
static void check_accepted(wk_namespace *ns, int64_t gaps) {
	wk_recovery_report report;
	wk_namespace_recovery(ns, &report);
	CHECK(gaps > 0);
	CHECK_EQ(report.lost_records, gaps);
	CHECK(report.lost_entries > 0);
}

static void a_file_between_is_missing(bool zeros, uint32_t policy) {
	make(true);
	lose(files[2], zeros);
	check_verify(zeros ? "footer" : "a file is missing");
	if (!zeros)
		check_refused(files[2]);
	for (int read_only = zeros ? 0 : 1; read_only < 2; read_only++) {
		wk_namespace *ns;
		wk_error error = {0};
		int64_t next, gaps;
		check_ok(try_open(read_only, WK_ON_DAMAGE_STOP, &ns, &error), &error, "opening");
		CHECK_EQ(read_log(ns, &next, &gaps, &error), WK_DAMAGED);
		CHECK(next > 0 && next < RECORDS && gaps == 0);
		check_ok(wk_close(ns, UINT64_MAX, &error), &error, "closing");
	}
	wk_namespace *ns;
	wk_error error = {0};
	int64_t next, gaps;
	for (int again = 0; again < 2; again++) { /* accepted once, it is settled */
		check_ok(try_open(false, again == 0 ? policy : WK_ON_DAMAGE_STOP, &ns, &error), &error, "opening");
		CHECK_EQ(read_log(ns, &next, &gaps, &error), WK_END);
		CHECK_EQ(next, RECORDS);
		CHECK(gaps > 0 && gaps < RECORDS);
		if (again == 0)
			check_accepted(ns, gaps);
		check_ok(wk_close(ns, UINT64_MAX, &error), &error, "closing");
	}
	if (!zeros) { /* of a file that is there, and whose bytes are not what they were, it goes on to say so */
		wk_verify_report report;
		check_ok(wk_verify_directory(path, 0, NULL, NULL, &report, &error), &error, "verifying");
	}
	remove_tree(path);
}

TEST(records_of_a_file_that_is_gone_are_missing_and_not_passed_over) {
	for (int zeros = 0; zeros < 2; zeros++) {
		a_file_between_is_missing(zeros, WK_ON_DAMAGE_SKIP);
		a_file_between_is_missing(zeros, WK_ON_DAMAGE_POINT_IN_TIME);
	}
}

/* The log's last entries stood in it; the journal goes on behind with another log. */
static void the_end_of_a_log_is_missing(bool zeros) {
	make(true);
	const char *lost = file_of_last("log");
	lose(lost, zeros);
	if (!zeros)
		check_refused(lost);
	for (int read_only = zeros ? 0 : 1; read_only < 2; read_only++) {
		wk_namespace *ns;
		wk_error error = {0};
		int64_t next, gaps;
		check_ok(try_open(read_only, WK_ON_DAMAGE_STOP, &ns, &error), &error, "opening");
		CHECK_EQ(read_log(ns, &next, &gaps, &error), WK_DAMAGED);
		CHECK_EQ(next, 0); /* where the log ends cannot be told */
		wk_log *log = log_named(ns, "log");
		wk_writer *writer = NULL;
		CHECK_EQ(wk_writer_open(log, &writer, &error), read_only ? WK_READ_ONLY : WK_DAMAGED);
		wk_log_release(log);
		check_ok(wk_close(ns, UINT64_MAX, &error), &error, "closing");
	}
	check_verify(zeros ? "footer" : "a file is missing");
	wk_namespace *ns;
	wk_error error = {0};
	int64_t next, gaps;
	check_ok(try_open(false, WK_ON_DAMAGE_SKIP, &ns, &error), &error, "opening");
	CHECK_EQ(read_log(ns, &next, &gaps, &error), WK_END);
	CHECK(gaps > 0 && next >= RECORDS); /* at most so many are lost, and none of their ids is given again */
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	CHECK(append_one(writer) >= next);
	close_all(ns, log, writer);
	remove_tree(path);
}

TEST(the_end_of_a_log_in_a_file_that_is_gone_is_no_end) {
	the_end_of_a_log_is_missing(false);
	the_end_of_a_log_is_missing(true);
}

TEST(a_catalogue_that_is_gone_is_no_empty_directory) {
	for (int index = 0; index < 2; index++) {
		make(false);
		lose(files[0], false);
		if (index == 0) {
			DIR *folder = opendir(below(path, "index"));
			CHECK(folder != NULL);
			for (struct dirent *each; (each = readdir(folder)) != NULL;) {
				char name[300];
				snprintf(name, sizeof name, "index/%s", each->d_name);
				if (each->d_name[0] != '.')
					CHECK_EQ(unlink(below(path, name)), 0);
			}
			closedir(folder);
		}
		wk_namespace *ns;
		wk_error error = {0};
		for (int read_only = 0; read_only < 2; read_only++)
			CHECK_EQ(try_open(read_only, WK_ON_DAMAGE_STOP, &ns, &error), WK_DAMAGED);
		CHECK(strstr(error.text, "catalogue") != NULL);
		check_verify(index == 0 ? "index" : "catalogue");
		check_ok(try_open(false, WK_ON_DAMAGE_SKIP, &ns, &error), &error, "opening");
		wk_log *log = NULL;
		check_ok(wk_log_open(ns, "recovered-ledger-2", 18, false, NULL, &log, &error), &error,
		         "what it was adopted as");
		wk_log_info info;
		check_ok(wk_log_describe(log, &info, &error), &error, "describing");
		CHECK_EQ(info.next.sequence_id, RECORDS);
		CHECK(info.count > RECORDS / 2);
		wk_log_release(log);
		check_ok(wk_close(ns, UINT64_MAX, &error), &error, "closing");
		remove_tree(path);
	}
}

/* Closed in order, and then the file with the last blocks is gone: that is no torn tail. */
static void the_last_file_is_missing(bool zeros) {
	make(false);
	lose(file_of_last("log"), zeros);
	wk_namespace *ns;
	wk_error error = {0};
	for (int read_only = 0; read_only < 2; read_only++) {
		CHECK_EQ(try_open(read_only, WK_ON_DAMAGE_STOP, &ns, &error), WK_DAMAGED);
		CHECK(strstr(error.text, "closed in order") != NULL);
	}
	check_verify("closed in order");
	check_ok(try_open(false, WK_ON_DAMAGE_SKIP, &ns, &error), &error, "opening");
	wk_recovery_report report;
	wk_namespace_recovery(ns, &report);
	CHECK(report.damaged_blocks > 1);
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "closing");
	check_ok(try_open(false, WK_ON_DAMAGE_STOP, &ns, &error), &error, "opening"); /* accepted once, it is settled */
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "closing");
	remove_tree(path);
}

TEST(the_last_file_of_a_directory_that_was_closed_in_order_is_missed) {
	the_last_file_is_missing(false);
	the_last_file_is_missing(true);
}

TEST(no_journal_file_at_all_is_no_new_directory) {
	make(false);
	for (size_t i = 0; i < files_count; i++)
		CHECK_EQ(unlink(below(path, files[i])), 0);
	wk_namespace *ns;
	wk_error error = {0};
	for (int read_only = 0; read_only < 2; read_only++)
		CHECK_EQ(try_open(read_only, WK_ON_DAMAGE_STOP, &ns, &error), WK_DAMAGED);
	remove_tree(path);
}

TEST(what_was_truncated_and_recycled_is_not_missed) {
	make(true);
	for (int again = 0; again < 3; again++) {
		wk_namespace *ns = open_small(path);
		wk_log *log = log_named(ns, "log");
		wk_writer *writer = writer_of(log);
		wk_position next;
		wk_writer_next(writer, &next);
		wk_error error = {0};
		check_ok(wk_log_truncate(log, &next.dlsn, false, &error), &error, "truncating");
		if (again == 1)
			append_one(writer);
		close_all(ns, log, writer);
		wk_verify_report report;
		check_ok(wk_verify_directory(path, 0, NULL, NULL, &report, &error), &error, "verifying");
	}
	wk_namespace *ns = open_small(path);
	size_t before = files_count;
	for (int turns = 0; files_count >= before && turns < 2000; turns++) { /* the keeper's work, in its own thread */
		nap_ms(5);
		list_files();
	}
	CHECK(files_count < before);
	check_ok(wk_log_delete(ns, "more", 4, NULL), NULL, "deleting");
	close_all(ns, NULL, NULL);
	wk_verify_report report;
	check_ok(wk_verify_directory(path, 0, NULL, NULL, &report, NULL), NULL, "verifying");
	remove_tree(path);
}

/* A file cut behind its blocks has no room for its footer: it goes without, or is made longer where loss is accepted. */
/* No index names the file: only who asks for every entry learns that some are in no file. */
static void no_index_names_it(uint32_t policy) {
	make(true);
	struct dirent **names;
	int count = scandir(below(path, "index"), &names, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		char name[64];
		snprintf(name, sizeof name, "index/%.40s", names[i]->d_name);
		unlink(below(path, name)); /* "." and ".." stay */
		free(names[i]);
	}
	free(names);
	lose(files[2], false);
	for (int again = 0; again < 2; again++) {
		wk_namespace *ns;
		wk_error error = {0};
		int64_t next, gaps;
		check_ok(open_with(false, again == 0 ? policy : WK_ON_DAMAGE_STOP, again == 0, &ns, &error), &error, "opening");
		wk_recovery_report report;
		wk_namespace_recovery(ns, &report);
		CHECK_EQ(read_log(ns, &next, &gaps, &error), WK_END);
		CHECK_EQ(next, RECORDS);
		CHECK(gaps > 0 && gaps < RECORDS);
		CHECK_EQ(report.lost_records, again == 0 ? gaps : 0);
		check_ok(wk_close(ns, UINT64_MAX, &error), &error, "closing");
	}
	remove_tree(path);
}

TEST(who_checks_all_misses_a_file_that_no_index_names) {
	no_index_names_it(WK_ON_DAMAGE_SKIP);
	no_index_names_it(WK_ON_DAMAGE_POINT_IN_TIME);
}

/* The log begins in the middle of a segment that no file has anything of; the catalogue stands behind it once more. */
TEST(a_segment_that_is_gone_as_a_whole_is_accepted) {
	for (int policy = 0; policy < 2; policy++) {
		path = temporary();
		wk_namespace *ns = open_small(path);
		wk_log_options options;
		wk_log_options_init(&options);
		options.segment_bytes = (uint64_t)4 * RECORD_SIZE;
		wk_log *log = NULL;
		CHECK_EQ(wk_log_open(ns, "log", 3, true, &options, &log, NULL), WK_OK);
		wk_writer *writer = writer_of(log);
		for (int i = 0; i < RECORDS; i++)
			append_one(writer);
		check_ok(wk_log_truncate(log, &(wk_dlsn){1, 2, 0}, false, NULL), NULL, "truncating");
		wk_engine_lock(ns->engine);
		CHECK_EQ(wk_snapshot_write(ns->engine, NULL), WK_OK);
		wk_engine_unlock(ns->engine);
		close_all(ns, log, writer);
		list_files();
		lose(files[0], false);
		wk_error error = {0};
		CHECK_EQ(try_open(false, WK_ON_DAMAGE_STOP, &ns, &error), WK_DAMAGED);
		check_ok(try_open(false, policy == 0 ? WK_ON_DAMAGE_SKIP : WK_ON_DAMAGE_POINT_IN_TIME, &ns, &error), &error,
		         "opening");
		wk_recovery_report report;
		wk_namespace_recovery(ns, &report);
		CHECK_EQ(report.catalogue_lost, 0);
		CHECK(report.lost_records > 2);
		check_ok(wk_close(ns, UINT64_MAX, &error), &error, "closing");
		remove_tree(path);
	}
}

/* Whole blocks stand behind it in that file, which has no footer yet, and the file after it goes on with later ones. */
TEST(a_file_whose_first_page_is_gone_is_not_taken_for_an_empty_one) {
	path = temporary();
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.internal = WK_OPEN_MANUAL;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the directory opens");
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	bool idle = false;
	while (ns->engine->active->id == 1)
		append_one(writer);
	while (!idle)
		check_ok(wk_namespace_step(ns, &idle, &error), &error, "the first file is sealed");
	uint64_t second = ns->engine->active->id;
	while (ns->engine->active->id == second)
		append_one(writer);
	append_one(writer);
	char name[40];
	snprintf(name, sizeof name, "journal/%016llx.wkj", (unsigned long long)second);
	wk_abandon(ns);
	wk_writer_close(writer, 0, NULL);
	wk_log_release(log);
	FILE *file = fopen(below(path, name), "r+b");
	CHECK(file != NULL);
	for (int i = 0; i < 4096; i++)
		CHECK(fputc(0, file) != EOF);
	CHECK_EQ(fclose(file), 0);
	CHECK_EQ(try_open(false, WK_ON_DAMAGE_STOP, &ns, &error), WK_DAMAGED);
	CHECK(strstr(error.text, name) != NULL);
	remove_tree(path);
}

TEST(a_file_that_was_cut_short_is_opened) {
	make(false);
	struct stat facts;
	CHECK_EQ(stat(below(path, files[1]), &facts), 0);
	CHECK_EQ(truncate(below(path, files[1]), facts.st_size - 1), 0);
	wk_namespace *ns = open_small(path);
	int64_t first, last;
	read_all(ns, &first, &last);
	CHECK_EQ(last, RECORDS - 1);
	close_all(ns, NULL, NULL);
	CHECK_EQ(truncate(below(path, files[2]), facts.st_size / 2 / 4096 * 4096), 0);
	wk_error error = {0};
	CHECK_EQ(try_open(false, WK_ON_DAMAGE_STOP, &ns, &error), WK_DAMAGED);
	check_ok(try_open(false, WK_ON_DAMAGE_SKIP, &ns, &error), &error, "opening");
	int64_t next, gaps;
	CHECK_EQ(read_log(ns, &next, &gaps, &error), WK_END);
	CHECK_EQ(next, RECORDS);
	CHECK(gaps > 0);
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "closing");
	remove_tree(path);
}

int main(void) {
	RUN(records_of_a_file_that_is_gone_are_missing_and_not_passed_over);
	RUN(the_end_of_a_log_in_a_file_that_is_gone_is_no_end);
	RUN(a_catalogue_that_is_gone_is_no_empty_directory);
	RUN(the_last_file_of_a_directory_that_was_closed_in_order_is_missed);
	RUN(no_journal_file_at_all_is_no_new_directory);
	RUN(what_was_truncated_and_recycled_is_not_missed);
	RUN(who_checks_all_misses_a_file_that_no_index_names);
	RUN(a_segment_that_is_gone_as_a_whole_is_accepted);
	RUN(a_file_whose_first_page_is_gone_is_not_taken_for_an_empty_one);
	RUN(a_file_that_was_cut_short_is_opened);
	return check_done();
}
