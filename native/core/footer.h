/*
 * footer.h: the index at the end of a sealed journal file and of an entry log (docs/formats/footer.md). Pure.
 *
 * A footer is pages of 4096 bytes: item pages, run pages, state pages, and last the trailer, which fills the file's last page. Little-endian.
 *   page     0 uint32 CRC-32C   4 uint16 count   6 uint16 kind   8 members
 *            the CRC starts from directory id, file id and the page's offset, so that a page in another place never counts
 *   item     uint32 offset of the entry in the file, uint32 size          511 a page
 *   run      uint64 ledger, int64 first entry, uint64 bytes, uint32 count, uint32 first item      127 a page, sorted by (ledger, first entry)
 *   state    uint64 ledger, uint32 type (of journal_block.h), uint32 size, 48 bytes    63 a page, in journal order: the last wins
 *   trailer  see wk_footer
 * A footer is a cache: it counts only if its epoch, incarnation and last block's CRC fit the chain; in doubt the file is scanned.
 */
#ifndef WK_CORE_FOOTER_H
#define WK_CORE_FOOTER_H
#include "core/journal_block.h"

enum {
	WK_PAGE_SIZE = 4096,
	WK_PAGE_ITEMS = 511,
	WK_PAGE_RUNS = 127,
	WK_PAGE_STATES = 63,
	WK_STATE_DATA_SIZE = 48,
};

enum wk_file_kind { WK_FILE_JOURNAL = 1, WK_FILE_ENTRY_LOG = 2 };

typedef struct wk_footer_item {
	uint32_t offset;
	uint32_t size;
} wk_footer_item;

typedef struct wk_footer_run { /* consecutive entries of one ledger */
	int64_t ledger_id;
	int64_t first_entry;
	uint64_t bytes; /* sum of the sizes of its items */
	uint32_t count;
	uint32_t first_item; /* index into all items of the file */
} wk_footer_run;

typedef struct wk_footer_state {
	int64_t ledger_id;
	uint32_t type; /* enum wk_block_record_type, not WK_BLOCK_ENTRY */
	uint32_t size;
	uint8_t data[48];
} wk_footer_state;

typedef struct wk_footer { /* the trailer */
	uint8_t directory_id[16];
	uint64_t file_id; /* epoch of a journal file */
	uint64_t file_size;
	uint64_t incarnation;    /* of the last block; journal files */
	uint64_t first_sequence; /* journal files: blocks first..last */
	uint64_t last_sequence;  /* entry logs: the last durable block when the mover chose what to copy */
	uint64_t end_offset;     /* of the blocks (entries) */
	uint32_t first_previous_crc;
	uint32_t last_crc;
	uint32_t items_count;
	uint32_t runs_count;
	uint32_t states_count;
	uint32_t kind; /* enum wk_file_kind */
} wk_footer;

/* Bytes that a footer of so many members takes, trailer included: a multiple of 4096. */
uint64_t wk_footer_size(uint64_t items, uint64_t runs, uint64_t states);

/*
 * Writes the whole footer to `bytes` (wk_footer_size of them), which will stand at file_size - wk_footer_size. Runs must be sorted.
 */
void wk_footer_encode(const wk_footer *footer, const wk_footer_item *items, const wk_footer_run *runs,
                      const wk_footer_state *states, uint8_t *bytes);
/* The trailer, from the last 4096 bytes of a file. WK_CORRUPT: not a trailer, or counts that do not fit the file. WK_UNSUPPORTED: a newer version. */
wk_status wk_footer_decode(const uint8_t page[4096], wk_footer *footer);

/* Offsets in the file of the pages: of item i, run i, state i. */
uint64_t wk_footer_item_page(const wk_footer *footer, uint32_t item);
uint64_t wk_footer_run_page(const wk_footer *footer, uint32_t run);
uint64_t wk_footer_state_page(const wk_footer *footer, uint32_t state);

/* Members of one page that was read from `offset`; *count says how many. WK_CORRUPT: CRC, kind or count. */
wk_status wk_footer_items(const wk_footer *footer, const uint8_t page[4096], uint64_t offset, wk_footer_item items[511],
                          uint32_t *count);
wk_status wk_footer_runs(const wk_footer *footer, const uint8_t page[4096], uint64_t offset, wk_footer_run runs[127],
                         uint32_t *count);
wk_status wk_footer_states(const wk_footer *footer, const uint8_t page[4096], uint64_t offset,
                           wk_footer_state states[63], uint32_t *count);
#endif
