#include "wal_index.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "wal_format.h"

enum {
	FIRST_FRAMES_AT = 136, /* behind two headers and the state of checkpoints */
	FRAMES = 4096,         /* of a region */
	FIRST_FRAMES = FRAMES - FIRST_FRAMES_AT / 4,
	PLACES = 8192,
	HASH_AT = FRAMES * 4,
	CHECKED = 40, /* bytes of the header before its checksum */
};
_Static_assert(sizeof(wk_wal_index_header) == WK_WAL_INDEX_HEADER, "it is copied as it is");
_Static_assert(HASH_AT + PLACES * 2 == WK_WAL_INDEX_REGION, "a region is full");

bool wk_wal_index_read(const volatile uint8_t *first_region, wk_wal_index_header *header) {
	wk_wal_index_header second;
	uint32_t checksum[2] = {0, 0};
	memcpy(header, (const uint8_t *)first_region, sizeof *header);
	memcpy(&second, (const uint8_t *)first_region + WK_WAL_INDEX_HEADER, sizeof second);
	if (header->is_init == 0 || memcmp(header, &second, sizeof second) != 0)
		return false;
	wk_wal_checksum(__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__, (const uint8_t *)header, CHECKED, checksum);
	return checksum[0] == header->checksum[0] && checksum[1] == header->checksum[1];
}

void wk_wal_index_write(volatile uint8_t *first_region, wk_wal_index_header *header, void (*barrier)(void *context),
                        void *context) {
	header->checksum[0] = header->checksum[1] = 0;
	wk_wal_checksum(__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__, (const uint8_t *)header, CHECKED, header->checksum);
	memcpy((uint8_t *)first_region + WK_WAL_INDEX_HEADER, header, sizeof *header);
	barrier(context);
	memcpy((uint8_t *)first_region, header, sizeof *header);
}

uint32_t wk_wal_index_region_of(uint32_t frame) {
	assert(frame > 0);
	return (frame - 1 + FRAMES - FIRST_FRAMES) / FRAMES;
}

void wk_wal_index_put(volatile uint8_t *region, uint32_t frame, uint32_t page) {
	bool first = frame <= FIRST_FRAMES;
	uint32_t at = first ? frame : (frame - FIRST_FRAMES - 1) % FRAMES + 1; /* within the region, from 1 */
	volatile uint32_t *frames = (volatile uint32_t *)(region + (first ? FIRST_FRAMES_AT : 0));
	volatile uint16_t *hash = (volatile uint16_t *)(region + HASH_AT);
	if (at == 1)
		memset((uint8_t *)frames, 0, (size_t)(WK_WAL_INDEX_REGION - (first ? FIRST_FRAMES_AT : 0)));
	uint32_t place = page * 383 & (PLACES - 1);
	while (hash[place] != 0)
		place = (place + 1) & (PLACES - 1);
	frames[at - 1] = page;
	__atomic_store_n(&hash[place], (uint16_t)at, __ATOMIC_RELEASE);
}
