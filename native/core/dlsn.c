/*
 * dlsn.c: where a record is. The layout is in walkeeper/record.h.
 *
 * WK_CORRUPT: not 25 bytes. WK_UNSUPPORTED: another version. The three numbers may be anything, as DistributedLog uses
 * positions that no record has: (0, -1, -1) for "invalid", (1, 0, -1) for "before the first".
 */
#include "core/bytes.h"
#include "walkeeper/record.h"
#include <assert.h>

enum { VERSION_AT = 0, SEGMENT_AT = 1, ENTRY_ID_AT = 9, SLOT_AT = 17 };
enum { VERSION = 1 };
static_assert(SLOT_AT + 8 == WK_DLSN_SIZE, "the slot comes last");

static int compare(int64_t a, int64_t b) {
	return (a > b) - (a < b);
}

int wk_dlsn_compare(const wk_dlsn *a, const wk_dlsn *b) {
	if (a->segment != b->segment)
		return compare(a->segment, b->segment);
	if (a->entry_id != b->entry_id)
		return compare(a->entry_id, b->entry_id);
	return compare(a->slot, b->slot);
}

void wk_dlsn_encode(const wk_dlsn *dlsn, uint8_t bytes[25]) {
	bytes[VERSION_AT] = VERSION;
	wk_store_be64_signed(bytes + SEGMENT_AT, dlsn->segment);
	wk_store_be64_signed(bytes + ENTRY_ID_AT, dlsn->entry_id);
	wk_store_be64_signed(bytes + SLOT_AT, dlsn->slot);
}

wk_status wk_dlsn_decode(const uint8_t *bytes, size_t size, wk_dlsn *dlsn) {
	if (size != WK_DLSN_SIZE)
		return WK_CORRUPT;
	if (bytes[VERSION_AT] != VERSION)
		return WK_UNSUPPORTED;
	dlsn->segment = wk_load_be64_signed(bytes + SEGMENT_AT);
	dlsn->entry_id = wk_load_be64_signed(bytes + ENTRY_ID_AT);
	dlsn->slot = wk_load_be64_signed(bytes + SLOT_AT);
	return WK_OK;
}
