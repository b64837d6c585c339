/*
 * test_open.c: what an open reads and finds, and where it refuses to open at all; storage rules 18, 20 and 28
 * (docs/storage-rules.md).
 */
#include "engine/manual.h"
#include "manual_directory.h"

enum { NFS_TYPE = 0x6969 };

static void without_footers(wk_open_options *options) {
	options->ignore_footers = true;
}

TEST(rule_18_without_footers_the_same_is_found) {
	wk_io *io = disk_of(18);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = log_named(ns, "log");
	wk_writer *writer = writer_of(log);
	fill_files(io, ns, writer, 50);
	close_all(ns, log, writer);
	for (int i = 0; i < 2; i++) {
		wk_recovery_report report;
		ns = open_with(io, i == 0 ? NULL : without_footers);
		log = log_named(ns, "log");
		wk_namespace_recovery(ns, &report);
		CHECK_EQ(report.footers_read, 0); /* after a close in order, the index file stands for them */
		CHECK(i == 0 ? report.files_scanned <= 1 : report.files_scanned > 2);
		CHECK_EQ(count_records(log), 50);
		close_all(ns, log, NULL);
	}
	io->operations->destroy(io);
}

/* Which journal files an open reads: by id, the calls. A real directory, watched. */
enum { IDS_MAX = 256 };
static struct wk_io_operations watched;
static const struct wk_io_operations *plain;
static wk_file *watched_handles[IDS_MAX];
static uint32_t reads_by_file[IDS_MAX];

static int open_and_note(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	int result = plain->open(io, path, flags, file);
	const char *name = strrchr(path, '/');
	size_t size = name != NULL ? strlen(name) : 0;
	unsigned long long id = size == 21 && strcmp(name + 17, ".wkj") == 0 ? strtoull(name + 1, NULL, 16) : 0;
	CHECK(id < IDS_MAX);
	if (result == 0 && id != 0)
		watched_handles[id] = *file;
	return result;
}

static int64_t pread_and_count(wk_io *io, wk_file *file, void *buffer, size_t size, uint64_t offset) {
	for (uint32_t id = 1; id < IDS_MAX; id++)
		reads_by_file[id] += watched_handles[id] == file;
	return plain->pread(io, file, buffer, size, offset);
}

TEST(rule_20_below_the_mark_nothing_but_the_catalogue_is_read) {
	char path[64];
	strcpy(path, temporary());
	make_small(path, 400);
	wk_io *io = NULL;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	plain = io->operations;
	watched = *plain;
	watched.open = open_and_note;
	watched.pread = pread_and_count;
	io->operations = &watched;
	for (int ignoring = 0; ignoring < 2; ignoring++) {
		memset(watched_handles, 0, sizeof watched_handles);
		memset(reads_by_file, 0, sizeof reads_by_file);
		wk_open_options options;
		wk_open_options_init(&options);
		options.internal = WK_OPEN_MANUAL;
		options.file_size_min = options.file_size_max = SMALL_FILE_SIZE;
		options.ignore_footers = ignoring == 1;
		wk_namespace *ns = NULL;
		wk_error error = {0};
		check_ok(wk_open_on(io, path, &options, &ns, &error), &error, "the directory opens");
		uint32_t files = 0, read = 0, last = 0;
		for (uint32_t id = 1; id < IDS_MAX; id++) {
			files += watched_handles[id] != NULL;
			last = watched_handles[id] != NULL ? id : last;
		}
		for (uint32_t id = 1; id < IDS_MAX; id++) /* the log's only records in the catalogue stand in the first file */
			read += reads_by_file[id] > 0 && id != 1 && id + 2 < last;
		CHECK(files > 20);
		CHECK(ignoring == 0 ? read == 0 : read > 20);
		wk_abandon(ns);
	}
	remove_tree(path);
	io->operations->destroy(io);
}

static struct wk_io_operations network_operations;

static int network_space(wk_io *io, const char *path, wk_io_space *space) {
	(void)io;
	(void)path;
	*space = (wk_io_space){.free_bytes = 1 << 30, .total_bytes = 1 << 30, .type = NFS_TYPE};
	return 0;
}

TEST(rule_28_a_network_file_system_is_refused_unless_it_is_accepted) {
	char path[64];
	strcpy(path, temporary());
	wk_io *io = NULL;
	CHECK_EQ(wk_io_psync_new(&io), 0);
	network_operations = *io->operations;
	network_operations.space = network_space;
	io->operations = &network_operations;
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = WK_OPEN_MANUAL;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	CHECK_EQ(wk_open_on(io, path, &options, &ns, &error), WK_UNSUPPORTED);
	CHECK(strstr(error.text, "unsafe_fs") != NULL);
	options.unsafe_fs = true;
	check_ok(wk_open_on(io, path, &options, &ns, &error), &error, "with unsafe_fs");
	leave(io, ns, NULL, NULL);
	remove_tree(path);
}

int main(void) {
	RUN(rule_18_without_footers_the_same_is_found);
	RUN(rule_20_below_the_mark_nothing_but_the_catalogue_is_read);
	RUN(rule_28_a_network_file_system_is_refused_unless_it_is_accepted);
	return check_done();
}
