/*
 * loss.h: acknowledged entries that can no longer be read, and the policy that accepts that (storage rule 14).
 * Private.
 *
 * What an open finds lost becomes gaps of the logs (catalogue records GAP), durable before anything else is written;
 * then the damaged journal files get a footer, so that the next start does not scan them again.
 */
#ifndef WK_ENGINE_LOSS_H
#define WK_ENGINE_LOSS_H
#include "engine/catalogue.h"

typedef struct wk_lost_entry {
	int64_t ledger_id;
	int64_t entry_id;
	int64_t records_max; /* it held so many records at most */
	bool unreadable;     /* the index has it, but its bytes are not those that were written (check_all) */
} wk_lost_entry;

typedef struct wk_loss {
	wk_lost_entry *entries; /* that damaged blocks named, and that cannot be read */
	uint32_t entries_count, entries_capacity;
	wk_catalogue_record *records; /* to be made durable */
	uint32_t records_count, records_capacity;
	uint64_t *entry_logs; /* to be set aside */
	uint32_t entry_logs_count;
} wk_loss;

wk_loss *wk_loss_new(void); /* NULL: no memory */
void wk_loss_free(wk_loss *loss);
/*
 * So many records stood in this damaged entry of a log where their heads fit together, else at most so many. At least
 * 1.
 */
int64_t wk_loss_records_in(const uint8_t *entry, size_t entry_size);
wk_status wk_loss_add(wk_loss *loss, const wk_lost_entry *entry);
/* The highest entry of the ledger that was added, -1 for none. */
int64_t wk_loss_last(const wk_loss *loss, int64_t ledger_id);
/* The lowest entry from `first` on that is unreadable, -1: none. wk_loss_sort was called since the last of them came. */
int64_t wk_loss_next_unreadable(const wk_loss *loss, int64_t ledger_id, int64_t first);
void wk_loss_sort(wk_loss *loss);
/* The records of one entry of a log. */
typedef struct wk_ends {
	int64_t first, last; /* positions in the segment, from 1; 0: no record */
	int64_t txid;        /* of the last */
	int64_t slot;        /* the same */
	int64_t payload;     /* of the segment's records up to the last */
} wk_ends;
/* WK_DAMAGED where the entry cannot be read. No lock held. */
wk_status wk_loss_read_ends(wk_engine *engine, int64_t ledger_id, int64_t entry_id, wk_ends *found, wk_error *error);

/* Payload of the segment's records before this entry, of which the last can be read; 0 where there are none. */
int64_t wk_loss_payload_before(wk_engine *engine, const wk_segment *segment, int64_t entry_id);

/* An entry log whose footer cannot be read. */
wk_status wk_loss_add_entry_log(wk_loss *loss, uint64_t id);

/*
 * loss_check.c: reads every entry; what cannot be read is noted as lost. While opening, the catalogue is there.
 */
wk_status wk_loss_check_all(wk_engine *engine, wk_error *error);
/* From holes in the index, and unreadable entries, to gaps of logs, by the policy. While opening, the catalogue is there. */
wk_status wk_loss_make_gaps(wk_engine *engine, wk_error *error);
/* Makes them durable, then seals what was damaged. While opening, no thread runs yet. No lock held. */
wk_status wk_loss_record(wk_engine *engine, wk_error *error);

/* What is lost with the last entry of a log's open segment, and the last txid before that. No lock held. */
wk_status wk_loss_at_end(wk_engine *engine, const wk_log_state *log, const wk_segment *segment, int64_t last_entry,
                         wk_gap *gap, int64_t *txid, wk_error *error);
/*
 * Under on_damage=skip: the last entry of a log's open segment cannot be read, which nobody noticed before the log
 * was used. Records that as a gap, and completes the segment. No lock held.
 */
wk_status wk_loss_accept_end(wk_engine *engine, wk_log_state *log, const wk_segment *segment, int64_t last_entry,
                             wk_error *error);

/*
 * The gap around the unreadable entry entry_id of a segment: from behind the last readable record before it to the
 * next readable one, whose entry is *after (-1: none up to `last`). `known_end`: the sequence id behind `last`, -1
 * where that is not known; then the gap's count is 0 where nothing readable follows. *txid is that of the record
 * before it, as far as one is known. No lock held.
 */
wk_status wk_loss_around(wk_engine *engine, const wk_segment *segment, const wk_position *log_first, int64_t entry_id,
                         int64_t last, int64_t known_end, wk_gap *gap, int64_t *after, int64_t *txid, wk_error *error);
#endif
