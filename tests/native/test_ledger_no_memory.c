/*
 * test_ledger_no_memory.c: memory runs out in the middle of a change of a ledger store: each of its allocations fails,
 * one after the other. A change that was refused for it left nothing behind, its key neither.
 */
/* ctest labels: one-thread */
#include "ledger_store.h"
#include "scarce_memory.h"
#include "small_directory.h"

enum { LEDGER = 7, ALLOCATIONS_MAX = 100 };

static wk_namespace *open_real(const char *path) {
	wk_open_options options = store_options();
	options.backend = WK_BACKEND_PSYNC;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open(path, &options, &ns, &error), &error, "the store opens");
	return ns;
}

static wk_status small_add(wk_namespace *ns) {
	return add_version(ns, LEDGER, 0, 1, 0, NULL);
}

static wk_status put_fence(wk_namespace *ns) {
	return wk_ledger_fence(ns, LEDGER, KEY, sizeof KEY - 1, UINT64_MAX, NULL, NULL);
}

static wk_status put_lac(wk_namespace *ns) {
	return wk_ledger_set_lac(ns, LEDGER, KEY, sizeof KEY - 1, "lac", 3, UINT64_MAX, NULL, NULL);
}

static wk_status (*const changes[])(wk_namespace *) = {small_add, put_fence, put_lac};

/* Nothing is known of the ledger: its key may be another one. */
static void check_nothing_is_there(wk_namespace *ns) {
	CHECK_EQ(wk_ledger_force(ns, LEDGER, UINT64_MAX, NULL, NULL), WK_NO_LEDGER);
	uint8_t bytes[ENTRY_SIZE_MAX];
	wk_add add = an_add(bytes, fill_entry(LEDGER, 0, 1, bytes), 0);
	add.key = OTHER_KEY;
	add.key_size = sizeof OTHER_KEY - 1;
	CHECK_EQ(wk_ledger_add(ns, &add, 1, UINT64_MAX, true, NULL), WK_OK);
}

static void check_is_there(wk_namespace *ns, wk_status (*change)(wk_namespace *)) {
	wk_error error = {0};
	uint64_t version;
	if (change == small_add) {
		CHECK(read_version(ns, LEDGER, 0, &version, &error));
		CHECK_EQ(version, 1);
	}
	CHECK_EQ(add_version(ns, LEDGER, 1, 2, 0, NULL), change == put_fence ? WK_FENCED : WK_OK);
}

/* false: the change makes no such allocation. */
static bool runs_out(wk_status (*change)(wk_namespace *), long allocation, bool again) {
	char path[64];
	strcpy(path, temporary());
	wk_namespace *ns = open_real(path);
	let_memory_run_out(allocation, 1);
	wk_status status = change(ns);
	bool ran_out = memory_ran_out();
	bool refused = status == WK_NO_MEMORY;
	CHECK(status == WK_OK || (ran_out && (refused || status == WK_FAILED)));
	if (refused && again) {
		CHECK_EQ(change(ns), WK_OK);
		status = WK_OK;
	}
	wk_close(ns, UINT64_MAX, NULL);
	ns = open_real(path);
	if (status == WK_OK)
		check_is_there(ns, change);
	else if (refused)
		check_nothing_is_there(ns);
	close_store(ns);
	remove_tree(path);
	return ran_out;
}

static void run_out_of_each(bool again) {
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		long allocation = 0;
		while (runs_out(changes[i], allocation, again))
			CHECK(++allocation < ALLOCATIONS_MAX);
		CHECK(allocation > 0);
	}
}

TEST(a_change_that_found_no_memory_can_be_made_again) {
	run_out_of_each(true);
}

TEST(a_change_that_found_no_memory_leaves_nothing_behind) {
	run_out_of_each(false);
}

int main(void) {
	RUN(a_change_that_found_no_memory_can_be_made_again);
	RUN(a_change_that_found_no_memory_leaves_nothing_behind);
	return check_done();
}
