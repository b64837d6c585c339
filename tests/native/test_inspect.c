/*
 * test_inspect.c: wk_inspect_file: every file of a real directory is told by its bytes and described by lines of JSON;
 * a damaged one too, as far as it can be read. wk_doctor: what it says of a temporary directory.
 */
#include "core/journal_block.h"
#include "core/superblock.h"
#include "engine/check/json.h"
#include "small_directory.h"
#include "walkeeper/inspect.h"
#include <errno.h>

enum { LINES_MAX = 2000 };
static char *lines[LINES_MAX];
static size_t lines_count;
static const char *path; /* of the directory under test */

/* ---- JSON, as far as a test needs it ---- */

static const char *value(const char *at);

static const char *string(const char *at) {
	if (at == NULL || *at++ != '"')
		return NULL;
	for (; *at != '"'; at++) {
		if ((unsigned char)*at < 0x20)
			return NULL;
		if (*at == '\\' && strchr("\"\\u", *++at) == NULL)
			return NULL;
	}
	return at + 1;
}

/* An object or array behind its first bracket. */
static const char *members(const char *at, char end) {
	while (at != NULL && *at != end) {
		if (end == '}') {
			at = string(at);
			at = at != NULL && *at == ':' ? at + 1 : NULL;
		}
		at = value(at);
		if (at != NULL && *at == ',' && at[1] != end)
			at++;
		else if (at != NULL && *at != end)
			return NULL;
	}
	return at == NULL ? NULL : at + 1;
}

static const char *value(const char *at) {
	if (at == NULL)
		return NULL;
	if (*at == '{' || *at == '[')
		return members(at + 1, *at == '{' ? '}' : ']');
	if (*at == '"')
		return string(at);
	if (strncmp(at, "true", 4) == 0)
		return at + 4;
	if (strncmp(at, "false", 5) == 0)
		return at + 5;
	size_t digits = strspn(at, "-0123456789");
	return digits > 0 ? at + digits : NULL;
}

static bool is_object(const char *line) {
	const char *end = *line == '{' ? value(line) : NULL;
	return end != NULL && *end == 0;
}

/* ---- the lines of a file ---- */

static bool keep(void *context, const char *line) {
	(void)context;
	if (!is_object(line))
		printf("%s\n", line);
	CHECK(is_object(line));
	CHECK(lines_count < LINES_MAX);
	lines[lines_count] = strdup(line);
	CHECK(lines[lines_count] != NULL);
	lines_count++;
	return true;
}

static void forget(void) {
	while (lines_count > 0)
		free(lines[--lines_count]);
}

static wk_error inspect(const char *file, bool entries, wk_status expected) {
	wk_error error = {0};
	forget();
	wk_status status = wk_inspect_file(file, entries, keep, NULL, &error);
	if (status != expected)
		printf("%s\n", error.text);
	CHECK_EQ(status, expected);
	return error;
}

static size_t count(const char *part) {
	size_t found = 0;
	for (size_t i = 0; i < lines_count; i++)
		found += strstr(lines[i], part) != NULL;
	return found;
}

static const char *first_file(void) {
	return below(path, "journal/0000000000000001.wkj");
}

static void make(void) {
	path = temporary();
	make_small(path, 60);
}

static void end(void) {
	forget();
	remove_tree(path);
}

/* ---- whole files ---- */

TEST(a_journal_file_tells_its_blocks_and_its_footer) {
	make();
	inspect(first_file(), false, WK_OK);
	CHECK(strstr(lines[0], "\"kind\":\"journal\"") != NULL);
	CHECK(strstr(lines[0], "\"epoch\":1,") != NULL);
	CHECK(strstr(lines[0], "\"sealed\":true") != NULL);
	CHECK_EQ(count("\"block\":"), 13);
	CHECK_EQ(count("\"crc\":\"ok\""), 13);
	CHECK_EQ(count("\"chained\":true"), 13);
	CHECK(strstr(lines[1], "\"block\":1,\"offset\":0,\"size\":4096") != NULL);
	CHECK_EQ(count("\"footer\":53248"), 1);
	CHECK_EQ(count("\"run\":"), 2); /* the catalogue's and the log's */
	CHECK_EQ(count("\"entry\":"), 0);
	end();
}

TEST(with_entries_each_entry_tells_what_it_holds) {
	make();
	inspect(first_file(), true, WK_OK);
	CHECK(count("\"entry\":") >= 12);
	CHECK_EQ(count("\"digest\":\"ok\""), count("\"entry\":"));
	CHECK_EQ(count("\"type\":\"create\""), 1);
	CHECK_EQ(count("\"name\":\"log\""), 1);
	CHECK_EQ(count("\"type\":\"segment\""), 1);
	CHECK(count("\"position\":1,\"size\":3000") == 1);
	CHECK(count("\"records\":[{\"txid\":") >= 10);
	end();
}

TEST(a_file_is_told_by_its_bytes_and_not_by_its_name) {
	make();
	CHECK_EQ(rename(first_file(), below(path, "superblock.old")), 0);
	inspect(below(path, "superblock.old"), false, WK_OK);
	CHECK(strstr(lines[0], "\"kind\":\"journal\"") != NULL);
	inspect(below(path, "superblock"), false, WK_OK);
	CHECK(strstr(lines[0], "\"kind\":\"superblock\"") != NULL);
	CHECK_EQ(lines_count, 3);
	CHECK_EQ(count("\"clean\":true"), 1);
	CHECK(count("\"directory_id\":\"") == 2);
	inspect(below(path, "lock"), false, WK_OK);
	char pid[80];
	snprintf(pid, sizeof pid, "{\"kind\":\"lock\",\"size\":4096,\"last_holder_pid\":%d,\"boot_id\":\"", (int)getpid());
	CHECK(strncmp(lines[0], pid, strlen(pid)) == 0);
	inspect(below(path, "shared"), false, WK_OK);
	CHECK(strstr(lines[0], "\"kind\":\"shared page\"") != NULL);
	end();
}

TEST(a_prepared_file_of_zeros_is_one) {
	path = temporary();
	void *zeros = calloc(1, SMALL_FILE_SIZE);
	CHECK(zeros != NULL);
	write_file(below(path, "file"), zeros, SMALL_FILE_SIZE);
	free(zeros);
	inspect(below(path, "file"), true, WK_OK);
	CHECK(strcmp(lines[0], "{\"kind\":\"prepared\",\"size\":65536}") == 0);
	end();
}

static const char *index_file(void) {
	size_t size;
	uint8_t *slots = read_file(below(path, "superblock"), &size);
	wk_superblock superblock;
	CHECK(wk_superblock_choose(slots, &superblock) >= 0);
	free(slots);
	char name[64];
	snprintf(name, sizeof name, "index/%016llx.wki", (unsigned long long)superblock.index_generation);
	return below(path, name);
}

TEST(an_index_file_tells_its_files_and_ranges) {
	make();
	inspect(index_file(), false, WK_OK);
	CHECK(strstr(lines[0], "{\"kind\":\"index\",\"size\":") == lines[0]);
	CHECK(strstr(lines[0], "\"crc\":\"ok\",\"generation\":") != NULL);
	/* The mover may have put some of them together already. Ranges name files, too. */
	CHECK(count("\"id\":") >= 1 && count("\"file\":") >= count("\"id\":") + count("\"range\":"));
	CHECK(count("\"range\":") >= 2);
	CHECK_EQ(count("{\"ledger\":"), 0);
	CHECK_EQ(lines_count, 1 + count("\"id\":") + count("\"range\":"));
	end();
}

TEST(a_bad_page_of_an_index_is_told_and_the_others_are_shown) {
	make();
	size_t size;
	uint8_t *bytes = read_file(index_file(), &size);
	flip_bit(index_file(), 4096 + 77);
	wk_error error = inspect(index_file(), false, WK_CORRUPT);
	CHECK_EQ(count("\"kind\":\"files\",\"crc\":\"bad\""), 1);
	CHECK(count("\"range\":") >= 2);
	CHECK(strstr(error.text, "page of files at offset 4096") != NULL);
	write_file(index_file(), bytes, 8192); /* cut short: its runs are gone */
	error = inspect(index_file(), false, WK_CORRUPT);
	CHECK_EQ(count("\"kind\":\"ranges\",\"crc\":\"bad\""), 1);
	CHECK(strstr(error.text, "its header says") != NULL);
	bytes[20] ^= 1;
	write_file(index_file(), bytes, size);
	error = inspect(index_file(), false, WK_CORRUPT);
	CHECK_EQ(lines_count, 1);
	CHECK(strstr(lines[0], "\"crc\":\"bad\"") != NULL);
	CHECK(strstr(error.text, "header") != NULL);
	free(bytes);
	end();
}

/* Recycled: its first blocks are of a new epoch, behind them and at its end stands what an earlier life left. */
TEST(of_a_recycled_file_only_the_new_life_counts) {
	make();
	size_t size;
	uint8_t *bytes = read_file(first_file(), &size);
	wk_block_header header;
	CHECK_EQ(wk_block_decode(bytes, size, &header), WK_OK);
	header.epoch = 77;
	wk_block_seal(bytes, &header);
	write_file(below(path, "file"), bytes, size);
	free(bytes);
	inspect(below(path, "file"), false, WK_OK);
	CHECK(strstr(lines[0], "\"epoch\":77,") != NULL);
	CHECK(strstr(lines[0], "\"sealed\":false") != NULL);
	CHECK_EQ(lines_count, 2);
	end();
}

static bool few(void *context, const char *line) {
	CHECK(is_object(line));
	return --*(int *)context > 0;
}

TEST(who_wants_no_more_lines_gets_none) {
	make();
	int left = 3;
	wk_error error;
	CHECK_EQ(wk_inspect_file(first_file(), true, few, &left, &error), WK_INTERRUPTED);
	CHECK_EQ(left, 0);
	end();
}

/* ---- damaged files, and files of others ---- */

TEST(a_bad_block_is_told_between_the_good_ones) {
	make();
	flip_bit(first_file(), 3 * 4096 + 500);
	wk_error error = inspect(first_file(), true, WK_CORRUPT);
	CHECK_EQ(count("\"crc\":\"bad\""), 1);
	CHECK_EQ(count("\"crc\":\"ok\""), 12);
	CHECK_EQ(count("\"footer\":53248"), 1);
	CHECK(strstr(error.text, "offset 12288") != NULL);
	end();
}

TEST(a_bad_block_that_cannot_even_be_recognised_is_damage) {
	make();
	flip_bit(first_file(), 3 * 4096); /* its magic */
	wk_error error = inspect(first_file(), false, WK_CORRUPT);
	CHECK_EQ(count("\"crc\":\"ok\""), 12);
	CHECK(strstr(error.text, "offset 12288") != NULL);
	flip_bit(first_file(), 3 * 4096);
	flip_bit(first_file(), 0); /* of the first block: the file is known by the others */
	error = inspect(first_file(), false, WK_CORRUPT);
	CHECK(strstr(lines[0], "\"epoch\":1,") != NULL);
	CHECK(strstr(error.text, "offset 0 ") != NULL);
	end();
}

TEST(a_bad_page_of_a_footer_is_told) {
	make();
	flip_bit(first_file(), SMALL_FILE_SIZE - 2 * 4096 + 10); /* runs */
	wk_error error = inspect(first_file(), false, WK_CORRUPT);
	CHECK_EQ(count("\"kind\":\"runs\",\"crc\":\"bad\""), 1);
	CHECK(strstr(error.text, "runs") != NULL);
	flip_bit(first_file(), SMALL_FILE_SIZE - 2 * 4096 + 10);
	flip_bit(first_file(), SMALL_FILE_SIZE - 4096 + 40); /* the last page */
	error = inspect(first_file(), false, WK_CORRUPT);
	CHECK_EQ(count("\"crc\":\"ok\""), 13);
	CHECK(strstr(error.text, "last page") != NULL);
	end();
}

TEST(a_bad_slot_of_the_superblock_is_told_beside_the_good_one) {
	make();
	flip_bit(below(path, "superblock"), 0);
	wk_error error = inspect(below(path, "superblock"), false, WK_CORRUPT);
	CHECK_EQ(count("\"slot\":0,\"crc\":\"bad\""), 1);
	CHECK_EQ(count("\"slot\":1,\"crc\":\"ok\""), 1);
	CHECK(strstr(error.text, "slot 0") != NULL);
	end();
}

/* Prepared space looks like that; what has this name never does. */
TEST(what_was_zeroed_is_told_by_its_name_and_is_damage) {
	make();
	static const char *const kinds[][2] = {{"superblock", "superblock"}, {"index", NULL}, {"entry log", "lost.wke"}};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		const char *name = kinds[i][1] != NULL ? below(path, kinds[i][1]) : index_file();
		uint8_t zeros[2 * WK_SUPERBLOCK_SLOT_SIZE] = {0};
		char kind[40];
		snprintf(kind, sizeof kind, "\"kind\":\"%s\"", kinds[i][0]);
		char kept[300];
		snprintf(kept, sizeof kept, "%s", name);
		size_t size = 0;
		uint8_t *bytes = kinds[i][1] == NULL || i == 0 ? read_file(kept, &size) : NULL;
		write_file(kept, zeros, sizeof zeros);
		inspect(kept, false, WK_CORRUPT);
		CHECK(strstr(lines[0], kind) != NULL);
		if (i == 0)
			CHECK_EQ(count("\"crc\":\"bad\""), 2);
		if (bytes != NULL)
			write_file(kept, bytes, size);
		free(bytes);
	}
	end();
}

TEST(a_torn_tail_is_shown_and_is_no_damage) {
	path = temporary();
	make_small(path, 6);
	size_t size, at = 0, last = 0;
	uint8_t *bytes = read_file(first_file(), &size);
	wk_block_header header;
	for (; wk_block_decode(bytes + at, size - at, &header) == WK_OK; at += header.size)
		last = at;
	free(bytes);
	flip_bit(first_file(), last + 81);
	flip_bit(first_file(), last + 4095);
	inspect(first_file(), true, WK_OK);
	CHECK_EQ(count("\"crc\":\"bad\",\"chained\":false"), 1);
	end();
}

TEST(somebody_elses_file_is_refused) {
	path = temporary();
	write_file(below(path, "letter"), "Dear reader,\n", 13);
	inspect(below(path, "letter"), false, WK_UNSUPPORTED);
	CHECK_EQ(lines_count, 0);
	write_file(below(path, "nothing"), "", 0);
	inspect(below(path, "nothing"), false, WK_UNSUPPORTED);
	inspect(below(path, "not there"), false, WK_NOT_FOUND);
	uint8_t noise[8192];
	uint64_t seed = 1;
	check_random_bytes(&seed, noise, sizeof noise);
	write_file(below(path, "noise"), noise, sizeof noise);
	inspect(below(path, "noise"), true, WK_UNSUPPORTED);
	end();
}

/* Whatever bits are turned: lines that are JSON, an answer, and no harm. */
TEST(any_damage_leaves_lines_that_are_json) {
	make();
	size_t size;
	uint8_t *whole = read_file(first_file(), &size), *bytes = malloc(size);
	CHECK(bytes != NULL);
	uint64_t seed = 20;
	for (int round = 0; round < 60; round++) {
		memcpy(bytes, whole, size);
		for (int i = 0; i < 1 + round; i++) {
			uint64_t at = check_random(&seed) % size, bit = check_random(&seed) % 8;
			bytes[at] = (uint8_t)(bytes[at] ^ 1u << bit);
		}
		write_file(below(path, "file"), bytes, size);
		wk_error error;
		forget();
		wk_status status = wk_inspect_file(below(path, "file"), true, keep, NULL, &error);
		CHECK(status == WK_OK || status == WK_CORRUPT || status == WK_UNSUPPORTED);
	}
	free(whole);
	free(bytes);
	end();
}

/* ---- text in JSON ---- */

TEST(any_bytes_become_a_string_of_json) {
	wk_json json = {0};
	wk_json_begin(&json);
	wk_json_text(&json, "name", "a\"b\\c\n\x01z\xC3\xA4\xFF\xE2\x82\xAC\xE2\x82", 16);
	CHECK(strcmp(wk_json_line(&json),
	             "{\"name\":\"a\\\"b\\\\c\\u000a\\u0001z\xC3\xA4\\ufffd\xE2\x82\xAC\\ufffd\\ufffd\"}") == 0);
	wk_json_begin(&json);
	wk_json_text(&json, "name", "\xED\xA0\x80\xC0\xAF\xF4\x90\x80\x80",
	             9); /* a surrogate, an overlong slash, above the last character */
	for (const char *at = wk_json_line(&json); *at != 0; at++)
		CHECK((unsigned char)*at < 0x80);
	wk_json_free(&json);
}

/* ---- doctor ---- */

TEST(the_doctor_measures_and_leaves_nothing_behind) {
	path = temporary();
	wk_doctor_report report;
	wk_error error = {0};
	check_ok(wk_doctor(path, &report, &error), &error, "the doctor");
	CHECK_EQ(report.backend == WK_BACKEND_URING, report.uring_error == 0);
	CHECK(report.sync_method == WK_SYNC_DSYNC || report.sync_method == WK_SYNC_WRITE_THEN_SYNC);
	CHECK(report.alignment >= 1 && report.alignment <= 4096);
	CHECK(report.dsync_ns > 0 && report.write_then_sync_ns > 0);
	CHECK_EQ(report.write_error, 0);
	CHECK(report.free_bytes > 0 && report.free_bytes <= report.total_bytes);
	CHECK(report.file_system != 0);
	CHECK_EQ(rmdir(path), 0);
	CHECK_EQ(wk_doctor(path, &report, &error), WK_NOT_FOUND);
}

/* Not root's: whoever that is may write anywhere. */
TEST(the_doctor_tells_the_rest_of_a_directory_that_it_cannot_write) {
	path = temporary();
	CHECK_EQ(chmod(path, 0555), 0);
	bool root = geteuid() == 0;
	CHECK(!root || seteuid(65534) == 0);
	wk_doctor_report report;
	wk_error error = {0};
	wk_status status = wk_doctor(path, &report, &error);
	CHECK(!root || seteuid(0) == 0);
	check_ok(status, &error, "the doctor");
	CHECK_EQ(report.write_error, EACCES);
	CHECK_EQ(report.sync_method, 0);
	CHECK_EQ(report.dsync_ns, 0);
	CHECK_EQ(report.blocks_in_flight, 0);
	CHECK_EQ(report.backend == WK_BACKEND_URING, report.uring_error == 0);
	CHECK(report.free_bytes > 0 && report.free_bytes <= report.total_bytes);
	CHECK(report.file_system != 0);
	CHECK_EQ(rmdir(path), 0);
}

int main(void) {
	RUN(a_journal_file_tells_its_blocks_and_its_footer);
	RUN(with_entries_each_entry_tells_what_it_holds);
	RUN(a_file_is_told_by_its_bytes_and_not_by_its_name);
	RUN(a_prepared_file_of_zeros_is_one);
	RUN(an_index_file_tells_its_files_and_ranges);
	RUN(a_bad_page_of_an_index_is_told_and_the_others_are_shown);
	RUN(of_a_recycled_file_only_the_new_life_counts);
	RUN(who_wants_no_more_lines_gets_none);
	RUN(a_bad_block_is_told_between_the_good_ones);
	RUN(a_bad_block_that_cannot_even_be_recognised_is_damage);
	RUN(a_bad_page_of_a_footer_is_told);
	RUN(a_bad_slot_of_the_superblock_is_told_beside_the_good_one);
	RUN(what_was_zeroed_is_told_by_its_name_and_is_damage);
	RUN(a_torn_tail_is_shown_and_is_no_damage);
	RUN(somebody_elses_file_is_refused);
	RUN(any_damage_leaves_lines_that_are_json);
	RUN(any_bytes_become_a_string_of_json);
	RUN(the_doctor_measures_and_leaves_nothing_behind);
	RUN(the_doctor_tells_the_rest_of_a_directory_that_it_cannot_write);
	return check_done();
}
