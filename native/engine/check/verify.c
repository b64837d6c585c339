/* verify.c: every byte of a directory that matters, checked without opening it. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/check/verifier.h"
#include "engine/index.h"

enum { SLEEP_NS_MAX = 100 * 1000 * 1000, SUPERBLOCK_TRIES = 3, SUPERBLOCK_WAIT_NS = 20 * 1000 * 1000 };

/* The sentence of it: the name, then what. */
static void describe(char *text, size_t size, const char *name, const char *format, va_list arguments) {
	int begin = snprintf(text, size, "%s: ", name);
	if (begin > 0 && (size_t)begin < size)
		vsnprintf(text + begin, size - (size_t)begin, format, arguments);
}

/* Where damage of this name is counted: behind the others where it is new. NULL: there is no room. */
static wk_verify_finding *finding_of(wk_verify_report *report, const char *name) {
	for (uint32_t i = 0; i < report->findings_count; i++)
		if (strncmp(report->findings[i].name, name, sizeof report->findings[i].name - 1) == 0)
			return &report->findings[i];
	if (report->findings_count == WK_VERIFY_FINDINGS_MAX)
		return NULL;
	wk_verify_finding *finding = &report->findings[report->findings_count++];
	*finding = (wk_verify_finding){0};
	strncpy(finding->name, name, sizeof finding->name - 1);
	return finding;
}

void wk_verifier_damage(wk_verifier *verifier, const char *name, const char *format, ...) {
	wk_verify_report *report = verifier->report;
	wk_verify_finding *finding = finding_of(report, name);
	va_list arguments;
	if (report->damaged++ == 0) {
		va_start(arguments, format);
		describe(report->first_damage, sizeof report->first_damage, name, format, arguments);
		va_end(arguments);
	}
	if (finding == NULL || finding->damaged++ > 0)
		return;
	va_start(arguments, format);
	vsnprintf(finding->first, sizeof finding->first, format, arguments);
	va_end(arguments);
}

void wk_verifier_warn(wk_verifier *verifier, const char *name, const char *format, ...) {
	wk_verify_report *report = verifier->report;
	if (report->warnings++ > 0)
		return;
	va_list arguments;
	va_start(arguments, format);
	describe(report->first_warning, sizeof report->first_warning, name, format, arguments);
	va_end(arguments);
}

void wk_verifier_take_back(wk_verifier *verifier, const wk_verify_report *before) {
	wk_verify_report *report = verifier->report;
	report->damaged = before->damaged;
	report->warnings = before->warnings;
	report->findings_count = before->findings_count;
	memcpy(report->first_damage, before->first_damage, sizeof before->first_damage);
	memcpy(report->first_warning, before->first_warning, sizeof before->first_warning);
	memcpy(report->findings, before->findings, sizeof before->findings);
}

/* ---- pace ---- */

static bool tell(wk_verifier *verifier) {
	uint64_t done = verifier->report->bytes < verifier->total_bytes ? verifier->report->bytes : verifier->total_bytes;
	return verifier->fn == NULL || verifier->fn(verifier->context, done, verifier->total_bytes);
}

/*
 * Nobody changes the word: a wait on it is a sleep that a signal ends, and then the caller is asked whether to go on. It is
 * asked behind each other one, too: a signal may come just before a sleep begins, which then knows nothing of it.
 */
static bool sleep_ns(wk_verifier *verifier, uint64_t ns) {
	static const uint32_t nobody = 0;
	(void)wk_futex_wait(&nobody, 0, ns < SLEEP_NS_MAX ? ns : SLEEP_NS_MAX);
	return tell(verifier);
}

static bool on_read(void *context, size_t bytes) {
	wk_verifier *verifier = context;
	verifier->report->bytes += bytes;
	if (!tell(verifier))
		return false;
	if (verifier->rate == 0)
		return true;
	uint64_t due = verifier->begin_ns + (uint64_t)((double)verifier->report->bytes / (double)verifier->rate * 1e9);
	for (uint64_t now; (now = verifier->io->operations->now(verifier->io)) < due;)
		if (!sleep_ns(verifier, due - now))
			return false;
	return true;
}

/* ---- files ---- */

const char *wk_verify_file_name(const wk_verify_file *file, char name[40]) {
	wk_file_name found = wk_file_name_of(file->id, file->kind);
	return memcpy(name, found.text, sizeof found.text);
}

wk_status wk_verifier_open_below(wk_verifier *verifier, const char *below, wk_file_view *view) {
	char *path = wk_verifier_path(verifier, below);
	if (path == NULL)
		return wk_fail(verifier->error, WK_NO_MEMORY, "verifying %s: no memory", verifier->path);
	int result = wk_file_view_open(view, verifier->io, path);
	wk_status status = result == -ENOENT ? WK_NOT_FOUND
	                   : result < 0      ? wk_fail_io(verifier->error, result, "opening %s", path)
	                                     : WK_OK;
	view->on_read = on_read;
	view->context = verifier;
	free(path);
	return status;
}

wk_status wk_verifier_open(wk_verifier *verifier, const wk_verify_file *file, wk_file_view *view) {
	char name[40];
	return file->closed ? WK_NOT_FOUND : wk_verifier_open_below(verifier, wk_verify_file_name(file, name), view);
}

static bool add_file(void *context, const char *name) {
	wk_verifier *verifier = context;
	wk_verify_file file = {0};
	if (!wk_store_file_parse(name, &file.kind, &file.id))
		return true;
	if (verifier->files_count == verifier->files_capacity) {
		uint32_t capacity = verifier->files_capacity == 0 ? 64 : verifier->files_capacity * 2;
		wk_verify_file *files = realloc(verifier->files, capacity * sizeof *files);
		if (files == NULL)
			return false;
		verifier->files = files;
		verifier->files_capacity = capacity;
	}
	verifier->files[verifier->files_count++] = file;
	verifier->report->files++;
	return true;
}

static int by_id(const void *a, const void *b) {
	const wk_verify_file *x = a, *y = b;
	return (x->id > y->id) - (x->id < y->id);
}

static wk_status list_files(wk_verifier *verifier) {
	static const char *const folders[] = {"journal", "entries"};
	for (uint32_t i = 0; i < 2; i++) {
		char *path = wk_verifier_path(verifier, folders[i]);
		if (path == NULL)
			return wk_fail(verifier->error, WK_NO_MEMORY, "verifying %s: no memory", verifier->path);
		int result = verifier->io->operations->list(verifier->io, path, add_file, verifier);
		free(path);
		if (result == -ENOENT && i == 0)
			wk_verifier_damage(verifier, folders[i], "the folder is not there");
		else if (result < 0 && result != -ENOENT) /* what entry logs are missed, the index says */
			return wk_fail_io(verifier->error, result, "listing %s/%s", verifier->path, folders[i]);
	}
	if (verifier->files_count > 0)
		qsort(verifier->files, verifier->files_count, sizeof *verifier->files, by_id);
	return WK_OK;
}

/* How much there is to read, for the progress; and which names lead to no file: a pipe, a loop of links. */
static wk_status measure_files(wk_verifier *verifier) {
	for (uint32_t i = 0; i < verifier->files_count; i++) {
		wk_verify_file *file = &verifier->files[i];
		wk_file_view view;
		char name[40];
		wk_status status = wk_verifier_open(verifier, file, &view);
		int code = verifier->error->system_error;
		if (status == WK_NOT_FOUND)
			continue;
		file->closed = status == WK_IO && code != EMFILE && code != ENFILE;
		if (file->closed)
			wk_verifier_damage(verifier, wk_verify_file_name(file, name), "%s", verifier->error->text);
		else if (status != WK_OK)
			return status;
		if (file->closed)
			continue;
		file->size = view.size;
		verifier->total_bytes += view.size;
		wk_file_view_close(&view);
	}
	return WK_OK;
}

/* ---- the superblock ---- */

static void look_at_slots(const uint8_t *slots, wk_status found[2], wk_superblock *superblock, int *chosen) {
	wk_superblock one;
	for (int i = 0; i < 2; i++)
		found[i] = wk_superblock_decode(slots + i * WK_SUPERBLOCK_SLOT_SIZE, &one);
	*chosen = wk_superblock_choose(slots, superblock);
}

/* A slot may be under the pen just now: it is looked at again after a while. */
static wk_status read_slots(wk_verifier *verifier, wk_file_view *view, wk_status found[2], int *chosen) {
	for (int tries = 0; tries < SUPERBLOCK_TRIES; tries++) {
		if (tries > 0 && !sleep_ns(verifier, SUPERBLOCK_WAIT_NS))
			return wk_fail(verifier->error, WK_INTERRUPTED, "verifying %s: stopped", verifier->path);
		const uint8_t *slots;
		size_t available;
		wk_file_view_forget(view);
		wk_status status = wk_file_view_at(view, 0, 2 * WK_SUPERBLOCK_SLOT_SIZE, &slots, &available, verifier->error);
		if (status != WK_OK)
			return status;
		found[0] = found[1] = WK_CORRUPT;
		*chosen = -1;
		if (available >= 2 * WK_SUPERBLOCK_SLOT_SIZE)
			look_at_slots(slots, found, &verifier->superblock, chosen);
		if (found[0] == WK_OK && found[1] == WK_OK)
			break;
	}
	return WK_OK;
}

wk_status wk_verifier_superblock(wk_verifier *verifier, wk_superblock *superblock) {
	wk_file_view view;
	wk_status found[2] = {WK_CORRUPT, WK_CORRUPT};
	int chosen = -1;
	wk_superblock before = verifier->superblock;
	wk_status status = wk_verifier_open_below(verifier, "superblock", &view);
	if (status != WK_OK)
		return status;
	status = read_slots(verifier, &view, found, &chosen);
	wk_file_view_close(&view);
	*superblock = verifier->superblock;
	verifier->superblock = before;
	return status == WK_OK && chosen < 0 ? WK_DAMAGED : status;
}

static bool note_any(void *context, const char *name) {
	(void)name;
	*(bool *)context = true;
	return false;
}

static bool has_journal(const wk_verifier *verifier) {
	char *path = wk_verifier_path(verifier, "journal");
	bool any = false;
	if (path == NULL)
		return false;
	verifier->io->operations->list(verifier->io, path, note_any, &any);
	free(path);
	return any;
}

static wk_status verify_superblock(wk_verifier *verifier) {
	wk_file_view view;
	wk_status status = wk_verifier_open_below(verifier, "superblock", &view);
	if (status == WK_NOT_FOUND && has_journal(verifier)) {
		wk_verifier_damage(verifier, "superblock", "it is missing, and the journal is there: restore it from a backup");
		return WK_DAMAGED;
	}
	if (status == WK_NOT_FOUND)
		return wk_fail(verifier->error, WK_NOT_FOUND, "%s is no walkeeper directory: it has no superblock",
		               verifier->path);
	if (status != WK_OK)
		return status;
	wk_status found[2] = {WK_CORRUPT, WK_CORRUPT};
	int chosen = -1;
	status = read_slots(verifier, &view, found, &chosen);
	wk_file_view_close(&view);
	if (status != WK_OK)
		return status;
	verifier->report->files++;
	if (found[0] == WK_UNSUPPORTED || found[1] == WK_UNSUPPORTED)
		return wk_fail(verifier->error, WK_UNSUPPORTED, "%s was written by a newer version of walkeeper: use that one",
		               verifier->path);
	for (int i = 0; i < 2; i++)
		if (found[i] != WK_OK)
			wk_verifier_damage(
			    verifier, "superblock", "slot %d (offset %d) is not whole%s", i, i * WK_SUPERBLOCK_SLOT_SIZE,
			    chosen < 0 ? ""
			               : "; the other one counts. A power cut can do that too: the next open for writing mends it");
	return chosen < 0 ? WK_DAMAGED : WK_OK;
}

/* ---- all together ---- */

static wk_status verify(wk_verifier *verifier, const char *journal) {
	wk_status status = verify_superblock(verifier);
	if (status == WK_OK)
		status = wk_verify_places(verifier, journal);
	if (status == WK_OK)
		status = list_files(verifier);
	if (status == WK_OK)
		status = measure_files(verifier);
	if (status == WK_OK)
		status = wk_verify_journal(verifier);
	for (uint32_t i = 0; i < verifier->files_count && status == WK_OK; i++)
		if (verifier->files[i].kind == WK_FILE_ENTRY_LOG)
			status = wk_verify_entry_log(verifier, &verifier->files[i]);
	if (status == WK_OK)
		status = wk_verify_index(verifier);
	if (status == WK_OK)
		status = wk_verify_logs(verifier);
	if (status == WK_OK && verifier->fn != NULL &&
	    !verifier->fn(verifier->context, verifier->total_bytes, verifier->total_bytes))
		status = wk_fail(verifier->error, WK_INTERRUPTED, "verifying %s: stopped", verifier->path);
	return status;
}

wk_status wk_verify_directory(const char *path, uint64_t bytes_per_second, wk_verify_fn fn, void *context,
                              wk_verify_report *report, wk_error *error) {
	return wk_verify_directories(path, NULL, bytes_per_second, fn, context, report, error);
}

wk_status wk_verify_directories(const char *path, const char *journal, uint64_t bytes_per_second, wk_verify_fn fn,
                                void *context, wk_verify_report *report, wk_error *error) {
	wk_error local;
	error = error != NULL ? error : &local;
	wk_error_clear(error);
	*report = (wk_verify_report){0};
	wk_io *io = NULL;
	int result = wk_io_psync_new(&io);
	if (result < 0)
		return wk_fail_io(error, result, "setting up I/O");
	wk_verifier verifier = {.io = io,
	                        .path = path,
	                        .report = report,
	                        .fn = fn,
	                        .context = context,
	                        .error = error,
	                        .rate = bytes_per_second,
	                        .begin_ns = io->operations->now(io)};
	wk_io_space space;
	(void)io->operations->hold(io, path); /* what is wrong with it the next call says */
	result = io->operations->space(io, path, &space);
	wk_status status = result == -ENOENT ? wk_fail(error, WK_NOT_FOUND, "%s does not exist", path)
	                   : result < 0      ? wk_fail_io(error, result, "looking at %s", path)
	                                     : verify(&verifier, journal);
	free(verifier.files);
	io->operations->destroy(io);
	if (report->damaged > 0 && (status == WK_OK || status == WK_DAMAGED))
		status = wk_fail(error, WK_DAMAGED, "%s: %llu structures are damaged, the first: %s", path,
		                 (unsigned long long)report->damaged, report->first_damage);
	return status;
}
