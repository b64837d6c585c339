/*
 * wal_format.h: the bytes of SQLite's WAL (its wal.c and https://www.sqlite.org/fileformat2.html#walformat). Pure.
 *
 * Header, 32 bytes: magic 0x377f0682 | big-endian checksums, version 3007000, page size, checkpoint number, salt 2 words, checksum 2 words.
 * Frame: page number, size of the database in pages behind a commit or 0, the salt, checksum 2 words; then the page.
 * All big-endian. A checksum goes on from that of the frame before, over the first 8 bytes of the header and the page.
 */
#ifndef WK_SQLITE_WAL_FORMAT_H
#define WK_SQLITE_WAL_FORMAT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WK_WAL_HEADER = 32, WK_WAL_FRAME_HEADER = 24, WK_WAL_CHECKSUM_AT = 16, WK_WAL_SALT_AT = 16 /* of the header */ };

/* What all frames of a WAL share, from its header to the next one. */
typedef struct wk_wal_format {
	uint32_t page_size;
	bool big_endian; /* words are summed as big-endian */
	uint8_t salt[8];
} wk_wal_format;

/* False: no header of a WAL, or of a version that is not known. `checksum` is where the first frame's goes on. */
bool wk_wal_header_decode(const uint8_t header[WK_WAL_HEADER], wk_wal_format *format, uint32_t checksum[2]);

static inline uint32_t wk_wal_get32(const uint8_t *at) {
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}
static inline uint64_t wk_wal_frame_offset(const wk_wal_format *format, uint32_t frame) {
	return WK_WAL_HEADER + (uint64_t)(frame - 1) * (WK_WAL_FRAME_HEADER + format->page_size);
}
/* A header of this format; `checksum` is where the first frame's goes on. */
void wk_wal_header_encode(const wk_wal_format *format, uint8_t header[WK_WAL_HEADER], uint32_t checksum[2]);
/* The header of a frame, but for salt and checksum; `pages` 0: no commit. */
void wk_wal_frame_begin(uint8_t header[WK_WAL_FRAME_HEADER], uint32_t page, uint32_t pages);
/* Moves a checksum over bytes, a multiple of eight, as the format sums them. */
void wk_wal_checksum(bool big_endian, const uint8_t *bytes, size_t size, uint32_t checksum[2]);
/* Moves the checksum over a frame. */
void wk_wal_frame_checksum(const wk_wal_format *format, const uint8_t *header, const uint8_t *page,
                           uint32_t checksum[2]);
/* Whether the header has the salt and this checksum. */
bool wk_wal_frame_has(const wk_wal_format *format, const uint8_t *header, const uint32_t checksum[2]);
/* Gives it the salt and this checksum. */
void wk_wal_frame_sign(const wk_wal_format *format, uint8_t *header, const uint32_t checksum[2]);
#endif
