/*
 * superblock.c: a directory's root.
 *
 * Slot of 4096 bytes, little-endian; the bytes not named are zero:
 *     0 uint32 magic "WKSB"            4 uint32 CRC-32C of the other 4092 bytes    8 uint32 version 1
 *    12 uint32 flags (1 clean, 2 apart) 16 16 bytes of directory id                 32 uint64 generation
 *    40 uint64 incarnation            48 uint64 file id ceiling                   56 uint64 replay epoch
 *    64 uint64 replay sequence        72 uint64 index generation
 *    80 two snapshots: int64 first entry, int64 last entry, both -1 for none
 *   112 uint32 sync method           116 uint32 blocks in flight                 120 uint64 probe device
 *   128 uint64 probe dsync ns        136 uint64 probe write then sync ns
 *   144 16 uint32 of the probe's grid                                            208 uint32 kind
 *   216 uint64 closed sequence       224 1024 bytes of path, where the journal is apart
 *  1248 uint64 accepted sequence
 * Magic, checksum and version stay where they are in every version, so that a newer slot is told from a broken one.
 */
#include "core/superblock.h"
#include "core/block_window.h"
#include "core/bytes.h"
#include "core/zero.h"
#include <assert.h>

enum {
	MAGIC_AT = 0,
	CRC_AT = 4,
	VERSION_AT = 8,
	FLAGS_AT = 12,
	DIRECTORY_ID_AT = 16,
	GENERATION_AT = 32,
	INCARNATION_AT = 40,
	FILE_ID_CEILING_AT = 48,
	REPLAY_EPOCH_AT = 56,
	REPLAY_SEQUENCE_AT = 64,
	INDEX_GENERATION_AT = 72,
	SNAPSHOTS_AT = 80,
	SYNC_METHOD_AT = 112,
	BLOCKS_IN_FLIGHT_AT = 116,
	PROBE_DEVICE_AT = 120,
	PROBE_DSYNC_NS_AT = 128,
	PROBE_WRITE_THEN_SYNC_NS_AT = 136,
	GRID_AT = 144,
	KIND_AT = 208,
	GAP_AT = 212,
	CLOSED_SEQUENCE_AT = 216,
	JOURNAL_PATH_AT = 224,
	ACCEPTED_SEQUENCE_AT = JOURNAL_PATH_AT + WK_JOURNAL_PATH_SIZE,
	UNUSED_AT = ACCEPTED_SEQUENCE_AT + 8,
};
enum { SNAPSHOTS_COUNT = 2, SNAPSHOT_SIZE = 16, DIRECTORY_ID_SIZE = 16, GRID_CELLS = 16 };
static_assert(SNAPSHOTS_AT + SNAPSHOTS_COUNT * SNAPSHOT_SIZE == SYNC_METHOD_AT, "no hole behind the snapshots");
/* "WKSB"; enums of log.h */
enum {
	MAGIC = 0x42534b57,
	FLAG_CLEAN = 1,
	FLAG_APART = 2,
	FLAGS = 3,
	SYNC_METHOD_MAX = 2,
	KIND_LEDGERS = 1,
	KIND_MAX = 1
};

static uint32_t checksum(const uint8_t slot[WK_SUPERBLOCK_SLOT_SIZE]) {
	return wk_crc32c_extend(wk_crc32c(slot, CRC_AT), slot + VERSION_AT, WK_SUPERBLOCK_SLOT_SIZE - VERSION_AT);
}

static bool snapshot_is_possible(const wk_snapshot_place *snapshot) {
	return snapshot->first_entry == -1 || (snapshot->first_entry >= 0 && snapshot->last_entry >= snapshot->first_entry);
}

/* It ends in the field, and nothing is behind its end. */
static bool path_is_possible(const char path[WK_JOURNAL_PATH_SIZE]) {
	size_t size = 0;
	while (size < WK_JOURNAL_PATH_SIZE && path[size] != 0)
		size++;
	return size < WK_JOURNAL_PATH_SIZE && wk_is_zero((const uint8_t *)path + size, WK_JOURNAL_PATH_SIZE - size);
}

static bool is_possible(const wk_superblock *superblock) {
	return superblock->sync_method <= SYNC_METHOD_MAX && superblock->kind <= KIND_MAX &&
	       (superblock->clean || superblock->closed_sequence == 0) && superblock->closed_sequence <= INT64_MAX &&
	       superblock->accepted_sequence <= (superblock->kind == KIND_LEDGERS ? INT64_MAX : 0) &&
	       superblock->blocks_in_flight <= WK_BLOCKS_IN_FLIGHT_MAX && snapshot_is_possible(&superblock->snapshots[0]) &&
	       snapshot_is_possible(&superblock->snapshots[1]) && path_is_possible(superblock->journal_path);
}

static void put_snapshot(uint8_t *at, const wk_snapshot_place *snapshot) {
	bool none = snapshot->first_entry == -1;
	wk_store_le64_signed(at, snapshot->first_entry);
	wk_store_le64_signed(at + 8, none ? -1 : snapshot->last_entry); /* one spelling of none */
}

static wk_snapshot_place get_snapshot(const uint8_t *at) {
	return (wk_snapshot_place){
	    .first_entry = wk_load_le64_signed(at),
	    .last_entry = wk_load_le64_signed(at + 8),
	};
}

void wk_superblock_encode(const wk_superblock *superblock, uint8_t slot[4096]) {
	assert(is_possible(superblock));
	memset(slot, 0, WK_SUPERBLOCK_SLOT_SIZE);
	wk_store_le32(slot + MAGIC_AT, MAGIC);
	wk_store_le32(slot + VERSION_AT, WK_FORMAT_VERSION);
	bool apart = superblock->journal_path[0] != 0;
	wk_store_le32(slot + FLAGS_AT, (superblock->clean ? FLAG_CLEAN : 0) | (apart ? FLAG_APART : 0));
	memcpy(slot + DIRECTORY_ID_AT, superblock->directory_id, DIRECTORY_ID_SIZE);
	wk_store_le64(slot + GENERATION_AT, superblock->generation);
	wk_store_le64(slot + INCARNATION_AT, superblock->incarnation);
	wk_store_le64(slot + FILE_ID_CEILING_AT, superblock->file_id_ceiling);
	wk_store_le64(slot + REPLAY_EPOCH_AT, superblock->replay_epoch);
	wk_store_le64(slot + REPLAY_SEQUENCE_AT, superblock->replay_sequence);
	wk_store_le64(slot + INDEX_GENERATION_AT, superblock->index_generation);
	for (uint32_t i = 0; i < SNAPSHOTS_COUNT; i++)
		put_snapshot(slot + SNAPSHOTS_AT + i * SNAPSHOT_SIZE, &superblock->snapshots[i]);
	wk_store_le32(slot + SYNC_METHOD_AT, superblock->sync_method);
	wk_store_le32(slot + KIND_AT, superblock->kind);
	wk_store_le64(slot + PROBE_DEVICE_AT, superblock->probe_device);
	wk_store_le64(slot + PROBE_DSYNC_NS_AT, superblock->probe_dsync_ns);
	wk_store_le64(slot + PROBE_WRITE_THEN_SYNC_NS_AT, superblock->probe_write_then_sync_ns);
	wk_store_le32(slot + BLOCKS_IN_FLIGHT_AT, superblock->blocks_in_flight);
	for (size_t i = 0; i < GRID_CELLS; i++)
		wk_store_le32(slot + GRID_AT + 4 * i, (&superblock->grid.block_ns[0][0][0])[i]);
	wk_store_le64(slot + CLOSED_SEQUENCE_AT, superblock->closed_sequence);
	memcpy(slot + JOURNAL_PATH_AT, superblock->journal_path, WK_JOURNAL_PATH_SIZE);
	wk_store_le64(slot + ACCEPTED_SEQUENCE_AT, superblock->accepted_sequence);
	wk_store_le32(slot + CRC_AT, checksum(slot));
}

wk_status wk_superblock_decode(const uint8_t slot[4096], wk_superblock *superblock) {
	if (wk_load_le32(slot + MAGIC_AT) != MAGIC || wk_load_le32(slot + CRC_AT) != checksum(slot))
		return WK_CORRUPT;
	uint32_t version = wk_load_le32(slot + VERSION_AT);
	uint32_t flags = wk_load_le32(slot + FLAGS_AT);
	if (version > WK_FORMAT_VERSION)
		return WK_UNSUPPORTED;
	if (version != WK_FORMAT_VERSION || (flags & ~(uint32_t)FLAGS) != 0 ||
	    !wk_is_zero(slot + GAP_AT, CLOSED_SEQUENCE_AT - GAP_AT) ||
	    !wk_is_zero(slot + UNUSED_AT, WK_SUPERBLOCK_SLOT_SIZE - UNUSED_AT))
		return WK_CORRUPT;
	wk_superblock found = {
	    .generation = wk_load_le64(slot + GENERATION_AT),
	    .incarnation = wk_load_le64(slot + INCARNATION_AT),
	    .file_id_ceiling = wk_load_le64(slot + FILE_ID_CEILING_AT),
	    .replay_epoch = wk_load_le64(slot + REPLAY_EPOCH_AT),
	    .replay_sequence = wk_load_le64(slot + REPLAY_SEQUENCE_AT),
	    .index_generation = wk_load_le64(slot + INDEX_GENERATION_AT),
	    .sync_method = wk_load_le32(slot + SYNC_METHOD_AT),
	    .kind = wk_load_le32(slot + KIND_AT),
	    .probe_device = wk_load_le64(slot + PROBE_DEVICE_AT),
	    .probe_dsync_ns = wk_load_le64(slot + PROBE_DSYNC_NS_AT),
	    .probe_write_then_sync_ns = wk_load_le64(slot + PROBE_WRITE_THEN_SYNC_NS_AT),
	    .blocks_in_flight = wk_load_le32(slot + BLOCKS_IN_FLIGHT_AT),
	    .clean = (flags & FLAG_CLEAN) != 0,
	    .closed_sequence = wk_load_le64(slot + CLOSED_SEQUENCE_AT),
	    .accepted_sequence = wk_load_le64(slot + ACCEPTED_SEQUENCE_AT),
	};
	for (size_t i = 0; i < GRID_CELLS; i++)
		(&found.grid.block_ns[0][0][0])[i] = wk_load_le32(slot + GRID_AT + 4 * i);
	memcpy(found.directory_id, slot + DIRECTORY_ID_AT, DIRECTORY_ID_SIZE);
	memcpy(found.journal_path, slot + JOURNAL_PATH_AT, WK_JOURNAL_PATH_SIZE);
	for (uint32_t i = 0; i < SNAPSHOTS_COUNT; i++) {
		found.snapshots[i] = get_snapshot(slot + SNAPSHOTS_AT + i * SNAPSHOT_SIZE);
		if (found.snapshots[i].first_entry == -1 && found.snapshots[i].last_entry != -1)
			return WK_CORRUPT;
	}
	if (!is_possible(&found) || (found.journal_path[0] != 0) != ((flags & FLAG_APART) != 0))
		return WK_CORRUPT;
	*superblock = found;
	return WK_OK;
}

/*
 * A slot of a newer version makes the other one stale, not chosen: the newer program wrote over the older generation,
 * and what it left in the other slot no longer describes the directory.
 */
int wk_superblock_choose(const uint8_t slots[8192], wk_superblock *superblock) {
	wk_superblock found[2];
	wk_status status[2];
	for (uint32_t i = 0; i < 2; i++) {
		status[i] = wk_superblock_decode(slots + i * WK_SUPERBLOCK_SLOT_SIZE, &found[i]);
		if (status[i] == WK_UNSUPPORTED)
			return -1;
	}
	if (status[0] != WK_OK && status[1] != WK_OK)
		return -1;
	int chosen = status[0] != WK_OK || (status[1] == WK_OK && found[1].generation > found[0].generation);
	*superblock = found[chosen];
	return chosen;
}

uint64_t wk_superblock_accounted(const wk_superblock *superblock) {
	uint64_t below_the_mark = superblock->replay_sequence;
	return below_the_mark > superblock->accepted_sequence ? below_the_mark : superblock->accepted_sequence;
}
