/* journal_scan.c: follows the chain of blocks, and tells a torn tail from damage. The rule is in journal_scan.h. */
#include "core/journal_scan.h"
#include "core/bytes.h"
#include "core/journal_block_layout.h"

enum { TRACES_MIN = 3 };

/*
 * Do these bytes look like what is left of the block that should stand here? Three of five fields must fit, and one
 * of them must be the epoch or the sequence: magic, directory and offset also fit a block that an earlier epoch left
 * in a recycled file, which is no trace of ours.
 */
static bool is_trace(const wk_scan *scan, const uint8_t *bytes, size_t available) {
	if (available < WK_BLOCK_HEADER_SIZE)
		return false;
	bool magic = wk_load_le32(bytes + MAGIC_AT) == MAGIC;
	bool directory = memcmp(bytes + DIRECTORY_ID_AT, scan->directory_id, WK_DIRECTORY_ID_SIZE) == 0;
	bool epoch = wk_load_le64(bytes + EPOCH_AT) == scan->epoch;
	bool offset = wk_load_le64(bytes + OFFSET_AT) == scan->offset;
	bool sequence = scan->anchored && wk_load_le64(bytes + SEQUENCE_AT) == scan->sequence + 1;
	return (epoch || sequence) && magic + directory + epoch + offset + sequence >= TRACES_MIN;
}

/* Both numbers must fit: two checksums that agree by chance are less likely than one. */
static bool is_chained(const wk_scan *scan, const wk_block_header *header) {
	return header->sequence == scan->sequence + 1 && header->previous_crc == scan->crc &&
	       header->incarnation >= scan->incarnation;
}

static bool is_in_place(const wk_scan *scan, const wk_block_header *header) {
	return memcmp(header->directory_id, scan->directory_id, WK_DIRECTORY_ID_SIZE) == 0 &&
	       header->epoch == scan->epoch && header->offset == scan->offset;
}

void wk_scan_init(wk_scan *scan, const uint8_t directory_id[16]) {
	*scan = (wk_scan){.anchored = false};
	memcpy(scan->directory_id, directory_id, WK_DIRECTORY_ID_SIZE);
}

void wk_scan_file(wk_scan *scan, uint64_t epoch) {
	scan->epoch = epoch;
	scan->offset = 0;
}

wk_scan_verdict wk_scan_block(wk_scan *scan, const uint8_t *bytes, size_t available, wk_block_header *header) {
	wk_block_header found;
	if (wk_block_decode(bytes, available, &found) != WK_OK || !is_in_place(scan, &found))
		return is_trace(scan, bytes, available) ? WK_SCAN_BROKEN : WK_SCAN_ABSENT;
	if (scan->anchored && !is_chained(scan, &found))
		return WK_SCAN_STALE;
	scan->anchored = true;
	scan->offset += found.size;
	scan->sequence = found.sequence;
	if (found.incarnation != scan->incarnation || scan->incarnation_from == 0)
		scan->incarnation_from = found.sequence;
	scan->incarnation = found.incarnation;
	scan->crc = found.crc;
	if (found.durable_through > scan->durable_through)
		scan->durable_through = found.durable_through;
	*header = found;
	return WK_SCAN_ACCEPTED;
}

/* The chain and this block cannot both be what one process after the other wrote. */
static bool is_rival(const wk_scan *scan, const wk_block_header *header) {
	bool repeats = header->incarnation > scan->incarnation && header->sequence <= scan->sequence;
	bool saw_another = header->incarnation < scan->incarnation && header->durable_through >= scan->incarnation_from;
	bool follows_another = header->sequence == scan->sequence + 1 && header->durable_through == scan->sequence &&
	                       header->previous_crc != scan->crc;
	return repeats || saw_another || follows_another;
}

void wk_scan_later(wk_scan *scan, const wk_block_header *header) {
	if (memcmp(header->directory_id, scan->directory_id, WK_DIRECTORY_ID_SIZE) != 0)
		return;
	if (scan->anchored && scan->sequence > 0 && scan->rival == 0 && is_rival(scan, header))
		scan->rival = header->sequence;
	if (header->sequence <= scan->sequence || scan->witness != 0)
		return;
	uint64_t bad = scan->sequence + 1;
	/* The writer knew the bad block durable. Whoever wrote this, every recovery since accepted the bad block. */
	bool claimed = header->durable_through >= bad;
	/* The window would not have let this block out before the bad one was durable. */
	bool implied = header->incarnation >= scan->incarnation && header->sequence - bad >= header->in_flight_max;
	if (claimed || implied)
		scan->witness = header->sequence;
}

bool wk_scan_damaged(const wk_scan *scan) {
	return scan->witness != 0;
}
