/*
 * record.h: DistributedLog's record, entry envelope, record set and DLSN (docs/formats/record.md).
 *
 * Record:      0 int64 metadata (bits 0-15 flags, 16-47 position in the segment from 1, 48-63 zero)
 *              8 int64 txid   16 int32 payload size   20 payload
 * Envelope:    0 int8 version 1   1 int32 flags (low 2 bits codec)   5 int32 original size
 *              9 int32 stored size   13 the records back to back, perhaps compressed
 * Record set (payload of a record flagged WK_RECORD_SET):
 *              0 int32 metadata: 0x1000 | codec   4 int32 count   8 int32 original size   12 int32 stored size
 *             16 { int32 size, bytes }*, perhaps compressed
 * All big-endian. Pure: the caller compresses.
 * Source: distributedlog LogRecord.java, EnvelopedEntry.java, LogRecordSet.java, DLSN.java.
 */
#ifndef WALKEEPER_RECORD_H
#define WALKEEPER_RECORD_H
#include "walkeeper/core.h"

enum {
	WK_RECORD_HEADER_SIZE = 20,
	WK_RECORD_SIZE_MAX = 1024 * 1024 - 8 * 1024, /* one record with its header, before compression */
	WK_ENVELOPE_HEADER_SIZE = 13,
	WK_ENVELOPE_SIZE_MAX = 1024 * 1024 - 4 * 1024, /* all records of one entry, before compression */
	WK_RECORD_SET_HEADER_SIZE = 16,
	WK_DLSN_SIZE = 25,
};

enum { WK_RECORD_CONTROL = 1, WK_RECORD_END_OF_STREAM = 2, WK_RECORD_SET = 4 }; /* record flags */
enum { WK_CODEC_NONE = 0, WK_CODEC_LZ4 = 1, WK_CODEC_ZSTD = 2 };                /* 2 is ours: Java refuses it */

typedef struct wk_log_record {
	uint32_t flags;    /* 16 bits */
	uint32_t position; /* in its segment, from 1; 0 for control records */
	int64_t txid;
	const uint8_t *payload; /* points into the bytes decoded */
	size_t payload_size;
} wk_log_record;

/* The 20 bytes before the payload. */
WK_API void wk_log_record_encode_header(const wk_log_record *record, uint8_t header[20]);

/*
 * The record that starts at bytes[0]; *consumed is its whole size. WK_CORRUPT: fewer bytes than the header or
 * the payload needs, a negative size, larger than WK_RECORD_SIZE_MAX, metadata bits 48-63 not zero, flags this format does
 * not know, txid < 0, or position 0 on a record that is not a control record.
 */
WK_API wk_status wk_log_record_decode(const uint8_t *bytes, size_t size, wk_log_record *record, size_t *consumed);

typedef struct wk_envelope {
	uint32_t codec; /* WK_CODEC_* */
	uint32_t original_size;
	uint32_t stored_size;
	const uint8_t *stored; /* points into the bytes decoded */
} wk_envelope;

WK_API void wk_envelope_encode_header(const wk_envelope *envelope, uint8_t header[13]);

/*
 * WK_CORRUPT: too short, sizes that do not fit the bytes exactly, original size above WK_ENVELOPE_SIZE_MAX, unknown flag bits, codec none
 * with two different sizes. WK_UNSUPPORTED: another version, or codec 3.
 */
WK_API wk_status wk_envelope_decode(const uint8_t *bytes, size_t size, wk_envelope *envelope);

typedef struct wk_record_set {
	uint32_t codec;
	uint32_t count;
	uint32_t original_size;
	uint32_t stored_size;
	const uint8_t *stored;
} wk_record_set;

WK_API void wk_record_set_encode_header(const wk_record_set *set, uint8_t header[16]);
WK_API wk_status wk_record_set_decode(const uint8_t *bytes, size_t size, wk_record_set *set);

/* The next member of an uncompressed set body; WK_END behind the last, WK_CORRUPT for a bad size. *offset starts at 0. */
WK_API wk_status wk_record_set_next(const uint8_t *body, size_t size, size_t *offset, const uint8_t **payload,
                                    size_t *payload_size);

/* DistributedLog sequence number: where a record is. Ordered by segment, entry id, slot. First real one (1, 0, 0). */
typedef struct wk_dlsn {
	int64_t segment;
	int64_t entry_id;
	int64_t slot;
} wk_dlsn;

/* <0, 0, >0 as a is before, at, after b. */
WK_API int wk_dlsn_compare(const wk_dlsn *a, const wk_dlsn *b);
/* Version byte 1 and three big-endian int64. */
WK_API void wk_dlsn_encode(const wk_dlsn *dlsn, uint8_t bytes[25]);
WK_API wk_status wk_dlsn_decode(const uint8_t *bytes, size_t size, wk_dlsn *dlsn);
#endif
