/*
 * verified_directory.h: a real directory of small files that wk_verify_directory looks at: some of them sealed, the last
 * under way; a bit of it turned, and what is said of it.
 */
#ifndef VERIFIED_DIRECTORY_H
#define VERIFIED_DIRECTORY_H
#include "core/footer.h"
#include "core/index_file.h"
#include "core/superblock.h"
#include "small_directory.h"
#include "walkeeper/entry.h"
#include "walkeeper/inspect.h"
#include <dirent.h>

enum { FILES_MAX = 16, BLOCKS_A_FILE = 13 }; /* one record a block, a block a page, three pages of footer */
static const char *path;                     /* of the directory under test */
static char files[FILES_MAX][64];            /* its journal files that hold blocks, in order */
static size_t files_count;
static const char *sealed, *active; /* the second of them, and the last */

/* The findings are what is counted: each has a name of its own, and the first of them is the first damage. */
static inline void check_findings(const wk_verify_report *report) {
	uint64_t found = 0;
	for (uint32_t i = 0; i < report->findings_count; i++) {
		const wk_verify_finding *finding = &report->findings[i];
		CHECK(finding->damaged > 0 && finding->name[0] != 0 && finding->first[0] != 0);
		for (uint32_t other = 0; other < i; other++)
			CHECK(strcmp(finding->name, report->findings[other].name) != 0);
		found += finding->damaged;
	}
	CHECK_EQ(report->findings_count > 0, report->damaged > 0);
	CHECK(found == report->damaged || (found < report->damaged && report->findings_count == WK_VERIFY_FINDINGS_MAX));
	if (report->damaged > 0) {
		char first[sizeof report->findings[0].name + sizeof report->findings[0].first + 2];
		snprintf(first, sizeof first, "%s: %s", report->findings[0].name, report->findings[0].first);
		CHECK(strncmp(first, report->first_damage, sizeof report->first_damage - 1) == 0);
	}
}

static inline wk_verify_report verify(wk_status expected) {
	wk_verify_report report;
	wk_error error = {0};
	wk_status status = wk_verify_directory(path, 0, NULL, NULL, &report, &error);
	if (status != expected)
		printf("%s\n", report.first_damage);
	CHECK_EQ(status, expected);
	CHECK_EQ(report.damaged > 0, expected == WK_DAMAGED);
	check_findings(&report);
	return report;
}

/* Blocks that stand in a file of this name, from its start. One that was empty may be gone since it was listed. */
static inline size_t count_blocks(const char *name) {
	size_t size, count = 0;
	uint8_t *bytes = read_if_there(below(path, name), &size);
	wk_block_header header;
	for (size_t at = 0; bytes != NULL && wk_block_decode(bytes + at, size - at, &header) == WK_OK &&
	                    header.epoch == strtoull(strchr(name, '/') + 1, NULL, 16);
	     at += header.size)
		count++;
	free(bytes);
	return count;
}

static inline int is_journal_file(const struct dirent *entry) {
	return strstr(entry->d_name, ".wkj") != NULL;
}

/* Ids may skip: the journal does not wait for a file that is being prepared. */
static inline void list_files(void) {
	struct dirent **names;
	int count = scandir(below(path, "journal"), &names, is_journal_file, alphasort);
	files_count = 0;
	for (int i = 0; i < count; i++) {
		snprintf(files[files_count], sizeof files[0], "journal/%.32s", names[i]->d_name);
		free(names[i]);
		files_count += count_blocks(files[files_count]) > 0;
		CHECK(files_count < FILES_MAX);
	}
	free(names);
}

/* Four files or more that are sealed, and one with room for more that holds some blocks. */
static inline void make(void) {
	path = temporary();
	wk_namespace *ns = open_small(path);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	do {
		append_one(writer);
		list_files();
	} while (files_count < 5 || count_blocks(files[files_count - 1]) < 5);
	close_all(ns, log, writer);
	list_files();
	sealed = files[1];
	active = files[files_count - 1];
	CHECK(count_blocks(active) < BLOCKS_A_FILE);
}

/* One bit of the file at `offset` turned: found once, and the file and its place named; turned back: clean again. */
static inline void check_flip(const char *name, size_t offset, const char *what, size_t named_offset) {
	char number[40];
	snprintf(number, sizeof number, "offset %zu", named_offset);
	flip_bit(below(path, name), offset);
	wk_verify_report report = verify(WK_DAMAGED);
	bool named = strstr(report.first_damage, name) != NULL && strstr(report.first_damage, number) != NULL &&
	             strstr(report.first_damage, what) != NULL;
	if (!named)
		printf("%s at %zu: %s\n", name, offset, report.first_damage);
	CHECK(named);
	CHECK_EQ(report.damaged, 1);
	flip_bit(below(path, name), offset);
	verify(WK_OK);
}

/* The index file that the superblock names; empty: none. */
static inline const char *index_name(void) {
	static char name[64];
	size_t size;
	uint8_t *slots = read_file(below(path, "superblock"), &size);
	wk_superblock superblock;
	CHECK(wk_superblock_choose(slots, &superblock) >= 0);
	free(slots);
	snprintf(name, sizeof name, "index/%016llx.wki", (unsigned long long)superblock.index_generation);
	return name;
}

/* Footers are no cache any more where the index is believed: without it, one may be missing. */
static inline void forget_index(void) {
	CHECK_EQ(unlink(below(path, index_name())), 0);
}
#endif
