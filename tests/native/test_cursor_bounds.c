/* test_cursor_bounds.c: a cursor is put only where a record is, or the next one will be; what is no place is refused. */
#include "small_directory.h"
#include <sys/wait.h>

enum { RECORDS = 10, REFUSED = 0, TAKEN = 1 };

/* In a child: whatever becomes of it, the test goes on. REFUSED, TAKEN, or what wait() says of a child that was killed. */
static int put_cursor(wk_dlsn dlsn, int64_t sequence_id, int64_t txid) {
	char path[64];
	strcpy(path, temporary());
	make_small(path, RECORDS);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		wk_namespace *ns = open_small(path);
		wk_log *log = log_named(ns, "log");
		wk_position at = {dlsn, sequence_id, txid};
		wk_status status = wk_cursor_set(log, "cursor", 6, &at, NULL);
		close_all(ns, log, NULL);
		_exit(status == WK_OK ? TAKEN : REFUSED);
	}
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	remove_tree(path);
	return WIFEXITED(status) ? WEXITSTATUS(status) : status;
}

TEST(a_cursor_where_records_are_is_taken) {
	CHECK_EQ(put_cursor((wk_dlsn){1, 0, 0}, 0, -1), TAKEN);
	CHECK_EQ(put_cursor((wk_dlsn){1, RECORDS, 0}, RECORDS, -1), TAKEN);
}

TEST(numbers_that_no_position_has_are_refused_and_do_not_stop_the_process) {
	CHECK_EQ(put_cursor((wk_dlsn){1, 0, 0}, -5, -1), REFUSED);
	CHECK_EQ(put_cursor((wk_dlsn){1, 0, 0}, 0, -5), REFUSED);
	CHECK_EQ(put_cursor((wk_dlsn){1, -5, 0}, 0, -1), REFUSED);
	CHECK_EQ(put_cursor((wk_dlsn){1, 0, -5}, 0, -1), REFUSED);
}

TEST(a_place_in_the_next_segment_behind_its_start_is_past_the_end) {
	CHECK_EQ(put_cursor((wk_dlsn){2, 0, 0}, RECORDS, -1), TAKEN);
	CHECK_EQ(put_cursor((wk_dlsn){2, 1000, 0}, RECORDS, -1), REFUSED);
	CHECK_EQ(put_cursor((wk_dlsn){2, INT64_MAX, 0}, 0, -1), REFUSED);
}

int main(int argc, char **argv) {
	(void)argv;
	RUN(a_cursor_where_records_are_is_taken);
	if (argc == 1) /* any argument: only the other one */
		RUN(numbers_that_no_position_has_are_refused_and_do_not_stop_the_process);
	RUN(a_place_in_the_next_segment_behind_its_start_is_past_the_end);
	return check_done();
}
