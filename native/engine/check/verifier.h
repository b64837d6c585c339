/*
 * verifier.h: what the parts of wk_verify_directory share. Private.
 *
 * The directory may be in use meanwhile: its files grow, get footers, are recycled. Two rules keep that apart from
 * damage. A sealed file's bytes are its own as long as its name still leads to it, asked after they were read. And a
 * block that a later block knows durable was written before that one: where it was not whole, it is read again after
 * the evidence, and only then counted.
 */
#ifndef WK_ENGINE_VERIFIER_H
#define WK_ENGINE_VERIFIER_H
#include "core/journal_scan.h"
#include "core/superblock.h"
#include "engine/check/file_view.h"
#include "walkeeper/entry.h"
#include "walkeeper/inspect.h"

typedef struct wk_verify_file {
	uint64_t id;
	uint64_t size;
	uint32_t kind;
	bool sealed; /* has its footer */
	bool has_blocks;
	bool broken_footer; /* had one, or was getting it */
	bool footer_told;   /* ... and that was counted as damage */
	bool closed;        /* cannot even be opened: counted as damage, and then taken for absent */
} wk_verify_file;

typedef struct wk_verifier {
	wk_io *io;
	const char *path;
	char journal[WK_JOURNAL_PATH_SIZE]; /* the journal directory; empty: there is none */
	wk_verify_report *report;
	wk_verify_fn fn;
	void *context;
	wk_error *error;
	uint64_t rate; /* bytes per second, 0: no limit */
	uint64_t begin_ns;
	uint64_t total_bytes;
	wk_superblock superblock;
	wk_verify_file *files; /* by id */
	uint32_t files_count, files_capacity;
	uint64_t last_sequence; /* of the blocks that were looked at, in order */
	uint64_t last_damaged;  /* report->damaged at that block */
	bool recycled;          /* blocks before or between them are not there any more: their files were let go */
} wk_verifier;

/* Entries and states as the blocks of one file hold them. */
typedef struct wk_found_entry {
	int64_t ledger_id;
	int64_t entry_id;
	uint32_t offset;
	uint32_t size;
} wk_found_entry;

typedef struct wk_found {
	wk_found_entry *entries;
	wk_footer_state *states;
	uint32_t entries_count, entries_capacity;
	uint32_t states_count, states_capacity;
	bool damaged; /* not all blocks could be read: something may be missing here */
} wk_found;

/*
 * Counts one structure that breaks its rule; the first of each name (a file below the directory, or what
 * wk_verify_finding says) is described.
 */
void wk_verifier_damage(wk_verifier *verifier, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for what is only a cache. */
void wk_verifier_warn(wk_verifier *verifier, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Damage and warnings since `before` were none: what was read was another file's by then. */
void wk_verifier_take_back(wk_verifier *verifier, const wk_verify_report *before);
/* The superblock as it is now. WK_DAMAGED: neither slot is whole. */
wk_status wk_verifier_superblock(wk_verifier *verifier, wk_superblock *superblock);
/* A file below the directory, through a view that is paced and counted. WK_NOT_FOUND: it is gone. */
wk_status wk_verifier_open_below(wk_verifier *verifier, const char *below, wk_file_view *view);
/* The same for a store file. */
wk_status wk_verifier_open(wk_verifier *verifier, const wk_verify_file *file, wk_file_view *view);
/* "journal/0000000000000001.wkj", in a buffer of the caller's. */
const char *wk_verify_file_name(const wk_verify_file *file, char name[40]);

/* verify_places.c: the path of a file of the directory; the caller frees. NULL: no memory. */
char *wk_verifier_path(const wk_verifier *verifier, const char *below);
/* The journal directory: told, or as the superblock says; and whether it is this directory's. */
wk_status wk_verify_places(wk_verifier *verifier, const char *told);
/* verify_block.c: every entry of a whole block; added to `found` unless it is NULL. WK_NO_MEMORY. */
wk_status wk_verify_block(wk_verifier *verifier, const wk_verify_file *file, const uint8_t *bytes,
                          const wk_block_header *header, wk_found *found);
/* One entry's digest, and in ledger 0 its records. */
void wk_verify_entry(wk_verifier *verifier, const wk_verify_file *file, uint64_t offset, const uint8_t *bytes,
                     size_t size, wk_entry *entry, bool *whole);
/* verify_journal.c: all journal files, along the chain. */
wk_status wk_verify_journal(wk_verifier *verifier);
/* verify_sealed.c: one file with a footer: its blocks, and the footer against them. *gone: it was recycled meanwhile.
 */
wk_status wk_verify_sealed(wk_verifier *verifier, wk_verify_file *file, wk_file_view *view, const wk_footer *footer,
                           bool *gone);
/* verify_footer.c: the footer's pages; against `found` (NULL: an entry log, whose entries are read where it says). */
wk_status wk_verify_footer(wk_verifier *verifier, const wk_verify_file *file, wk_file_view *view,
                           const wk_footer *footer, wk_found *found);
wk_status wk_verify_entry_log(wk_verifier *verifier, const wk_verify_file *file);
/* The runs of a footer, whole pages of them; the caller frees. NULL without error: a page is not whole. */
wk_status wk_verify_footer_runs(wk_verifier *verifier, wk_file_view *view, const wk_footer *footer,
                                wk_footer_run **runs);
/* verify_index.c: the index file that the superblock names, by itself and against the footers. Behind all others. */
wk_status wk_verify_index(wk_verifier *verifier);
/* verify_logs.c: what logs need is in some file. Behind all others, where nothing was damaged. */
wk_status wk_verify_logs(wk_verifier *verifier);
#endif
