/*
 * test_no_memory.c: memory runs out in the middle of a call: each of its allocations fails, one after the other. Whatever
 * the call says is true, it can be made again, and the directory opens afterwards and holds what was acknowledged.
 */
/* ctest labels: one-thread */
#include "engine/manual.h"
#include "manual_directory.h"
#include "scarce_memory.h"

enum { LARGE = 40 * 1024, TXID = 1000, ALLOCATIONS_MAX = 100 };

typedef struct desk {
	char path[64];
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer;
	int64_t txid;        /* of the next record */
	size_t acknowledged; /* records */
	size_t truncated;    /* of these */
	size_t unknown;      /* records whose outcome nobody knows */
	const char *name;    /* of the log */
	bool made_another;   /* log */
} desk;

static char large[LARGE];
static const char SHORT_NAME[] = "log";
/* So long that the record of the catalogue does not fit into the memory that an earlier one left. */
static const char LONG_NAME[] =
    "another-log-with-a-name-that-is-somewhat-longer-than-the-usual-name-of-a-log-as-the-memory-of-an-earlier-block-"
    "is-kept-for-the-next-one";

static void open_desk(desk *d) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = WK_OPEN_MANUAL;
	options.backend = WK_BACKEND_PSYNC;
	options.file_size_min = options.file_size_max = SMALL_FILE_SIZE; /* a large record is larger than a block */
	options.sync_method = WK_SYNC_WRITE_THEN_SYNC;
	options.blocks_in_flight = 2;
	wk_error error = {0};
	check_ok(wk_open(d->path, &options, &d->ns, &error), &error, "the directory opens");
}

static wk_status append_to(desk *d, const void *bytes, size_t size) {
	wk_append_options options;
	wk_append_options_init(&options);
	options.txid = d->txid;
	wk_position at;
	wk_error error = {0};
	wk_status status = wk_writer_append(d->writer, bytes, size, &options, &at, &error);
	d->acknowledged += status == WK_OK;
	d->unknown += status != WK_OK && error.outcome_unknown;
	d->txid += status == WK_OK || error.outcome_unknown;
	return status;
}

/* ---- the calls ---- */

static wk_status small_append(desk *d) {
	return append_to(d, "small", 5);
}

static wk_status large_append(desk *d) {
	return append_to(d, large, sizeof large);
}

static wk_status atomic_batch(desk *d) {
	static const uint32_t sizes[3] = {LARGE / 3, LARGE / 3, LARGE / 3};
	wk_append_options options;
	wk_append_options_init(&options);
	options.atomic = true;
	options.txid = d->txid;
	wk_position first, last;
	uint64_t ticket;
	wk_error error = {0};
	wk_status status = wk_writer_append_many(d->writer, large, sizes, 3, NULL, &options, true, &first, &last, &ticket,
	                                         &error);
	d->acknowledged += status == WK_OK ? 3 : 0;
	d->unknown += status != WK_OK && error.outcome_unknown ? 3 : 0;
	return status;
}

static wk_status make_log(desk *d) {
	wk_log *log = NULL;
	wk_status status = wk_log_open(d->ns, LONG_NAME, strlen(LONG_NAME), true, NULL, &log, NULL);
	d->made_another |= status == WK_OK;
	if (status == WK_OK)
		wk_log_release(log);
	return status;
}

static wk_status set_cursor(desk *d) {
	wk_log_info info;
	wk_status status = wk_log_describe(d->log, &info, NULL);
	return status == WK_OK ? wk_cursor_set(d->log, "cursor", 6, &info.first, NULL) : status;
}

static wk_status rename_log(desk *d) {
	wk_status status = wk_log_rename(d->ns, SHORT_NAME, strlen(SHORT_NAME), LONG_NAME, strlen(LONG_NAME), NULL);
	if (status == WK_OK)
		d->name = LONG_NAME;
	return status;
}

static wk_status make_log_and_append(desk *d) {
	wk_log *log = NULL;
	wk_writer *writer = NULL;
	wk_status status = wk_log_open(d->ns, LONG_NAME, strlen(LONG_NAME), true, NULL, &log, NULL);
	d->made_another |= status == WK_OK;
	if (status == WK_OK && (status = wk_writer_open(log, &writer, NULL)) == WK_OK) {
		status = wk_writer_append(writer, "other", 5, NULL, NULL, NULL);
		wk_writer_close(writer, UINT64_MAX, NULL);
	}
	if (log != NULL)
		wk_log_release(log);
	return status;
}

static wk_status end_stream(desk *d) {
	wk_error error = {0};
	wk_status status = wk_writer_end_of_stream(d->writer, &error);
	CHECK_EQ(status != WK_OK, error.text[0] != 0);
	return status;
}

static wk_status truncate_log(desk *d) {
	wk_position next;
	wk_writer_next(d->writer, &next);
	wk_status status = wk_log_truncate(d->log, &next.dlsn, false, NULL);
	d->truncated = status == WK_OK ? d->acknowledged : d->truncated;
	return status;
}

typedef struct situation {
	wk_status (*call)(desk *);
	bool fresh; /* the log has no record yet */
	bool rolls; /* each record begins a segment */
} situation;

static const situation situations[] = {
    {small_append, true, false},  {large_append, true, false},  {small_append, false, false},
    {large_append, false, false}, {small_append, false, true},  {large_append, false, true},
    {atomic_batch, false, false}, {atomic_batch, false, true},  {make_log, false, false},
    {set_cursor, false, false},   {rename_log, false, false},   {make_log_and_append, false, false},
    {end_stream, false, false},   {truncate_log, false, false},
};

static void make_desk(desk *d, const situation *s) {
	*d = (desk){.txid = TXID, .name = SHORT_NAME};
	strcpy(d->path, temporary());
	open_desk(d);
	wk_log_options options;
	wk_log_options_init(&options);
	options.segment_bytes = s->rolls ? 1 : options.segment_bytes;
	wk_error error = {0};
	check_ok(wk_log_open(d->ns, d->name, strlen(d->name), true, &options, &d->log, &error), &error, "the log opens");
	d->writer = writer_of(d->log);
	if (!s->fresh)
		CHECK_EQ(append_to(d, "first", 5), WK_OK);
}

static bool has_log(wk_namespace *ns, const char *name) {
	wk_log *log = NULL;
	if (wk_log_open(ns, name, strlen(name), false, NULL, &log, NULL) != WK_OK)
		return false;
	wk_log_release(log);
	return true;
}

/* Who makes a log may find no memory for its handle alone: then the log is there. */
static void check_what_is_there(desk *d, bool ended, bool makes) {
	open_desk(d);
	CHECK(has_log(d->ns, d->name));
	if (d->made_another || !makes)
		CHECK_EQ(has_log(d->ns, LONG_NAME), d->made_another || d->name == LONG_NAME);
	d->log = log_named(d->ns, d->name);
	size_t found = count_records(d->log), least = d->acknowledged - d->truncated;
	CHECK(found == least || found == least + d->unknown);
	d->writer = writer_of(d->log);
	if (d->acknowledged > 0 && d->truncated == 0 && !ended) {
		d->txid = TXID - 1;
		CHECK_EQ(small_append(d), WK_TXID); /* below what is there */
	}
	close_all(d->ns, d->log, d->writer);
}

/* false: the call makes no such allocation. */
static bool runs_out(const situation *s, long allocation, bool again) {
	desk d;
	make_desk(&d, s);
	let_memory_run_out(allocation, 1);
	wk_status status = s->call(&d);
	bool ran_out = memory_ran_out();
	if (status == WK_NO_MEMORY) {
		CHECK_EQ(stats_of(d.ns).memory_in_flight, 0);
		CHECK_EQ(d.unknown, 0);
	}
	if (again && status == WK_NO_MEMORY)
		status = s->call(&d);
	CHECK(status == WK_OK || status == WK_NO_MEMORY || status == WK_FAILED || !ran_out);
	bool ended = s->call == end_stream && status == WK_OK;
	if (again && status == WK_OK)
		CHECK_EQ(small_append(&d), ended ? WK_END_OF_STREAM : WK_OK);
	wk_writer_close(d.writer, UINT64_MAX, NULL);
	wk_log_release(d.log);
	wk_close(d.ns, UINT64_MAX, NULL);
	check_what_is_there(&d, s->call == end_stream, s->call == make_log || s->call == make_log_and_append);
	remove_tree(d.path);
	return ran_out;
}

static void run_out_of_each(bool again) {
	for (size_t i = 0; i < sizeof situations / sizeof *situations; i++) {
		long allocation = 0;
		while (runs_out(&situations[i], allocation, again))
			CHECK(++allocation < ALLOCATIONS_MAX);
		CHECK(allocation > 0);
	}
}

TEST(a_call_that_found_no_memory_can_be_made_again) {
	run_out_of_each(true);
}

TEST(a_call_that_found_no_memory_leaves_nothing_behind) {
	run_out_of_each(false);
}

int main(void) {
	RUN(a_call_that_found_no_memory_can_be_made_again);
	RUN(a_call_that_found_no_memory_leaves_nothing_behind);
	return check_done();
}
