/*
 * test_full_disk.c: the disk fills up, appends are refused, nothing acknowledged is lost, truncation still works, and
 * appends go on by themselves once there is space again.
 */
/* ctest labels: one-thread */
#include "engine/manual.h"
#include "sim/faulty.h"
#include "workload.h"

enum { CAPACITY = 3 * 1024 * 1024, PAYLOAD = 20 * 1024, APPENDS_MAX = 2000 };

static wk_status append_some(workload *w, int64_t *acknowledged) {
	static uint8_t payload[PAYLOAD];
	wk_append_options options;
	wk_append_options_init(&options);
	wk_position at;
	wk_status status = wk_writer_append(w->writers[0], payload, sizeof payload, &options, &at, &w->error);
	if (status == WK_OK)
		*acknowledged = at.sequence_id + 1;
	return status;
}

static void let_the_keeper_work(workload *w) {
	bool idle = false;
	for (int i = 0; i < 50; i++) {
		wk_faulty_advance(w->disk, 1000000000);
		CHECK_EQ(wk_namespace_step(w->ns, &idle, NULL), WK_OK);
	}
}

static void fill_up(workload *w, uint64_t seed, int64_t *acknowledged) {
	make_disk(w, seed);
	CHECK(open_logs(w));
	let_the_keeper_work(w);
	wk_faulty_set_capacity(w->disk, CAPACITY);
	wk_status status = WK_OK;
	for (int i = 0; i < APPENDS_MAX && status == WK_OK; i++) {
		status = append_some(w, acknowledged);
		if (status == WK_OK && i % 8 == 0)
			let_the_keeper_work(w);
	}
	CHECK_EQ(status, WK_NO_SPACE);
	CHECK(!w->error.outcome_unknown);
	CHECK(*acknowledged > 20);
}

static int64_t count_of(workload *w) {
	wk_log_info info;
	CHECK_EQ(wk_log_describe(w->logs[0], &info, NULL), WK_OK);
	return info.count;
}

static void finish(workload *w) {
	abandon(w);
	w->io->operations->destroy(w->io);
}

TEST(a_full_disk_refuses_appends_and_loses_nothing) {
	static workload w;
	int64_t acknowledged = 0;
	fill_up(&w, 1, &acknowledged);
	wk_stats stats;
	wk_namespace_stats(w.ns, &stats);
	CHECK(stats.disk_full);
	CHECK(!stats.failed);
	CHECK_EQ(count_of(&w), acknowledged);
	abandon(&w);
	wk_faulty_crash(w.disk, 1);
	CHECK(open_logs(&w)); /* the disk is still full */
	CHECK_EQ(count_of(&w), acknowledged);
	finish(&w);
}

TEST(truncation_on_a_full_disk_makes_room_and_appends_go_on) {
	static workload w;
	int64_t acknowledged = 0;
	fill_up(&w, 2, &acknowledged);
	for (int i = 0; i < 5; i++) { /* again and again: the reserve is filled up again */
		wk_position at;
		CHECK_EQ(wk_log_find(w.logs[0], WK_FIND_SEQUENCE_ID, acknowledged, NULL, &at, NULL), WK_OK);
		CHECK_EQ(wk_log_truncate(w.logs[0], &at.dlsn, true, &w.error), WK_OK);
		let_the_keeper_work(&w);
		int64_t before = acknowledged;
		wk_status status = WK_OK;
		for (int k = 0; k < APPENDS_MAX && status == WK_OK; k++) {
			status = append_some(&w, &acknowledged);
			if (status == WK_OK && k % 8 == 0)
				let_the_keeper_work(&w);
		}
		CHECK_EQ(status, WK_NO_SPACE);
		CHECK(acknowledged > before + 10);
	}
	finish(&w);
}

TEST(appends_go_on_when_somebody_else_makes_room) {
	static workload w;
	int64_t acknowledged = 0;
	fill_up(&w, 3, &acknowledged);
	wk_faulty_set_capacity(w.disk, 10 * (uint64_t)CAPACITY);
	let_the_keeper_work(&w);
	CHECK_EQ(append_some(&w, &acknowledged), WK_OK);
	CHECK_EQ(count_of(&w), acknowledged);
	finish(&w);
}

/* ---- the largest records, small files ---- */

enum { LARGEST = WK_RECORD_SIZE_MAX - WK_RECORD_HEADER_SIZE, SMALL_CAPACITY = 8 * 1024 * 1024, ROUNDS = 6 };

/* Sizes of all kinds; some wait in the open block while the one before is on its way. */
static wk_status append_any(workload *w, size_t log, uint64_t *seed, int64_t *accepted) {
	static uint8_t payload[LARGEST];
	static const size_t sizes[] = {1, 100, 5000, 30 * 1024, 60 * 1024, 200 * 1024, LARGEST - 40000, LARGEST};
	size_t most = sizes[check_random(seed) % 8];
	wk_append_options options;
	wk_append_options_init(&options);
	options.durability = check_random(seed) % 3 == 0 ? WK_SYNC : WK_DEFERRED;
	wk_position at;
	wk_status status = wk_writer_append(w->writers[log], payload, most - check_random(seed) % (most / 2 + 1), &options,
	                                    &at, &w->error);
	if (status == WK_OK)
		*accepted = at.sequence_id + 1;
	return status;
}

/* Everything accepted becomes durable, whatever the disk says; the next failure would be final. */
static void all_is_well(workload *w, const int64_t accepted[LOGS]) {
	wk_stats stats;
	for (size_t i = 0; i < LOGS; i++) {
		wk_error error = {0};
		wk_log_info info;
		if (wk_writer_flush(w->writers[i], UINT64_MAX, NULL, &error) != WK_OK)
			printf("%s\n", error.text);
		CHECK_EQ(error.status, WK_OK);
		CHECK_EQ(wk_log_describe(w->logs[i], &info, NULL), WK_OK);
		CHECK_EQ(info.next.sequence_id, accepted[i]);
	}
	wk_namespace_stats(w->ns, &stats);
	CHECK(!stats.failed);
}

static void let_go(workload *w, size_t log, int64_t before) {
	wk_position at;
	wk_error error = {0};
	CHECK_EQ(wk_log_find(w->logs[log], WK_FIND_SEQUENCE_ID, before, NULL, &at, NULL), WK_OK);
	if (wk_cursor_set(w->logs[log], "cursor", 6, &at, &error) != WK_OK ||
	    wk_log_truncate(w->logs[log], &at.dlsn, true, &error) != WK_OK)
		printf("%s\n", error.text);
	CHECK_EQ(error.status, WK_OK);
}

/* A disk of its own for each, small enough to be full after some ten of the largest. */
static void fill_and_free(uint64_t seed, bool keeper_keeps_up) {
	static workload w;
	int64_t accepted[LOGS] = {0, 0};
	make_disk(&w, seed);
	CHECK(open_logs(&w));
	let_the_keeper_work(&w);
	wk_faulty_set_capacity(w.disk, SMALL_CAPACITY);
	for (int round = 0; round < ROUNDS; round++) {
		int64_t before = accepted[0] + accepted[1];
		int refused = 0;
		for (int i = 0; i < APPENDS_MAX && refused < 5; i++) {
			size_t log = check_random(&seed) % LOGS;
			wk_status status = append_any(&w, log, &seed, &accepted[log]);
			CHECK(status == WK_OK || (status == WK_NO_SPACE && !w.error.outcome_unknown));
			refused += status != WK_OK;
			if (keeper_keeps_up && i % 4 == 0)
				let_the_keeper_work(&w);
		}
		CHECK_EQ(refused, 5);
		CHECK(accepted[0] + accepted[1] > before);
		all_is_well(&w, accepted);
		for (size_t log = 0; log < LOGS; log++)
			let_go(&w, log, accepted[log]);
		let_the_keeper_work(&w);
		all_is_well(&w, accepted);
		if (round % 4 == 3) {
			abandon(&w);
			wk_faulty_crash(w.disk, seed);
			CHECK(open_logs(&w)); /* the disk may be as full as it was */
			let_the_keeper_work(&w);
			all_is_well(&w, accepted);
		}
	}
	finish(&w);
}

TEST(what_was_accepted_fits_the_reserve_whatever_its_size) {
	for (uint64_t seed = 1; seed <= 4; seed++)
		fill_and_free(seed, seed % 2 == 0);
}

/* ---- what the reserve is used up by ---- */

TEST(cursors_on_a_full_disk_leave_room_for_truncation) {
	static workload w;
	int64_t acknowledged = 0;
	fill_up(&w, 4, &acknowledged);
	wk_status status = WK_OK;
	wk_position at;
	CHECK_EQ(wk_log_find(w.logs[0], WK_FIND_SEQUENCE_ID, acknowledged, NULL, &at, NULL), WK_OK);
	int set = 0;
	for (; set < 1000 && status == WK_OK; set++)
		status = wk_cursor_set(w.logs[0], "cursor", 6, &at, &w.error);
	CHECK_EQ(status, WK_NO_SPACE);
	CHECK(!w.error.outcome_unknown);
	CHECK(set > 4);
	CHECK_EQ(wk_log_truncate(w.logs[0], &at.dlsn, true, &w.error), WK_OK);
	let_the_keeper_work(&w);
	CHECK_EQ(append_some(&w, &acknowledged), WK_OK);
	finish(&w);
}

/* ---- the mover's output ---- */

/* No file is empty after the truncation: only what the mover does makes room. */
TEST(compaction_runs_on_a_full_disk) {
	static workload w;
	static uint8_t payload[PAYLOAD];
	int64_t kept = 0;
	make_disk(&w, 5);
	CHECK(open_logs(&w));
	let_the_keeper_work(&w);
	wk_faulty_set_capacity(w.disk, CAPACITY);
	for (int round = 0; round < 4; round++) {
		wk_position at, last = {0};
		wk_status status = WK_OK;
		int64_t before = kept;
		for (int i = 0; i < APPENDS_MAX && status == WK_OK; i++) {
			status = wk_writer_append(w.writers[1], "kept", 4, NULL, &at, &w.error);
			kept += status == WK_OK;
			if (status == WK_OK)
				status = wk_writer_append(w.writers[0], payload, sizeof payload, NULL, &last, &w.error);
			if (i % 4 == 0)
				let_the_keeper_work(&w);
		}
		CHECK_EQ(status, WK_NO_SPACE);
		CHECK(kept > before + 10);
		CHECK_EQ(wk_log_truncate(w.logs[0], &last.dlsn, true, &w.error), WK_OK);
		wk_stats stats;
		wk_namespace_stats(w.ns, &stats);
		uint64_t compacted = stats.compacted_bytes;
		wk_faulty_set_capacity(w.disk, 1); /* no file gets a byte more, whatever is let go meanwhile */
		let_the_keeper_work(&w);
		wk_namespace_stats(w.ns, &stats);
		CHECK(stats.compacted_bytes > compacted);
		wk_faulty_set_capacity(w.disk, CAPACITY);
		let_the_keeper_work(&w);
	}
	wk_log_info info;
	CHECK_EQ(wk_log_describe(w.logs[1], &info, NULL), WK_OK);
	CHECK_EQ(info.count, kept);
	finish(&w);
}

int main(void) {
	RUN(a_full_disk_refuses_appends_and_loses_nothing);
	RUN(truncation_on_a_full_disk_makes_room_and_appends_go_on);
	RUN(appends_go_on_when_somebody_else_makes_room);
	RUN(what_was_accepted_fits_the_reserve_whatever_its_size);
	RUN(cursors_on_a_full_disk_leave_room_for_truncation);
	RUN(compaction_runs_on_a_full_disk);
	return check_done();
}
