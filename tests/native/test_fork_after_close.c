/*
 * test_fork_after_close.c: a close ran out of time, so the directory stays locked until the process ends (log.h); and no longer:
 * a child that was forked behind it does not keep the lock.
 */
#include "stalling_disk.h"
#include <signal.h>
#include <sys/wait.h>

/* The process: its close runs out of time, it leaves a child behind, and ends. */
static void close_in_vain_and_fork(const char *path, int tell) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.sync_method = WK_SYNC_DSYNC;
	wk_namespace *ns = NULL;
	CHECK_EQ(wk_open_on(stalling_disk(), path, &options, &ns, NULL), WK_OK);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	append_one(writer);
	nap_ms(300);
	atomic_store(&stalled, true);
	uint64_t ticket;
	CHECK_EQ(wk_writer_submit(writer, "record", 6, NULL, NULL, &ticket, NULL), WK_OK);
	CHECK_EQ(wk_close(ns, 200000000, NULL), WK_TIMEOUT);
	pid_t child = fork();
	if (child == 0) {
		nap_ms(20000);
		_exit(0);
	}
	CHECK_EQ(write(tell, &child, sizeof child), sizeof child);
	_exit(0);
}

TEST(a_child_does_not_keep_the_lock_of_a_directory_whose_close_ran_out_of_time) {
	char path[64];
	strcpy(path, temporary());
	int ends[2];
	pid_t child = 0;
	CHECK_EQ(pipe(ends), 0);
	pid_t process = fork();
	if (process == 0)
		close_in_vain_and_fork(path, ends[1]);
	CHECK_EQ(read(ends[0], &child, sizeof child), sizeof child);
	CHECK_EQ(waitpid(process, NULL, 0), process);
	wk_open_options options;
	wk_open_options_init(&options);
	options.lock_timeout_ns = 1000000000;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	wk_status status = wk_open(path, &options, &ns, &error);
	kill(child, SIGKILL);
	check_ok(status, &error, "the directory opens once the process has ended");
	close_all(ns, NULL, NULL);
	remove_tree(path);
}

int main(void) {
	RUN(a_child_does_not_keep_the_lock_of_a_directory_whose_close_ran_out_of_time);
	return check_done();
}
