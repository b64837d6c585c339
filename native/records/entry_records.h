/*
 * entry_records.h: the records in a log's entry: envelope opened, decompressed where needed. Private.
 */
#ifndef WK_ENGINE_ENTRY_RECORDS_H
#define WK_ENGINE_ENTRY_RECORDS_H
#include "records/buffer.h"
#include "records/error.h"
#include "walkeeper/record.h"

typedef struct wk_entry_records {
	wk_buffer *buffer;    /* what the records point into, held */
	const uint8_t *bytes; /* records back to back */
	size_t size;
	size_t at;    /* of the next one */
	int64_t slot; /* its number */
	bool compressed;
} wk_entry_records;

/* `entry` (36 bytes of header and the envelope) stands in `buffer`. Verified already by its digest. */
wk_status wk_entry_records_open(wk_entry_records *records, wk_buffer *buffer, const uint8_t *entry, size_t size);
/*
 * Payload of a segment's records up to the last one of this entry, which has this position: from the length in the
 * entry's header, which counts heads of envelopes and of records too. Where they are compressed, it is what they take.
 */
int64_t wk_segment_payload(const uint8_t *entry, const wk_entry_records *records, int64_t position);
/* WK_END behind the last. */
wk_status wk_entry_records_next(wk_entry_records *records, wk_log_record *record);
void wk_entry_records_close(wk_entry_records *records);
#endif
