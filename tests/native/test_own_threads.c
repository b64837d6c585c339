/*
 * test_own_threads.c: signals are the application's. None is delivered to a thread of ours, and one that comes to a
 * thread of the application's while it does our work leaves nothing half done.
 */
#include "engine/catalogue/snapshot.h"
#include "stalling_disk.h"
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

/* ---- whom a signal is delivered to ---- */

static uint64_t blocked_by(const char *thread) {
	char path[300], line[200];
	snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
	FILE *file = fopen(path, "r");
	uint64_t mask = UINT64_MAX; /* one that just ended blocks them all */
	while (file != NULL && fgets(line, sizeof line, file) != NULL)
		if (strncmp(line, "SigBlk:", 7) == 0)
			mask = strtoull(line + 7, NULL, 16);
	if (file != NULL)
		fclose(file);
	return mask;
}

/* All threads but this one block what an application uses; how many there are. */
static int check_threads(void) {
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGCHLD, SIGUSR1, SIGUSR2, SIGPROF, SIGPIPE};
	DIR *listed = opendir("/proc/self/task");
	CHECK(listed != NULL);
	int count = 0;
	for (struct dirent *entry; (entry = readdir(listed)) != NULL;) {
		if (entry->d_name[0] == '.' || atol(entry->d_name) == (long)syscall(SYS_gettid))
			continue;
		uint64_t mask = blocked_by(entry->d_name);
		for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
			CHECK(mask >> (signals[i] - 1) & 1);
		count++;
	}
	closedir(listed);
	return count;
}

static void no_thread_takes_signals(uint32_t backend) {
	char path[64];
	strcpy(path, temporary());
	wk_open_options options;
	wk_open_options_init(&options);
	options.backend = backend;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the directory opens");
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	static const char payload[100 * 1024];
	uint64_t ticket;
	for (int i = 0; i < 20; i++) /* more than a lone append: the driver's queue has something to do */
		check_ok(wk_writer_submit(writer, payload, sizeof payload, NULL, NULL, &ticket, &error), &error, "the append");
	check_ok(wk_namespace_wait(ns, ticket, UINT64_MAX, &error), &error, "they are durable");
	CHECK(check_threads() >= 2); /* the driver and the keeper */
	close_all(ns, log, writer);
	remove_tree(path);
}

TEST(no_thread_of_ours_takes_signals) {
	no_thread_takes_signals(WK_BACKEND_PSYNC);
	no_thread_takes_signals(WK_BACKEND_AUTO);
}

/* ---- what a signal must not cut short ---- */

static void nothing(int signal) {
	(void)signal;
}

typedef struct writing {
	wk_engine *engine;
	wk_status status;
	_Atomic bool done;
} writing;

static void *write_snapshot(void *context) {
	writing *w = context;
	wk_engine_lock(w->engine);
	w->status = wk_snapshot_write(w->engine, NULL);
	wk_engine_unlock(w->engine);
	atomic_store(&w->done, true);
	return NULL;
}

TEST(a_signal_does_not_cut_a_snapshot_short) {
	char path[64];
	strcpy(path, temporary());
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = 1 << 20;
	options.sync_method = WK_SYNC_DSYNC;
	options.blocks_in_flight = 1;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	wk_io *io = stalling_disk();
	check_ok(wk_open_on(io, path, &options, &ns, &error), &error, "the directory opens");
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	append_one(writer);
	nap_ms(300); /* the keeper has prepared its files, the last block is confirmed */
	int64_t before = ns->engine->superblock.snapshots[0].first_entry;
	sigaction(SIGUSR1, &(struct sigaction){.sa_handler = nothing}, NULL);
	atomic_store(&stalled, true);
	uint64_t ticket;
	check_ok(wk_writer_submit(writer, "x", 1, NULL, NULL, &ticket, &error), &error, "the append"); /* the only slot */
	nap_ms(50);
	writing w = {.engine = ns->engine};
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, write_snapshot, &w), 0);
	nap_ms(50);
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
		nap_ms(5);
	}
	CHECK(!atomic_load(&w.done));
	atomic_store(&stalled, false);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(w.status, WK_OK);
	CHECK(ns->engine->superblock.snapshots[0].first_entry > before);
	close_all(ns, log, writer);
	io->operations->destroy(io);
	remove_tree(path);
}

int main(void) {
	RUN(no_thread_of_ours_takes_signals);
	RUN(a_signal_does_not_cut_a_snapshot_short);
	return check_done();
}
