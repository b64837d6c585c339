/*
 * expected_records.h: what a reader gives is data records one after another, each with the bytes that follow from its
 * log and sequence id.
 */
#ifndef EXPECTED_RECORDS_H
#define EXPECTED_RECORDS_H
#include "check.h"
#include "walkeeper/log.h"

typedef struct payload_rule {
	size_t log; /* for the two below */
	size_t (*size_of)(size_t log, int64_t sequence_id);
	const uint8_t *(*payload_of)(size_t log, int64_t sequence_id); /* good until the next call */
} payload_rule;

/* Reads from `*expected` on to the end; *expected is then the sequence id behind the last record. What ended it. */
static inline wk_status read_expected(wk_reader *reader, const payload_rule *rule, int64_t *expected, wk_error *error) {
	wk_batch *batch;
	wk_status status;
	while ((status = wk_reader_next(reader, 1000, 1 << 20, 0, &batch, error)) == WK_OK) {
		size_t count;
		const wk_record *records = wk_batch_records(batch, &count);
		for (size_t i = 0; i < count; i++, ++*expected) {
			CHECK_EQ(records[i].kind, WK_RECORD_DATA);
			CHECK_EQ(records[i].at.sequence_id, *expected);
			CHECK_EQ(records[i].size, rule->size_of(rule->log, *expected));
			const uint8_t *payload = rule->payload_of(rule->log, *expected);
			CHECK(memcmp(records[i].payload, payload, records[i].size) == 0);
		}
		wk_batch_release(batch);
	}
	return status;
}

/* The whole log, as it was described. */
static inline void check_records(wk_log *log, const wk_log_info *info, const payload_rule *rule) {
	wk_reader *reader = NULL;
	CHECK_EQ(wk_reader_open(log, NULL, &reader, NULL), WK_OK);
	int64_t expected = info->first.sequence_id;
	CHECK_EQ(read_expected(reader, rule, &expected, NULL), WK_END);
	CHECK_EQ(expected, info->next.sequence_id);
	wk_reader_release(reader);
}
#endif
