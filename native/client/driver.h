/* driver.h: the client as its threads share it: the driver, its inbox, and operations that somebody waits for. Private. */
#ifndef WK_CLIENT_DRIVER_H
#define WK_CLIENT_DRIVER_H
#include "client/handle.h"
#include "io/io.h"

struct wk_client {
	wk_client_options options;
	uint32_t backend;
	_Atomic uint32_t references; /* the owner, and each handle */
	pthread_t thread;
	_Atomic bool stops, sleeps;
	_Atomic bool has_work;      /* something was asked behind the driver's last turn */
	_Atomic(wk_handle *) inbox; /* handles with something submitted */
	uint32_t changes;           /* a futex: rises with each publication */
	_Atomic uint32_t waiters;
	pthread_mutex_t lock;
	/* under the lock */
	wk_net *net; /* the driver's alone */
	wk_dispatcher *dispatcher;
	wk_handle *handles, *dirty;
	bool ended;
};

/* Takes the lock, and tells the dispatcher the time. */
void wk_client_lock(wk_client *client);
/* The driver, and others behind what they asked: gives the lock back; the driver sends. */
void wk_client_unlock_and_wake(wk_client *client);
/* From any thread, without the lock. */
void wk_client_put_in_inbox(wk_client *client, wk_handle *handle);
void wk_client_mark_dirty(wk_client *client, wk_handle *handle);
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
/* Without the lock: waits until it has ended. WK_TIMEOUT and WK_INTERRUPTED: it has not. */
wk_status wk_operation_wait(wk_operation *operation, uint64_t timeout_ns);
/* Without the lock: nobody needs it any more; it is destroyed once nothing of it is under way. */
void wk_operation_leave(wk_operation *operation);
/* A read of the ledger; flags of enum wk_wire_flag. False: the bookie cannot be asked now. (client's lock) */
bool wk_operation_ask_read(wk_operation *operation, uint32_t bookie, int64_t entry_id, uint32_t flags,
                           const wk_note *note);
/* Why a bookie did not give what it was asked for; reply NULL: it did not answer. */
const char *wk_reply_text(const wk_wire_reply *reply);

wk_status wk_client_fail(wk_error *error, wk_status status, int64_t ledger_id, int64_t entry_id, bool unknown,
                         const char *format, ...) __attribute__((format(printf, 6, 7)));
/* What is left of the timeout that began at `began_ns`. */
uint64_t wk_time_left(uint64_t began_ns, uint64_t timeout_ns);
#endif
