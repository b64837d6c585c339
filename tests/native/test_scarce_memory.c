/*
 * test_scarce_memory.c: each allocation of a call finds no memory, one after the other. Whatever the call says, it can be
 * made again, and what is acknowledged afterwards is there after the next open. What memory says and the journal does
 * not (a log, a segment, a name) would take the records that are put into it with it.
 */
#include "scarce_memory.h"

#include "ledger_store.h"
#include "small_directory.h"

enum { FILE_SIZE = 256 * 1024, ALLOCATIONS_MAX = 100, BATCH = 3 };

static void in_this_thread(wk_open_options *options) {
	options->manual = true;
	options->backend = WK_BACKEND_PSYNC;
	options->file_size_min = options->file_size_max = FILE_SIZE;
	options->sync_method = WK_SYNC_WRITE_THEN_SYNC;
	options->blocks_in_flight = 2;
}

/* ---- logs ---- */

static const char *const NAME = "log";
/* So long that what the catalogue says of it does not fit into the memory that is there. */
static const char *const OTHER = "another-log-with-a-name-that-is-somewhat-longer-than-the-usual-name-of-a-log-so-that-"
                                 "the-record-of-the-catalogue-does-not-fit-into-the-memory-that-was-kept";
static char payload[40 * 1024];

typedef struct desk {
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer;
	wk_position first;
	int64_t acknowledged, unknown; /* records */
	const char *name;              /* of the log, by now */
	bool made_other;
} desk;

static void count(desk *d, wk_status status, const wk_error *error, int64_t records) {
	d->acknowledged += status == WK_OK ? records : 0;
	d->unknown += status != WK_OK && error->outcome_unknown ? records : 0;
}

static wk_status append(desk *d, size_t size) {
	wk_error error = {0};
	wk_status status = wk_writer_append(d->writer, payload, size, NULL, NULL, &error);
	count(d, status, &error, 1);
	return status;
}

static wk_status append_small(desk *d) {
	return append(d, 5);
}

static wk_status append_large(desk *d) {
	return append(d, sizeof payload);
}

static wk_status append_batch(desk *d) {
	static const uint32_t sizes[BATCH] = {13000, 13000, 13000};
	wk_append_options options;
	wk_append_options_init(&options);
	options.atomic = true;
	wk_position first, last;
	uint64_t ticket;
	wk_error error = {0};
	wk_status status = wk_writer_append_many(d->writer, payload, sizes, BATCH, NULL, &options, true, &first, &last,
	                                         &ticket, &error);
	count(d, status, &error, BATCH);
	return status;
}

static wk_status make_other(desk *d) {
	wk_log *log = NULL;
	wk_status status = wk_log_open(d->ns, OTHER, strlen(OTHER), true, NULL, &log, NULL);
	d->made_other |= status == WK_OK;
	if (status == WK_OK)
		wk_log_release(log);
	return status;
}

static wk_status append_to_other(desk *d) {
	wk_log *log = NULL;
	wk_writer *writer = NULL;
	wk_status status = wk_log_open(d->ns, OTHER, strlen(OTHER), true, NULL, &log, NULL);
	d->made_other |= status == WK_OK;
	if (status == WK_OK)
		status = wk_writer_open(log, &writer, NULL);
	if (status == WK_OK)
		status = wk_writer_append(writer, "other", 5, NULL, NULL, NULL);
	if (writer != NULL)
		wk_writer_close(writer, UINT64_MAX, NULL);
	if (log != NULL)
		wk_log_release(log);
	return status;
}

static wk_status set_cursor(desk *d) {
	return wk_cursor_set(d->log, OTHER, strlen(OTHER), &d->first, NULL);
}

static wk_status rename_it(desk *d) {
	wk_status status = wk_log_rename(d->ns, NAME, strlen(NAME), OTHER, strlen(OTHER), NULL);
	d->name = status == WK_OK ? OTHER : d->name;
	return status;
}

static wk_status truncate_it(desk *d) {
	wk_position next;
	wk_writer_next(d->writer, &next);
	wk_status status = wk_log_truncate(d->log, &next.dlsn, false, NULL);
	d->acknowledged -= status == WK_OK;
	return status;
}

typedef struct situation {
	wk_status (*call)(desk *);
	bool fresh; /* the log has no record yet */
	bool rolls; /* each record begins a segment */
} situation;

static const situation situations[] = {
    {append_small, true, false},  {append_small, false, false},    {append_small, false, true},
    {append_large, false, false}, {append_batch, false, false},    {make_other, false, false},
    {set_cursor, false, false},   {append_to_other, false, false}, {rename_it, false, false},
    {truncate_it, false, false},
};

static void begin(desk *d, const char *path, const situation *s) {
	*d = (desk){.name = NAME};
	wk_open_options options;
	wk_open_options_init(&options);
	in_this_thread(&options);
	wk_error error = {0};
	check_ok(wk_open(path, &options, &d->ns, &error), &error, "the directory opens");
	wk_log_options of_log;
	wk_log_options_init(&of_log);
	if (s->rolls)
		of_log.segment_bytes = 1;
	check_ok(wk_log_open(d->ns, NAME, strlen(NAME), true, &of_log, &d->log, &error), &error, "the log opens");
	d->writer = writer_of(d->log);
	if (s->fresh)
		return;
	check_ok(wk_writer_append(d->writer, "first", 5, NULL, &d->first, &error), &error, "the first append");
	d->acknowledged++;
}

static void check_records(desk *d, const char *path) {
	wk_open_options options;
	wk_open_options_init(&options);
	in_this_thread(&options);
	wk_error error = {0};
	check_ok(wk_open(path, &options, &d->ns, &error), &error, "the directory opens again");
	check_ok(wk_log_open(d->ns, d->name, strlen(d->name), false, NULL, &d->log, &error), &error, "the log is there");
	wk_reader *reader = NULL;
	wk_batch *batch;
	size_t size;
	int64_t found = 0;
	check_ok(wk_reader_open(d->log, NULL, &reader, &error), &error, "the log can be read");
	wk_status status;
	while ((status = wk_reader_next(reader, 1000, 1 << 20, 0, &batch, &error)) == WK_OK) {
		wk_batch_records(batch, &size);
		found += (int64_t)size;
		wk_batch_release(batch);
	}
	CHECK_EQ(status, WK_END);
	CHECK(found >= d->acknowledged && found <= d->acknowledged + d->unknown);
	wk_reader_release(reader);
	close_all(d->ns, d->log, NULL);
}

/* The allocation with this number fails, once; false: the call makes fewer. */
static bool goes_on_after(const situation *s, long number) {
	char path[64];
	desk d;
	strcpy(path, temporary());
	begin(&d, path, s);
	fail_allocation(number);
	wk_status status = s->call(&d);
	bool failed = allocation_failed();
	CHECK(status == WK_OK || status == WK_NO_MEMORY || status == WK_FAILED);
	if (status == WK_NO_MEMORY)
		CHECK_EQ(s->call(&d), WK_OK);
	if (status != WK_FAILED) /* else a block could not be placed: the journal stopped */
		CHECK_EQ(append_small(&d), WK_OK);
	wk_writer_close(d.writer, UINT64_MAX, NULL);
	wk_log_release(d.log);
	CHECK_EQ(wk_close(d.ns, UINT64_MAX, NULL), status == WK_FAILED ? WK_FAILED : WK_OK);
	check_records(&d, path);
	if (d.made_other)
		CHECK_EQ(wk_open(path, NULL, &d.ns, NULL), WK_OK);
	if (d.made_other) {
		CHECK_EQ(wk_log_open(d.ns, OTHER, strlen(OTHER), false, NULL, &d.log, NULL), WK_OK);
		close_all(d.ns, d.log, NULL);
	}
	remove_tree(path);
	return failed;
}

TEST(what_is_acknowledged_after_memory_ran_out_is_there) {
	for (size_t i = 0; i < sizeof situations / sizeof *situations; i++) {
		long number = 0;
		while (goes_on_after(&situations[i], number) && number < ALLOCATIONS_MAX)
			number++;
		CHECK(number > 0 && number < ALLOCATIONS_MAX);
	}
}

/* ---- ledgers ---- */

enum { LEDGER = 7, OTHER_LEDGER = 8, ENTRY = 5, VERSION = 6 };

static wk_status add(wk_namespace *ns) {
	return add_version(ns, LEDGER, ENTRY, VERSION, 0, NULL);
}

static wk_status fence_it(wk_namespace *ns) {
	return wk_ledger_fence(ns, LEDGER, KEY, sizeof KEY - 1, UINT64_MAX, NULL, NULL);
}

static wk_status fence_other(wk_namespace *ns) {
	return wk_ledger_fence(ns, OTHER_LEDGER, KEY, sizeof KEY - 1, UINT64_MAX, NULL, NULL);
}

static wk_namespace *open_store_at(const char *path) {
	wk_open_options options = store_options();
	options.backend = WK_BACKEND_PSYNC;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the store opens");
	return ns;
}

/* `fenced`: that ledger must be, afterwards; −1: the entry must be there. */
static bool keeps_its_word_after(wk_status (*call)(wk_namespace *), int64_t fenced, long number) {
	char path[64];
	strcpy(path, temporary());
	wk_namespace *ns = open_store_at(path);
	add_entry(ns, LEDGER, 0);
	fail_allocation(number);
	wk_status status = call(ns);
	bool failed = allocation_failed();
	CHECK(status == WK_OK || status == WK_NO_MEMORY || status == WK_FAILED);
	if (status == WK_NO_MEMORY)
		CHECK_EQ(status = call(ns), WK_OK);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), status);
	ns = open_store_at(path);
	uint64_t version = 0;
	wk_error error = {0};
	if (status == WK_FAILED) {
		; /* nothing was promised */
	} else if (fenced < 0) {
		CHECK(read_version(ns, LEDGER, ENTRY, &version, &error));
		CHECK_EQ(version, VERSION);
	} else {
		CHECK_EQ(add_version(ns, fenced, ENTRY, VERSION, 0, NULL), WK_FENCED);
	}
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	remove_tree(path);
	return failed;
}

TEST(a_ledger_store_keeps_its_word_after_memory_ran_out) {
	static const struct {
		wk_status (*call)(wk_namespace *);
		int64_t fenced;
	} calls[] = {{add, -1}, {fence_it, LEDGER}, {fence_other, OTHER_LEDGER}};
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		long number = 0;
		while (keeps_its_word_after(calls[i].call, calls[i].fenced, number) && number < ALLOCATIONS_MAX)
			number++;
		CHECK(number > 0 && number < ALLOCATIONS_MAX);
	}
}

int main(void) {
	RUN(what_is_acknowledged_after_memory_ran_out_is_there);
	RUN(a_ledger_store_keeps_its_word_after_memory_ran_out);
	return check_done();
}
