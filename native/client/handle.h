/*
 * handle.h: a ledger as the client has it: its metadata, its writer, and what waits for it. Private to native/client.
 *
 * Who may touch what: `spec`, `writer` and askers belong to whoever has the client's lock (the driver, mostly). What is
 * under `lock` is shared with threads that submit. `lac` and what is atomic is published by the driver.
 */
#ifndef WK_CLIENT_HANDLE_H
#define WK_CLIENT_HANDLE_H
#include "client/dispatcher.h"
#include "core/digest.h"
#include "core/ledger_writer.h"
#include <pthread.h>
#include <stdatomic.h>

enum { WK_PENDING_MAX = 16384, WK_PENDING_BYTES_MAX = 64 * 1024 * 1024 };

/* The metadata of a ledger, in memory of their own. */
typedef struct wk_ledger_view {
	int64_t ledger_id;
	wk_quorum quorum;
	wk_digest digest;
	uint8_t master_key[20];
	uint32_t segments_count;
	int64_t *first_entries;
	uint32_t *bookies; /* of segment s: ensemble_size of them from s * ensemble_size on */
	bool closed;
	int64_t last_entry;
} wk_ledger_view;
wk_status wk_ledger_view_make(wk_ledger_view *view, const wk_ledger_spec *spec, uint32_t bookies, wk_error *error);
void wk_ledger_view_free(wk_ledger_view *view);
/* Other bookies from this entry on. WK_NO_MEMORY: nothing changed. */
wk_status wk_ledger_view_extend(wk_ledger_view *view, int64_t first_entry, const uint32_t *ensemble);
/* The ensemble of the entry; that of INT64_MAX is the last one. */
const uint32_t *wk_ledger_view_ensemble(const wk_ledger_view *view, int64_t entry_id);
int64_t wk_ledger_view_last_segment(const wk_ledger_view *view);

/* Adds of one handle, on their way: the entries of a writer, or those that a recovery writes again. */
typedef struct wk_adder {
	wk_asker asker;
	wk_client *client;
	const wk_ledger_view *view;
	wk_ledger_writer writer;
	bool recovers;
	/* Of a patient writer: the frames of the entries behind the LAC, to be sent to bookies that are new; e at e mod capacity. */
	wk_frame **kept;
	int64_t kept_from;                          /* the first that is kept */
	void (*progressed)(struct wk_adder *adder); /* the LAC moved, a slot or the writer failed */
} wk_adder;
/* `pending` has WK_PENDING_MAX places. */
void wk_adder_init(wk_adder *adder, wk_client *client, const wk_ledger_view *view, int64_t lac, int64_t lac_length,
                   wk_pending_add *pending);
/* The frame of the next entry, whose header and digest are in place: sent to its write set. Takes the reference. */
void wk_adder_send(wk_adder *adder, wk_frame *frame, int64_t length);
/* Another ensemble takes over behind the LAC, in a segment of its own: the writer is frozen. */
wk_status wk_adder_replace(wk_adder *adder, wk_ledger_view *view, uint64_t slots, const uint32_t *ensemble);
/* Lets go of the frames of entries up to this one. */
void wk_adder_forget(wk_adder *adder, int64_t entry_id);
/* A frame for an entry: the payload is in place; its CRC32C, where that is the digest. NULL: no memory. */
wk_frame *wk_entry_frame_new(const wk_ledger_view *view, const void *payload, size_t size, uint32_t *payload_crc);
/* Puts header and digest before the payload of `size` bytes. */
void wk_entry_frame_seal(const wk_ledger_view *view, wk_frame *frame, int64_t entry_id, int64_t lac, int64_t length,
                         size_t size, uint32_t payload_crc);
/* A frame with an explicit LAC packet. NULL: no memory. */
wk_frame *wk_lac_frame(const wk_ledger_view *view, int64_t lac);
/* The length that its header says. */
int64_t wk_entry_frame_length(const wk_frame *frame);

struct wk_handle {
	wk_client *client;
	_Atomic uint32_t references; /* the owner; the inbox; requests under way */
	uint32_t mode;
	int64_t ledger_id;
	wk_ledger_view view; /* of a reader: under the client's lock */
	wk_adder adder;      /* of a writer */
	wk_pending_add *pending;
	_Atomic int64_t lac;
	_Atomic uint64_t lac_length, failed_slots;
	_Atomic int32_t status; /* wk_status of the writer */
	_Atomic bool is_stuck;
	_Atomic uint32_t waiters;
	uint32_t turn; /* a futex: changes with each publication while somebody waits */
	_Atomic bool in_inbox;
	struct wk_handle *next_in_inbox;
	pthread_mutex_t lock;
	/* under the lock */
	int64_t last_add_pushed, length;
	int64_t told_lac; /* the highest that an entry or a WRITE_LAC carried */
	wk_frame *queue, **queue_end;
	uint64_t pending_bytes;
	bool sealed, closed;
	uint32_t *pending_sizes; /* of entry e at e mod WK_PENDING_MAX */
	int64_t freed_lac;       /* up to it, bytes were taken off pending_bytes */
	/* under the client's lock */
	void (*progressed)(void *context); /* told after each publication; NULL: nobody */
	void *progress_context;
	uint32_t recoveries;
	uint64_t change_due_ns; /* frozen or stuck, the writer fails then; UINT64_MAX: neither */
	bool change_failed;     /* the writer failed, as nobody said in time what became of a change of its ensemble */
	wk_asker lac_asker;     /* WRITE_LACs, whose outcome nobody needs */
	uint64_t lac_due_ns;
	bool is_idle; /* of a writer: its LAC is to be told where nothing is added until then */
	struct wk_handle *next_idle;
	bool is_dirty;                               /* to be published at the end of this turn */
	struct wk_handle *next_dirty, *next, **link; /* of the client's */
};

/* What was submitted is pushed and sent. (client's lock) */
void wk_handle_take_queue(wk_handle *handle);
/* The LAC and the state of the writer are told to those that wait. (client's lock) */
void wk_handle_publish(wk_handle *handle);
/* A writer that is frozen or stuck fails after a while. (client's lock) */
void wk_handle_limit_change(wk_handle *handle);
/* Tells the bookies the LAC, where no entry has carried it. (client's lock) */
void wk_handle_tell_lac(wk_handle *handle);
/* The client ends: nothing is confirmed any more. (client's lock) */
void wk_handle_end(wk_handle *handle);
/* Who is told of progress, in the driver and under the client's lock. */
void wk_handle_watch(wk_handle *handle, void (*progressed)(void *context), void *context);
/*
 * Accepts an entry whose payload of `size` bytes is in place, and its CRC32C; never waits, and asks nobody for room. Takes
 * the frame on WK_OK. Else why nothing is accepted any more.
 */
wk_status wk_handle_submit_frame(wk_handle *handle, wk_frame *frame, size_t size, uint32_t payload_crc,
                                 int64_t *entry_id);
void wk_handle_hold(wk_handle *handle);
void wk_handle_release(wk_handle *handle);
/* The same without the client's lock. */
void wk_handle_drop(wk_handle *handle);
#endif
