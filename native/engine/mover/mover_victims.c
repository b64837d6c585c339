#include "engine/mover/mover_victims.h"

#include "core/footer.h"
#include "engine/space.h"

enum { EVACUATE_PERCENT = 10, THIN_NS = 500 * 1000 * 1000 };

static bool below(const wk_store_file *file, uint32_t percent) {
	return file->live_bytes * 100 < file->size * percent;
}

/* A file that is thin for a moment is often dead the next, where its log is truncated as it goes. */
static bool is_worth_it(wk_store_file *file, uint32_t percent, uint64_t now) {
	if (percent > EVACUATE_PERCENT)
		return true;
	if (file->thin_since_ns == 0)
		file->thin_since_ns = now;
	return now - file->thin_since_ns >= THIN_NS;
}

/* The most that its live entries take in an entry log. */
static uint64_t output_of(const wk_store_file *file) {
	return file->live_bytes + wk_footer_size(file->live_entries, file->live_entries, 0) + WK_PAGE_SIZE;
}

/*
 * Does a pass over these give space back, a tenth of what it reads at least? A small file is mostly its footer, and
 * its copy would be one again: what wins nothing would go on for ever.
 */
static bool wins_space(wk_store_file *const *victims, uint32_t count) {
	uint64_t size = 0, live_bytes = 0, entries = 0, runs = 0;
	for (uint32_t i = 0; i < count; i++) {
		const wk_store_file *file = victims[i];
		size += file->size;
		live_bytes += file->live_bytes;
		entries += file->live_entries;
		runs += file->footer.runs_count < file->live_entries ? file->footer.runs_count : file->live_entries;
	}
	uint64_t pages = (live_bytes + WK_PAGE_SIZE - 1) / WK_PAGE_SIZE;
	return pages * WK_PAGE_SIZE + wk_footer_size(entries, runs, 0) <= size - size / 10;
}

/* Could a pass take it at all? */
static bool is_open(const wk_store_file *file, uint64_t reserve) {
	bool refused = reserve > 0 && file->refused_reserve >= reserve;
	return file->state == WK_FILE_SEALED && file->live_entries > 0 && !file->stuck && !refused;
}

/*
 * A pass over the files that fall under `percent`; about an entry log of the usual size, as far as live bytes can be
 * told from an average, or what the reserve holds. A file that is larger than the usual has a pass of its own.
 */
static uint32_t gather(wk_engine *engine, uint32_t percent, uint64_t now, uint64_t reserve, bool each_wins,
                       wk_store_file **victims) {
	uint32_t count = 0, most = engine->one_victim ? 1 : WK_VICTIMS_MAX;
	uint64_t bytes = 0;
	bool full = engine->disk_full || engine->space_low || engine->output_short;
	bool cheapest = engine->one_victim && reserve == 0; /* nobody knows how much room there is */
	for (uint32_t i = 0; i < engine->files_count && (cheapest || count < most); i++) {
		wk_store_file *file = engine->files[i];
		if (!is_open(file, reserve) || !below(file, percent) || !is_worth_it(file, percent, now) ||
		    (each_wins && !wins_space(&file, 1)))
			continue;
		if (full && !wk_space_may_go(engine, i)) /* its copy would take the room, and nothing be given back for it */
			continue;
		if (cheapest && count > 0 && output_of(file) >= output_of(victims[0]))
			continue;
		count = cheapest ? 0 : count;
		uint64_t output = reserve > 0 ? output_of(file) : file->live_bytes;
		bool fits = reserve > 0 ? bytes + output <= reserve
		                        : count == 0 || bytes + output <= engine->options.file_size_max;
		if (!fits)
			continue;
		victims[count++] = file;
		bytes += output;
	}
	return count;
}

/* Files that win by themselves first: those that win only together must not take the room that the reserve has. */
static uint32_t choose(wk_engine *engine, uint32_t percent, uint64_t now, uint64_t reserve, wk_store_file **victims) {
	uint32_t count = gather(engine, percent, now, reserve, true, victims);
	if (count == 0)
		count = gather(engine, percent, now, reserve, false, victims);
	return wins_space(victims, count) ? count : 0;
}

uint32_t wk_victims_choose(wk_engine *engine, uint64_t now, uint64_t reserve, wk_store_file **victims) {
	/* On a full disk every pass is due: nothing else makes room. */
	uint32_t count = choose(engine, EVACUATE_PERCENT, now, reserve, victims);
	if (count == 0 && (now >= engine->minor_due_ns || engine->disk_full)) {
		count = choose(engine, engine->options.minor_percent, now, reserve, victims);
		if (count == 0 && reserve == 0)
			engine->minor_due_ns = wk_time_after(now, engine->options.minor_interval_ns);
	}
	if (count == 0 && (now >= engine->major_due_ns || engine->disk_full)) {
		count = choose(engine, engine->options.major_percent, now, reserve, victims);
		if (count == 0 && reserve == 0)
			engine->major_due_ns = wk_time_after(now, engine->options.major_interval_ns);
	}
	return count;
}

uint64_t wk_victims_deadline(const wk_engine *engine) {
	uint64_t due = engine->minor_due_ns < engine->major_due_ns ? engine->minor_due_ns : engine->major_due_ns;
	for (uint32_t i = 0; i < engine->files_count; i++)
		if (engine->files[i]->thin_since_ns != 0 && !engine->files[i]->stuck &&
		    engine->files[i]->thin_since_ns + THIN_NS < due)
			due = engine->files[i]->thin_since_ns + THIN_NS;
	return due;
}
