/* append_rules.c: sizes and txids of appends, and how much of a batch is durable. */
#include "records/append_rules.h"

#include "records/error.h"
#include "walkeeper/record.h"

wk_status wk_append_check_size(size_t size, wk_error *error) {
	if (size + WK_RECORD_HEADER_SIZE <= WK_RECORD_SIZE_MAX)
		return WK_OK;
	return wk_fail(error, WK_TOO_LARGE,
	               "append: a record may have %d bytes, this one has %zu; nothing was written. Split it, or keep it "
	               "elsewhere and append its place",
	               WK_RECORD_SIZE_MAX - WK_RECORD_HEADER_SIZE, size);
}

wk_status wk_append_check_many(const uint32_t *sizes, size_t count, const int64_t *txids, wk_error *error) {
	wk_status status = count > 0 ? WK_OK : wk_fail(error, WK_INVALID, "append_many: no records");
	for (size_t i = 0; i < count && status == WK_OK; i++)
		status = wk_append_check_size(sizes[i], error);
	for (size_t i = 0; txids != NULL && i < count && status == WK_OK; i++)
		if (txids[i] < 0 || txids[i] == INT64_MAX || (i > 0 && txids[i] < txids[i - 1]))
			status = wk_fail(
			    error, WK_TXID,
			    "append_many: txid %lld of record %zu is out of range or below the one before it; nothing was written",
			    (long long)txids[i], i);
	return status;
}

wk_status wk_append_check_atomic(const uint32_t *sizes, size_t count, size_t *total, wk_error *error) {
	*total = 0;
	for (size_t i = 0; i < count; i++)
		*total += (size_t)sizes[i] + WK_RECORD_HEADER_SIZE;
	if (*total <= WK_ENVELOPE_SIZE_MAX)
		return WK_OK;
	return wk_fail(
	    error, WK_TOO_LARGE,
	    "append_many(atomic): %zu records of %zu bytes with their heads; one entry holds %d. Nothing was written",
	    count, *total, WK_ENVELOPE_SIZE_MAX);
}

wk_status wk_append_check_txid(const char *log, uint32_t source, int64_t last, int64_t txid, wk_error *error) {
	bool clock = txid == -1;
	if (txid < -1 || txid == INT64_MAX)
		return wk_fail(
		    error, WK_TXID,
		    "append to log %s: a txid is 0 or more, and below 2^63 - 1 (the end of the stream); nothing was written",
		    log);
	if (source != WK_TXID_UNSET && clock != (source == WK_TXID_CLOCK))
		return wk_fail(error, WK_TXID,
		               "append to log %s: its txids are %s, as its first record said; nothing was written", log,
		               clock ? "the application's: give one" : "the clock's: give none");
	if (!clock && txid < last)
		return wk_fail(error, WK_TXID, "append to log %s: txid %lld is below the last one, %lld; nothing was written",
		               log, (long long)txid, (long long)last);
	return WK_OK;
}

void wk_append_report_prefix(wk_error *error, const wk_position *first, int64_t durable, size_t accepted) {
	if (error == NULL || accepted == 0)
		return;
	int64_t count = durable - first->sequence_id + 1;
	error->durable_count = count < 0 ? 0 : (uint64_t)count < accepted ? (uint64_t)count : accepted;
	error->sequence_id = first->sequence_id;
	error->outcome_unknown = true;
}
