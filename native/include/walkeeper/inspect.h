/*
 * inspect.h: looking at the files of a directory without opening it: for `walkeeper inspect`, `verify` and `doctor`.
 *
 * Nothing here takes the lock, and only wk_doctor writes: a file of its own. A directory in use, or a damaged one, is
 * fine.
 */
#ifndef WALKEEPER_INSPECT_H
#define WALKEEPER_INSPECT_H
#include "walkeeper/core.h"
#include "walkeeper/log.h"

typedef struct wk_inspection wk_inspection;

/* Called with one line of JSON (an object) after another; return false to stop. */
typedef bool (*wk_inspect_fn)(void *context, const char *json);

/*
 * Describes any file of a directory (journal file, entry log, index file, superblock, shared page; told by its bytes,
 * by its name only where they are all zero): one object for the file, one for each block or page, and with `entries`
 * one for each entry. WK_CORRUPT after the lines for what could be read.
 */
WK_API wk_status wk_inspect_file(const char *path, bool entries, wk_inspect_fn fn, void *context, wk_error *error);

/* Called now and then while verifying; return false to stop (the call answers WK_INTERRUPTED). */
typedef bool (*wk_verify_fn)(void *context, uint64_t bytes_done, uint64_t bytes_total);

enum { WK_VERIFY_FINDINGS_MAX = 16 };

typedef struct wk_verify_finding {
	char name[264];   /* the file, "journal/0000000000000014.wkj"; "log NAME" of what no file has; else "directory" */
	uint64_t damaged; /* structures in it, at least 1 */
	char first[400];  /* what is wrong with the first of them, and at which offset */
} wk_verify_finding;

typedef struct wk_verify_report {
	uint64_t files;
	uint64_t blocks;
	uint64_t entries;
	uint64_t bytes;
	uint64_t damaged; /* blocks, pages or entries that break their rule */
	uint64_t torn_tail_bytes;
	uint64_t warnings;       /* caches that cannot be used: nothing is lost, and the next open has more to read */
	uint32_t findings_count; /* files with damage, as far as there is room; `damaged` counts what others have, too */
	char first_damage[400];  /* where and what: findings[0] in one line; empty where there is none */
	char first_warning[400]; /* the same */
	wk_verify_finding findings[WK_VERIFY_FINDINGS_MAX]; /* in the order in which they were found */
} wk_verify_report;

/*
 * Reads every byte that matters of the directory and checks every structure. bytes_per_second 0: no limit. WK_DAMAGED
 * where report->damaged > 0; warnings alone are WK_OK.
 */
WK_API wk_status wk_verify_directory(const char *path, uint64_t bytes_per_second, wk_verify_fn fn, void *context,
                                     wk_verify_report *report, wk_error *error);
/* The same, where the journal has a directory of its own and is told to be in this one (NULL: as the superblock says). */
WK_API wk_status wk_verify_directories(const char *path, const char *journal, uint64_t bytes_per_second,
                                       wk_verify_fn fn, void *context, wk_verify_report *report, wk_error *error);

typedef struct wk_rebuild_report {
	bool rebuilt;               /* false: the superblock is there, and belongs to the files */
	uint32_t kind;              /* enum wk_directory_kind */
	uint64_t incarnation;       /* the highest that was found */
	uint64_t last_sequence;     /* of any whole block, or of one that a footer names */
	uint64_t index_generation;  /* of a ledger store: of the index file that is used, 0: none is whole */
	uint32_t other_directories; /* whose blocks or footers stand among the files, too */
} wk_rebuild_report;

/*
 * Writes a superblock where it is missing, damaged in both slots, cut short, or another directory's than the files; else
 * nothing. For a copy that nobody has open: what only the superblock said is assumed (docs/operations.md). `journal` (may be
 * NULL) is where the journal directory is, `journal_name` where it will be. WK_DAMAGED: the files do not tell what is needed;
 * WK_UNSUPPORTED; WK_IO.
 */
WK_API wk_status wk_rebuild_superblock(const char *directory, const char *journal, const char *journal_name,
                                       wk_rebuild_report *report, wk_error *error);

typedef struct wk_doctor_report {
	uint32_t backend;     /* enum wk_backend that would run here */
	int32_t uring_error;  /* 0, or the errno that the ring was refused with */
	uint32_t sync_method; /* enum wk_sync_method that the probe prefers */
	int32_t write_error;  /* 0, or the errno that a file in `path` was refused with: see below */
	bool direct;          /* O_DIRECT works here */
	uint32_t alignment;
	uint64_t file_system; /* statfs f_type */
	uint64_t free_bytes;
	uint64_t total_bytes;
	uint64_t dsync_ns;           /* median of the probe: 4 KiB, RWF_DSYNC */
	uint64_t write_then_sync_ns; /* the same by write and fdatasync */
	uint32_t blocks_in_flight;   /* that the probe's grid prefers */
	uint32_t grid_ns[16]; /* ns a block: [RWF_DSYNC, write and sync][1, 2, 4, 8 at once][4 KiB, 64 KiB], row by row */
} wk_doctor_report;
/*
 * Probes in a temporary file inside `path` (an existing directory), which it removes. Where this user may not make one,
 * the file system is read-only or full, that is WK_OK with write_error; then nothing was tried, and sync_method, direct,
 * alignment and what a probe measures are 0.
 */
WK_API wk_status wk_doctor(const char *path, wk_doctor_report *report, wk_error *error);
#endif
