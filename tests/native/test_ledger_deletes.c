/*
 * test_ledger_deletes.c: many ledgers that were deleted, while copies of their entries may turn up: each is told by
 * itself, and none costs a look at all the others.
 */
#include "ledger_store.h"

#include "engine/ledger/ledger_delete.h"
#include <time.h>

enum { DELETED = 200 * 1000, SECONDS_MAX = 5 };

static void delete_one(wk_engine *engine, wk_store_file *file, int64_t ledger_id, uint64_t sequence) {
	wk_footer_state record = {.ledger_id = ledger_id, .type = WK_BLOCK_DELETE, .size = WK_DELETE_DATA_SIZE};
	wk_store_le64(record.data, sequence);
	CHECK_EQ(wk_ledger_delete_apply(engine, file, &record), WK_OK);
}

/* As an open finds them: no file is active yet. Tens of seconds where each is compared with each. */
TEST(many_deleted_ledgers_are_told_at_once) {
	static wk_engine engine;
	wk_store_file file = {.id = 1};
	clock_t begun = clock();
	for (int64_t i = 0; i < DELETED; i++)
		delete_one(&engine, &file, 3 * i, 10 + (uint64_t)i);
	delete_one(&engine, &file, 3, DELETED + 100); /* made anew, and deleted once more */
	delete_one(&engine, &file, 6, 1);
	for (int64_t i = 0; i < DELETED; i++) {
		uint64_t last = i == 1 ? DELETED + 100 : 10 + (uint64_t)i;
		CHECK(wk_ledger_deleted_since(&engine, 3 * i, last - 1));
		CHECK(!wk_ledger_deleted_since(&engine, 3 * i, last));
		CHECK(!wk_ledger_deleted_since(&engine, 3 * i + 1, 0));
	}
	CHECK((clock() - begun) / CLOCKS_PER_SEC < SECONDS_MAX);
	CHECK_EQ(file.last_delete, DELETED + 100);
	wk_ledger_deletes_free(&engine);
	CHECK(!wk_ledger_deleted_since(&engine, 3, 0));
}

int main(void) {
	RUN(many_deleted_ledgers_are_told_at_once);
	return check_done();
}
