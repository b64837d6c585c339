/*
 * test_two_writers.c: a directory that two processes wrote at once, each without knowing of the other, as was possible
 * where somebody removed its locks. What one of them acknowledged is gone; `verify` and the next open say so, as far as
 * any block of it is left.
 *
 * The locks and the page `shared` are taken away between the two, and the first one is in manual mode, so that its keeper
 * does not look whether the directory is still its own.
 */
#include "engine/directory/directory.h"
#include "engine/manual.h"
#include "small_directory.h"
#include "walkeeper/inspect.h"
#include <dirent.h>
#include <fcntl.h>

enum { BEFORE = 3, MORE = 4 };

typedef struct process {
	wk_io *io;
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer;
} process;

static char place[100];

static process open_manually(void) {
	process p = {0};
	wk_error error = {0};
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.internal = WK_OPEN_MANUAL;
	CHECK_EQ(wk_io_psync_new(&p.io), 0);
	check_ok(wk_open_on(p.io, place, &options, &p.ns, &error), &error, "the directory opens");
	p.log = log_named(p.ns, "log");
	p.writer = writer_of(p.log);
	return p;
}

static void append(process *p, int records) {
	for (int i = 0; i < records; i++)
		append_one(p->writer);
}

/* The process is killed, or closes as well as it can. */
static void end(process *p, bool in_order) {
	if (!in_order)
		wk_abandon(p->ns);
	wk_writer_close(p->writer, in_order ? UINT64_MAX : 0, NULL);
	wk_log_release(p->log);
	if (in_order)
		wk_close(p->ns, UINT64_MAX, NULL);
	p->io->operations->destroy(p->io);
}

/* The same bytes in another file. */
static void replace_file(const char *name) {
	static uint8_t bytes[1 << 16];
	int from = open(below(place, name), O_RDONLY);
	ssize_t size = read(from, bytes, sizeof bytes);
	CHECK(size > 0);
	close(from);
	CHECK_EQ(unlink(below(place, name)), 0);
	int to = open(below(place, name), O_WRONLY | O_CREAT | O_EXCL, 0666);
	CHECK_EQ(write(to, bytes, (size_t)size), size);
	close(to);
}

/* Two processes: each appends so many records behind what both know, in this order. */
static void write_at_once(int records_first, int records_second, bool first_is_quicker, bool in_order) {
	snprintf(place, sizeof place, "%s", temporary());
	process first = open_manually();
	append(&first, BEFORE);
	replace_file("superblock");
	replace_file("lock");
	CHECK_EQ(unlink(below(place, "shared")), 0);
	process second = open_manually();
	append(first_is_quicker ? &first : &second, first_is_quicker ? records_first : records_second);
	append(first_is_quicker ? &second : &first, first_is_quicker ? records_second : records_first);
	end(first_is_quicker ? &first : &second, in_order);
	end(first_is_quicker ? &second : &first, in_order);
}

static bool says_so(const char *text) {
	return strstr(text, "two processes wrote") != NULL || strstr(text, "earlier files go up to block") != NULL;
}

/* What `verify` finds and the next open refuses. */
static bool is_told(void) {
	wk_verify_report report;
	wk_error error = {0};
	wk_status status = wk_verify_directory(place, 0, NULL, NULL, &report, &error);
	wk_open_options options;
	wk_open_options_init(&options);
	wk_namespace *ns = NULL;
	wk_status opened = wk_open(place, &options, &ns, &error);
	if (opened == WK_OK)
		wk_close(ns, UINT64_MAX, NULL);
	CHECK(status == WK_OK || status == WK_DAMAGED);
	CHECK_EQ(opened, status);
	CHECK(status == WK_OK || (says_so(report.first_damage) && says_so(error.text)));
	return status == WK_DAMAGED;
}

/* Blocks stand in the same places: the slower one writes over those of the other, and what is left of them tells. */
TEST(what_a_killed_writer_left_behind_the_blocks_of_the_other_is_told) {
	for (int first = 1; first <= MORE; first++)
		for (int second = 1; second <= MORE; second++)
			for (int quicker = 0; quicker < 2; quicker++) {
				write_at_once(first, second, quicker, false);
				CHECK_EQ(is_told(), quicker ? first > second : second > first);
				remove_tree(place);
			}
}

/* The last block of the one that closes first stands among those of the other. */
TEST(of_two_writers_that_close_in_order_any_difference_is_told) {
	for (int first = 1; first <= MORE; first++)
		for (int second = 1; second <= MORE; second++)
			for (int quicker = 0; quicker < 2; quicker++) {
				write_at_once(first, second, quicker, true);
				CHECK_EQ(is_told(), first != second);
				remove_tree(place);
			}
}

static void run(const char *command, const char *from, const char *to) {
	char line[300];
	snprintf(line, sizeof line, "%s %s %s", command, from, to);
	CHECK_EQ(system(line), 0);
}

/* Journal files of the other that have names of their own. */
static void add_files_of(const char *twin) {
	char from[200], to[200];
	DIR *list = opendir(below(twin, "journal"));
	CHECK(list != NULL);
	for (const struct dirent *entry; (entry = readdir(list)) != NULL;) {
		snprintf(from, sizeof from, "%.60s/journal/%.60s", twin, entry->d_name);
		snprintf(to, sizeof to, "%.60s/journal/%.60s", place, entry->d_name);
		if (strstr(entry->d_name, ".wkj") != NULL && access(to, F_OK) != 0)
			CHECK_EQ(rename(from, to), 0);
	}
	closedir(list);
}

/* Each goes on in files of its own. They are written apart and put together, as a writer looks for the other by now. */
TEST(files_of_a_second_writer_are_told) {
	for (int more = 20; more <= 60; more += 20) {
		char here[80], twin[100];
		strcpy(here, temporary());
		strcpy(place, here);
		snprintf(twin, sizeof twin, "%.60s-twin", here);
		process first = open_manually();
		append(&first, BEFORE);
		run("cp -a", here, twin);
		strcpy(place, twin);
		process second = open_manually();
		append(&second, 40);
		end(&second, true);
		strcpy(place, here);
		append(&first, more);
		end(&first, true);
		add_files_of(twin);
		run("cp", below(twin, "superblock"), below(here, "superblock"));
		CHECK(is_told());
		remove_tree(here);
		remove_tree(twin);
	}
}

int main(void) {
	RUN(what_a_killed_writer_left_behind_the_blocks_of_the_other_is_told);
	RUN(of_two_writers_that_close_in_order_any_difference_is_told);
	RUN(files_of_a_second_writer_are_told);
	return check_done();
}
