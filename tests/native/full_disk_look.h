/*
 * full_disk_look.h: all that a store holds, compared with what it promised. What is found from an open on is promised.
 */
#ifndef FULL_DISK_LOOK_H
#define FULL_DISK_LOOK_H
#include "full_disk_stores.h"

static inline wk_status read_entry(churn *c, size_t h, int64_t id) {
	wk_entry_batch *batch = NULL;
	wk_error error = {0};
	size_t n;
	wk_status status = wk_ledger_read(c->ns, (int64_t)h, id, 1, 1 << 20, &batch, &error);
	if (status != WK_OK && status != WK_NOT_FOUND && status != WK_NO_LEDGER)
		check_ok(status, &error, "an entry is read");
	if (status == WK_OK) {
		const wk_stored_entry *entries = wk_entry_batch_entries(batch, &n);
		CHECK_EQ(n, 1);
		check_bytes(c, h, id, entries[0].bytes, entries[0].size);
		wk_entry_batch_release(batch);
	}
	return status;
}

/* What a ledger holds, after an open: then that is promised. */
static inline void look_at_ledger(churn *c, size_t h) {
	holder *at = &c->holders[h];
	bool known = is_known(c->ns, (int64_t)h);
	CHECK(!known || at->possible > 0);
	CHECK(known || at->promised == 0 || at->deleting);
	if (!known) {
		if (at->possible > 0)
			forget(c, h);
		return;
	}
	int64_t there = (int64_t)entries_of(c->ns, (int64_t)h);
	if (there < at->promised || there > at->possible)
		printf("ledger %zu: %lld of %lld to %lld\n", h, (long long)there, (long long)at->promised,
		       (long long)at->possible);
	CHECK(there >= at->promised && there <= at->possible);
	while (at->possible > there)
		count(c, h, --at->possible, false);
	for (int64_t id = 0; id < there; id++)
		CHECK_EQ(read_entry(c, h, id), WK_OK);
	CHECK_EQ(read_entry(c, h, there), WK_NOT_FOUND);
	at->promised = there;
	at->deleting = false;
}

static inline void look_at_log(churn *c, size_t h) {
	holder *at = &c->holders[h];
	wk_error error = {0};
	wk_log_info info;
	wk_reader *reader = NULL;
	if (at->log == NULL) {
		wk_status status = open_log(c, h, false, &error);
		if (status == WK_NOT_FOUND)
			CHECK(!at->exists);
		else
			check_ok(status, &error, "the log is there");
		if (!at->exists)
			return;
	}
	check_ok(wk_log_describe(at->log, &info, &error), &error, "the log is described");
	CHECK(info.next.sequence_id >= at->promised && info.next.sequence_id <= at->possible);
	CHECK_EQ(info.first.sequence_id, at->first);
	while (at->possible > info.next.sequence_id)
		count(c, h, --at->possible, false);
	at->promised = at->possible;
	check_ok(wk_reader_open(at->log, NULL, &reader, &error), &error, "the reader opens");
	int64_t id = at->first;
	wk_batch *batch;
	wk_status status;
	while ((status = wk_reader_next(reader, 1000, 1 << 20, 0, &batch, &error)) == WK_OK) {
		size_t n;
		const wk_record *records = wk_batch_records(batch, &n);
		for (size_t i = 0; i < n; i++, id++) {
			CHECK_EQ(records[i].at.sequence_id, id);
			check_bytes(c, h, id, records[i].payload, records[i].size);
		}
		wk_batch_release(batch);
	}
	CHECK_EQ(status, WK_END);
	CHECK_EQ(id, at->possible);
	wk_reader_release(reader);
}

static inline void look(churn *c) {
	for (size_t h = 0; h < c->holders_count; h++)
		c->ledgers ? look_at_ledger(c, h) : look_at_log(c, h);
}
#endif
