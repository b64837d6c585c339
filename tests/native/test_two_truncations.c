/*
 * test_two_truncations.c: two truncations of one log are on their way, in two blocks. The first becomes durable, and
 * whoever wanted it is told so; the second cannot be written. What is taken back is the second, and not the first.
 */
#include "stalling_disk.h"
#include <errno.h>
#include <pthread.h>

enum { RECORDS = 12, CUTS = 2, LARGE = 100 * 1000, ATTEMPTS = 40, NAP_MS = 30, DOUBLINGS = 5 };
static const int64_t cuts[CUTS] = {4, 8};

static _Atomic int blocks, through; /* blocks are what is written with its sync; so many of them do not stand still */
static _Atomic bool counts;
static _Atomic uint64_t refused_tag;

static int64_t counted_pwrite(wk_io *io, wk_file *file, const void *buffer, size_t size, uint64_t offset,
                              uint32_t flags) {
	bool block = atomic_load(&counts) && (flags & WK_IO_DSYNC) != 0;
	int number = block ? atomic_fetch_add(&blocks, 1) + 1 : 0;
	while (number > atomic_load(&through))
		nap_ms(1);
	return number < 3 ? plain_operations->pwrite(io, file, buffer, size, offset, flags) : -EIO;
}

static int counted_submit(wk_io *io, wk_io_queue *queue, const wk_io_request *request) {
	if (atomic_load(&counts) && request->operation == WK_IO_OP_WRITE && atomic_fetch_add(&blocks, 1) + 1 == 3)
		atomic_store(&refused_tag, request->tag);
	return plain_operations->queue_submit(io, queue, request);
}

static int counted_wait(wk_io *io, wk_io_queue *queue, wk_io_completion *out, uint32_t out_max, uint64_t timeout_ns) {
	int count = plain_operations->queue_wait(io, queue, out, out_max, timeout_ns);
	for (int i = 0; i < count; i++)
		if (out[i].tag == atomic_load(&refused_tag)) {
			while (atomic_load(&through) < 3)
				nap_ms(1);
			out[i].result = -EIO;
		}
	return count;
}

typedef struct desk {
	wk_log *log;
	wk_writer *writer;
	wk_dlsn before;
	wk_status status;
} desk;

static void *truncate_it(void *context) {
	desk *d = context;
	d->status = wk_log_truncate(d->log, &d->before, false, NULL);
	return NULL;
}

/* So large that nothing else finds room while it is on its way. */
static void *append_it(void *context) {
	static char large[LARGE];
	desk *d = context;
	wk_append_options options;
	wk_append_options_init(&options);
	wk_position at;
	d->status = wk_writer_append(d->writer, large, sizeof large, &options, &at, NULL);
	return NULL;
}

/* Whether both were on their way at once: else the one that goes further was the first. */
static bool one_fails_behind_the_other(long nap) {
	char path[64];
	strcpy(path, temporary());
	wk_io *io = stalling_disk();
	stalling_operations.pwrite = counted_pwrite;
	stalling_operations.queue_submit = counted_submit;
	stalling_operations.queue_wait = counted_wait;
	wk_open_options options;
	wk_open_options_init(&options);
	options.file_size_min = options.file_size_max = 8 * SMALL_FILE_SIZE;
	options.sync_method = WK_SYNC_DSYNC;
	options.blocks_in_flight = 4;
	options.in_flight_bytes = LARGE;
	options.confirm_delay_ns = UINT64_MAX;
	wk_namespace *ns = NULL;
	CHECK_EQ(wk_open_on(io, path, &options, &ns, NULL), WK_OK);
	wk_log *log = log_named(ns, "log"), *other = log_named(ns, "other");
	wk_writer *writer = writer_of(log), *other_writer = writer_of(other);
	for (int i = 0; i < RECORDS; i++)
		append_one(writer);
	desk desks[CUTS + 1] = {[CUTS] = {.writer = other_writer}};
	for (int i = 0; i < CUTS; i++) {
		wk_position at;
		CHECK_EQ(wk_log_find(log, WK_FIND_SEQUENCE_ID, cuts[i], NULL, &at, NULL), WK_OK);
		desks[i] = (desk){.log = log, .before = at.dlsn};
	}
	nap_ms(100);
	atomic_store(&blocks, 0);
	atomic_store(&through, 0);
	atomic_store(&refused_tag, UINT64_MAX);
	atomic_store(&counts, true);
	pthread_t threads[CUTS + 1];
	CHECK_EQ(pthread_create(&threads[CUTS], NULL, append_it, &desks[CUTS]), 0);
	nap_ms(nap);
	for (int i = 0; i < CUTS; i++, nap_ms(nap))
		CHECK_EQ(pthread_create(&threads[i], NULL, truncate_it, &desks[i]), 0);
	for (int i = 1; i <= CUTS + 1; i++) { /* the large record, the one truncation, the other */
		atomic_store(&through, i);
		nap_ms(nap);
	}
	atomic_store(&counts, false);
	for (int i = 0; i <= CUTS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(desks[CUTS].status, WK_OK);
	bool both = desks[0].status == WK_OK && desks[1].status == WK_FAILED;
	if (both) {
		wk_log_info info;
		wk_error error = {0};
		wk_reader *reader = NULL;
		wk_batch *batch = NULL;
		size_t count;
		CHECK_EQ(wk_log_describe(log, &info, NULL), WK_OK);
		CHECK_EQ(info.first.sequence_id, cuts[0]);
		CHECK_EQ(info.count, RECORDS - cuts[0]);
		CHECK_EQ(wk_reader_open(log, NULL, &reader, NULL), WK_OK);
		check_ok(wk_reader_next(reader, 1, 1 << 20, 0, &batch, &error), &error, "reading from the start");
		CHECK_EQ(wk_batch_records(batch, &count)[0].at.sequence_id, cuts[0]);
		wk_batch_release(batch);
		wk_reader_release(reader);
	}
	wk_abandon(ns);
	wk_writer_close(writer, 0, NULL);
	wk_writer_close(other_writer, 0, NULL);
	wk_log_release(log);
	wk_log_release(other);
	io->operations->destroy(io);
	remove_tree(path);
	return both;
}

TEST(a_durable_truncation_stays_when_the_one_behind_it_fails) {
	bool both = false;
	for (int i = 0; i < ATTEMPTS && !both; i++)
		both = one_fails_behind_the_other(NAP_MS << (i < DOUBLINGS ? i : DOUBLINGS)); /* a busy machine needs longer */
	CHECK(both);
}

int main(void) {
	RUN(a_durable_truncation_stays_when_the_one_behind_it_fails);
	return check_done();
}
