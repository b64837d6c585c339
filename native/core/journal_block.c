/* journal_block.c: the journal's unit of writing. The layout is in walkeeper/journal_block.h. */
#include "core/journal_block.h"
#include "core/bytes.h"
#include "core/journal_block_layout.h"
#include "core/zero.h"
#include <assert.h>

static_assert(WK_BLOCK_SIZE_MAX % WK_BLOCK_ALIGNMENT == 0, "the largest block is one that can be written");

enum { FLAGS_KNOWN = WK_BLOCK_CONFIRM | WK_BLOCK_DEFERRED };
enum { RECORD_SIZE_BITS = 28, RECORD_SIZE_MASK = (1 << RECORD_SIZE_BITS) - 1 };
static_assert((int)WK_BLOCK_SIZE_MAX <= RECORD_SIZE_MASK, "a record of any block fits its size field");

static bool is_possible(const wk_block_header *header) {
	return header->size >= WK_BLOCK_ALIGNMENT && header->size <= WK_BLOCK_SIZE_MAX &&
	       header->size % WK_BLOCK_ALIGNMENT == 0 && header->used >= WK_BLOCK_HEADER_SIZE &&
	       header->used <= header->size && header->sequence > 0 && header->durable_through < header->sequence &&
	       header->in_flight_max >= 1 && header->in_flight_max <= WK_BLOCKS_IN_FLIGHT_MAX &&
	       (header->flags & ~FLAGS_KNOWN) == 0;
}

/* All but the magic and the checksum itself: the magic is compared, so that no bit of a block is left out. */
static uint32_t checksum(const uint8_t *bytes, uint32_t size) {
	return wk_crc32c(bytes + PREVIOUS_CRC_AT, size - PREVIOUS_CRC_AT);
}

/* The records fill bytes[80..used) exactly. A confirm block has none: it exists for its durable_through alone. */
static bool is_framed(const uint8_t *bytes, const wk_block_header *header) {
	uint32_t cursor = WK_BLOCK_HEADER_SIZE;
	wk_block_record record;
	wk_status status;
	if ((header->flags & WK_BLOCK_CONFIRM) != 0)
		return header->used == WK_BLOCK_HEADER_SIZE;
	do
		status = wk_block_next(bytes, header, &cursor, &record);
	while (status == WK_OK);
	return status == WK_END;
}

/* All of the header but the checksum, and the padding. */
static void fill(uint8_t *bytes, const wk_block_header *header) {
	assert(is_possible(header));
	assert(header->offset % WK_BLOCK_ALIGNMENT == 0);
	assert(is_framed(bytes, header)); /* what would be refused when read must not be written */
	wk_store_le32(bytes + MAGIC_AT, MAGIC);
	wk_store_le32(bytes + PREVIOUS_CRC_AT, header->previous_crc);
	wk_store_le32(bytes + SIZE_AT, header->size);
	memcpy(bytes + DIRECTORY_ID_AT, header->directory_id, WK_DIRECTORY_ID_SIZE);
	wk_store_le64(bytes + EPOCH_AT, header->epoch);
	wk_store_le64(bytes + OFFSET_AT, header->offset);
	wk_store_le64(bytes + SEQUENCE_AT, header->sequence);
	wk_store_le64(bytes + INCARNATION_AT, header->incarnation);
	wk_store_le64(bytes + DURABLE_THROUGH_AT, header->durable_through);
	wk_store_le32(bytes + USED_AT, header->used);
	wk_store_le16(bytes + IN_FLIGHT_MAX_AT, header->in_flight_max);
	wk_store_le16(bytes + FLAGS_AT, header->flags);
	memset(bytes + header->used, 0, header->size - header->used);
}

void wk_block_seal(uint8_t *bytes, wk_block_header *header) {
	fill(bytes, header);
	header->crc = checksum(bytes, header->size);
	wk_store_le32(bytes + CRC_AT, header->crc);
}

void wk_block_seal_with(uint8_t *bytes, wk_block_header *header, uint32_t records_crc) {
	fill(bytes, header);
	uint32_t head = wk_crc32c(bytes + PREVIOUS_CRC_AT, WK_BLOCK_HEADER_SIZE - PREVIOUS_CRC_AT);
	uint32_t crc = wk_crc32c_combine(head, records_crc, header->used - WK_BLOCK_HEADER_SIZE);
	header->crc = wk_crc32c_extend(crc, bytes + header->used, header->size - header->used);
	wk_store_le32(bytes + CRC_AT, header->crc);
}

wk_status wk_block_peek(const uint8_t *bytes, size_t available, wk_block_header *header) {
	if (available < WK_BLOCK_HEADER_SIZE)
		return WK_END;
	if (wk_load_le32(bytes + MAGIC_AT) != MAGIC)
		return WK_CORRUPT;
	wk_block_header found = {
	    .crc = wk_load_le32(bytes + CRC_AT),
	    .previous_crc = wk_load_le32(bytes + PREVIOUS_CRC_AT),
	    .size = wk_load_le32(bytes + SIZE_AT),
	    .used = wk_load_le32(bytes + USED_AT),
	    .epoch = wk_load_le64(bytes + EPOCH_AT),
	    .offset = wk_load_le64(bytes + OFFSET_AT),
	    .sequence = wk_load_le64(bytes + SEQUENCE_AT),
	    .incarnation = wk_load_le64(bytes + INCARNATION_AT),
	    .durable_through = wk_load_le64(bytes + DURABLE_THROUGH_AT),
	    .in_flight_max = wk_load_le16(bytes + IN_FLIGHT_MAX_AT),
	    .flags = wk_load_le16(bytes + FLAGS_AT),
	};
	memcpy(found.directory_id, bytes + DIRECTORY_ID_AT, WK_DIRECTORY_ID_SIZE);
	if (!is_possible(&found))
		return WK_CORRUPT;
	*header = found;
	return WK_OK;
}

wk_status wk_block_decode(const uint8_t *bytes, size_t available, wk_block_header *header) {
	wk_block_header found;
	wk_status status = wk_block_peek(bytes, available, &found);
	if (status != WK_OK)
		return status;
	if (found.size > available)
		return WK_END;
	if (found.crc != checksum(bytes, found.size))
		return WK_CORRUPT;
	if (!is_framed(bytes, &found) || !wk_is_zero(bytes + found.used, found.size - found.used))
		return WK_CORRUPT;
	*header = found;
	return WK_OK;
}

wk_status wk_block_next(const uint8_t *bytes, const wk_block_header *header, uint32_t *cursor,
                        wk_block_record *record) {
	assert(*cursor >= WK_BLOCK_HEADER_SIZE && *cursor <= header->used);
	uint32_t left = header->used - *cursor;
	if (left == 0)
		return WK_END;
	if (left < WK_BLOCK_RECORD_HEADER_SIZE)
		return WK_CORRUPT;
	uint32_t word = wk_load_le32(bytes + *cursor);
	uint32_t type = word >> RECORD_SIZE_BITS;
	uint32_t size = word & RECORD_SIZE_MASK;
	if (type < WK_BLOCK_ENTRY || type > WK_BLOCK_SUMMED_ENTRY || size > left - WK_BLOCK_RECORD_HEADER_SIZE)
		return WK_CORRUPT;
	*cursor += WK_BLOCK_RECORD_HEADER_SIZE;
	*record = (wk_block_record){.type = type, .size = size, .offset = *cursor, .bytes = bytes + *cursor};
	*cursor += size;
	return WK_OK;
}

void wk_block_put_record_header(uint8_t *bytes, uint32_t type, uint32_t size) {
	assert(type >= WK_BLOCK_ENTRY && type <= WK_BLOCK_SUMMED_ENTRY);
	assert(size <= RECORD_SIZE_MASK);
	wk_store_le32(bytes, type << RECORD_SIZE_BITS | size);
}
