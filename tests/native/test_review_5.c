/* test_review_5.c: memory runs out in the middle of an Arrow read. The reader can be asked again, and skips nothing. */
#include "small_directory.h"

#include "scarce_memory.h"

/* walkeeper/log.h names them only; the Arrow C data interface lays them down. */
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

TEST(an_arrow_read_that_found_no_memory_skips_nothing) {
	const char *path = temporary();
	make_small(path, 3);
	wk_namespace *ns = open_small(path);
	wk_log *log = log_named(ns, "log");
	for (long number = 0, met = true; met; number++) {
		wk_reader *reader = NULL;
		CHECK_EQ(wk_reader_open(log, NULL, &reader, NULL), WK_OK);
		struct ArrowSchema schema;
		struct ArrowArray array;
		let_memory_run_out(number, 1);
		wk_status status = wk_reader_next_arrow(reader, 1, 1 << 20, 0, &schema, &array, NULL);
		met = memory_ran_out();
		if (status != WK_OK) {
			CHECK_EQ(status, WK_NO_MEMORY);
			CHECK_EQ(wk_reader_next_arrow(reader, 1, 1 << 20, 0, &schema, &array, NULL), WK_OK);
		}
		CHECK_EQ(array.length, 1);
		CHECK_EQ(((const int64_t *)array.children[3]->buffers[1])[0], 0); /* its sequence id */
		array.release(&array);
		schema.release(&schema);
		wk_reader_release(reader);
	}
	close_all(ns, log, NULL);
	remove_tree(path);
}

int main(void) {
	RUN(an_arrow_read_that_found_no_memory_skips_nothing);
	return check_done();
}
