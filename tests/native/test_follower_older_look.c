/*
 * test_follower_older_look.c: a follower looks at the directory anew while the writer rolls to another file, whose name
 * the list does not have yet. It keeps what it has seen: no log that somebody holds is taken for deleted.
 */
#include "engine/directory/directory.h"
#include "engine/follower/follower.h"
#include "engine/follower/follower_renew.h"
#include "io/io.h"
#include "small_directory.h"

static struct wk_io_operations hiding_operations;
static const struct wk_io_operations *plain;
static char hidden[32]; /* journal files from this name on */

typedef struct listing {
	wk_io_list_fn fn;
	void *context;
} listing;

static bool pass_on(void *context, const char *name) {
	listing *l = context;
	bool hide = hidden[0] != 0 && strstr(name, ".wkj") != NULL && strcmp(name, hidden) >= 0;
	return hide || l->fn(l->context, name);
}

static int hiding_list(wk_io *io, const char *path, wk_io_list_fn fn, void *context) {
	return plain->list(io, path, pass_on, &(listing){fn, context});
}

static uint64_t file_of(wk_namespace *ns) {
	wk_engine_lock(ns->engine);
	uint64_t id = ns->engine->active->id;
	wk_engine_unlock(ns->engine);
	return id;
}

static int64_t records_of(wk_log *log) {
	wk_log_info info;
	wk_error error = {0};
	check_ok(wk_log_describe(log, &info, &error), &error, "the log is described");
	return info.count;
}

TEST(a_look_that_reaches_less_far_takes_nothing_away) {
	const char *path = temporary();
	make_small(path, 1);
	wk_namespace *ns = open_small(path), *following = NULL;
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	wk_io *io = NULL;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	plain = io->operations;
	hiding_operations = *plain;
	hiding_operations.list = hiding_list;
	io->operations = &hiding_operations;
	wk_open_options options;
	wk_open_options_init(&options);
	options.read_only = true;
	wk_error error = {0};
	check_ok(wk_open_on(io, path, &options, &following, &error), &error, "the follower opens");
	for (uint64_t file = file_of(ns); file_of(ns) == file;)
		append_one(writer);
	wk_log *fresh = log_named(ns, "fresh"); /* in the newest file alone */
	wk_writer *other = writer_of(fresh);
	append_one(other);
	append_one(other);
	wk_log *seen = NULL;
	check_ok(wk_log_open(following, "fresh", 5, false, NULL, &seen, &error), &error, "the follower sees the log");
	int64_t count = records_of(seen);
	CHECK(count > 0);
	snprintf(hidden, sizeof hidden, "%016llx.wkj", (unsigned long long)file_of(ns));
	pthread_mutex_lock(&following->engine->catalogue_lock);
	wk_status status = wk_follower_renew(following->engine, &error);
	pthread_mutex_unlock(&following->engine->catalogue_lock);
	hidden[0] = 0;
	CHECK(status != WK_OK);
	CHECK(records_of(seen) >= count);
	wk_log_release(seen);
	close_all(following, NULL, NULL);
	plain->destroy(io);
	CHECK_EQ(wk_writer_close(other, UINT64_MAX, NULL), WK_OK);
	wk_log_release(fresh);
	close_all(ns, log, writer);
	remove_tree(path);
}

int main(void) {
	RUN(a_look_that_reaches_less_far_takes_nothing_away);
	return check_done();
}
