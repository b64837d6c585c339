/*
 * test_dying_file.c: while a file is given away, without the lock, a reader comes for an entry that the file held once:
 * nobody takes hold of it any more.
 */
#include "ledger_store.h"
#include "stalling_disk.h"
#include <pthread.h>

static wk_namespace *store;
static char dying[32]; /* the name of its file */
static pthread_t reader;
static bool came;

static void *read_slowly(void *unused) {
	(void)unused;
	reads_slowly = true;
	wk_entry_batch *batch = NULL;
	wk_error error = {0};
	check_ok(wk_ledger_read(store, 1, 0, 1, 1000, &batch, &error), &error, "the read");
	wk_entry_batch_release(batch);
	return NULL;
}

static int unlink_beside_a_reader(wk_io *io, const char *path) {
	if (strstr(path, dying) != NULL && !came) {
		came = true;
		CHECK_EQ(pthread_create(&reader, NULL, read_slowly, NULL), 0);
		while (!atomic_load(&reading))
			nap_ms(1);
	}
	return plain_operations->unlink(io, path);
}

static void add_bytes(int64_t ledger_id, int64_t entry_id, size_t size) {
	static uint8_t bytes[4096];
	wk_store_be64(bytes, (uint64_t)ledger_id);
	wk_store_be64(bytes + 8, (uint64_t)entry_id);
	wk_add add = {.bytes = bytes, .size = (uint32_t)size};
	wk_error error = {0};
	check_ok(wk_ledger_add(store, &add, 1, UINT64_MAX, true, &error), &error, "the add");
}

static void fill_active(int64_t ledger_id, int64_t *next) {
	uint64_t file = store->engine->active->id;
	while (store->engine->active->id == file)
		add_bytes(ledger_id, (*next)++, 3000);
}

TEST(a_reader_finds_no_file_that_is_being_given_away) {
	char place[64], path[80], from[160], to[96];
	snprintf(place, sizeof place, "%s", temporary());
	snprintf(path, sizeof path, "%s/store", place);
	wk_io *io = stalling_disk();
	stalling_operations.unlink = unlink_beside_a_reader;
	wk_open_options options = store_options();
	options.file_size_max = options.file_size_min;
	options.memtable_bytes = 4096;
	options.sort_memory = UINT64_MAX; /* what is sorted is read beforehand */
	options.cache_bytes = 8192; /* room for the pages that a look-up needs, so that the first read is of the entry */
	wk_error error = {0};
	check_ok(wk_open_on(io, path, &options, &store, &error), &error, "the store opens");
	add_bytes(1, 0, 100);
	uint64_t first = store->engine->active->id;
	snprintf(dying, sizeof dying, "%016llx.wkj", (unsigned long long)first);
	snprintf(from, sizeof from, "%s/journal/%s", path, dying);
	snprintf(to, sizeof to, "%s/second", place);
	CHECK_EQ(link(from, to), 0); /* so that it goes without a footer, and keeps its ranges open */
	int64_t next = 0;
	fill_active(2, &next);
	work(store);
	CHECK(wk_store_file_find(store->engine, first)->footer_failed);
	add_bytes(1, 0,
	          100); /* again, and a later one: a newer range with a hole, behind which the old one is looked for */
	add_bytes(1, 2, 100);
	fill_active(3, &next);
	for (int i = 0; i < 12; i++)
		add_bytes(3, next++, 3000);
	work(store);
	CHECK_EQ(wk_store_file_find(store->engine, first)->live_entries > 0, true);
	CHECK_EQ(wk_ledger_delete(store, 2, UINT64_MAX, NULL, NULL), WK_OK);
	work(store);
	CHECK(came);
	CHECK(wk_store_file_find(store->engine, first) == NULL);
	atomic_store(&may_read, true);
	CHECK_EQ(pthread_join(reader, NULL), 0);
	wk_abandon(store);
	/* The numbers of its blocks are missing from the journal, and that is accounted for. */
	check_ok(wk_open_on(io, path, &options, &store, &error), &error, "the store opens again");
	CHECK(is_known(store, 1));
	close_store(store);
	plain_operations->destroy(io);
	remove_tree(place);
}

int main(void) {
	RUN(a_reader_finds_no_file_that_is_being_given_away);
	return check_done();
}
