/* journal_block_layout.h: where the fields of a block's header are, for the codec and the scan. Private. */
#ifndef WK_CORE_JOURNAL_BLOCK_LAYOUT_H
#define WK_CORE_JOURNAL_BLOCK_LAYOUT_H
#include "core/journal_block.h"
#include <assert.h>

enum {
	MAGIC_AT = 0,
	CRC_AT = 4,
	PREVIOUS_CRC_AT = 8,
	SIZE_AT = 12,
	DIRECTORY_ID_AT = 16,
	EPOCH_AT = 32,
	OFFSET_AT = 40,
	SEQUENCE_AT = 48,
	INCARNATION_AT = 56,
	DURABLE_THROUGH_AT = 64,
	USED_AT = 72,
	IN_FLIGHT_MAX_AT = 76,
	FLAGS_AT = 78,
};
static_assert(FLAGS_AT + 2 == (int)WK_BLOCK_HEADER_SIZE, "the records follow the flags");

enum { MAGIC = 0x424a4b57 }; /* "WKJB", read as little-endian */
#endif
