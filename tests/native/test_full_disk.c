/*
 * test_full_disk.c: the disk fills up, appends are refused, nothing acknowledged is lost, truncation still works, and
 * appends go on by themselves once there is space again.
 */
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

int main(void) {
	RUN(a_full_disk_refuses_appends_and_loses_nothing);
	RUN(truncation_on_a_full_disk_makes_room_and_appends_go_on);
	RUN(appends_go_on_when_somebody_else_makes_room);
	return check_done();
}
