/*
 * copied_directory.h: a backup, and what is asked of every copy. Included by the tests of wk_namespace_backup.
 */
#ifndef WK_TESTS_COPIED_DIRECTORY_H
#define WK_TESTS_COPIED_DIRECTORY_H
#include "small_directory.h"
#include "walkeeper/inspect.h"
#include <dirent.h>

static inline void verify_clean(const char *path) {
	wk_verify_report report;
	wk_error error = {0};
	wk_status status = wk_verify_directory(path, 0, NULL, NULL, &report, &error);
	check_ok(status, &error, "the directory verifies");
}

/* Names that two directories' journals share by inode. */
static inline int shared_files(const char *a, const char *b) {
	int count = 0;
	DIR *list = opendir(below(a, "journal"));
	CHECK(list != NULL);
	for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
		struct stat one, other;
		char name[300];
		snprintf(name, sizeof name, "journal/%.200s", entry->d_name);
		if (entry->d_name[0] != '.' && stat(below(a, name), &one) == 0 && stat(below(b, name), &other) == 0)
			count += one.st_ino == other.st_ino;
	}
	closedir(list);
	return count;
}

static inline void backup(wk_namespace *ns, const char *copy) {
	wk_error error = {0};
	check_ok(wk_namespace_backup(ns, copy, &error), &error, "the backup");
}
#endif
