/*
 * verify_logs.c: is every entry that a log needs in some file? What the files hold was checked one by one; this asks for
 * a file that is not there, and whose loss was not accepted. A directory in use is not asked: its writer knows its
 * files, and lets go of them.
 */
#include <stdio.h>

#include "engine/catalogue.h"
#include "engine/check/verifier.h"
#include "engine/directory.h"
#include "engine/follower.h"
#include "engine/index.h"

/* (locked, dropped) */
static wk_status verify_segment(wk_verifier *verifier, wk_engine *engine, const wk_log_state *log,
                                const wk_segment *segment) {
	const wk_ledger *ledger = wk_ledger_find(engine, segment->ledger_id);
	int64_t last = segment->records_count >= 0 ? segment->last_entry : ledger != NULL ? ledger->durable_entry : -1;
	int64_t first = log->first->dlsn.segment == segment->segment ? log->first->dlsn.entry_id : 0, end;
	if (log->first->dlsn.segment > segment->segment)
		return WK_OK;
	wk_engine_unlock(engine);
	char name[sizeof(wk_verify_finding){0}.name];
	snprintf(name, sizeof name, "log %s", log->name);
	wk_status status;
	for (; (status = wk_hole_find(engine, log, segment, &first, last, &end, verifier->error)) == WK_OK; first = end)
		wk_verifier_damage(verifier, name,
		                   "entries %lld to %lld of ledger %lld are in no file: a file is missing. Restore it from "
		                   "a backup, or salvage the rest with `walkeeper recover`",
		                   (long long)first, (long long)end - 1, (long long)segment->ledger_id);
	wk_engine_lock(engine);
	return status == WK_END ? WK_OK : status;
}

/* Nobody writes, so the catalogue stays as it is. */
static wk_status verify_all(wk_verifier *verifier, wk_engine *engine) {
	wk_status status = WK_OK;
	wk_engine_lock(engine);
	for (uint32_t i = 0; i < engine->by_id_capacity && status == WK_OK; i++) {
		const wk_log_state *log = engine->logs_by_id[i];
		for (uint32_t s = 0; log != NULL && !log->deleted && s < log->segments_count && status == WK_OK; s++)
			status = verify_segment(verifier, engine, log, &log->segments[s]);
	}
	wk_engine_unlock(engine);
	return status;
}

wk_status wk_verify_logs(wk_verifier *verifier) {
	if (verifier->superblock.kind != WK_KIND_LOGS || verifier->report->damaged > 0)
		return WK_OK;
	wk_open_options options;
	wk_open_options_init(&options);
	options.read_only = true;
	options.unsafe_fs = true;
	options.journal = verifier->journal[0] != 0 ? verifier->journal : NULL;
	wk_namespace *ns = NULL;
	wk_verify_report before = *verifier->report;
	/* On its disk, which holds the directory: that may have another name by now. */
	wk_status status = wk_open_on(verifier->io, verifier->path, &options, &ns, verifier->error);
	bool alone = status == WK_OK && wk_follower_is_alone(ns->engine);
	if (alone)
		status = verify_all(verifier, ns->engine);
	if (status == WK_DAMAGED) { /* in what each file shows by itself, nothing was */
		wk_verifier_damage(verifier, "directory", "%s", verifier->error->text);
		status = WK_OK;
	}
	if (alone && !wk_follower_is_alone(ns->engine)) { /* a writer came meanwhile */
		wk_verifier_take_back(verifier, &before);
		status = WK_OK;
	}
	if (ns != NULL)
		wk_close(ns, UINT64_MAX, NULL);
	return status;
}
