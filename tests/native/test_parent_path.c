/*
 * test_parent_path.c: which directory names a file, however the path is written. The model is dirname(3).
 */
#include "check.h"
#include "engine/parent_path.h"
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

TEST(it_is_what_dirname_says) {
	static const char *const paths[] = {"a",   "a/",   "a/b",  "a/b/", "a//b",  "a//b//", "/",     "//", "/a",
	                                    "/a/", "/a/b", "../a", "",     "./a//", ".a",     "a/..b", "..."};
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		char copy[16];
		strcpy(copy, paths[i]);
		const char *wanted = dirname(copy);
		char *found = wk_parent_path(paths[i]);
		if (strcmp(wanted, "//") == 0) /* POSIX lets it mean something else; here it is the root */
			wanted = "/";
		if (strcmp(found, wanted) != 0)
			printf("%s: %s, and dirname says %s\n", paths[i], found, wanted);
		CHECK(strcmp(found, wanted) == 0);
		free(found);
	}
}

/* dirname(3) says "." of "..", and "a" of "a/.": no directory that has it. */
TEST(what_stands_above_no_name_the_kernel_tells) {
	static const char *const paths[][2] = {
	    {".", "./.."}, {"..", "../.."}, {"a/.", "a/./.."}, {"/a/..//", "/a/..///.."}};
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		char *found = wk_parent_path(paths[i][0]);
		CHECK(strcmp(found, paths[i][1]) == 0);
		free(found);
	}
}

int main(void) {
	RUN(it_is_what_dirname_says);
	RUN(what_stands_above_no_name_the_kernel_tells);
	return check_done();
}
