/*
 * test_loss_of_the_end.c: the last block is lost, and nobody knows what it held. Once that is accepted it is over: nobody who
 * follows the directory looks for the block, nor does the next open, though the process is killed before it writes anything.
 */
#include "engine/directory/directory.h"
#include "engine/follower/follower_renew.h"
#include "engine/manual.h"
#include "small_directory.h"
#include <fcntl.h>

enum { RECORDS = 5 };

static wk_status open_as(wk_io *io, const char *path, uint32_t on_damage, wk_namespace **ns) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = WK_OPEN_MANUAL;
	options.on_damage = on_damage;
	*ns = NULL;
	return wk_open_on(io, path, &options, ns, NULL);
}

static void lose_the_last_block(wk_io *io, const char *path) {
	wk_namespace *ns;
	static const uint8_t zeros[WK_BLOCK_ALIGNMENT];
	CHECK_EQ(open_as(io, path, WK_ON_DAMAGE_STOP, &ns), WK_OK);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	for (int i = 0; i < RECORDS; i++)
		append_one(writer);
	off_t end = (off_t)ns->engine->offset;
	wk_abandon(ns);
	wk_writer_close(writer, 0, NULL);
	wk_log_release(log);
	int file = open(below(path, "journal/0000000000000001.wkj"), O_WRONLY);
	CHECK_EQ(pwrite(file, zeros, sizeof zeros, end - (off_t)sizeof zeros), sizeof zeros);
	close(file);
}

static bool is_behind(const char *path) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.read_only = true;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the directory opens to be read");
	bool behind = ns->engine->follower->behind;
	int64_t first, last;
	read_all(ns, &first, &last);
	CHECK_EQ(last, RECORDS - 2);
	close_all(ns, NULL, NULL);
	return behind;
}

TEST(once_it_is_accepted_nobody_looks_for_the_block) {
	wk_io *io = NULL;
	wk_namespace *ns;
	const char *path = temporary();
	CHECK_EQ(wk_io_psync_new(&io), 0);
	lose_the_last_block(io, path);
	CHECK_EQ(open_as(io, path, WK_ON_DAMAGE_STOP, &ns), WK_DAMAGED);
	CHECK_EQ(open_as(io, path, WK_ON_DAMAGE_SKIP, &ns), WK_OK);
	CHECK_EQ(ns->engine->report.unknown_blocks, 1);
	CHECK(!is_behind(path));
	wk_abandon(ns);
	CHECK_EQ(open_as(io, path, WK_ON_DAMAGE_STOP, &ns), WK_OK);
	CHECK(!is_behind(path));
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	append_one(writer);
	close_all(ns, log, writer);
	io->operations->destroy(io);
	remove_tree(path);
}

int main(void) {
	RUN(once_it_is_accepted_nobody_looks_for_the_block);
	return check_done();
}
