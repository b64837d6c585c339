/*
 * record.h: the records of a database in its log (docs/formats/sqlite_record.md). Pure.
 *
 *  0 u8 format 1   1 u8 kind   2 u8 flags   3 u8 log2 of the page size   4 u32 crc   8 u32 before   12 u32 part
 * 16 u64 database   24 u64 transaction   32 u32 pages   36 u32 count of images   40 images
 *
 * Image: u32 page number, u32 base << 31 | size of what follows: ranges, each varint gap, varint length, bytes.
 * Numbers are little-endian, varints are LEB128. The page is its base (zeros, or the page before) with the ranges put in.
 * crc is the CRC-32C of the record without these four bytes; before is that of the commit record before it, so that none can be missing.
 */
#ifndef WK_SQLITE_RECORD_H
#define WK_SQLITE_RECORD_H
#include "walkeeper/core.h"

enum {
	WK_PAGES_RECORD_HEADER = 40,
	WK_PAGES_IMAGE_HEADER = 8,
	WK_PAGES_RECORD_MAX = 1000 * 1024, /* of a record; one image fits into it in any case */
	WK_PAGE_SIZE_MAX = 65536,
	WK_PAGES_IMAGE_MAX = WK_PAGES_IMAGE_HEADER + WK_PAGE_SIZE_MAX + 8,
};
/*
 * JOINT: the last parts of commits of several databases of the log, which are one transaction: each is a record, behind its u32 size.
 * NAME: whose the log is not, but beside it; what follows is the name of the database.
 */
enum { WK_PAGES_COMMIT = 1, WK_PAGES_SNAPSHOT = 2, WK_PAGES_JOINT = 3, WK_PAGES_NAME = 4 };
enum { WK_PAGES_FIRST = 1, WK_PAGES_LAST = 2, WK_PAGES_NAMED = 4 };
enum { WK_DATABASE_NAME_MAX = 255, WK_PAGES_JOINT_MAX = 64 /* records */ };

typedef struct wk_pages_record {
	uint32_t kind, flags, page_size;
	uint32_t crc, before;
	uint32_t part; /* from 0 */
	uint64_t database;
	uint64_t transaction; /* of a commit its number, from 1; of a snapshot that of the last commit in it */
	uint32_t pages;       /* of the database behind it; 0 but in the last part */
	uint32_t count;
} wk_pages_record;

/* SQLite locks bytes at 1 GiB, and writes no page there. */
static inline bool wk_page_is_never_written(uint32_t number, uint32_t page_size) {
	return number == 0x40000000 / page_size + 1;
}

/* Writes the header over the first bytes of a record whose images stand behind it. Returns its crc. */
uint32_t wk_pages_record_seal(uint8_t *bytes, size_t size, const wk_pages_record *record);
/* Of kind JOINT and NAME the size of the header, and what follows, too. WK_CORRUPT, WK_UNSUPPORTED. */
wk_status wk_pages_record_decode(const uint8_t *bytes, size_t size, wk_pages_record *record);

/* The record at *offset of one of kind JOINT (0: the first), which is moved behind it. WK_END behind the last. */
wk_status wk_pages_joint_next(const uint8_t *bytes, size_t size, size_t *offset, const uint8_t **record,
                              size_t *record_size);

/* An image of `page` in at most WK_PAGES_IMAGE_MAX bytes; `base` NULL: against zeros. Returns its size. */
size_t wk_pages_image_encode(uint32_t number, const uint8_t *page, const uint8_t *base, size_t page_size,
                             uint8_t *bytes);

typedef struct wk_pages_image {
	uint32_t number;
	bool delta; /* against the page before */
	const uint8_t *ranges;
	size_t size;
} wk_pages_image;
/* The image at *offset, which is moved behind it (0: the first one). WK_END behind the last; WK_CORRUPT. */
wk_status wk_pages_image_next(const uint8_t *bytes, size_t size, size_t *offset, wk_pages_image *image);
/* Puts the ranges into `page`, which holds the base. WK_CORRUPT: they do not fit; the page is spoiled. */
wk_status wk_pages_image_apply(const wk_pages_image *image, uint8_t *page, size_t page_size);
#endif
