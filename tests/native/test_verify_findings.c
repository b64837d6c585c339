/*
 * test_verify_findings.c: wk_verify_directory names each file that is damaged, once, with what is wrong in it first; as
 * many as there is room for, and counts the rest.
 */
#include "verified_directory.h"

/* What is found in the file of this name, which is the finding of that number. */
static void check_finding(const wk_verify_report *report, uint32_t number, const char *name, uint64_t damaged,
                          const char *what) {
	CHECK(number < report->findings_count);
	const wk_verify_finding *finding = &report->findings[number];
	if (strcmp(finding->name, name) != 0 || strstr(finding->first, what) == NULL)
		printf("%s: %s\n", finding->name, finding->first);
	CHECK(strcmp(finding->name, name) == 0);
	CHECK_EQ(finding->damaged, damaged);
	CHECK(strstr(finding->first, what) != NULL);
	CHECK(strstr(finding->first, name) == NULL); /* it is said once */
}

TEST(a_clean_directory_has_no_findings) {
	make();
	CHECK_EQ(verify(WK_OK).findings_count, 0);
	remove_tree(path);
}

TEST(each_damaged_file_is_named_with_its_first_damage) {
	make();
	flip_bit(below(path, "superblock"), 5);
	flip_bit(below(path, files[0]), 2 * 4096 + 9);
	flip_bit(below(path, files[0]), 7 * 4096 + 9);
	flip_bit(below(path, files[0]), 9 * 4096 + 9);
	flip_bit(below(path, files[2]), 4 * 4096 + 9);
	flip_bit(below(path, active), 1 * 4096 + 9);
	wk_verify_report report = verify(WK_DAMAGED);
	CHECK_EQ(report.findings_count, 4);
	CHECK_EQ(report.damaged, 6);
	check_finding(&report, 0, "superblock", 1, "slot 0 (offset 0)");
	check_finding(&report, 1, files[0], 3, "offset 8192 ");
	check_finding(&report, 2, files[2], 1, "offset 16384 ");
	check_finding(&report, 3, active, 1, "offset 4096 ");
	remove_tree(path);
}

/* The file between is not there: no file has what the log needs. */
TEST(what_no_file_has_is_found_under_the_name_of_its_log) {
	make();
	CHECK_EQ(unlink(below(path, files[2])), 0);
	wk_verify_report report = verify(WK_DAMAGED);
	CHECK_EQ(report.findings_count, 1);
	check_finding(&report, 0, "log log", report.damaged, "a file is missing");
	remove_tree(path);
}

TEST(more_files_than_there_is_room_for_are_counted) {
	enum { RECORDS = 13 * (WK_VERIFY_FINDINGS_MAX + 5) };
	path = temporary();
	make_small(path, RECORDS);
	struct dirent **names;
	int count = scandir(below(path, "journal"), &names, is_journal_file, alphasort), damaged = 0;
	for (int i = 0; i < count; i++) {
		char name[64];
		snprintf(name, sizeof name, "journal/%.32s", names[i]->d_name);
		free(names[i]);
		if (count_blocks(name) < 3)
			continue;
		flip_bit(below(path, name), 4096 + 9);
		damaged++;
	}
	free(names);
	CHECK(damaged > WK_VERIFY_FINDINGS_MAX);
	wk_verify_report report = verify(WK_DAMAGED);
	CHECK_EQ(report.findings_count, WK_VERIFY_FINDINGS_MAX);
	CHECK_EQ(report.damaged, damaged);
	for (uint32_t i = 0; i < report.findings_count; i++)
		CHECK_EQ(report.findings[i].damaged, 1);
	remove_tree(path);
}

int main(void) {
	RUN(a_clean_directory_has_no_findings);
	RUN(each_damaged_file_is_named_with_its_first_damage);
	RUN(what_no_file_has_is_found_under_the_name_of_its_log);
	RUN(more_files_than_there_is_room_for_are_counted);
	return check_done();
}
