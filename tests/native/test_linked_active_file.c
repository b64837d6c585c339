/*
 * test_linked_active_file.c: somebody gives a journal file a second name while it is written (`cp -al` of a directory in
 * use), so that it never gets its footer. Files behind it are recycled; its own entries live on. The next open finds all
 * that was acknowledged.
 */
#include "engine/directory/directory.h"
#include "small_directory.h"
#include <dirent.h>
#include <errno.h>

/* The journal file that is written just now: the one that grew last has the highest number of those with blocks. */
static void link_journal(const char *path, const char *to) {
	DIR *list = opendir(below(path, "journal"));
	CHECK(list != NULL);
	CHECK_EQ(mkdir(to, 0777), 0);
	for (struct dirent *each; (each = readdir(list)) != NULL;)
		if (strstr(each->d_name, ".wkj") != NULL) {
			char from[400], name[400];
			snprintf(from, sizeof from, "%s/journal/%s", path, each->d_name);
			snprintf(name, sizeof name, "%s/%s", to, each->d_name);
			CHECK_EQ(link(from, name), 0);
		}
	closedir(list);
}

static void append_to(wk_writer *writer, int records) {
	for (int i = 0; i < records; i++)
		append_one(writer);
}

/* After a kill, too: what the keeper did since it opened is on the disk. */
static void leave_at_once(wk_namespace *ns, bool killed) {
	nap_ms(300);
	if (killed)
		wk_abandon(ns);
	else
		close_all(ns, NULL, NULL);
}

static void all_is_there_again(bool killed, int times) {
	char place[64], path[100], links[100];
	strcpy(place, temporary());
	snprintf(path, sizeof path, "%s/wal", place);
	snprintf(links, sizeof links, "%s/links", place);
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.minor_interval_ns = options.major_interval_ns = UINT64_MAX; /* nothing is moved */
	options.minor_percent = options.major_percent = 1;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the directory opens");
	wk_log *log = log_named(ns, "log"), *other = log_named(ns, "other");
	wk_writer *writer = writer_of(log), *other_writer = writer_of(other);
	append_to(writer, 10); /* they live in the first file */
	link_journal(path, links);
	append_to(other_writer, 60); /* these fill it, and others */
	append_to(writer, 1);
	append_to(other_writer, 60);
	wk_position next;
	wk_writer_next(other_writer, &next);
	CHECK_EQ(wk_log_truncate(other, &next.dlsn, false, NULL), WK_OK);
	wk_stats stats;
	for (int i = 0; i < 200; i++) {
		append_to(other_writer, 1);
		nap_ms(2);
		wk_namespace_stats(ns, &stats);
		if (i % 20 == 19) {
			wk_writer_next(other_writer, &next);
			CHECK_EQ(wk_log_truncate(other, &next.dlsn, false, NULL), WK_OK);
		}
	}
	printf("recycled %llu, files %llu\n", (unsigned long long)stats.recycled_files,
	       (unsigned long long)stats.journal_files);
	if (killed) {
		wk_abandon(ns);
		wk_writer_close(writer, 0, NULL);
		wk_writer_close(other_writer, 0, NULL);
		wk_log_release(log);
		wk_log_release(other);
	} else {
		CHECK_EQ(wk_writer_close(other_writer, UINT64_MAX, NULL), WK_OK);
		wk_log_release(other);
		close_all(ns, log, writer);
	}
	for (int i = 1; i < times; i++) {
		check_ok(wk_open(path, &options, &ns, &error), &error, "the directory opens again");
		leave_at_once(ns, killed);
	}
	check_ok(wk_open(path, &options, &ns, &error), &error, "the directory opens again");
	int64_t first, last;
	read_all(ns, &first, &last);
	CHECK_EQ(first, 0);
	CHECK_EQ(last, 10);
	other = log_named(ns, "other");
	wk_log_info info;
	CHECK_EQ(wk_log_describe(other, &info, NULL), WK_OK);
	CHECK_EQ(info.next.sequence_id, 320);
	wk_log_release(other);
	close_all(ns, NULL, NULL);
	remove_tree(place);
}

TEST(after_closing_in_order_all_is_there) {
	all_is_there_again(false, 1);
}

TEST(after_a_kill_all_is_there) {
	all_is_there_again(true, 1);
}

/* Nothing is recycled at an open before the file without a footer is found to be one. */
TEST(opened_twice_after_closing_in_order_all_is_there) {
	all_is_there_again(false, 3);
}

TEST(opened_twice_after_kills_all_is_there) {
	all_is_there_again(true, 3);
}

int main(void) {
	RUN(after_closing_in_order_all_is_there);
	RUN(after_a_kill_all_is_there);
	RUN(opened_twice_after_closing_in_order_all_is_there);
	RUN(opened_twice_after_kills_all_is_there);
	return check_done();
}
