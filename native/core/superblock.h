/*
 * superblock.h: a directory's root (docs/formats/superblock.md). Two slots of 4096 bytes in the file `superblock`; a
 * write goes to the slot that holds the older generation, so one slot is always whole. Pure.
 */
#ifndef WK_CORE_SUPERBLOCK_H
#define WK_CORE_SUPERBLOCK_H
#include "walkeeper/core.h"

enum { WK_SUPERBLOCK_SLOT_SIZE = 4096, WK_FORMAT_VERSION = 1, WK_JOURNAL_PATH_SIZE = 1024 };

/* A catalogue snapshot: entries first..last of ledger 0. first -1: none. */
typedef struct wk_snapshot_place {
	int64_t first_entry;
	int64_t last_entry;
} wk_snapshot_place;

/*
 * What the probe measured with several blocks in flight: ns a block, by [enum wk_sync_method - 1][1, 2, 4 or 8 at
 * once][4 KiB or 64 KiB]. 0: not measured yet.
 */
typedef struct wk_probe_grid {
	uint32_t block_ns[2][4][2];
} wk_probe_grid;

typedef struct wk_superblock {
	uint64_t generation; /* of the superblock; the higher one counts */
	uint8_t directory_id[16];
	uint64_t incarnation;           /* of the latest open for writing */
	uint64_t file_id_ceiling;       /* ids of files below it may have been used */
	uint64_t replay_epoch;          /* LastLogMark: journal files below it need no replay ... */
	uint64_t replay_sequence;       /* ... nor do blocks up to this sequence */
	uint64_t index_generation;      /* the index file that covers what lies below the mark, 0 for none */
	wk_snapshot_place snapshots[2]; /* the newest first */
	uint32_t sync_method;           /* enum wk_sync_method that the probe chose, 0 before it ran */
	uint32_t kind;         /* enum wk_directory_kind of log.h: what the directory holds, from its creation on */
	uint64_t probe_device; /* where it was measured: it is repeated on another device */
	uint64_t probe_dsync_ns;
	uint64_t probe_write_then_sync_ns;
	uint32_t blocks_in_flight; /* that the grid chose, 0 before it was measured */
	wk_probe_grid grid;
	/*
	 * Closed in order: no block was under way, and the last one with records, 0 if there is none, is this. Where it is
	 * not found the end of the journal is damaged or missing. An open for writing takes both back before its first block.
	 */
	bool clean;
	uint64_t closed_sequence; /* 0 where it is not clean */
	/*
	 * The journal is in a directory of its own, from the directory's creation on; where that was when it was last opened
	 * for writing, with its NUL. Empty: it is in this one.
	 */
	char journal_path[WK_JOURNAL_PATH_SIZE];
	/*
	 * Of a ledger store: up to this block some may be missing from the journal's files: a loss that was accepted (on_damage
	 * skip), or a file that went above the mark (space.c). 0: none are.
	 */
	uint64_t accepted_sequence;
} wk_superblock;

/* Of a ledger store: blocks up to this one may be in no file; a gap in the numbers behind it is a loss. */
uint64_t wk_superblock_accounted(const wk_superblock *superblock);

void wk_superblock_encode(const wk_superblock *superblock, uint8_t slot[4096]);
/* WK_CORRUPT; WK_UNSUPPORTED: written by a newer version. */
wk_status wk_superblock_decode(const uint8_t slot[4096], wk_superblock *superblock);
/* Of two slots, the valid one with the higher generation: 0 or 1; -1 where neither is valid. */
int wk_superblock_choose(const uint8_t slots[8192], wk_superblock *superblock);
#endif
