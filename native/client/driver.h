/* driver.h: the client as its threads share it: the driver, its inbox, and operations that somebody waits for. Private. */
#ifndef WK_CLIENT_DRIVER_H
#define WK_CLIENT_DRIVER_H
#include "client/handle.h"
#include "io/io.h"

struct wk_client {
	wk_client_options options;
	_Atomic uint32_t references;      /* the owner, and each handle */
	uint64_t (*clock)(void *context); /* ns */
	void *clock_context;
	pthread_t thread;
	bool has_thread; /* else turn and end are called by who made it */
	_Atomic bool stops, sleeps;
	_Atomic bool has_work;      /* something was asked behind the driver's last turn */
	_Atomic(wk_handle *) inbox; /* handles with something submitted */
	uint32_t changes;           /* a futex: rises with each publication */
	_Atomic uint32_t waiters;
	uint32_t failures; /* a futex: rises when a slot or a writer failed */
	_Atomic uint32_t failure_waiters;
	pthread_mutex_t lock;
	/* under the lock */
	wk_net *net; /* the driver's alone */
	wk_dispatcher *dispatcher;
	wk_handle *handles, *dirty, *idle;
	uint64_t lac_due_ns;    /* of the first of those that are idle; UINT64_MAX: none */
	uint64_t change_due_ns; /* of the first writer that is frozen or stuck; UINT64_MAX: none */
	bool ended;
};

/*
 * A client without a thread, whose owner hands it what `net` tells: a simulator. It destroys the net.
 * WK_NO_MEMORY: nothing was made.
 */
wk_status wk_client_new(wk_net *net, const wk_client_options *options, uint64_t (*clock)(void *), void *clock_context,
                        wk_client **client);
/* What the driver does when it wakes; when it is to wake next (UINT64_MAX: when something is told, or asked). */
uint64_t wk_client_turn(wk_client *client, const wk_net_event *events, int count);
/* Everything that waits ends. */
void wk_client_end(wk_client *client);

/* Takes the lock, and tells the dispatcher the time. */
void wk_client_lock(wk_client *client);
/* The driver, and others behind what they asked: gives the lock back; the driver sends. */
void wk_client_unlock_and_wake(wk_client *client);
/* From any thread, without the lock. */
void wk_client_put_in_inbox(wk_client *client, wk_handle *handle);
void wk_client_mark_dirty(wk_client *client, wk_handle *handle);
void wk_client_mark_idle(wk_client *client, wk_handle *handle);
void wk_client_tell_failures(wk_client *client);
void wk_client_limit_change(wk_client *client, wk_handle *handle);
void wk_client_drop(wk_client *client);

/* Requests that one call makes and waits for. */
typedef struct wk_operation {
	wk_asker asker;
	wk_client *client;
	wk_handle *handle;
	void (*destroy)(struct wk_operation *);
	uint32_t done; /* a futex: 1 */
	wk_status status;
	int64_t entry_id; /* in question, -1 */
	char why[160];
} wk_operation;
void wk_operation_init(wk_operation *operation, wk_handle *handle,
                       void (*answered)(wk_asker *, const wk_note *, const wk_wire_reply *),
                       void (*destroy)(wk_operation *));
/* (client's lock) Once; later ones change nothing. */
void wk_operation_end(wk_operation *operation, wk_status status);
void wk_operation_explain(wk_operation *operation, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * The parts of the calls of client.h that take time: begin asks; `operation->done` says that it has ended; finish takes the
 * result, given `status` WK_OK, or what the wait ended with, and leaves the operation. NULL: no memory.
 */
wk_operation *wk_read_begin(wk_handle *handle, int64_t first, int64_t last, uint64_t max_bytes);
wk_status wk_read_finish(wk_operation *operation, wk_status status, wk_entries **entries, wk_error *error);
wk_operation *wk_read_lac_begin(wk_handle *handle);
wk_status wk_read_lac_finish(wk_operation *operation, wk_status status, int64_t *lac, wk_error *error);
wk_operation *wk_wait_lac_begin(wk_handle *handle, int64_t known, uint64_t timeout_ns);
wk_status wk_wait_lac_finish(wk_operation *operation, wk_status status, int64_t *lac, wk_entries **entry,
                             wk_error *error);
wk_operation *wk_recover_begin(wk_handle *handle);
wk_status wk_recover_finish(wk_operation *operation, wk_status status, int64_t *last_entry, uint64_t *length,
                            wk_error *error);
/* Without the lock: waits until it has ended. WK_TIMEOUT and WK_INTERRUPTED: it has not. */
wk_status wk_operation_wait(wk_operation *operation, uint64_t timeout_ns);
/* Without the lock: nobody needs it any more; it is destroyed once nothing of it is under way. */
void wk_operation_leave(wk_operation *operation);
/* A read of the ledger; flags of enum wk_wire_flag. False: the bookie cannot be asked now. (client's lock) */
bool wk_operation_ask_read(wk_operation *operation, uint32_t bookie, int64_t entry_id, uint32_t flags,
                           const wk_note *note, uint64_t timeout_ns);
/* A long poll for the LAC behind `known`, and with it entry known + 1. False: as above. (client's lock) */
bool wk_operation_ask_long_poll(wk_operation *operation, uint32_t bookie, int64_t known, uint64_t timeout_ns,
                                const wk_note *note);
/* Why a bookie did not give what it was asked for; reply NULL: it did not answer. */
const char *wk_reply_text(const wk_wire_reply *reply);

wk_status wk_client_fail(wk_error *error, wk_status status, int64_t ledger_id, int64_t entry_id, bool unknown,
                         const char *format, ...) __attribute__((format(printf, 6, 7)));
/* What is left of the timeout that began at `began_ns`. */
uint64_t wk_time_left(uint64_t began_ns, uint64_t timeout_ns);
#endif
