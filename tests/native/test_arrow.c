/*
 * test_arrow.c: a reader's records as Arrow batches: the structures of the C data interface, who owns them, and what
 * becomes of the records when there is no memory for them.
 */
#include "manual_directory.h"
#include "scarce_memory.h"

/* As the interface defines them. */
struct ArrowSchema {
	const char *format, *name, *metadata;
	int64_t flags, n_children;
	struct ArrowSchema **children, *dictionary;
	void (*release)(struct ArrowSchema *);
	void *private_data;
};
struct ArrowArray {
	int64_t length, null_count, offset, n_buffers, n_children;
	const void **buffers;
	struct ArrowArray **children, *dictionary;
	void (*release)(struct ArrowArray *);
	void *private_data;
};

enum { RECORDS = 50, COLUMNS = 6, ALLOCATIONS_MAX = 200 };
static const char *const names[COLUMNS] = {"segment", "entry_id", "slot", "sequence_id", "txid", "payload"};

typedef struct desk {
	wk_io *io;
	wk_namespace *ns;
	wk_log *log;
	wk_reader *reader;
} desk;

static const char *text_of(int64_t sequence_id) {
	static char text[32];
	snprintf(text, sizeof text, "record %lld%.*s", (long long)sequence_id, (int)(sequence_id % 7), "       ");
	return text;
}

static desk desk_with_records(void) {
	desk d = {.io = disk_of(1)};
	d.ns = open_with(d.io, NULL);
	d.log = log_named(d.ns, "log");
	wk_writer *writer = writer_of(d.log);
	for (int64_t i = 0; i < RECORDS; i++) {
		const char *text = text_of(i);
		put_bytes(writer, text, strlen(text), 1000 + i, i % 3 == 0 ? WK_SYNC : WK_DEFERRED);
	}
	CHECK_EQ(wk_writer_close(writer, UINT64_MAX, NULL), WK_OK);
	CHECK_EQ(wk_reader_open(d.log, NULL, &d.reader, NULL), WK_OK);
	return d;
}

static void leave_desk(desk *d) {
	wk_reader_release(d->reader);
	leave(d->io, d->ns, d->log, NULL);
}

static void check_schema(const struct ArrowSchema *schema) {
	CHECK(strcmp(schema->format, "+s") == 0);
	CHECK_EQ(schema->n_children, COLUMNS);
	for (int i = 0; i < COLUMNS; i++) {
		const struct ArrowSchema *child = schema->children[i];
		CHECK(strcmp(child->name, names[i]) == 0);
		CHECK(strcmp(child->format, i < COLUMNS - 1 ? "l" : "Z") == 0);
		CHECK_EQ(child->flags, 0); /* none is nullable */
		CHECK(child->release != NULL);
	}
}

static int64_t number(const struct ArrowArray *array, int column, int64_t row) {
	return ((const int64_t *)array->children[column]->buffers[1])[row];
}

static void check_payload(const struct ArrowArray *payload, int64_t row, int64_t sequence_id) {
	const int64_t *offsets = payload->buffers[1];
	const char *bytes = payload->buffers[2], *text = text_of(sequence_id);
	CHECK_EQ(offsets[row + 1] - offsets[row], strlen(text));
	CHECK(memcmp(bytes + offsets[row], text, strlen(text)) == 0);
}

/* Rows are the records from `first` on. */
static void check_array(const struct ArrowArray *array, int64_t first) {
	CHECK_EQ(array->n_children, COLUMNS);
	CHECK_EQ(array->n_buffers, 1);
	CHECK(array->buffers[0] == NULL); /* no validity: nothing is null */
	CHECK_EQ(array->null_count, 0);
	for (int i = 0; i < COLUMNS; i++) {
		CHECK_EQ(array->children[i]->length, array->length);
		CHECK_EQ(array->children[i]->n_buffers, i < COLUMNS - 1 ? 2 : 3);
		CHECK(array->children[i]->buffers[0] == NULL);
	}
	for (int64_t row = 0; row < array->length; row++) {
		CHECK_EQ(number(array, 0, row), 1);
		CHECK_EQ(number(array, 3, row), first + row);
		CHECK_EQ(number(array, 4, row), 1000 + first + row);
		check_payload(array->children[COLUMNS - 1], row, first + row);
	}
}

static void release(struct ArrowSchema *schema, struct ArrowArray *array) {
	schema->release(schema);
	array->release(array);
	CHECK(schema->release == NULL && array->release == NULL);
}

TEST(batches_hold_each_record_once_and_in_order) {
	desk d = desk_with_records();
	struct ArrowSchema schema;
	struct ArrowArray array;
	int64_t next = 0;
	while (wk_reader_next_arrow(d.reader, 7, 1 << 20, 0, &schema, &array, NULL) == WK_OK) {
		CHECK(array.length > 0 && array.length <= 7);
		check_schema(&schema);
		check_array(&array, next);
		next += array.length;
		release(&schema, &array);
	}
	CHECK_EQ(next, RECORDS);
	leave_desk(&d);
}

/* A consumer may take a column, and let go of the rest; also after the reader has gone. */
TEST(a_column_that_was_moved_out_lives_by_itself) {
	desk d = desk_with_records();
	struct ArrowSchema schema;
	struct ArrowArray array;
	CHECK_EQ(wk_reader_next_arrow(d.reader, 10, 1 << 20, 0, &schema, &array, NULL), WK_OK);
	struct ArrowArray payload = *array.children[COLUMNS - 1];
	array.children[COLUMNS - 1]->release = NULL;
	release(&schema, &array);
	leave_desk(&d);
	for (int64_t row = 0; row < payload.length; row++)
		check_payload(&payload, row, row);
	payload.release(&payload);
	CHECK(payload.release == NULL);
}

/* false: reading makes no such allocation. */
static bool runs_out(long allocation) {
	desk d = desk_with_records();
	struct ArrowSchema schema;
	struct ArrowArray array;
	int64_t next = 0;
	wk_error error = {0};
	wk_status status;
	let_memory_run_out(allocation, 1);
	while ((status = wk_reader_next_arrow(d.reader, 7, 1 << 20, 0, &schema, &array, &error)) != WK_END) {
		if (status != WK_OK) {
			CHECK_EQ(status, WK_NO_MEMORY);
			CHECK(error.text[0] != 0);
			continue;
		}
		check_array(&array, next);
		next += array.length;
		release(&schema, &array);
	}
	bool ran_out = memory_ran_out();
	CHECK_EQ(next, RECORDS);
	leave_desk(&d);
	return ran_out;
}

TEST(a_batch_that_found_no_memory_is_given_the_next_time) {
	long allocation = 0;
	while (runs_out(allocation))
		CHECK(++allocation < ALLOCATIONS_MAX);
	CHECK(allocation > 8);
}

/* What nobody was given, and then is truncated, was missed. */
TEST(a_truncated_batch_that_found_no_memory_was_not_given) {
	enum { EACH = 7, KEPT = 2 * EACH };
	bool ran_out = true;
	long allocation = 0;
	for (; ran_out; allocation++) {
		desk d = desk_with_records();
		struct ArrowSchema schema;
		struct ArrowArray array;
		CHECK_EQ(wk_reader_next_arrow(d.reader, EACH, 1 << 20, 0, &schema, &array, NULL), WK_OK);
		release(&schema, &array);
		let_memory_run_out(allocation, 1);
		bool failed = wk_reader_next_arrow(d.reader, EACH, 1 << 20, 0, &schema, &array, NULL) != WK_OK;
		ran_out = memory_ran_out();
		int64_t given = EACH + (failed ? 0 : array.length); /* or only part of a batch */
		if (!failed)
			release(&schema, &array);
		wk_position kept;
		CHECK_EQ(wk_log_find(d.log, WK_FIND_SEQUENCE_ID, KEPT, NULL, &kept, NULL), WK_OK);
		CHECK_EQ(wk_log_truncate(d.log, &kept.dlsn, false, NULL), WK_OK);
		wk_status status = wk_reader_next_arrow(d.reader, EACH, 1 << 20, 0, &schema, &array, NULL);
		CHECK_EQ(status, given < KEPT ? WK_TRUNCATED : WK_OK);
		if (status == WK_OK) {
			check_array(&array, KEPT);
			release(&schema, &array);
		}
		leave_desk(&d);
	}
	CHECK(allocation > 8);
}

int main(void) {
	RUN(batches_hold_each_record_once_and_in_order);
	RUN(a_column_that_was_moved_out_lives_by_itself);
	RUN(a_batch_that_found_no_memory_is_given_the_next_time);
	RUN(a_truncated_batch_that_found_no_memory_was_not_given);
	return check_done();
}
