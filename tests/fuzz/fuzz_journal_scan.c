/*
 * The input writes a journal of up to 16 blocks, four bytes each: what happens to the block, what it knew durable and
 * its K, its incarnation, and a byte to change. Checked: a verdict other than ACCEPTED moves nothing; what is accepted
 * chains; only a later block proves damage, and only by the rule; bytes behind the end never change what was accepted.
 */
#include "core/bytes.h"
#include "core/journal_scan.h"
#include "fuzz.h"
#include <assert.h>

enum { BLOCK = 4096, BLOCKS_MAX = 16, STEP = 4, EPOCH = 3 };
enum { WHOLE, MISSING, CHANGED, TORN, UNCHAINED, MISPLACED, OTHER_EPOCH, OTHER_DIRECTORY, FATES };

static uint8_t file[BLOCKS_MAX * BLOCK];
static const uint8_t directory_id[16] = "directory id 16";

/* Block `n` (from 1) in its place, with its fate. Returns the checksum for the block that follows. */
static uint32_t write_block(uint64_t n, const uint8_t step[STEP], uint32_t previous_crc) {
	uint8_t *at = file + (n - 1) * BLOCK;
	uint32_t fate = step[0] % FATES;
	uint64_t below = step[1] & 15;
	wk_block_header header = {
	    .previous_crc = fate == UNCHAINED ? ~previous_crc : previous_crc,
	    .size = BLOCK,
	    .used = WK_BLOCK_HEADER_SIZE,
	    .epoch = fate == OTHER_EPOCH ? EPOCH - 1 : EPOCH,
	    .offset = fate == MISPLACED ? n * BLOCK : (n - 1) * BLOCK,
	    .sequence = step[0] < 128 ? n : 1u + step[0] % 32u,
	    .incarnation = step[2],
	    .in_flight_max = (uint16_t)(1 + (step[1] >> 4) % WK_BLOCKS_IN_FLIGHT_MAX),
	};
	header.durable_through = header.sequence - 1 < below ? 0 : header.sequence - 1 - below;
	memcpy(header.directory_id, directory_id, sizeof directory_id);
	if (fate == OTHER_DIRECTORY)
		header.directory_id[0] ^= 1;
	if (fate == MISSING) {
		memset(at, 0, BLOCK);
		return 0;
	}
	wk_block_seal(at, &header);
	if (fate == CHANGED)
		at[step[3] % 96] ^= (uint8_t)(step[2] | 1);
	else if (fate == TORN)
		memset(at + 512, step[3], BLOCK - 512);
	return header.crc;
}

static wk_scan_verdict follow(wk_scan *scan, size_t size) {
	wk_scan_verdict verdict = WK_SCAN_ACCEPTED;
	while (verdict == WK_SCAN_ACCEPTED) {
		wk_scan before = *scan;
		wk_block_header header = {.sequence = 77};
		verdict = wk_scan_block(scan, file + scan->offset, size - scan->offset, &header);
		if (verdict != WK_SCAN_ACCEPTED) {
			assert(memcmp(scan, &before, sizeof before) == 0 && header.sequence == 77);
			return verdict;
		}
		assert(header.epoch == EPOCH && header.offset == before.offset && scan->offset == before.offset + BLOCK);
		assert(scan->crc == header.crc && scan->sequence == header.sequence);
		assert(!before.anchored || (header.sequence == before.sequence + 1 && header.previous_crc == before.crc &&
		                            header.incarnation >= before.incarnation));
	}
	return verdict;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	if (size < 1)
		return 0;
	uint64_t blocks = (size - 1) / STEP < BLOCKS_MAX ? (size - 1) / STEP : BLOCKS_MAX;
	size_t file_size = (size_t)blocks * BLOCK;
	uint32_t crc = 0;
	for (uint64_t n = 1; n <= blocks; n++)
		crc = write_block(n, bytes + 1 + (n - 1) * STEP, crc);

	wk_scan scan;
	wk_scan_init(&scan, directory_id);
	wk_scan_file(&scan, EPOCH);
	scan.anchored = (bytes[0] & 1) != 0;
	follow(&scan, file_size);
	assert(!wk_scan_damaged(&scan));
	wk_scan ended = scan;
	bool proven = false;
	for (size_t at = scan.offset; at < file_size; at += BLOCK) {
		wk_block_header header;
		if (wk_block_decode(file + at, file_size - at, &header) != WK_OK || header.epoch != EPOCH ||
		    header.offset != at)
			continue;
		wk_scan_later(&scan, &header);
		if (memcmp(header.directory_id, directory_id, sizeof directory_id) != 0 || header.sequence <= ended.sequence)
			continue;
		uint64_t bad = ended.sequence + 1;
		proven = proven || header.durable_through >= bad ||
		         (header.incarnation >= ended.incarnation && header.sequence >= bad + header.in_flight_max);
	}
	assert(wk_scan_damaged(&scan) == proven);
	assert(!proven || scan.witness > scan.sequence);
	ended.witness = scan.witness;
	ended.rival = scan.rival;
	assert(memcmp(&scan, &ended, sizeof scan) == 0); /* evidence moves nothing else */

	wk_scan again;
	wk_scan_init(&again, directory_id);
	wk_scan_file(&again, EPOCH);
	again.anchored = (bytes[0] & 1) != 0;
	memset(file + scan.offset, 0, sizeof file - scan.offset);
	wk_scan_verdict verdict = follow(&again, file_size);
	assert(verdict == WK_SCAN_ABSENT && again.sequence == scan.sequence && again.crc == scan.crc);
	return 0;
}
