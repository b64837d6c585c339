/*
 * log.h: the embedded log. A directory is a namespace; a namespace holds logs; a log is appended to by one
 * writer and read by many readers.
 *
 * Ownership: what a call hands out (namespace, log, writer, reader, batch, cursor, names) is released by the
 * matching _close or _release, in any order; a log keeps its namespace's memory alive, a batch its records'.
 * Threads: every call may be made from any thread; one reader, and one batch, by one thread at a time.
 * Fork: in a child process every call but _release answers WK_FORKED; the parent's lock and data are untouched.
 * Errors: `error` may be NULL; where given it is filled on failure: what was being done, to what, what was found,
 * what to do. Waits are cut short by signals (WK_INTERRUPTED): call again, or give up.
 */
#ifndef WALKEEPER_LOG_H
#define WALKEEPER_LOG_H
#include "walkeeper/core.h"
#include "walkeeper/histogram.h"
#include "walkeeper/record.h"

typedef struct wk_namespace wk_namespace;
typedef struct wk_log wk_log;
typedef struct wk_writer wk_writer;
typedef struct wk_reader wk_reader;
typedef struct wk_batch wk_batch;

enum { WK_LOG_NAME_MAX = 255, WK_CURSOR_NAME_MAX = 255, WK_ERROR_TEXT_MAX = 480 };

/* What a failed call leaves. Fields that do not apply are -1 (or 0 for system_error). */
typedef struct wk_error {
	wk_status status;
	int32_t system_error; /* errno */
	bool outcome_unknown; /* a write: it may or may not be durable; false: it is definitely not written */
	int64_t ledger_id;
	int64_t entry_id;
	/* WK_MISMATCH: the durable record that sits at the expected id, or the next id; unknown outcome: the id it would have */
	int64_t sequence_id;
	int64_t txid;           /* WK_MISMATCH: its txid */
	int64_t holder_pid;     /* WK_LOCKED: who holds the directory */
	uint64_t durable_count; /* append_many, not atomic: this many of its records are known durable */
	char text[480];         /* NUL-terminated UTF-8 */
} wk_error;

/* ---- namespaces ------------------------------------------------------------------------------------ */

/*
 * What an open does about acknowledged bytes that can no longer be read.
 *
 * STOP: the open, or the read that meets them, answers WK_DAMAGED.
 * SKIP: intact blocks and entries are kept. The rest becomes gaps. A gap is recorded durably when the open, or the first
 * use of a log's end, finds it. Readers yield it (WK_RECORD_GAP) for ever.
 * POINT_IN_TIME: a log that the open finds damaged ends before its first loss; one gap covers the rest. Damage that only a
 * read finds is treated as under STOP.
 *
 * Lost sequence ids are not given again. A catalogue that cannot be loaded from either of its snapshots is refused by STOP;
 * the other policies keep what is intact of it (catalogue_lost).
 *
 * A read-only open writes nothing. Where it meets damage, it repairs the directory in memory and shows the result of that
 * moment. It answers WK_DAMAGED where another process writes the directory. Its reads answer WK_LOCKED once another process
 * has opened the directory for writing.
 *
 * A ledger store has STOP and SKIP. SKIP goes on behind damage in the journal: entries, fences, keys and deletes of whole
 * blocks are kept, those of damaged blocks are gone. A caller that asks for SKIP records that first, because afterwards the
 * store calls the lost entries absent. Other damage is refused under both.
 */
enum wk_on_damage { WK_ON_DAMAGE_STOP = 0, WK_ON_DAMAGE_POINT_IN_TIME = 1, WK_ON_DAMAGE_SKIP = 2 };
/*
 * A directory is a namespace of logs, or a store of ledgers whose ids its user chooses (ledger.h). Which one is fixed
 * when it is made.
 */
enum wk_directory_kind { WK_KIND_LOGS = 0, WK_KIND_LEDGERS = 1 };
enum wk_backend { WK_BACKEND_AUTO = 0, WK_BACKEND_URING = 1, WK_BACKEND_PSYNC = 2 };
enum wk_sync_method { WK_SYNC_PROBE = 0, WK_SYNC_DSYNC = 1, WK_SYNC_WRITE_THEN_SYNC = 2 };

/* wk_open_options_init gives the defaults; 0 in a limit means its default. */
typedef struct wk_open_options {
	bool create;               /* make the directory where there is none (default true) */
	bool read_only;            /* open what is there and follow a writer in another process; takes no lock */
	bool unsafe_fs;            /* accept a network file system */
	bool ignore_footers;       /* scan every journal file from its first block (verification, benchmarks) */
	uint32_t on_damage;        /* enum wk_on_damage */
	bool check_all;            /* where on_damage accepts loss: read every entry, so that all loss is found now */
	uint32_t kind;             /* enum wk_directory_kind; opened as the other kind a directory answers WK_INVALID */
	uint32_t backend;          /* enum wk_backend */
	uint32_t sync_method;      /* enum wk_sync_method */
	uint32_t blocks_in_flight; /* sync writes at once, 1..8 (default 0: as probed, 2 before that) */
	uint64_t lock_timeout_ns;  /* default 10 s */
	uint64_t file_size_min;    /* journal files start at this size (default 4 MiB, at least 64 KiB) ... */
	uint64_t file_size_max;    /* ... and double up to this (default 64 MiB) */
	/* a block is submitted at this size at the latest (default 512 KiB; at most half of file_size_min) */
	uint64_t block_size_max;
	uint64_t memtable_bytes; /* recently written blocks kept for readers (default 8 MiB) */
	uint64_t cache_bytes;    /* index pages, and a quarter for what is read ahead (default 8 MiB) */
	uint64_t range_bytes; /* lists of which files a ledger's entries are in (default 64 MiB); the rest is read again */
	uint64_t in_flight_bytes; /* accepted and not yet durable (default 8 MiB); at the limit appends wait. For fences and
	                           * recovery adds of a ledger store there is an eighth more */
	/* records that readers gave out and that are still held (default 256 MiB, at least 4 MiB and three blocks); at the limit reading answers WK_FULL */
	uint64_t read_bytes;
	uint64_t deferred_delay_ns; /* a deferred append is durable after at most this (default 100 ms) */
	uint64_t confirm_delay_ns;  /* a confirm block is written after this long without appends (default 100 ms) */
	uint64_t commit_wait_ns;    /* a block waits this long for company, at most a minute (default 0) */
	uint64_t compact_rate;      /* bytes per second the mover may copy (default 64 MiB) */
	uint32_t minor_percent; /* minor compaction: files with less live than this (default 20, UINT32_MAX: none) ... */
	uint32_t major_percent; /* major compaction (default 80, UINT32_MAX: none) ... */
	uint64_t minor_interval_ns; /* ... every hour */
	uint64_t major_interval_ns; /* ... every day */
	/*
	 * In a ledger store: memory to sort journal files in which the entries of many ledgers stand in turn, four times as
	 * much of them at once (default 128 MiB, at most 512 MiB; UINT64_MAX: they stay as they are) ...
	 */
	uint64_t sort_memory;
	uint64_t sort_wait_ns; /* ... and where fewer are there, after so long (default a minute), ... */
	uint32_t sort_gain;    /* ... if what one read of a ledger brings becomes so many times longer (default 4) */
	uint64_t scrub_rate;   /* bytes per second read again in the background to find damage (default 0: off) */
	/*
	 * A directory for the journal alone, at best on a device of its own (default NULL: it is in the directory). Decided when
	 * the directory is made, and named at each open for writing; to read, where it was when it was last opened is enough. Up
	 * to 1,023 bytes from the root on. Copied by the call that takes it.
	 */
	const char *journal;
	uint64_t internal; /* 0: for tests of this library */
} wk_open_options;

WK_API void wk_open_options_init(wk_open_options *options);

/*
 * `path` as an absolute path, by the working directory of this moment; release with wk_free. NULL: no memory. A caller that
 * calls wk_open repeatedly until the directory is free asks for it once, as the working directory may change in between.
 */
WK_API char *wk_absolute_path(const char *path);

/*
 * Opens (or makes, but not its parents) the directory `path`. The same directory opened twice in one process shares
 * one engine. When it returns, everything that an earlier process was told is durable is readable again, and what
 * could not be confirmed was cut. WK_LOCKED after lock_timeout; WK_NOT_FOUND without create; WK_DAMAGED under
 * on_damage=stop; WK_UNSUPPORTED; WK_IO.
 */
WK_API wk_status wk_open(const char *path, const wk_open_options *options, wk_namespace **ns, wk_error *error);

/*
 * Where the journal of the directory was when it was last opened for writing; release with wk_free. NULL: in the directory,
 * or it cannot be told (what hinders that hinders an open). Whether it is there still, the open looks. WK_NO_MEMORY.
 */
WK_API wk_status wk_journal_of(const char *directory, char **journal, wk_error *error);
/* Of which kind the directory is (enum wk_directory_kind), as its superblock says; nothing is opened. WK_DAMAGED; WK_UNSUPPORTED; WK_IO. */
WK_API wk_status wk_kind_of(const char *directory, uint32_t *kind, wk_error *error);

/*
 * Makes deferred appends durable, writes the confirm block, releases the lock with the last handle. UINT64_MAX: wait
 * for ever; WK_TIMEOUT: the handle is closed all the same, what was not durable has an unknown outcome, and as a write
 * may still be under way the directory stays locked until the process ends: a time is for disks that stall, seconds and
 * not 0. The namespace must not be used afterwards, unless it was retained.
 */
WK_API wk_status wk_close(wk_namespace *ns, uint64_t timeout_ns, wk_error *error);
/*
 * For a caller that cannot tell whether another thread has closed the namespace: a namespace that was retained may be used
 * until it is released. Once it is closed, its calls answer WK_CLOSED; those without a status answer 0, -1 or nothing.
 */
WK_API wk_namespace *wk_namespace_retain(wk_namespace *ns);
WK_API void wk_namespace_release(wk_namespace *ns);

/* Where recovery had to cut or found damage; all zero after a clean start. */
typedef struct wk_recovery_report {
	uint64_t files_scanned;
	uint64_t footers_read;
	uint64_t bytes_scanned;
	uint64_t blocks_accepted;
	uint64_t cut_bytes; /* bytes of a torn tail: never acknowledged */
	uint64_t cut_file;  /* its journal file, 0 for none; the name has it in hexadecimal */
	uint64_t cut_offset;
	uint64_t damaged_blocks; /* accepted loss: so many blocks were not whole; their intact entries were kept */
	/* of these, it cannot be told which ledgers they held entries of ("ledgers unknown"): gaps may be missing at the end of logs */
	uint64_t unknown_blocks;
	uint64_t lost_entries; /* entries of damaged blocks that could be named but not kept */
	uint64_t lost_records; /* sequence ids that this open recorded as gaps */
	uint64_t lost_files;   /* entry logs whose index cannot be read: set aside, as entries/<id>.damaged */
	/* the newest snapshot of the catalogue cannot be read; the one before it and the changes since said the same */
	uint64_t catalogue_fallbacks;
	/*
	 * accepted loss: entries of the catalogue that cannot be read. What they changed is not known: logs made, renamed
	 * or deleted, segments, truncations, cursors
	 */
	uint64_t catalogue_lost;
	/*
	 * read-only, and nobody writes: so many blocks at the end are whole but not known durable. They are not shown; no
	 * call that wrote them returned success. The next open for writing decides about them
	 */
	uint64_t unconfirmed_blocks;
	uint64_t adopted_ledgers; /* ledgers that no log names any more: each is a log now, "recovered-ledger-<id>" */
	uint64_t lock_wait_ns;
	uint64_t elapsed_ns; /* without the lock wait */
} wk_recovery_report;
WK_API void wk_namespace_recovery(wk_namespace *ns, wk_recovery_report *report);

typedef struct wk_stats {
	uint64_t logs_count;
	uint64_t journal_files; /* active and sealed */
	uint64_t prepared_files;
	uint64_t entry_logs;
	uint64_t disk_bytes;       /* all files of the directory */
	uint64_t live_bytes;       /* entries that are not truncated or deleted */
	uint64_t appended_records; /* since open */
	uint64_t appended_bytes;   /* payload, since open */
	uint64_t written_bytes;    /* to the disk, all kinds, since open */
	uint64_t blocks_count;     /* since open */
	uint64_t syncs_count;      /* durable points since open */
	uint64_t durable_block;    /* sequence of the last durable block */
	uint64_t memory_logs;      /* native memory of catalogue, ledgers and index */
	uint64_t memory_ranges;    /* of that, what range_bytes limits */
	uint64_t range_reads;      /* since open: ledgers whose ranges were read again from the index file */
	uint64_t memory_memtable;
	uint64_t memory_cache;
	uint64_t memory_in_flight;
	uint64_t memory_readers;  /* batches that were not released, and what readers hold themselves: about 1 MiB each */
	uint64_t recycled_files;  /* since open */
	uint64_t memory_sort;     /* what interleaved files are sorted in */
	uint64_t compacted_bytes; /* since open */
	uint64_t sorted_bytes;    /* since open: copied because their files were interleaved */
	uint64_t scrubbed_bytes;  /* since open */
	uint64_t scrub_damaged;   /* entries found damaged by the scrub since open */
	uint64_t clock_jumps; /* jumps of the wall clock by more than an hour, noticed where it stamped txids, since open */
	int64_t clock_jump_ms; /* the last of them: above 0 forwards, below 0 backwards */
	uint64_t oldest_file;  /* the file that pins space longest, 0 for none; the name has it in hexadecimal */
	int64_t oldest_ledger; /* and a ledger that pins it, -1 for none */
	uint32_t backend;      /* enum wk_backend */
	/* enum wk_sync_method; WK_SYNC_PROBE where a read-only open finds that this device was never measured */
	uint32_t sync_method;
	uint32_t blocks_in_flight; /* K */
	bool disk_full;            /* or no file can be opened to go on in: appends are refused */
	bool failed;
	bool probed; /* this device was measured with several blocks in flight too: that chose the method and K */
} wk_stats;
WK_API void wk_namespace_stats(wk_namespace *ns, wk_stats *stats);

/* Of the journal's blocks, since open. Counted once for a block or a sync, and never for a record. */
typedef struct wk_journal_times {
	wk_histogram sync_ns; /* a durable write, or a sync of what was written: from its beginning until it was over */
	wk_histogram wait_ns; /* from the first record of a block until the block was closed, to be written */
	wk_histogram block_records; /* records, or entries of a ledger store, in a block */
	wk_histogram block_bytes;   /* their payload */
} wk_journal_times;
WK_API void wk_namespace_journal_times(wk_namespace *ns, wk_journal_times *times);

/* Sequence of the last durable block: tickets up to it are durable. Cheap; never falls. */
WK_API uint64_t wk_namespace_durable(wk_namespace *ns);

/*
 * Waits until `ticket` is durable. WK_FAILED: it never will be (error says whether its outcome is unknown);
 * WK_TIMEOUT; WK_INTERRUPTED.
 */
WK_API wk_status wk_namespace_wait(wk_namespace *ns, uint64_t ticket, uint64_t timeout_ns, wk_error *error);

/*
 * An eventfd that becomes readable after the durable point moves past `armed` (or the journal fails): read it, then ask
 * wk_namespace_durable. One for each namespace handle; made on first use, closed with it. -1 where none can be made.
 */
WK_API int wk_namespace_eventfd(wk_namespace *ns);
/*
 * Signal the eventfd as soon as a ticket >= `ticket` is durable; 0 disarms. If that is so already, it is signalled at
 * once.
 */
WK_API void wk_namespace_arm(wk_namespace *ns, uint64_t ticket);
/*
 * Reads the eventfd after it woke the caller. *durable is the last durable block. WK_FAILED: the journal failed, and no
 * later block becomes durable. WK_CLOSED, WK_FORKED.
 */
WK_API wk_status wk_namespace_drain(wk_namespace *ns, uint64_t *durable);

/*
 * wk_stats.clock_jumps, at a low cost; *last_ms (may be NULL) is clock_jump_ms. The clock that stamps txids is compared with
 * the monotonic clock at each append. When a writer is opened, it is compared with the last record: only a jump backwards
 * is noticed there, since a jump forwards looks like a process that was down. Txids never fall.
 */
WK_API uint64_t wk_namespace_clock_jumps(wk_namespace *ns, int64_t *last_ms);

/*
 * A consistent copy of the live directory by hard links, in `destination`: on the same file system, not in the
 * directory itself (WK_INVALID), a path that does not exist (WK_EXISTS).
 */
WK_API wk_status wk_namespace_backup(wk_namespace *ns, const char *destination, wk_error *error);
/*
 * The same into two directories, neither of which may exist: the copy is opened with `journal` as its journal directory,
 * whether the original has one or not. NULL: into one, whether it has one or not. Journal files on another file system
 * than their copy are copied, not linked.
 */
WK_API wk_status wk_namespace_backup_apart(wk_namespace *ns, const char *destination, const char *journal,
                                           wk_error *error);

/* ---- logs ------------------------------------------------------------------------------------------- */

enum wk_txid_source { WK_TXID_UNSET = 0, WK_TXID_APPLICATION = 1, WK_TXID_CLOCK = 2 };

/* Stored with the log. wk_log_options_init gives the defaults. */
typedef struct wk_log_options {
	uint64_t segment_bytes;   /* roll to a new log segment at this many payload bytes (default 256 MiB) */
	uint64_t segment_seconds; /* ... or when the segment is this old (default 7200; 0 or UINT64_MAX never) */
	/* 0 or UINT64_MAX: only what the application truncates goes (default 0); else completed segments older than this go, never past a cursor */
	uint64_t retention_seconds;
	uint32_t codec; /* WK_CODEC_* of its envelopes (default none) */
} wk_log_options;
WK_API void wk_log_options_init(wk_log_options *options);

/*
 * WK_NOT_FOUND without create, or opened read-only. `options` (may be NULL: defaults) is used where the log is
 * created; an existing log keeps its own.
 */
WK_API wk_status wk_log_open(wk_namespace *ns, const char *name, size_t name_size, bool create,
                             const wk_log_options *options, wk_log **log, wk_error *error);
WK_API void wk_log_release(wk_log *log);
/* Durable when it returns. Handles on the log answer WK_DELETED from now on; its space is freed. */
WK_API wk_status wk_log_delete(wk_namespace *ns, const char *name, size_t name_size, wk_error *error);
/*
 * Durable when it returns. The log keeps its positions. A position of an earlier log with the name `to` may be that of
 * another record now.
 */
WK_API wk_status wk_log_rename(wk_namespace *ns, const char *from, size_t from_size, const char *to, size_t to_size,
                               wk_error *error);
/* The names that start with `prefix`, in byte order, each followed by a NUL byte; release with wk_free. */
WK_API wk_status wk_log_names(wk_namespace *ns, const char *prefix, size_t prefix_size, char **names, size_t *size,
                              uint64_t *count, wk_error *error);
WK_API void wk_free(void *memory);

/* A place in a log: of a record, or just behind the last one. */
typedef struct wk_position {
	wk_dlsn dlsn;
	int64_t sequence_id; /* dense, from 0 */
	int64_t txid;        /* of the record there; -1 where there is none yet */
} wk_position;

typedef struct wk_log_info {
	uint64_t log_id;
	wk_log_options options;
	uint32_t txid_source; /* enum wk_txid_source */
	bool end_of_stream;
	uint64_t segments_count; /* that hold records not truncated */
	wk_position first;       /* the first record not truncated; where there is none, equal to `next` */
	wk_position last;        /* the last durable record; sequence_id -1 where there never was one */
	wk_position next;        /* just behind it: sequence_id is the number the next record gets */
	int64_t count;           /* records that can be read now */
} wk_log_info;
WK_API wk_status wk_log_describe(wk_log *log, wk_log_info *info, wk_error *error);

typedef struct wk_segment_info {
	int64_t segment; /* sequence number, from 1 */
	int64_t ledger_id;
	int64_t first_sequence_id;
	int64_t first_txid;
	int64_t last_entry_id; /* -1 where empty */
	int64_t records_count;
	/* Of its durable records. Records compressed before the log was opened count with their stored size; lost ones do not count. */
	int64_t payload_bytes;
	uint64_t created_ms; /* wall clock */
	bool completed;
} wk_segment_info;
/* Up to `max` segments from the one numbered `from` on; *count says how many. */
WK_API wk_status wk_log_segments(wk_log *log, int64_t from, wk_segment_info *segments, size_t max, size_t *count,
                                 wk_error *error);

enum wk_find_by { WK_FIND_SEQUENCE_ID = 0, WK_FIND_TXID = 1, WK_FIND_TIME_MS = 2, WK_FIND_DLSN = 3 };
/*
 * The first durable record whose number is at least `value`. By DLSN: at least `dlsn`; `value` is then the sequence id that
 * belongs to it, or 0 where it is not known. With it the call can tell that nothing is missed where the record before it is
 * truncated. For the other ways `dlsn` is ignored and may be NULL.
 *
 * Past the end: the position just behind the last record. WK_TRUNCATED: the number lies before the truncation point. By txid
 * or time truncated records are passed over, as their numbers are not known. WK_INVALID: time, on a log whose txids the
 * application gives.
 */
WK_API wk_status wk_log_find(wk_log *log, uint32_t by, int64_t value, const wk_dlsn *dlsn, wk_position *at,
                             wk_error *error);

/*
 * Truncates: every record before `before` can no longer be read (WK_TRUNCATED). Durable when it returns. The space is given
 * back in the background. A position before the truncation point changes nothing and is WK_OK. A position behind the end is
 * WK_INVALID. WK_EXISTS: a cursor still needs records before it (the text has its name), and force is false.
 */
WK_API wk_status wk_log_truncate(wk_log *log, const wk_dlsn *before, bool force, wk_error *error);

/*
 * Named durable positions. wk_cursor_set moves a cursor forward only, and not past the last accepted record (WK_INVALID). It
 * creates the cursor where there is none. wk_cursor_get: WK_NOT_FOUND.
 */
WK_API wk_status wk_cursor_set(wk_log *log, const char *name, size_t name_size, const wk_position *at, wk_error *error);
WK_API wk_status wk_cursor_get(wk_log *log, const char *name, size_t name_size, wk_position *at, wk_error *error);
WK_API wk_status wk_cursor_delete(wk_log *log, const char *name, size_t name_size, wk_error *error);
/* As wk_log_names. */
WK_API wk_status wk_cursor_names(wk_log *log, char **names, size_t *size, uint64_t *count, wk_error *error);

/* ---- writing ---------------------------------------------------------------------------------------- */

/*
 * Opens the one writer of a log. An earlier writer is fenced: its next append answers WK_FENCED. Appends that it had in
 * flight are durable before this call returns.
 */
WK_API wk_status wk_writer_open(wk_log *log, wk_writer **writer, wk_error *error);
/* Waits for what was submitted (as wk_close does). The writer must not be used afterwards. */
WK_API wk_status wk_writer_close(wk_writer *writer, uint64_t timeout_ns, wk_error *error);

enum wk_durability { WK_SYNC = 0, WK_DEFERRED = 1 };

typedef struct wk_append_options {
	int64_t txid;        /* -1: the log stamps milliseconds */
	int64_t expected;    /* the sequence id it must get; -1: any */
	uint64_t timeout_ns; /* UINT64_MAX: none; 0: do not wait for room (WK_WOULD_BLOCK) */
	uint32_t durability; /* enum wk_durability */
	bool atomic;         /* append_many: one entry, all or nothing after a crash */
	bool notify;         /* without a wait: arms the namespace's eventfd for the ticket, unless for an earlier one */
} wk_append_options;
WK_API void wk_append_options_init(wk_append_options *options);

/*
 * Appends one record and waits until it is durable (WK_DEFERRED: until it is accepted). `at` may be NULL. `payload`
 * is not used after the return. WK_TOO_LARGE, WK_MISMATCH, WK_TXID, WK_FENCED, WK_END_OF_STREAM, WK_NO_SPACE,
 * WK_IO and WK_NO_MEMORY (no file could be opened for it), WK_WOULD_BLOCK: definitely not written. WK_TIMEOUT,
 * WK_INTERRUPTED, WK_FAILED: error->outcome_unknown says.
 */
WK_API wk_status wk_writer_append(wk_writer *writer, const void *payload, size_t size, const wk_append_options *options,
                                  wk_position *at, wk_error *error);

/*
 * The same without the wait for durability: returns when accepted. *ticket goes to wk_namespace_wait, or is compared
 * with wk_namespace_durable. The bytes were copied. `at` may be NULL.
 */
WK_API wk_status wk_writer_submit(wk_writer *writer, const void *payload, size_t size, const wk_append_options *options,
                                  wk_position *at, uint64_t *ticket, wk_error *error);

/*
 * Many records in one call: `bytes` holds them back to back, sizes[i] the size of each. txids (may be NULL) one each,
 * non-decreasing. Their sequence ids are consecutive. *first and *last are the positions of the first and last, on
 * failure of those that were accepted (if error->outcome_unknown); *ticket is that of the last. wait=false returns
 * when accepted.
 */
WK_API wk_status wk_writer_append_many(wk_writer *writer, const void *bytes, const uint32_t *sizes, size_t count,
                                       const int64_t *txids, const wk_append_options *options, bool wait,
                                       wk_position *first, wk_position *last, uint64_t *ticket, wk_error *error);

/* Everything this writer appended is durable when it returns; *at (may be NULL) is the position just behind it. */
WK_API wk_status wk_writer_flush(wk_writer *writer, uint64_t timeout_ns, wk_position *at, wk_error *error);
/* The position the next record gets. */
WK_API void wk_writer_next(wk_writer *writer, wk_position *next);
/* Ends the log for ever: no record can follow. Durable when it returns. */
WK_API wk_status wk_writer_end_of_stream(wk_writer *writer, wk_error *error);

/* ---- reading ---------------------------------------------------------------------------------------- */

enum wk_read_from {
	WK_FROM_START = 0,
	WK_FROM_END = 1,
	WK_FROM_DLSN = 2,
	WK_FROM_SEQUENCE_ID = 3,
	WK_FROM_TXID = 4,
	WK_FROM_TIME_MS = 5
};

typedef struct wk_read_options {
	uint32_t from; /* enum wk_read_from */
	bool follow;   /* wait for more instead of ending */
	bool has_end;  /* stop before `end` */
	wk_dlsn start; /* WK_FROM_DLSN: inclusive, the first record at or after it */
	int64_t value; /* the other ways; with WK_FROM_DLSN the sequence id that goes with it, 0: not known */
	wk_dlsn end;   /* exclusive */
} wk_read_options;
WK_API void wk_read_options_init(wk_read_options *options);

/* WK_TRUNCATED: the start lies before the truncation point (WK_FROM_START never does). */
WK_API wk_status wk_reader_open(wk_log *log, const wk_read_options *options, wk_reader **reader, wk_error *error);
WK_API void wk_reader_release(wk_reader *reader);

enum wk_record_kind { WK_RECORD_DATA = 0, WK_RECORD_GAP = 1 };

/* payload lives as long as the batch. A gap stands for the accepted loss of `gap_count` records from `at` on. */
typedef struct wk_record {
	const uint8_t *payload;
	uint64_t size;
	wk_position at;
	wk_dlsn next; /* just behind it */
	uint64_t gap_count;
	uint32_t kind; /* enum wk_record_kind */
} wk_record;

/*
 * The next records, at least one, at most max_records and about max_bytes (one record may be larger). WK_END: nothing
 * more (a reader that does not follow, the end given, or the end of the stream). A reader that follows waits up to
 * timeout_ns for the first record (WK_TIMEOUT). WK_TRUNCATED, WK_DELETED, WK_DAMAGED: error says where. WK_FULL: the batches
 * of all readers of the directory in this process that were not released hold read_bytes. The call never waits for a
 * release. A caller that holds at most one batch is not refused because of it. After any of these the reader can be asked
 * again; it never skips a record.
 */
WK_API wk_status wk_reader_next(wk_reader *reader, size_t max_records, size_t max_bytes, uint64_t timeout_ns,
                                wk_batch **batch, wk_error *error);
WK_API const wk_record *wk_batch_records(const wk_batch *batch, size_t *count);
WK_API void wk_batch_release(wk_batch *batch);

/*
 * The same, but a batch never holds a gap. WK_DAMAGED: the reader stands before a gap; wk_reader_next returns it.
 */
WK_API wk_status wk_reader_next_records(wk_reader *reader, size_t max_records, size_t max_bytes, uint64_t timeout_ns,
                                        wk_batch **batch, wk_error *error);
/*
 * A batch without gaps as an Arrow record batch (Arrow C data interface): `schema` and `array` point to struct
 * ArrowSchema and ArrowArray that the caller owns and releases by their release callbacks. Columns: segment, entry_id,
 * slot, sequence_id, txid (int64) and payload (large_binary), none nullable. They are a copy, and count against no
 * limit; the batch stays the caller's. WK_NO_MEMORY: nothing was made.
 */
WK_API wk_status wk_batch_to_arrow(const wk_batch *batch, void *schema, void *array);
/* wk_reader_next_records and wk_batch_to_arrow in one. Records that could not become an Arrow batch come with the next call. */
WK_API wk_status wk_reader_next_arrow(wk_reader *reader, size_t max_records, size_t max_bytes, uint64_t timeout_ns,
                                      void *schema, void *array, wk_error *error);
/*
 * Where the reader stands: the position of the next record. Where the log was truncated up to that record, and the record is
 * in the next segment, a reader opened there (WK_FROM_DLSN) gets WK_TRUNCATED, unless `value` has the record's sequence id.
 */
WK_API void wk_reader_position(wk_reader *reader, wk_dlsn *at);
#endif
