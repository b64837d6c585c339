#include "engine/recovery/readonly_repair.h"
#include "engine/manual.h"

#include "engine/directory.h"
#include "io/io.h"

static bool accepts_loss(const wk_open_options *options) {
	return options != NULL && options->read_only && options->kind == WK_KIND_LOGS &&
	       options->on_damage != WK_ON_DAMAGE_STOP;
}

bool wk_readonly_repair_helps(const wk_open_options *options, wk_status status) {
	return status == WK_DAMAGED && accepts_loss(options);
}

bool wk_readonly_repair_comes_first(const wk_open_options *options) {
	return accepts_loss(options) && options->check_all;
}

wk_status wk_readonly_repair(wk_io *io, bool owned, const char *path, const wk_open_options *given, wk_io **overlay,
                             uint64_t *generation, wk_recovery_report *report, wk_error *error) {
	wk_open_options options = *given;
	options.read_only = options.create = false;
	options.internal = WK_OPEN_MANUAL;             /* nothing but the repair */
	options.sync_method = WK_SYNC_WRITE_THEN_SYNC; /* of memory there is nothing to measure */
	options.lock_timeout_ns = 1; /* who writes the directory has opened it: it is not for us to repair */
	int result = wk_io_overlay_new(io, owned, overlay);
	if (result < 0) {
		if (owned)
			io->operations->destroy(io);
		return wk_fail(error, WK_NO_MEMORY, "opening %s: no memory", path);
	}
	wk_engine *engine;
	wk_superblock before = {0};
	(void)wk_superblock_look(io, path, &before, NULL); /* what hinders it hinders the opening */
	*generation = before.generation;
	if (options.journal == NULL && before.journal_path[0] != 0) /* who only reads need not name it */
		options.journal = before.journal_path;
	wk_status status = wk_directory_open(path, &options, *overlay, &engine, error);
	if (status == WK_OK) {
		*report = engine->report;
		status = wk_directory_close(engine, UINT64_MAX, error);
	}
	wk_superblock after = {0}; /* nobody is kept from writing meanwhile */
	if (status != WK_LOCKED && wk_superblock_look(io, path, &after, NULL) == WK_OK &&
	    after.generation != before.generation)
		status = wk_fail(error, WK_LOCKED, "%s was opened for writing while it was looked at", path);
	if (status != WK_OK) {
		(*overlay)->operations->destroy(*overlay);
		*overlay = NULL;
	}
	return status;
}

wk_status wk_readonly_repair_check(const wk_engine *engine, wk_error *error) {
	if (engine->repaired_view.below == NULL)
		return WK_OK;
	wk_superblock now = {0};
	wk_status status = wk_superblock_look(engine->repaired_view.below, engine->path, &now, error);
	if (status != WK_OK)
		return status;
	if (now.generation != engine->repaired_view.generation)
		return wk_fail(error, WK_LOCKED,
		               "%s was damaged when it was opened to be read, and was opened for writing since: what was read "
		               "in spite of the damage is not what is there now. Open it again",
		               engine->path);
	return WK_OK;
}
