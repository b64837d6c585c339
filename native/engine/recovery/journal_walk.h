/*
 * journal_walk.h: follows the chain of blocks through the journal files and puts what it finds into the index.
 * Private; for recovery, and for followers, which go on where they stood.
 */
#ifndef WK_ENGINE_JOURNAL_WALK_H
#define WK_ENGINE_JOURNAL_WALK_H
#include "core/journal_scan.h"
#include "engine/recovery/journal_reader.h"

/* With room to spare: behind a torn tail there are fewer than were under way at once. More are damage, which is not wiped. */
enum { WK_LEFTOVERS_MAX = 8 * WK_BLOCKS_IN_FLIGHT_MAX };

typedef struct wk_leftover {
	wk_store_file *file;
	uint64_t offset;
} wk_leftover;

typedef struct wk_walk {
	wk_engine *engine;
	wk_scan scan;
	wk_journal_reader reader;
	wk_store_file *last; /* the file of the last accepted block */
	uint64_t cut_bytes;  /* of a block at the chain's end that is not whole, 0: there is none */
	uint64_t cut_file, cut_offset;
	wk_scan_verdict end; /* why the chain stopped */
	uint64_t highest;    /* sequence of any whole block that was met, of the chain or not */
	wk_walk_block
	    latest[WK_BLOCKS_IN_FLIGHT_MAX]; /* the last accepted ones, by sequence: those not confirmed are among them */
	uint64_t begun_sequence;             /* of a block that could not be indexed to its end, 0: of none */
	uint32_t begun_crc, begun_records;   /* ... which block that was, and how many of its records are in the index */
	bool lossy;                          /* it went on behind damage, as the policy of the open allows */
	wk_leftover leftovers[WK_LEFTOVERS_MAX]; /* whole blocks behind the chain's end, in later files */
	uint32_t leftovers_count;
	struct wk_candidates *candidates; /* where it may go on behind damage, NULL: it met none (tail_scan.h) */
	uint64_t published;               /* this block was durable, as the file `shared` says; 0: nothing is known */
	wk_store_file *short_file; /* is shorter than it was when its blocks were written; NULL: none is known to be */
	uint64_t missing_behind; /* a journal file behind the one of this id is missing, or empty; 0: none is known to be */
	uint64_t missing_before; /* a file begins with this block, and no file has the one before, 0: none */
} wk_walk;

/*
 * All files from the oldest on; on return the chain's end is in scan, its file in last. WK_DAMAGED where it ends in
 * damage.
 */
wk_status wk_walk_all(wk_walk *walk, wk_error *error);
/* One file, from walk->scan.offset of it on where it is the scan's file, else from its start. */
wk_status wk_walk_file(wk_walk *walk, wk_store_file *file, wk_error *error);
/* One file, from this offset of it on. */
wk_status wk_walk_from(wk_walk *walk, wk_store_file *file, uint64_t offset, wk_error *error);
/*
 * Takes the footer of a sealed file for its blocks: the chain's end is the file's. *adopted false: it has none to be
 * trusted, or none that can be read.
 */
wk_status wk_walk_adopt(wk_walk *walk, wk_store_file *file, bool *adopted, wk_error *error);
/* An intact entry that stands in `file`. WK_CORRUPT where it contradicts what came before; WK_NO_MEMORY. */
wk_status wk_walk_add_entry(wk_walk *walk, wk_store_file *file, uint64_t block_offset, uint64_t sequence,
                            const wk_block_record *record);
/* The next file that follows the chain behind the one at index *at; *found false where none does. */
wk_status wk_walk_next(wk_walk *walk, uint32_t *at, bool *found, wk_error *error);
#endif
