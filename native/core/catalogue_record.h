/*
 * catalogue_record.h: what the entries of ledger 0 hold: the changes of a directory's logs (docs/formats/catalogue.md). Pure.
 *
 * The payload of an entry of ledger 0 is records back to back: uint32 size of the body, uint8 type, 3 zero bytes, body. Little-endian. Together the records of a
 * snapshot rebuild the whole catalogue; those behind it change it.
 *
 *   CREATE    log id, segment_bytes, segment_seconds, retention_seconds, codec, txid source, flags, next segment, name
 *   SEGMENT   log id, segment, ledger, first sequence id, first txid, created_ms
 *   COMPLETE  log id, segment, records count, last entry, last slot, last txid, payload bytes
 *   TRUNCATE  log id, segment, entry id, slot, sequence id, txid
 *   CURSOR    log id, segment, entry id, slot, sequence id, txid, name       UNCURSOR  log id, name
 *   DELETE    log id                                                         RENAME    log id, name
 *   SOURCE    log id, txid source, flags (1: end of stream)
 *   GAP       log id, first sequence id, count, segment, entry id
 *   COUNTERS  next log id, next ledger id      (first record of a snapshot: everything before it is forgotten)
 */
#ifndef WK_CORE_CATALOGUE_RECORD_H
#define WK_CORE_CATALOGUE_RECORD_H
#include "walkeeper/core.h"
#include "walkeeper/record.h"

enum wk_catalogue_type {
	WK_CATALOGUE_CREATE = 1,
	WK_CATALOGUE_SEGMENT = 2,
	WK_CATALOGUE_COMPLETE = 3,
	WK_CATALOGUE_TRUNCATE = 4,
	WK_CATALOGUE_CURSOR = 5,
	WK_CATALOGUE_UNCURSOR = 6,
	WK_CATALOGUE_DELETE = 7,
	WK_CATALOGUE_RENAME = 8,
	WK_CATALOGUE_SOURCE = 9,
	WK_CATALOGUE_GAP = 10,
	WK_CATALOGUE_COUNTERS = 11,
};

enum { WK_CATALOGUE_RECORD_MAX = 8 + 14 * 8 + 256, WK_CATALOGUE_FLAG_END_OF_STREAM = 1 };

/* One struct for all types; a field that a type does not have is 0 when decoded and ignored when encoded. */
typedef struct wk_catalogue_record {
	uint32_t type;
	uint64_t log_id;
	uint64_t segment_bytes;
	uint64_t segment_seconds;
	uint64_t retention_seconds;
	uint64_t codec;
	uint64_t txid_source;
	uint64_t flags;
	uint64_t created_ms;
	int64_t segment; /* CREATE: the number its next segment gets */
	int64_t ledger_id;
	int64_t entry_id;      /* COMPLETE: the last; GAP: the first of those that are lost */
	int64_t last_entry_id; /* GAP: the last of them */
	int64_t slot;
	int64_t sequence_id; /* SEGMENT, GAP: the first */
	int64_t txid;        /* SEGMENT: the first, -1 unknown; COMPLETE: the last */
	int64_t count;       /* COMPLETE: records; GAP: lost */
	int64_t payload_bytes;
	uint64_t next_log_id;
	uint64_t next_ledger_id;
	const char *name; /* points into the bytes decoded */
	size_t name_size;
} wk_catalogue_record;

/* Writes the record; returns its size, at most WK_CATALOGUE_RECORD_MAX. */
size_t wk_catalogue_encode(const wk_catalogue_record *record, uint8_t *bytes);
/* The record at bytes[0], its size in *consumed. WK_CORRUPT; WK_END where size is 0; WK_UNSUPPORTED for a type of a newer version. */
wk_status wk_catalogue_decode(const uint8_t *bytes, size_t size, wk_catalogue_record *record, size_t *consumed);
#endif
