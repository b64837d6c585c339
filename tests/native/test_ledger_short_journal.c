/*
 * test_ledger_short_journal.c: the last file of a ledger store's journal is shorter than it was prepared, empty or missing
 * behind a kill: that is damage, which skip accepts.
 */
#include "engine/base/file_name.h"
#include "ledger_store.h"

enum { ENTRIES = 150, THIRD, EMPTY, MISSING, WAYS };

/* The active file, when the store is killed. */
static const char *fill_and_kill(wk_io *io) {
	static char name[80];
	wk_namespace *ns = open_store(io);
	for (int64_t id = 0; id < ENTRIES; id++) {
		add_entry(ns, 7, id);
		work(ns);
	}
	while (ns->engine->active->end_offset == 0)
		add_entry(ns, 8, 0);
	snprintf(name, sizeof name, "store/%s", wk_file_name_of(ns->engine->active->id, WK_FILE_JOURNAL).text);
	kill_store(ns, io);
	return name;
}

static void spoil(wk_io *io, const char *name, int way) {
	wk_file *file;
	wk_io_stat stat;
	if (way == MISSING) {
		CHECK_EQ(io->operations->unlink(io, name), 0);
		return;
	}
	CHECK_EQ(io->operations->open(io, name, WK_IO_WRITE, &file), 0);
	CHECK_EQ(io->operations->stat(io, file, &stat), 0);
	CHECK_EQ(io->operations->truncate(io, file, way == EMPTY ? 0 : 8192), 0);
	io->operations->close(io, file);
}

static wk_status open_as(wk_io *io, uint32_t on_damage, wk_namespace **ns, wk_error *error) {
	wk_open_options options = store_options();
	options.on_damage = on_damage;
	*ns = NULL;
	return wk_open_on(io, "store", &options, ns, error);
}

TEST(a_whole_one_opens) {
	wk_io *io = new_disk(1);
	fill_and_kill(io);
	wk_namespace *ns = open_store(io);
	CHECK_EQ(wk_ledger_find(ns->engine, 7)->last_entry, ENTRIES - 1);
	close_store(ns);
	io->operations->destroy(io);
}

TEST(it_is_damage_that_skip_accepts) {
	for (int way = THIRD; way < WAYS; way++) {
		wk_io *io = new_disk((uint64_t)way);
		wk_namespace *ns;
		wk_error error = {0};
		spoil(io, fill_and_kill(io), way);
		CHECK_EQ(open_as(io, WK_ON_DAMAGE_STOP, &ns, &error), WK_DAMAGED);
		CHECK(strstr(error.text, way == THIRD ? "shorter than it was" : "`shared` shows") != NULL);
		check_ok(open_as(io, WK_ON_DAMAGE_SKIP, &ns, &error), &error, "it opens with skip");
		CHECK(ns->engine->report.unknown_blocks > 0);
		kill_store(ns, io); /* it wrote nothing */
		ns = open_store(io);
		add_entry(ns, 9, 0);
		kill_store(ns, io);
		close_store(open_store(io));
		io->operations->destroy(io);
	}
}

int main(void) {
	RUN(a_whole_one_opens);
	RUN(it_is_damage_that_skip_accepts);
	return check_done();
}
