/*
 * test_follower_no_memory.c: memory runs out while a follower hears of changes of the catalogue, at each allocation. Once
 * there is enough again it knows what the writer knows.
 */
/* ctest labels: one-thread */
#include "engine/manual.h"
#include "scarce_memory.h"
#include "small_directory.h"

enum { ALLOCATIONS_MAX = 400, MANY = 1000000, LOOKS = 100, LOOK_MS = 40 };

static wk_log *log_of(wk_namespace *ns, const char *name) {
	wk_log *log = NULL;
	CHECK_EQ(wk_log_open(ns, name, strlen(name), false, NULL, &log, NULL), WK_OK);
	return log;
}

/* Are these the logs? Each name has a NUL behind it. */
static bool knows_names(wk_namespace *ns, const char *expected, size_t expected_size) {
	char *names = NULL;
	size_t size;
	uint64_t count;
	wk_error error = {0};
	check_ok(wk_log_names(ns, "", 0, &names, &size, &count, &error), &error, "listing names");
	bool known = size == expected_size && memcmp(names, expected, size) == 0;
	wk_free(names);
	return known;
}

/* One look fails for want of memory at this allocation, and at all that follow in it. False: it needed fewer. */
static bool look_without_memory(long number) {
	static const char names[] = "moved\0new";
	char path[64];
	strcpy(path, temporary());
	make_small(path, 10);
	wk_namespace *ns = NULL, *follower = NULL;
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = WK_OPEN_MANUAL; /* no thread of the writer is to be short of memory */
	CHECK_EQ(wk_open(path, &options, &ns, NULL), WK_OK);
	wk_log *log = log_named(ns, "log"), *followed;
	options.read_only = true;
	CHECK_EQ(wk_open(path, &options, &follower, NULL), WK_OK);
	followed = log_of(follower, "log");
	wk_position at;
	CHECK_EQ(wk_log_find(log, WK_FIND_SEQUENCE_ID, 5, NULL, &at, NULL), WK_OK);
	CHECK_EQ(wk_cursor_set(log, "cursor", 6, &at, NULL), WK_OK);
	CHECK_EQ(wk_log_truncate(log, &at.dlsn, false, NULL), WK_OK);
	CHECK_EQ(wk_log_rename(ns, "log", 3, "moved", 5, NULL), WK_OK);
	wk_log *made = log_named(ns, "new");
	sheltered = 0;
	let_memory_run_out(number, MANY);
	wk_log_info info;
	wk_log_describe(followed, &info, NULL);
	bool ran_out = refusals_left < MANY;
	refusals_left = 0;
	for (int i = 0; i < LOOKS && !knows_names(follower, names, sizeof names); i++)
		nap_ms(LOOK_MS); /* it need not try again at once */
	CHECK(knows_names(follower, names, sizeof names));
	wk_error error = {0};
	check_ok(wk_log_describe(followed, &info, &error), &error, "describing");
	CHECK_EQ(info.first.sequence_id, 5);
	wk_position found;
	wk_status status =
	    WK_NOT_FOUND; /* the cursor is older than the names that it knows: but it may have all the time it wants */
	for (int i = 0; i < LOOKS && status != WK_OK; i++, nap_ms(status != WK_OK ? LOOK_MS : 0))
		status = wk_cursor_get(followed, "cursor", 6, &found, &error);
	if (status != WK_OK)
		printf("allocation %ld: ", number);
	check_ok(status, &error, "asking for the cursor");
	CHECK_EQ(found.sequence_id, 5);
	wk_log_release(followed);
	CHECK_EQ(wk_close(follower, UINT64_MAX, NULL), WK_OK);
	wk_log_release(made);
	close_all(ns, log, NULL);
	remove_tree(path);
	return ran_out;
}

/* Each allocation of the look fails in turn; the look says whether one did. */
static void without_each_allocation(bool (*look)(long number)) {
	long number = 0;
	while (number < ALLOCATIONS_MAX && look(number))
		number++;
	CHECK(number > 0 && number < ALLOCATIONS_MAX);
}

TEST(a_follower_that_had_no_memory_for_a_change_hears_of_it_later) {
	without_each_allocation(look_without_memory);
}

/* The same while it hears of the first record of a log. */
static bool look_for_a_record_without_memory(long number) {
	char path[64];
	strcpy(path, temporary());
	make_small(path, 10);
	wk_namespace *ns = NULL, *follower = NULL;
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = WK_OPEN_MANUAL;
	CHECK_EQ(wk_open(path, &options, &ns, NULL), WK_OK);
	wk_log_release(log_named(ns, "empty"));
	options.read_only = true;
	CHECK_EQ(wk_open(path, &options, &follower, NULL), WK_OK);
	wk_log *log = log_named(ns, "empty"), *followed = log_of(follower, "empty");
	wk_writer *writer = writer_of(log);
	wk_log_info info;
	CHECK_EQ(wk_log_describe(followed, &info, NULL), WK_OK);
	append_one(writer);
	let_memory_run_out(number, MANY);
	wk_log_describe(followed, &info, NULL);
	bool ran_out = refusals_left < MANY;
	refusals_left = 0;
	for (int i = 0; i < LOOKS && info.next.sequence_id != 1; i++, nap_ms(info.next.sequence_id != 1 ? LOOK_MS : 0)) {
		wk_error error = {0};
		check_ok(wk_log_describe(followed, &info, &error), &error, "describing");
	}
	if (info.next.sequence_id != 1)
		printf("allocation %ld: ", number);
	CHECK_EQ(info.next.sequence_id, 1);
	wk_log_release(followed);
	CHECK_EQ(wk_close(follower, UINT64_MAX, NULL), WK_OK);
	close_all(ns, log, writer);
	remove_tree(path);
	return ran_out;
}

TEST(a_follower_that_had_no_memory_for_a_first_record_shows_it_later) {
	without_each_allocation(look_for_a_record_without_memory);
}

int main(void) {
	RUN(a_follower_that_had_no_memory_for_a_first_record_shows_it_later);
	RUN(a_follower_that_had_no_memory_for_a_change_hears_of_it_later);
	return check_done();
}
