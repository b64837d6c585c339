/*
 * engine.h: one directory open in this process, and the parts it is made of. Private.
 *
 * Locks. `lock` guards everything here but what says otherwise; it is never held over a call of the seam, except
 * while a directory is opened or closed. Atomics (durable, failed) may be read without it. Order: catalogue_lock,
 * then lock, then a cache's own lock.
 *
 * Roles. The *sealer* (whoever set `sealing`) turns the open block into a journal block; one at a time, as blocks
 * chain. A block in flight belongs to who writes it: an appender in its own call, or the driver thread (driver.c).
 * The keeper thread (keeper.c) prepares files, writes footers and snapshots, recycles and compacts.
 */
#ifndef WK_ENGINE_ENGINE_H
#define WK_ENGINE_ENGINE_H
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "core/block_window.h"
#include "core/catalogue_record.h"
#include "core/footer.h"
#include "core/index_file.h"
#include "core/superblock.h"
#include "engine/base/file_name.h"
#include "engine/base/wait_word.h"
#include "engine/index/state_list.h"
#include "engine/journal/group_commit.h"
#include "io/io.h"
#include "records/buffer.h"
#include "records/error.h"
#include "walkeeper/entry.h"
#include "walkeeper/log.h"

typedef struct wk_engine wk_engine;
typedef struct wk_store_file wk_store_file;
typedef struct wk_ledger wk_ledger;
typedef struct wk_log_state wk_log_state;

enum {
	WK_CATALOGUE_LEDGER = 0,
	WK_WAIT_SLOTS = 16, /* more than blocks that can be open or in flight */
	WK_ENTRY_OVERHEAD = WK_BLOCK_RECORD_HEADER_SIZE + WK_ENTRY_HEADER_SIZE,
	WK_FILE_ID_STEP = 1024, /* file ids reserved by one write of the superblock */
	WK_PREPARED_MAX = 3,    /* prepared files kept, the reserve included */
	WK_SNAPSHOT_DELTA_MIN = 1 << 20,
};
static_assert(WK_WAIT_SLOTS > WK_BLOCKS_IN_FLIGHT_MAX + 1, "two blocks that somebody waits for never share a slot");

/* ---- store files: journal files and entry logs (store_file.c) ---- */

enum wk_file_state {
	WK_FILE_NEXT,   /* prepared, named and synced; no block yet */
	WK_FILE_ACTIVE, /* the journal's last file */
	WK_FILE_FULL,   /* no more blocks; its footer is not written yet */
	WK_FILE_SEALED, /* with footer */
	WK_FILE_DYING,  /* being recycled or unlinked */
};

struct wk_store_file {
	uint64_t id;
	uint64_t size;
	uint64_t written;    /* of a journal file: its space up to here; what is behind may only be allocated */
	uint32_t zeros;      /* put behind a block of it, the last time */
	uint64_t end_offset; /* of the blocks */
	uint64_t first_sequence;
	uint64_t last_sequence;
	uint64_t incarnation; /* of the last block */
	uint64_t live_entries;
	uint64_t live_bytes;
	uint64_t entries_count;
	uint64_t inode, born_ns; /* a follower's: of the file that it opened first; 0: not known */
	wk_file *handle;
	wk_footer footer;     /* valid where SEALED */
	wk_state_list states; /* of a file not yet sealed; its count stays */
	int64_t *ledgers;     /* a file not yet sealed: whose entries it holds */
	uint32_t ledgers_count, ledgers_capacity;
	uint32_t runs_count;  /* of a file not yet sealed */
	uint64_t last_delete; /* highest sequence of a block in it that deletes a ledger, 0: none */
	uint32_t first_previous_crc;
	uint32_t last_crc;
	uint32_t pins;            /* readers, writers and movers that use the handle now */
	uint32_t kind;            /* enum wk_file_kind */
	uint32_t state;           /* enum wk_file_state */
	uint64_t named_from;      /* generation of the first index file that named it, 0: none has */
	uint64_t thin_since_ns;   /* at most a tenth live since then, 0: it is not */
	uint64_t refused_reserve; /* a mover's reserve of so many bytes was too small for what is live in it, 0: none was */
	uint64_t interleaved_since_ns; /* when its stretches were counted */
	uint32_t mean_stretch;         /* bytes, of a journal file (interleaved.h); 0: not counted yet */
	bool scattered;                /* its ledgers are too many for it to be sorted */
	uint64_t stays_ns;      /* it could not be renamed or unlinked: not tried again before, 0: it was not tried */
	bool stuck;             /* the mover could not empty it: an entry is damaged */
	bool footer_under_way;  /* somebody writes it */
	bool footer_failed;     /* sealed without a footer: scanned at the next start */
	bool footer_shared;     /* that, as another name shares its bytes: looked at again (journal_footer.c) */
	bool unreadable_footer; /* recovery: its trailer reads well, its other pages do not */
	bool emptied;           /* the mover copied all that anybody needs: ranges of it that are paged out count no more */
	bool gone;              /* a follower's: no longer listed, the writer has recycled or unlinked it */
	bool retired;           /* out of the table: the last unpin frees it */
};

typedef struct wk_walk_block { /* where an accepted block stands */
	uint64_t sequence;
	wk_store_file *file;
	uint64_t offset;
	uint32_t size;
} wk_walk_block;

/* ---- ledgers and their ranges (ledger.c, range.c) ---- */

typedef struct wk_range {            /* the entries of one ledger in one file */
	int64_t first_entry, last_entry; /* between them may be holes */
	wk_store_file *file;
	union {
		struct wk_place_list *places; /* the file is not sealed: here they are */
		struct {                      /* it is: they are in its footer */
			uint32_t start;           /* one run: its first item; several: the first of them */
			uint32_t runs_count;
		};
	};
	uint32_t bytes; /* a file has no more: items are numbered by 32 bits */
	uint32_t count;
	uint32_t dead;  /* at least so many of them nobody needs: truncated, or a newer file has them too */
	bool open;      /* `places` counts */
	bool uncounted; /* there may be more dead ones; it waits in engine->recounts (recount.c) */
	bool changed;   /* since the index file was made that names its file */
} wk_range;

struct wk_ledger {
	int64_t id;
	int64_t last_entry;    /* -1: none */
	int64_t durable_entry; /* readers may see up to this one */
	int64_t first_live;    /* entries before it are dead */
	int64_t length;        /* cumulative payload */
	union {
		wk_range range; /* not listed: at most this one, as of most ledgers */
		struct {
			wk_range *list; /* by first entry, then file */
			int64_t *reach; /* where ranges overlap: a tree of last entries (range.c); NULL: no memory for it */
			uint32_t reach_size;
			/* where the ledger stands in an index file, if it is `indexed` or `paged` (range_pager.h) */
			uint32_t index_first, index_count, index_generation;
			uint32_t index_limit; /* those count that are in files which an index up to this one named */
			int64_t paged_last;   /* paged: the last entry of the ranges that are out */
		} ranges;
	};
	uint32_t ranges_count, ranges_capacity; /* of those in memory */
	uint32_t open_range;                    /* probably that of the file under way */
	bool overlap : 1;                       /* some range begins before another one ends */
	bool named : 1;                         /* recovery: a log has a segment in it */
	bool listed : 1;                        /* `ranges` counts, not `range` */
	bool indexed : 1; /* the index file has its ranges, but for those that changed or came since */
	bool paged : 1;   /* some of its ranges are in the index file only */
	bool plain : 1;   /* paged: what is dead in those was all before its first live entry */
	bool used : 1;    /* somebody looked for an entry of it, a moment ago */
	bool behind : 1;  /* paged: what happened to it is still to be done to the ranges that are out */
};
static_assert(sizeof(wk_ledger) <= 104, "the flags fit into what there was");

/* ---- the open block (journal.c) ---- */

/* One entry of a ledger store in the open block, or in one in flight. */
typedef struct wk_block_entry {
	int64_t ledger_id, entry_id;
	uint32_t offset, size; /* in the block; with the checksum before its bytes */
} wk_block_entry;

/*
 * What a block of a ledger store holds (ledger_block.c). Its records stand in the block's buffer as soon as they are
 * accepted, in that order.
 */
typedef struct wk_ledger_block {
	wk_block_entry *entries;
	wk_footer_state *states;
	uint32_t entries_count, entries_capacity;
	uint32_t states_count, states_capacity;
	size_t size;  /* of all records, with their heads */
	uint32_t crc; /* of all of them */
} wk_ledger_block;

/* One entry under construction: the records of one log, or raw bytes (catalogue). */
typedef struct wk_builder {
	wk_ledger *ledger;
	wk_log_state *log; /* NULL: raw */
	int64_t entry_id;
	int64_t lac;    /* for the header, taken when the block is sealed */
	int64_t length; /* the same */
	int64_t first_sequence_id;
	int64_t last_txid;
	int64_t segment;       /* of the log, that it belongs to */
	int64_t payload_bytes; /* of its records */
	uint32_t records;
	uint32_t codec;
	bool in_place;  /* its bytes stand in the block's buffer already */
	bool closed;    /* takes no more records: an atomic group */
	uint8_t *bytes; /* records (or raw payload), without the envelope header */
	size_t size, capacity;
	uint32_t crc; /* of the first `summed` of its bytes */
	size_t summed;
	uint32_t item_offset, item_size; /* of the entry in the block, once sealed */
} wk_builder;

typedef struct wk_block {
	wk_buffer *buffer;
	uint64_t sequence;
	uint64_t accepted_bytes;    /* payload counted against in_flight_bytes */
	uint64_t first_ns;          /* when the first record came */
	uint64_t deferred_until_ns; /* UINT64_MAX: none waits */
	size_t estimate;            /* bytes it will take, padding apart; in a ledger store with its part of the footer */
	wk_builder *builders;
	uint32_t builders_count, builders_capacity;
	uint32_t catalogue_builder; /* number of the last one that holds changes of the catalogue, from 1; 0: none */
	wk_ledger_block ledgers;    /* in a ledger store; there are no builders there */
	bool sync_wanted;           /* somebody wants it durable now */
	bool at_once;               /* ... and no signal ends that wait: it does not wait for company by commit_wait */
	uint32_t appends;           /* that want it durable now */
	bool confirm;
	/* once sealed: */
	wk_block_header header;
	uint32_t zeros; /* bytes behind it that are written along (journal_zeros.h) */
	wk_store_file *file;
	bool with_sync; /* written with sync */
	uint64_t sealed_ns;
} wk_block;

/* ---- the engine ---- */

typedef struct wk_prepared_file {
	char *name;             /* "journal/prepared-….wkp" */
	uint64_t size, written; /* as of a journal file */
	bool found;             /* when the directory was opened: its size need not be durable */
} wk_prepared_file;

struct wk_engine {
	wk_io *io;
	bool owns_io;
	bool holds_path; /* of the names in it; nobody else's engine uses this `io` */
	char *path;
	uint64_t device, inode;
	struct {
		char *path; /* NULL: it is in this directory */
		uint64_t device, inode;
		bool held, made;
		wk_file *owner; /* locked by a writer; NULL: not entered */
	} journal_directory;
	wk_open_options options;
	uint32_t handles; /* namespaces on it (registry lock) */
	struct wk_engine *next_in_registry;
	bool ready, sharable; /* registry lock */
	_Atomic bool forked;  /* this process is a child of the one that opened it */

	pthread_mutex_t lock;
	pthread_mutex_t file_id_lock;   /* next_file_id and writes of the superblock */
	pthread_mutex_t catalogue_lock; /* one change of the catalogue that needs several blocks at a time */
	wk_superblock superblock;
	wk_file *superblock_file;
	wk_file *lock_file;
	wk_recovery_report report;
	bool read_only;
	struct {
		wk_io *
		    below; /* the disk of a damaged directory whose repair is seen here in memory (readonly_repair.h); else NULL */
		uint64_t generation; /* of its superblock then */
	} repaired_view;
	bool made;                                  /* the directory, by this process */
	struct wk_loss *loss;                       /* accepted by this open, not yet recorded; NULL: none */
	struct wk_missing_entries *missing_entries; /* while opening (missing_entries.h); NULL: none */

	/* journal */
	wk_block open;                               /* takes records */
	wk_block in_flight[WK_BLOCKS_IN_FLIGHT_MAX]; /* by sequence % 8 */
	struct
	{ /* of finished blocks, with the memory of their entries; the last is the next to be used: it is in the caches */
		wk_builder *builders;
		uint32_t capacity;
	} spare[WK_BLOCKS_IN_FLIGHT_MAX + 1];
	uint32_t spare_count;
	wk_block_window window;
	uint32_t last_crc;
	uint64_t offset; /* of the next block in the active file */
	wk_store_file *active;
	wk_store_file *next;        /* prepared and named, NULL: none yet */
	uint32_t footers_due;       /* full files whose footer is still to be written: at most one when the journal rolls */
	uint64_t footers_shared_ns; /* when files without one, as another name shares them, are looked at again */
	bool naming_next;   /* somebody gives a prepared file its id and name: journal files are made one at a time */
	uint64_t rolled_ns; /* when the journal last went on in another file */
	uint64_t rolled_block_size; /* of the blocks in the one before it, about */
	uint32_t small_blocks;      /* in a row, up to as many as are looked for (journal_zeros.c) */
	bool zeros_under_way;       /* with a block: no other one goes out until it is written */
	uint64_t sync_goal;         /* highest sequence somebody wants durable now */
	uint64_t deferred_sync_ns;  /* blocks written without sync are to be synced by then; UINT64_MAX: none */
	bool sealing;
	bool snapshotting; /* the catalogue may not change */
	bool closing;
	bool disk_full; /* not even the next file could be made: appends are refused */
	bool space_low; /* the keeper could not prepare a file */
	int shortage;   /* why: ENOSPC, EDQUOT, EMFILE, ENFILE or ENOMEM */
	uint64_t retry_space_ns;
	struct {
		wk_walk_block blocks[WK_BLOCKS_IN_FLIGHT_MAX];
		uint32_t count;
		bool due;
	} unconfirmed;         /* what recovery found so; to be written again (unconfirmed.h) */
	bool confirm_at_start; /* recovery: the last block is no confirm block */
	bool confirm_pending;  /* the last block is not confirmed yet */
	uint64_t last_activity_ns;
	uint64_t in_flight_bytes;
	uint64_t next_file_id;
	wk_error failure;         /* why the journal stopped */
	uint64_t looked_sequence; /* durable when the keeper last looked whether the directory is still ours */
	uint64_t look_due_ns;
	bool page_is_anothers; /* the page `shared` is one with another directory's, by `cp -al`: it tells nothing of us */
	uint64_t chain_end; /* the last block that recovery found; behind an accepted loss `durable` may be a later one */
	uint64_t page_durable; /* what that page said when recovery began; UINT64_MAX: nothing of this directory alone */
	_Atomic bool failed;
	_Atomic uint64_t durable;          /* sequence of the last durable block */
	uint64_t filled;                   /* that of the last one with records, as far as it is known */
	wk_wait_word waits[WK_WAIT_SLOTS]; /* one changes when a block of its sequence is durable */
	wk_wait_word room;                 /* changes when a block is sealed or durable */
	wk_wait_word tail;                 /* changes when the durable point moves; followers wait on it */
	wk_buffer_pool *block_pool;
	wk_buffer_pool *read_pool;
	struct wk_read_memory *read_memory;

	/* index */
	wk_store_file **files; /* by id */
	uint32_t files_count, files_capacity;
	wk_store_file *lent; /* a follower's: the file that was opened last without a pin; NULL: none */
	uint64_t id_seed;    /* of the tables by ledger ids, which clients choose */
	wk_ledger **ledgers; /* open addressing by id */
	uint32_t ledgers_count, ledgers_capacity;
	struct wk_block_cache *memtable;
	struct wk_page_cache *pages;
	struct wk_read_ahead *ahead;
	struct {
		int64_t ledger_id;
		uint64_t file_id;
	} * recounts; /* ranges whose dead entries are to be counted (recount.c) */
	uint32_t recounts_count, recounts_capacity;
	uint64_t recount_due_ns;
	struct {                      /* index_file.c */
		uint64_t generation;      /* of the durable one, 0: none */
		uint64_t generation_last; /* the highest there ever was */
		uint64_t mark;            /* files below it need no footer to be read, nor to be there, 0: none do */
		uint64_t size;            /* of the durable one, bytes */
		uint64_t recycled_files;  /* when it was written */
		uint64_t retry_ns;
		uint64_t reserve; /* bytes kept back for the next one in a ledger store, 0: none */
		bool wanted;      /* there was one, and it could not be used */
		bool outdated;    /* it claims what is lost, and that loss is accepted: the next open would miss it again */
	} index;
	struct {                                    /* range_pager.c */
		uint64_t bytes;                         /* of all lists of ranges */
		uint64_t ranges_count;                  /* of all ledgers, in memory */
		uint64_t above;                         /* a sweep is due when there are more */
		uint32_t paged;                         /* ledgers that have ranges paged out */
		uint32_t hand;                          /* in the table of ledgers: where the sweep goes on */
		bool index_wanted;                      /* only a new index file helps */
		bool index_fresh;                       /* there is one that was wanted, and no sweep yet */
		struct wk_index_source *source, *older; /* where ranges are read from; older: while the next one replaces it */
		struct wk_orphan *orphans; /* ranges paged out of ledgers that are gone: still in their files' live counts */
		uint32_t orphans_count, orphans_capacity;
		int64_t *behind; /* ids of ledgers that are to be caught up */
		uint32_t behind_count, behind_capacity;
		uint64_t retry_ns, behind_ns; /* what failed is not tried again before */
	} pager;
	struct wk_ledger_state **states; /* what state records said last (ledger_state.c); open addressing by ledger id */
	uint32_t states_count, states_capacity, states_more_count;
	/* while copies of their entries may turn up (ledger_delete.c); open addressing by ledger id */
	struct wk_deleted_ledger *deleted;
	uint32_t deleted_count, deleted_capacity;

	/* catalogue */
	wk_log_state **logs; /* open addressing by name */
	uint32_t logs_count, logs_capacity;
	wk_log_state **logs_by_id; /* open addressing by id, deleted ones with handles included */
	uint32_t by_id_count, by_id_capacity;
	wk_log_options **log_options; /* each kind once */
	uint32_t log_options_count;
	uint64_t next_log_id, next_ledger_id;
	int64_t next_catalogue_entry;
	uint64_t catalogue_delta;  /* bytes since the last snapshot */
	uint64_t catalogue_ticket; /* of the last change that its caller waits for */
	uint64_t catalogue_snapshot_size;
	wk_snapshot_place catalogue_base; /* the snapshot that it was loaded from (catalogue_recovery.c) */
	uint64_t catalogue_ledgers_from;  /* the first ledger id that was free when that was written */
	bool catalogue_loaded;
	bool catalogue_rewrite; /* not from the newest one, or not whole: new ones are wanted at once */

	/* the clock that stamps txids (admission.c): what both clocks said together when it was last looked at */
	int64_t wall_ms, monotonic_ms; /* wall_ms 0: not yet */

	/* other processes */
	struct wk_shared_page *shared;
	struct wk_follower *follower; /* opened read-only */

	/* threads */
	pthread_t driver, keeper;
	bool driver_runs, keeper_runs, keeper_gone;
	wk_io_queue *queue;                          /* the driver's */
	uint32_t driver_group;                       /* blocks to go until an appender may be taken to be alone */
	uint32_t driver_word;                        /* changes when somebody wakes it */
	_Atomic bool driver_sleeps, driver_in_queue; /* where it waits */
	bool driver_active;                          /* it looks at the open block without being woken */
	bool driver_gathers;                         /* ... once the company is there, or not to be waited for any more */
	wk_group_commit group_commit;
	struct wk_committer *committer; /* a thread that writes what fits the file, beside the driver */
	bool driver_stop;
	_Atomic bool keeper_stop;    /* looked at in the middle of long writes */
	uint64_t driver_deadline_ns; /* it sleeps until then */
	uint32_t driver_in_flight;
	pthread_cond_t keeper_wake;
	bool keeper_due;
	struct {
		wk_prepared_file *files;
		uint32_t count;
		uint64_t serial;
	} prepared;
	uint64_t file_size_next;
	uint64_t reserve_covers;   /* appends of at most so many bytes are safe under the reserve; 0: there is none */
	uint64_t reserve_wanted;   /* the largest append so far */
	uint64_t reserve_refused;  /* appends from this size on could not be made safe a moment ago; 0: none */
	bool output_short;         /* the mover had no space: its next pass takes the reserve */
	uint64_t output_reserve;   /* bytes kept back for the mover's output, 0: none */
	bool keeps_nothing_back;   /* the file system allocates nothing ahead */
	bool one_victim;           /* what is live in several files together did not fit the reserve: one at a time */
	uint64_t unplaced_bytes;   /* of the block being sealed, until its place is known */
	uint32_t unplaced_entries; /* the same */

	/* namespaces with an armed eventfd */
	struct wk_namespace *namespaces;

	struct wk_grid_probe *grid_probe; /* under way; the keeper's */
	bool grid_wanted;                 /* the probe's grid is not measured yet on this device */
	uint64_t grid_due_ns;
	struct wk_mover *mover;    /* a pass under way; the keeper's */
	struct {                   /* interleaved.c */
		uint64_t due_ns;       /* after a failure: not before */
		uint64_t refused_last; /* the last file of those that it was not worth it for, 0: none */
	} sort;
	uint64_t mover_due_ns, minor_due_ns, major_due_ns;
	uint64_t retention_due_ns;
	uint64_t retention_from_ns, retention_from_ms; /* both clocks when retention was first asked; 0: it was not */
	struct {
		uint32_t slot; /* of the table of ledgers */
		int64_t ledger_id, entry_id;
		uint32_t looks; /* at ledgers and ranges, by the last step */
		uint64_t due_ns;
	} scrub;                    /* where it goes on */
	uint64_t zero_filled_bytes; /* atomic */
	uint64_t other_bytes;       /* of files in the directory that are none of ours, when it was opened */
	wk_stats counters;
	wk_journal_times times;
	uint64_t sync_began_ns; /* of the sync that is under way */
};

struct wk_namespace {
	wk_engine *engine;
	struct wk_namespace *next;
	int event_fd;                /* -1: none */
	uint64_t armed;              /* ticket, 0: not armed */
	_Atomic uint32_t references; /* the handle itself, logs, readers, writers */
	_Atomic bool closed;
	_Atomic uint32_t calls; /* in progress */
	struct wk_hold *holds;  /* of its handles (handles.h) */
};

static inline void wk_engine_lock(wk_engine *engine) {
	pthread_mutex_lock(&engine->lock);
}
static inline void wk_engine_unlock(wk_engine *engine) {
	pthread_mutex_unlock(&engine->lock);
}
static inline uint64_t wk_engine_now(wk_engine *engine) {
	return engine->io->operations->now(engine->io);
}

/* Somebody appends: blocks are sealed again and again. From any thread. */
static inline bool wk_engine_is_written(wk_engine *engine) {
	enum { BUSY_NS = 50 * 1000 * 1000 };
	uint64_t last = __atomic_load_n(&engine->last_activity_ns, __ATOMIC_RELAXED);
	return !engine->read_only && last != 0 && wk_engine_now(engine) < last + BUSY_NS;
}

/* UINT64_MAX, as a delay or where the sum would be beyond it, is never. */
static inline uint64_t wk_time_after(uint64_t from_ns, uint64_t delay_ns) {
	return delay_ns < UINT64_MAX - from_ns ? from_ns + delay_ns : UINT64_MAX;
}

/* Of the journal's files: on one device the space of one file can be another's, and what a sync takes was measured there. */
static inline uint64_t wk_engine_journal_device(const wk_engine *engine) {
	return engine->journal_directory.path != NULL ? engine->journal_directory.device : engine->device;
}

static inline bool wk_engine_holds_ledgers(const wk_engine *engine) {
	return engine->superblock.kind == WK_KIND_LEDGERS;
}
static inline bool wk_block_is_empty(const wk_block *block) {
	return block->builders_count == 0 && block->ledgers.size == 0;
}

/* Full path of a file of the directory (places.h); the caller frees. NULL: no memory. */
char *wk_engine_path(const wk_engine *engine, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
