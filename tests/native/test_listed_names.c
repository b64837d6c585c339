/*
 * test_listed_names.c: names that are listed while changes are on their way. One write of a block is let through at a time:
 * what a change says that came while the list waited for an earlier one is not durable, and not told.
 */
#include "change_on_its_way.h"
#include "engine/directory/directory.h"
#include "io/io.h"
#include "small_directory.h"
#include <pthread.h>
#include <stdatomic.h>

static struct wk_io_operations gated_operations;
static const struct wk_io_operations *plain;
static _Atomic bool gated;
static _Atomic int arrived, allowed;

static int64_t gated_pwrite(wk_io *io, wk_file *file, const void *buffer, size_t size, uint64_t offset,
                            uint32_t flags) {
	if (atomic_load(&gated) && (flags & WK_IO_DSYNC) != 0) {
		int number = atomic_fetch_add(&arrived, 1);
		while (atomic_load(&gated) && number >= atomic_load(&allowed))
			nap_ms(1);
	}
	return plain->pwrite(io, file, buffer, size, offset, flags);
}

static int gated_queue_wait(wk_io *io, wk_io_queue *queue, wk_io_completion *out, uint32_t out_max,
                            uint64_t timeout_ns) {
	int count = plain->queue_wait(io, queue, out, out_max, timeout_ns);
	while (count > 0 && atomic_load(&gated))
		nap_ms(1);
	return count;
}

typedef struct caller {
	wk_namespace *ns;
	const char *name;
	wk_log *log;
	char *names;
	size_t size;
	_Atomic bool answered;
	pthread_t thread;
} caller;

static void *create(void *context) {
	caller *c = context;
	c->log = log_named(c->ns, c->name);
	return NULL;
}

static void *list(void *context) {
	caller *c = context;
	uint64_t count;
	CHECK_EQ(wk_log_names(c->ns, "", 0, &c->names, &c->size, &count, NULL), WK_OK);
	atomic_store(&c->answered, true);
	return NULL;
}

TEST(a_list_of_names_tells_only_what_is_durable) {
	wk_io *io = NULL;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	plain = io->operations;
	gated_operations = *plain;
	gated_operations.pwrite = gated_pwrite;
	gated_operations.queue_wait = gated_queue_wait;
	io->operations = &gated_operations;
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
	options.sync_method = WK_SYNC_DSYNC;
	options.blocks_in_flight = 4;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	const char *path = temporary();
	check_ok(wk_open_on(io, path, &options, &ns, &error), &error, "the directory opens");
	caller first = {.ns = ns, .name = "first"}, second = {.ns = ns, .name = "second"}, lister = {.ns = ns};
	nap_ms(400); /* the keeper has prepared its files, the last block is confirmed */
	atomic_store(&gated, true);
	CHECK_EQ(pthread_create(&first.thread, NULL, create, &first), 0);
	until_a_change_is_on_its_way(ns);
	while (atomic_load(&arrived) == 0) /* its block: of the two the first */
		nap_ms(1);
	CHECK_EQ(pthread_create(&lister.thread, NULL, list, &lister), 0);
	nap_ms(100); /* it waits for that */
	CHECK_EQ(pthread_create(&second.thread, NULL, create, &second), 0);
	nap_ms(100);
	CHECK(!atomic_load(&lister.answered));
	atomic_store(&allowed, 1);
	nap_ms(300); /* the first block is durable, the second is not */
	bool told = false;
	if (atomic_load(&lister.answered))
		for (const char *name = lister.names; name < lister.names + lister.size; name += strlen(name) + 1)
			told |= strcmp(name, "second") == 0;
	atomic_store(&gated, false);
	pthread_join(first.thread, NULL);
	pthread_join(second.thread, NULL);
	pthread_join(lister.thread, NULL);
	CHECK(!told);
	wk_free(lister.names);
	wk_log_release(first.log);
	wk_log_release(second.log);
	close_all(ns, NULL, NULL);
	remove_tree(path);
	io->operations->destroy(io);
}

int main(void) {
	RUN(a_list_of_names_tells_only_what_is_durable);
	return check_done();
}
