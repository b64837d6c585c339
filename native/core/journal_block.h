/*
 * journal_block.h: the journal's unit of writing (docs/formats/journal.md).
 *
 * A block is a multiple of 4096 bytes, written by one durable write. All fields little-endian:
 *
 *   0 uint32 magic "WKJB"          4 uint32 CRC-32C of bytes 8 to the end, padding included
 *   8 uint32 CRC of the block before it in the chain (0 before the first)
 *  12 uint32 size                 16 16 bytes of directory id
 *  32 uint64 epoch of the file    40 uint64 offset of the block in it
 *  48 uint64 sequence, from 1, dense over all files
 *  56 uint64 incarnation of the writer
 *  64 uint64 durable_through: sequence of the last block known durable when this one was submitted
 *  72 uint32 used: header and records, the rest is padding (zeros)
 *  76 uint16 K: the most blocks that may be not yet durable in this file     78 uint16 flags
 *  80 records: uint32 (size in bits 0-27, type in bits 28-31), then the bytes
 *
 * Pure. A record never spans blocks (docs/adr/0003).
 */
#ifndef WK_CORE_JOURNAL_BLOCK_H
#define WK_CORE_JOURNAL_BLOCK_H
#include "walkeeper/core.h"

enum {
	WK_BLOCK_ALIGNMENT = 4096,
	WK_BLOCK_HEADER_SIZE = 80,
	WK_BLOCK_RECORD_HEADER_SIZE = 4,
	WK_BLOCK_SIZE_MAX = 5 * 1024 * 1024 + 128 * 1024, /* the largest entry, its head and the padding */
	WK_BLOCKS_IN_FLIGHT_MAX = 8,
	WK_DIRECTORY_ID_SIZE = 16,
};

enum { WK_BLOCK_CONFIRM = 1, WK_BLOCK_DEFERRED = 2 }; /* flags: holds no records; was written without sync */

enum wk_block_record_type {                          /* what a record of a block holds */
	                        WK_BLOCK_ENTRY = 1,      /* an entry (entry.h) */
	                        WK_BLOCK_FENCE = 2,      /* uint64 ledger id */
	                        WK_BLOCK_MASTER_KEY = 3, /* uint64 ledger id, key */
	                        WK_BLOCK_LAC = 4,        /* uint64 ledger id, explicit LAC packet */
	                        WK_BLOCK_DELETE = 5,     /* uint64 ledger id, uint64 sequence of this block */
	                        /* uint32 CRC-32C of the rest, an entry whose own digest is its client's affair */
	                        WK_BLOCK_SUMMED_ENTRY = 6,
};

typedef struct wk_block_header {
	uint32_t crc;
	uint32_t previous_crc;
	uint32_t size;
	uint32_t used;
	uint8_t directory_id[16];
	uint64_t epoch;
	uint64_t offset;
	uint64_t sequence;
	uint64_t incarnation;
	uint64_t durable_through;
	uint16_t in_flight_max;
	uint16_t flags;
} wk_block_header;

/* Fills the header of a block whose records already stand at bytes[80..used); zeroes the padding, sets header->crc. */
void wk_block_seal(uint8_t *bytes, wk_block_header *header);

/* The same where the CRC-32C of bytes[80..used) is known already: they are not read again. */
void wk_block_seal_with(uint8_t *bytes, wk_block_header *header, uint32_t records_crc);

/*
 * Reads the header alone, from at least 80 bytes. WK_CORRUPT where a field cannot be one of a block: magic, a size that is no multiple of 4096 or out of
 * bounds, used outside [80, size], sequence 0, durable_through >= sequence, K outside 1..8, unknown flags. The CRC is not checked.
 */
wk_status wk_block_peek(const uint8_t *bytes, size_t available, wk_block_header *header);

/* The whole block: what wk_block_peek checks, the CRC, and the framing of its records. WK_END where `available` is less than its size. */
wk_status wk_block_decode(const uint8_t *bytes, size_t available, wk_block_header *header);

typedef struct wk_block_record {
	uint32_t type;
	uint32_t size;
	uint32_t offset; /* of the bytes, from the start of the block */
	const uint8_t *bytes;
} wk_block_record;

/* The record at *cursor (WK_BLOCK_HEADER_SIZE for the first), moved behind it; WK_END behind the last; WK_CORRUPT for bad framing. */
wk_status wk_block_next(const uint8_t *bytes, const wk_block_header *header, uint32_t *cursor, wk_block_record *record);

/* The four bytes before a record's bytes. */
void wk_block_put_record_header(uint8_t *bytes, uint32_t type, uint32_t size);
#endif
