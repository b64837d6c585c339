/*
 * wal_index.h: the wal-index in shared memory, as readers of any process use it (https://www.sqlite.org/walformat.html#the_wal_index_file_format).
 * Regions of 32 KiB; the first begins with two copies of the header and with what checkpoints did. Each region has the
 * page numbers of its frames, and a hash table of 8,192 places that says where a page number stands. In the machine's byte order.
 */
#ifndef WK_SQLITE_WAL_INDEX_H
#define WK_SQLITE_WAL_INDEX_H
#include <stdbool.h>
#include <stdint.h>

enum {
	WK_WAL_INDEX_REGION = 32768,
	WK_WAL_INDEX_HEADER = 48, /* of each copy */
	WK_WAL_WRITE_LOCK = 0,
	WK_WAL_CHECKPOINT_LOCK = 1,
	WK_WAL_FIRST_READ_LOCK = 3,
};

typedef struct wk_wal_index_header {
	uint32_t version, unused;
	uint32_t change; /* one more with each transaction */
	uint8_t is_init, big_endian;
	uint16_t page_size; /* 65536 is 1 */
	uint32_t frames;    /* the last valid one */
	uint32_t pages;     /* of the database */
	uint32_t frame_checksum[2];
	uint8_t salt[8];
	uint32_t checksum[2];
} wk_wal_index_header;

/* False: a header is not there, or is being written. */
bool wk_wal_index_read(const volatile uint8_t *first_region, wk_wal_index_header *header);
/* Gives it its checksum, and writes both copies; `barrier` is called in between. */
void wk_wal_index_write(volatile uint8_t *first_region, wk_wal_index_header *header, void (*barrier)(void *context),
                        void *context);
/* The region that frame `frame` is in, from 0. */
uint32_t wk_wal_index_region_of(uint32_t frame);
/* Puts a frame into its region. The frames before it are there. */
void wk_wal_index_put(volatile uint8_t *region, uint32_t frame, uint32_t page);
#endif
