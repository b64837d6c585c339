/*
 * test_refused_files.c: a file that cannot be renamed, unlinked or opened. The others are not kept by it, nothing that
 * was prepared is forgotten, and the journal goes on.
 */
#include "engine/directory/keeper.h"
#include "engine/index/index_file.h"
#include "engine/journal/journal_file.h"
#include "engine/manual.h"
#include "engine/space/space.h"
#include "manual_directory.h"
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/* ---- a real directory on a disk that refuses ---- */

static struct wk_io_operations refusing;
static const struct wk_io_operations *plain;
static const char *stuck;          /* the end of a path that neither changes nor goes; NULL: none */
static _Atomic int no_space;       /* so many renames to journal files find no space */
static _Atomic int no_descriptors; /* so many opens find no descriptor, of folders to sync them too */
static const char *opens_refused;  /* ... of paths that hold this */
static _Atomic int opens_pass;     /* before so many opens */
static _Atomic int syncs_pass;     /* before so many syncs of the folder */
static bool refuses_syncs_only;
static _Atomic bool disk_is_full; /* no file is made or grows */

static bool is_stuck(const char *path) {
	size_t size = strlen(path), end = stuck != NULL ? strlen(stuck) : 0;
	return end > 0 && size >= end && strcmp(path + size - end, stuck) == 0;
}

static bool takes_one(_Atomic int *left) {
	int before = atomic_load(left);
	while (before > 0)
		if (atomic_compare_exchange_weak(left, &before, before - 1))
			return true;
	return false;
}

static int refusing_rename(wk_io *io, const char *from, const char *to) {
	if (is_stuck(from))
		return -EPERM; /* as of a file that is immutable */
	if (strstr(to, ".wkj") != NULL && takes_one(&no_space))
		return -ENOSPC;
	return plain->rename(io, from, to);
}

static int refusing_unlink(wk_io *io, const char *path) {
	return is_stuck(path) ? -EPERM : plain->unlink(io, path);
}

static int refusing_open(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	if (!refuses_syncs_only && strstr(path, opens_refused) != NULL && opens_pass-- <= 0 && takes_one(&no_descriptors))
		return -EMFILE;
	if ((flags & WK_IO_CREATE) != 0 && atomic_load(&disk_is_full))
		return -ENOSPC;
	return plain->open(io, path, flags, file);
}

static int refusing_sync_directory(wk_io *io, const char *path) {
	if (strstr(path, opens_refused) != NULL && syncs_pass-- > 0)
		return plain->sync_directory(io, path);
	return strstr(path, opens_refused) != NULL && takes_one(&no_descriptors) ? -EMFILE
	                                                                         : plain->sync_directory(io, path);
}

static bool no_memory;

static int memory_was_refused;
void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);

/* The linker leads the engine's calls here (--wrap). What is refused is a place in the list of names. */
void *__wrap_realloc(void *memory, size_t size) {
	if (!no_memory || size % sizeof(wk_prepared_file) != 0 || size > 4 * sizeof(wk_prepared_file))
		return __real_realloc(memory, size);
	memory_was_refused++;
	errno = ENOMEM;
	return NULL;
}

typedef struct desk {
	char path[64];
	wk_io *io;
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer;
} desk;

static desk desk_with(bool manual, uint64_t file_size) {
	desk d;
	CHECK_EQ(wk_io_psync_new(&d.io), 0);
	plain = d.io->operations;
	refusing = *plain;
	refusing.rename = refusing_rename;
	refusing.unlink = refusing_unlink;
	refusing.open = refusing_open;
	refusing.sync_directory = refusing_sync_directory;
	d.io->operations = &refusing;
	stuck = NULL;
	no_space = no_descriptors = 0;
	opens_refused = "journal";
	opens_pass = syncs_pass = 0;
	refuses_syncs_only = no_memory = false;
	disk_is_full = false;
	strcpy(d.path, temporary());
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = manual ? WK_OPEN_MANUAL : 0;
	options.file_size_min = options.file_size_max = file_size;
	options.sync_method = WK_SYNC_WRITE_THEN_SYNC;
	wk_error error = {0};
	check_ok(wk_open_on(d.io, d.path, &options, &d.ns, &error), &error, "the directory opens");
	d.log = log_named(d.ns, "log");
	d.writer = writer_of(d.log);
	return d;
}

static desk desk_of(bool manual) {
	return desk_with(manual, SMALL_FILE_SIZE);
}

/* The keeper has made what stands back, and the journal's next file where it can. */
static void wait_for_files(const desk *d, bool next_too) {
	wk_engine *engine = d->ns->engine;
	for (bool there = false; !there; nap_ms(1)) {
		wk_engine_lock(engine);
		there = engine->reserve_covers > 0 && (engine->next != NULL || !next_too);
		wk_engine_unlock(engine);
	}
}

static bool is_sealing(const desk *d) {
	wk_engine_lock(d->ns->engine);
	bool sealing = d->ns->engine->sealing;
	wk_engine_unlock(d->ns->engine);
	return sealing;
}

static void leave_desk(desk *d) {
	leave(d->io, d->ns, d->log, d->writer);
	remove_tree(d->path);
}

static void append_records(desk *d, int count) {
	for (int i = 0; i < count; i++)
		append_one(d->writer);
}

/* What a failure put off is due. */
static void work_at_once(desk *d) {
	wk_engine *engine = d->ns->engine;
	wk_engine_lock(engine);
	engine->retry_space_ns = 0;
	for (uint32_t i = 0; i < engine->files_count; i++)
		engine->files[i]->stays_ns = 0;
	wk_engine_unlock(engine);
	work(d->ns);
}

static void truncate_all(desk *d) {
	wk_position next;
	wk_error error = {0};
	wk_writer_next(d->writer, &next);
	check_ok(wk_log_truncate(d->log, &next.dlsn, false, &error), &error, "truncating");
}

static const char *name_of(const wk_store_file *file) {
	static char name[32];
	snprintf(name, sizeof name, "%016llx.wkj", (unsigned long long)file->id);
	return name;
}

/* ---- files that nobody needs any more ---- */

TEST(a_file_that_cannot_go_does_not_keep_the_others) {
	desk d = desk_of(true);
	append_records(&d, 300);
	work(d.ns);
	CHECK(stats_of(d.ns).journal_files > 10);
	stuck = name_of(d.ns->engine->files[3]);
	truncate_all(&d);
	for (int i = 0; i < 10; i++) {
		append_one(d.writer);
		work(d.ns);
	}
	uint64_t with_it = stats_of(d.ns).journal_files;
	stuck = NULL;
	work_at_once(&d);
	CHECK_EQ(stats_of(d.ns).journal_files, with_it - 1); /* it was the only one, and goes as soon as it can */
	leave_desk(&d);
}

/* A backup's link keeps a file from getting a footer, and from being written over: it is scanned by the next open. */
TEST(a_file_without_a_footer_that_cannot_go_does_not_come_to_have_one) {
	desk d = desk_of(true);
	append_records(&d, 50);
	wk_store_file *file = d.ns->engine->active;
	CHECK_EQ(link(below(d.path, below("journal", name_of(file))), below(d.path, "link")), 0);
	append_records(&d, 100);
	work(d.ns);
	CHECK_EQ(file->state, WK_FILE_FULL);
	CHECK(file->footer_failed);
	stuck = name_of(file);
	truncate_all(&d);
	for (int i = 0; i < 10; i++) {
		append_one(d.writer);
		work(d.ns);
	}
	CHECK(file->stays_ns > 0); /* it was tried */
	CHECK_EQ(file->state, WK_FILE_FULL);
	leave_desk(&d);
}

/* ---- files that were prepared ---- */

static int count_names(const desk *d, const char *start) {
	char folder[100];
	snprintf(folder, sizeof folder, "%s/journal", d->path);
	DIR *listed = opendir(folder);
	CHECK(listed != NULL);
	int count = 0;
	for (struct dirent *entry; (entry = readdir(listed)) != NULL;)
		count += strstr(entry->d_name, start) != NULL;
	closedir(listed);
	return count;
}

static void every_file_is_known(const desk *d) {
	CHECK_EQ(count_names(d, "prepared-"), d->ns->engine->prepared.count);
	CHECK_EQ(count_names(d, ".wkj"), stats_of(d->ns).journal_files);
}

TEST(a_prepared_file_whose_rename_finds_no_space_is_not_forgotten) {
	desk d = desk_of(true);
	append_one(d.writer);
	work(d.ns);
	every_file_is_known(&d);
	no_space = 3;
	for (int i = 0; i < 40; i++) {
		append_records(&d, 5);
		work_at_once(&d);
		every_file_is_known(&d);
	}
	CHECK_EQ(no_space, 0);
	CHECK(!stats_of(d.ns).failed);
	leave_desk(&d);
}

/* Even the one that stands back for a full disk: it is there again when the sealer looks once more. */
TEST(a_reserve_whose_rename_finds_no_space_is_not_forgotten) {
	desk d = desk_of(false);
	append_one(d.writer);
	wait_for_files(&d, true);
	disk_is_full = true;
	no_space = 1 << 30; /* nor for a name */
	wk_status status = WK_OK;
	wk_append_options options;
	wk_append_options_init(&options);
	options.durability = WK_DEFERRED;
	wk_error error = {0};
	static const char payload[20 * 1024];
	uint64_t ticket;
	for (int i = 0; i < 100 && status == WK_OK; i++) {
		status = wk_writer_submit(d.writer, payload, sizeof payload, &options, NULL, &ticket, &error);
		nap_ms(20);
	}
	CHECK_EQ(status, WK_NO_SPACE);
	CHECK(is_sealing(&d)); /* one was accepted, and finds no place */
	CHECK_EQ(wk_writer_flush(d.writer, 100000000, NULL, &error), WK_TIMEOUT);
	no_space = 0; /* the disk is as full as it was, but for a name */
	check_ok(wk_writer_flush(d.writer, UINT64_MAX, NULL, &error), &error, "what was accepted is durable");
	disk_is_full = false;
	leave_desk(&d);
}

/* Its folder could not be synced, as that takes a descriptor: it may not be known under its new name. */
TEST(a_prepared_file_whose_name_may_not_last_is_a_prepared_one_again) {
	desk d = desk_of(true);
	append_one(d.writer);
	work(d.ns);
	for (int skip = 0; skip < 4; skip++) {
		while (d.ns->engine->next != NULL) /* until the journal goes on in the next file */
			append_one(d.writer);
		syncs_pass = skip;
		no_descriptors = 1;
		opens_refused = "/journal"; /* the folder itself */
		refuses_syncs_only = true;
		work_at_once(&d);
		every_file_is_known(&d);
		no_descriptors = 0;
		work_at_once(&d);
		every_file_is_known(&d);
	}
	CHECK(!stats_of(d.ns).failed);
	leave_desk(&d);
}

TEST(a_prepared_file_that_there_is_no_memory_to_know_by_goes) {
	desk d = desk_of(true);
	append_one(d.writer);
	for (int i = 0; i < 20; i++) {
		no_memory = true;
		work_at_once(&d);
		no_memory = false;
		every_file_is_known(&d);
		append_records(&d, 10);
	}
	CHECK(memory_was_refused > 0);
	CHECK(!stats_of(d.ns).failed);
	leave_desk(&d);
}

/* ---- no descriptors ---- */

static wk_status append_bytes(desk *d, size_t size, wk_error *error) {
	static const char payload[200 * 1024];
	return wk_writer_append(d->writer, payload, size, NULL, NULL, error);
}

/* It may be told that there is no file to go on in. */
static void append_in_two_tries(desk *d) {
	wk_error error = {0};
	if (append_bytes(d, RECORD_SIZE, &error) == WK_OK)
		return;
	CHECK_EQ(error.system_error, EMFILE);
	CHECK(!error.outcome_unknown);
	work_at_once(d);
	check_ok(append_bytes(d, RECORD_SIZE, &error), &error, "the append");
}

/* Whichever open it is: nothing was written or synced in vain. */
TEST(an_open_that_finds_no_descriptor_is_tried_again) {
	for (int skip = 0; skip < 8; skip++) {
		desk d = desk_of(true);
		opens_pass = skip;
		no_descriptors = 1;
		for (int i = 0; i < 20; i++) {
			for (int k = 0; k < 5; k++)
				append_in_two_tries(&d);
			work_at_once(&d);
			every_file_is_known(&d);
		}
		CHECK_EQ(no_descriptors, 0);
		CHECK(!stats_of(d.ns).failed);
		leave_desk(&d);
	}
}

TEST(without_descriptors_appends_go_on_where_the_active_file_has_room) {
	desk d = desk_with(true, 4 * SMALL_FILE_SIZE); /* no file is prepared yet */
	wk_error error = {0};
	no_descriptors = 1 << 30;
	for (int i = 0; i < 5; i++) {
		append_one(d.writer);
		work_at_once(&d);
	}
	CHECK(!stats_of(d.ns).failed);
	CHECK(!stats_of(d.ns).disk_full);
	CHECK_EQ(append_bytes(&d, 200 * 1024, &error), WK_IO); /* it needs another */
	CHECK_EQ(error.system_error, EMFILE);
	CHECK(!error.outcome_unknown);
	append_one(d.writer);
	no_descriptors = 0;
	work_at_once(&d);
	check_ok(append_bytes(&d, 200 * 1024, &error), &error, "the append");
	leave_desk(&d);
}

TEST(without_descriptors_what_was_accepted_waits_and_what_comes_is_refused) {
	desk d = desk_of(false);
	append_one(d.writer);
	wait_for_files(&d, false);
	no_descriptors = 1 << 30;
	wk_append_options options;
	wk_append_options_init(&options);
	options.durability = WK_DEFERRED;
	wk_error error = {0};
	wk_status status = WK_OK;
	uint64_t ticket;
	static const char payload[20 * 1024];
	for (int i = 0; i < 100 && status == WK_OK; i++) {
		status = wk_writer_submit(d.writer, payload, sizeof payload, &options, NULL, &ticket, &error);
		nap_ms(20);
	}
	CHECK_EQ(status, WK_IO);
	CHECK_EQ(error.system_error, EMFILE);
	CHECK(!error.outcome_unknown);
	CHECK(!stats_of(d.ns).failed);
	CHECK_EQ(wk_writer_flush(d.writer, 100000000, NULL, &error), WK_TIMEOUT);
	no_descriptors = 0;
	check_ok(wk_writer_flush(d.writer, UINT64_MAX, NULL, &error), &error, "what was accepted is durable");
	do
		status = append_bytes(&d, 1000, &error);
	while (status == WK_IO && error.system_error == EMFILE);
	check_ok(status, &error, "appends go on");
	leave_desk(&d);
}

static bool write_index(const desk *d) {
	wk_engine_lock(d->ns->engine);
	bool written = wk_index_write(d->ns->engine);
	wk_engine_unlock(d->ns->engine);
	return written;
}

static bool count_name(void *context, const char *name) {
	(void)name;
	++*(int *)context;
	return true;
}

TEST(an_index_that_finds_no_descriptor_is_written_later) {
	for (int syncs_only = 0; syncs_only < 2; syncs_only++) {
		desk d = desk_of(true);
		append_records(&d, 50);
		work(d.ns);
		CHECK(write_index(&d));
		append_records(&d, 50);
		work(d.ns);
		opens_refused = "/index";
		refuses_syncs_only = syncs_only == 1;
		no_descriptors = 1;
		CHECK(!write_index(&d));
		CHECK_EQ(no_descriptors, 0);
		CHECK(!stats_of(d.ns).failed);
		CHECK(write_index(&d));
		int count = 0;
		CHECK_EQ(plain->list(d.io, below(d.path, "index"), count_name, &count), 0);
		CHECK_EQ(count, 1);
		leave_desk(&d);
	}
}

int main(void) {
	RUN(a_file_that_cannot_go_does_not_keep_the_others);
	RUN(a_file_without_a_footer_that_cannot_go_does_not_come_to_have_one);
	RUN(a_prepared_file_whose_rename_finds_no_space_is_not_forgotten);
	RUN(a_reserve_whose_rename_finds_no_space_is_not_forgotten);
	RUN(a_prepared_file_whose_name_may_not_last_is_a_prepared_one_again);
	RUN(a_prepared_file_that_there_is_no_memory_to_know_by_goes);
	RUN(an_open_that_finds_no_descriptor_is_tried_again);
	RUN(without_descriptors_appends_go_on_where_the_active_file_has_room);
	RUN(without_descriptors_what_was_accepted_waits_and_what_comes_is_refused);
	RUN(an_index_that_finds_no_descriptor_is_written_later);
	return check_done();
}
