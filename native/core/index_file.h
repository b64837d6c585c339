/*
 * index_file.h: what the footers of all files below LastLogMark say, in one file (docs/formats/index.md). Pure.
 *
 * The file `index/<generation, 16 hex digits>.wki` is pages of 4096 bytes: a header page, file pages, ledger pages, range pages. Little-endian.
 *   header   see wk_index_header; magic "WKIX"
 *   page     0 uint32 CRC-32C   4 uint16 count   6 uint16 kind   8 members
 *            the CRC starts from directory id, generation and the page's offset, so that a page in another place never counts
 *   file     the trailer of its footer without the directory id, 72 bytes      56 a page, by file id
 *   ledger   136 bytes                                                         30 a page, by ledger id
 *   range    56 bytes                                                          73 a page, by (ledger, first entry, file)
 * An index file is a cache: where it is damaged or missing, the footers say the same of every file that is still there.
 */
#ifndef WK_CORE_INDEX_FILE_H
#define WK_CORE_INDEX_FILE_H
#include "core/footer.h"

enum {
	WK_INDEX_PAGE_FILES = 56,
	WK_INDEX_PAGE_LEDGERS = 30,
	WK_INDEX_PAGE_RANGES = 73,
};

enum wk_ledger_bit { WK_LEDGER_FENCED = 1, WK_LEDGER_HAS_KEY = 2, WK_LEDGER_HAS_LAC = 4 };

typedef struct wk_index_header {
	uint8_t directory_id[16];
	uint64_t generation;      /* as in its name; from 1 on, never used twice */
	uint64_t replay_epoch;    /* the mark: it speaks of files with ids below it */
	uint64_t replay_sequence; /* the last block in them */
	uint32_t files_count;
	uint32_t ledgers_count;
	uint32_t ranges_count;
} wk_index_header;

typedef struct wk_index_ledger { /* what ranges do not say of a ledger */
	int64_t ledger_id;
	int64_t last_entry; /* below the mark, -1: none */
	int64_t first_live; /* entries before it are dead */
	int64_t length;     /* of the payloads up to last_entry, 0: not known */
	uint32_t bits;      /* enum wk_ledger_bit: what its state records said last */
	uint8_t key_size;
	uint8_t lac_size;
	uint8_t key[48]; /* master key: 20 bytes in BookKeeper; room for whatever a state record can hold */
	uint8_t lac[48]; /* explicit LAC packet */
} wk_index_ledger;

typedef struct wk_index_range { /* the entries of one ledger in one file */
	int64_t ledger_id;
	int64_t first_entry;
	int64_t last_entry; /* between them may be holes */
	uint64_t bytes;
	uint32_t file; /* which of the index's files, from 0 */
	uint32_t count;
	uint32_t dead;       /* at least so many of these nobody needs */
	uint32_t runs_count; /* of consecutive ids, in that file's footer */
	uint32_t start;      /* one run: its first item there; several: the first of them */
	uint32_t uncounted;  /* 1: there may be more dead ones */
} wk_index_range;

/* Bytes of an index file of so many members: a multiple of 4096. */
uint64_t wk_index_size(uint64_t files, uint64_t ledgers, uint64_t ranges);
/*
 * Writes the whole file to `bytes` (wk_index_size of them). Members must be sorted; the files' directory ids are not
 * looked at.
 */
void wk_index_encode(const wk_index_header *header, const wk_footer *files, const wk_index_ledger *ledgers,
                     const wk_index_range *ranges, uint8_t *bytes);
/*
 * The same page by page, for who does not have all of it at once: pages of each kind are full but for the last one. Of
 * the header's counts only that of the files must be known before the header is encoded.
 */
void wk_index_encode_header(const wk_index_header *header, uint8_t page[4096]);
void wk_index_encode_files(const wk_index_header *header, const wk_footer *files, uint32_t count, uint64_t offset,
                           uint8_t page[4096]);
void wk_index_encode_ledgers(const wk_index_header *header, const wk_index_ledger *ledgers, uint32_t count,
                             uint64_t offset, uint8_t page[4096]);
void wk_index_encode_ranges(const wk_index_header *header, const wk_index_range *ranges, uint32_t count,
                            uint64_t offset, uint8_t page[4096]);
/* The header, from the first 4096 bytes. WK_CORRUPT; WK_UNSUPPORTED: a newer version. */
wk_status wk_index_decode(const uint8_t page[4096], wk_index_header *header);

/* Offsets of the pages: of file i, ledger i, range i. */
uint64_t wk_index_file_page(const wk_index_header *header, uint32_t file);
uint64_t wk_index_ledger_page(const wk_index_header *header, uint32_t ledger);
uint64_t wk_index_range_page(const wk_index_header *header, uint32_t range);

/*
 * Members of one page that was read from `offset`; *count says how many. WK_CORRUPT: CRC, kind, count, or members
 * that cannot be.
 */
wk_status wk_index_files(const wk_index_header *header, const uint8_t page[4096], uint64_t offset, wk_footer files[56],
                         uint32_t *count);
wk_status wk_index_ledgers(const wk_index_header *header, const uint8_t page[4096], uint64_t offset,
                           wk_index_ledger ledgers[30], uint32_t *count);
wk_status wk_index_ranges(const wk_index_header *header, const uint8_t page[4096], uint64_t offset,
                          wk_index_range ranges[73], uint32_t *count);
#endif
