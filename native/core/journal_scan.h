/*
 * journal_scan.h: follows the chain of blocks through the journal files and, where it ends, tells a torn tail from damage. Pure.
 *
 * The block that should come next is accepted if it is whole, of this directory, file and place, numbered one above its predecessor, carries the predecessor's CRC,
 * and its incarnation is not older. Where it is not, every later block that is whole and in its place is shown to wk_scan_later. The bad block is
 *  - damage, if a later block's durable_through reaches it, or a later block's sequence is K or more above it (such a block is
 *    submitted only when the bad one is durable);
 *  - the torn tail otherwise: it was never acknowledged.
 * Evidence of a stale incarnation cannot mislead: what it calls durable was accepted by every recovery since.
 *
 * Two processes that write at the same time, without knowing of each other, give the same sequences. The blocks of one of
 * them end the chain. A *rival* is a block of the other process that contradicts the chain. There are three kinds:
 *  - its incarnation is later than that of the chain's end, and the chain has a block of its sequence;
 *  - its incarnation is earlier than that of the chain's end, and it calls a block durable where the chain has one of the
 *    later incarnation;
 *  - it is the next block, calls the chain's end durable, and carries the CRC of another predecessor.
 */
#ifndef WK_CORE_JOURNAL_SCAN_H
#define WK_CORE_JOURNAL_SCAN_H
#include "core/journal_block.h"

typedef struct wk_scan {
	uint8_t directory_id[16];
	uint64_t epoch;            /* the file under the scan */
	uint64_t offset;           /* where its next block must start */
	uint64_t sequence;         /* of the last accepted block, 0 before the first */
	uint64_t incarnation;      /* of the last accepted block */
	uint64_t incarnation_from; /* an accepted block of that incarnation: the first, as far as it is known */
	uint64_t durable_through;  /* highest claim of the accepted blocks */
	uint32_t crc;              /* of the last accepted block */
	uint64_t witness;          /* a block that proves damage: its sequence, 0 for none */
	uint64_t rival;            /* a block that proves that two processes wrote at once: its sequence, 0 for none */
	bool anchored;             /* false: the first block is taken as it is (older files are gone) */
} wk_scan;

typedef enum wk_scan_verdict {
	WK_SCAN_ACCEPTED = 0,
	WK_SCAN_ABSENT = 1, /* no trace of the block: nothing of this file's epoch starts here */
	WK_SCAN_BROKEN = 2, /* traces of it, but not whole */
	WK_SCAN_STALE = 3,  /* a whole block of an earlier incarnation, or one that does not chain */
} wk_scan_verdict;

void wk_scan_init(wk_scan *scan, const uint8_t directory_id[16]);
/* The chain goes on in the file of this epoch, at its offset 0. */
void wk_scan_file(wk_scan *scan, uint64_t epoch);
/* What stands at scan->offset. Moves on only where ACCEPTED. `available`: bytes from there to the end of the file's block area. */
wk_scan_verdict wk_scan_block(wk_scan *scan, const uint8_t *bytes, size_t available, wk_block_header *header);
/* A whole block found behind the end of the chain (this file or a later one, each in its own place). */
void wk_scan_later(wk_scan *scan, const wk_block_header *header);
/* true: the chain ended in damage; false: in a torn tail (or cleanly). */
bool wk_scan_damaged(const wk_scan *scan);
#endif
