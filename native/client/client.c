/* client.c: the client's driver, a thread around the dispatcher, and what other threads ask of it. */
#include "client/driver.h"
#include "io/clock.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EVENTS_MAX = 256, RETRY_NS = 1000000, CONNECTIONS_MAX = 16384 };
#define NS_PER_S 1000000000ull

void wk_client_options_init(wk_client_options *options) {
	*options = (wk_client_options){.connect_timeout_ns = 5 * NS_PER_S,
	                               .add_timeout_ns = 5 * NS_PER_S,
	                               .read_timeout_ns = 5 * NS_PER_S,
	                               .link_bytes_max = 64 * 1024 * 1024,
	                               .lac_idle_ns = 1000000,
	                               .change_timeout_ns = 10 * NS_PER_S};
}

static void take_default(uint64_t *value, uint64_t by_default) {
	*value = *value != 0 ? *value : by_default;
}

/* ---- the lock, the inbox ---- */

void wk_client_lock(wk_client *client) {
	pthread_mutex_lock(&client->lock);
	wk_dispatcher_begin(client->dispatcher, client->clock(client->clock_context));
}

static void wake(wk_client *client) {
	/* The net is there until the driver was joined, by who holds a reference. */
	if (client->sleeps && !client->stops)
		client->net->operations->wake(client->net);
}

void wk_client_unlock_and_wake(wk_client *client) {
	client->has_work = true;
	if (!client->ended)
		wake(client);
	pthread_mutex_unlock(&client->lock);
}

void wk_client_put_in_inbox(wk_client *client, wk_handle *handle) {
	if (atomic_exchange(&handle->in_inbox, true))
		return; /* the driver has not taken it yet, and will find this too */
	wk_handle_hold(handle);
	wk_handle *first = client->inbox;
	do
		handle->next_in_inbox = first;
	while (!atomic_compare_exchange_weak(&client->inbox, &first, handle));
	wake(client);
}

static void take_inbox(wk_client *client) {
	wk_handle *handle = atomic_exchange(&client->inbox, NULL);
	while (handle != NULL) {
		wk_handle *next = handle->next_in_inbox;
		handle->in_inbox = false; /* before its queue is taken: what comes later puts it in again */
		wk_handle_take_queue(handle);
		wk_handle_release(handle);
		handle = next;
	}
}

void wk_client_mark_dirty(wk_client *client, wk_handle *handle) {
	if (handle->is_dirty)
		return;
	handle->is_dirty = true;
	wk_handle_hold(handle);
	handle->next_dirty = client->dirty;
	client->dirty = handle;
}

void wk_client_mark_idle(wk_client *client, wk_handle *handle) {
	handle->lac_due_ns = client->dispatcher->now_ns + client->options.lac_idle_ns;
	if (handle->lac_due_ns < client->lac_due_ns)
		client->lac_due_ns = handle->lac_due_ns;
	if (handle->is_idle)
		return;
	handle->is_idle = true;
	wk_handle_hold(handle);
	handle->next_idle = client->idle;
	client->idle = handle;
}

/* Those whose time has come leave the list; what their writers add again brings them back. */
static void tell_lacs(wk_client *client) {
	if (client->dispatcher->now_ns < client->lac_due_ns)
		return;
	client->lac_due_ns = UINT64_MAX;
	wk_handle **at = &client->idle;
	while (*at != NULL) {
		wk_handle *handle = *at;
		if (handle->lac_due_ns > client->dispatcher->now_ns && !client->ended) {
			if (handle->lac_due_ns < client->lac_due_ns)
				client->lac_due_ns = handle->lac_due_ns;
			at = &handle->next_idle;
			continue;
		}
		*at = handle->next_idle;
		handle->is_idle = false;
		if (!client->ended)
			wk_handle_tell_lac(handle);
		wk_handle_release(handle);
	}
}

static void publish(wk_client *client) {
	bool any = client->dirty != NULL;
	while (client->dirty != NULL) {
		wk_handle *handle = client->dirty;
		client->dirty = handle->next_dirty;
		handle->is_dirty = false;
		wk_handle_publish(handle);
		wk_handle_release(handle);
	}
	if (any)
		__atomic_fetch_add(&client->changes, 1, __ATOMIC_SEQ_CST);
	if (any && client->waiters > 0)
		wk_futex_wake(&client->changes, INT_MAX);
}

static wk_status wait_word(wk_client *client, uint32_t *word, _Atomic uint32_t *waiters, uint32_t *turn,
                           uint64_t timeout_ns) {
	uint64_t began_ns = wk_clock_monotonic_ns();
	wk_status status = WK_OK;
	(*waiters)++;
	while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == *turn) {
		if (client->stops) {
			status = WK_CLOSED;
			break;
		}
		uint64_t left_ns = wk_time_left(began_ns, timeout_ns);
		int result = left_ns == 0 ? -ETIMEDOUT : wk_futex_wait(word, *turn, left_ns);
		if (result < 0) {
			status = result == -EINTR ? WK_INTERRUPTED : WK_TIMEOUT;
			break;
		}
	}
	*turn = __atomic_load_n(word, __ATOMIC_SEQ_CST);
	(*waiters)--;
	return status;
}

wk_status wk_client_wait(wk_client *client, uint32_t *turn, uint64_t timeout_ns) {
	return wait_word(client, &client->changes, &client->waiters, turn, timeout_ns);
}

wk_status wk_client_wait_failure(wk_client *client, uint32_t *turn, uint64_t timeout_ns) {
	return wait_word(client, &client->failures, &client->failure_waiters, turn, timeout_ns);
}

void wk_client_tell_failures(wk_client *client) {
	__atomic_fetch_add(&client->failures, 1, __ATOMIC_SEQ_CST);
	if (client->failure_waiters > 0)
		wk_futex_wake(&client->failures, INT_MAX);
}

void wk_client_limit_change(wk_client *client, wk_handle *handle) {
	uint64_t now_ns = client->dispatcher->now_ns, timeout_ns = client->options.change_timeout_ns;
	handle->change_due_ns = timeout_ns < UINT64_MAX - now_ns ? now_ns + timeout_ns : UINT64_MAX - 1;
	if (handle->change_due_ns < client->change_due_ns)
		client->change_due_ns = handle->change_due_ns;
}

/* Nobody has found other bookies in time, or has said what became of the metadata. */
static void give_up_changes(wk_client *client) {
	uint64_t now_ns = client->dispatcher->now_ns;
	if (now_ns < client->change_due_ns)
		return;
	client->change_due_ns = UINT64_MAX;
	for (wk_handle *handle = client->handles; handle != NULL; handle = handle->next) {
		if (handle->change_due_ns <= now_ns) {
			handle->change_due_ns = UINT64_MAX;
			handle->change_failed = handle->adder.writer.frozen;
			wk_ledger_writer_fail(&handle->adder.writer, WK_UNAVAILABLE);
			wk_client_mark_dirty(client, handle);
		} else if (handle->change_due_ns < client->change_due_ns) {
			client->change_due_ns = handle->change_due_ns;
		}
	}
}

/* ---- the driver ---- */

static uint64_t time_to_wait(wk_client *client, uint64_t deadline_ns) {
	client->sleeps = true; /* before the looks: who comes behind them wakes */
	if (atomic_exchange(&client->has_work, false) || client->stops || client->inbox != NULL)
		return 0;
	if (deadline_ns == UINT64_MAX)
		return UINT64_MAX;
	uint64_t now_ns = wk_clock_monotonic_ns();
	return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

uint64_t wk_client_turn(wk_client *client, const wk_net_event *events, int count) {
	wk_client_lock(client);
	for (int i = 0; i < count; i++)
		wk_dispatcher_event(client->dispatcher, &events[i]);
	tell_lacs(client);
	give_up_changes(client);
	do { /* who is told of progress may submit more */
		take_inbox(client);
		wk_dispatcher_turn(client->dispatcher);
		publish(client);
	} while (client->inbox != NULL);
	uint64_t deadline_ns = wk_dispatcher_deadline(client->dispatcher);
	deadline_ns = client->lac_due_ns < deadline_ns ? client->lac_due_ns : deadline_ns;
	deadline_ns = client->change_due_ns < deadline_ns ? client->change_due_ns : deadline_ns;
	pthread_mutex_unlock(&client->lock);
	return deadline_ns;
}

void wk_client_end(wk_client *client) {
	wk_client_lock(client);
	client->ended = true;
	for (wk_handle *handle = client->handles; handle != NULL; handle = handle->next)
		wk_handle_end(handle);
	wk_dispatcher_end(client->dispatcher);
	take_inbox(client);
	publish(client);
	client->lac_due_ns = 0;
	tell_lacs(client);
	__atomic_fetch_add(&client->changes, 1, __ATOMIC_SEQ_CST);
	wk_futex_wake(&client->changes, INT_MAX);
	wk_client_tell_failures(client);
	pthread_mutex_unlock(&client->lock);
}

static void *drive(void *context) {
	wk_client *client = context;
	wk_net_event events[EVENTS_MAX];
	uint64_t deadline_ns = UINT64_MAX;
	wk_futex_be_punctual();
	while (!client->stops) {
		uint64_t wait_ns = time_to_wait(client, deadline_ns);
		int count = client->net->operations->wait(client->net, events, EVENTS_MAX, wait_ns);
		client->sleeps = false;
		if (count < 0) /* no memory for it now, or worse: it is tried again */
			nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
		deadline_ns = wk_client_turn(client, events, count);
	}
	wk_client_end(client);
	return NULL;
}

/* ---- start and stop ---- */

static wk_status make_net(uint32_t backend, wk_net **made, wk_error *error) {
	wk_net_options net = {.connections_max = CONNECTIONS_MAX};
	int result = -ENOSYS;
	if (backend != WK_BACKEND_PSYNC)
		result = wk_net_uring_new(&net, made);
	if (result < 0 && backend == WK_BACKEND_URING)
		return wk_client_fail(error, WK_UNSUPPORTED, -1, -1, false,
		                      "this kernel gives no io_uring for sockets (%s): use backend psync", strerror(-result));
	if (result < 0)
		result = wk_net_epoll_new(&net, made);
	return result < 0 ? wk_client_fail(error, WK_IO, -1, -1, false, "no sockets: %s", strerror(-result)) : WK_OK;
}

static void free_client(wk_client *client) {
	if (client->net != NULL)
		client->net->operations->destroy(client->net);
	if (client->dispatcher != NULL)
		wk_dispatcher_free(client->dispatcher);
	pthread_mutex_destroy(&client->lock);
	free(client);
}

void wk_client_drop(wk_client *client) {
	if (atomic_fetch_sub(&client->references, 1) == 1)
		free_client(client);
}

wk_status wk_client_new(wk_net *net, const wk_client_options *given, uint64_t (*clock)(void *), void *clock_context,
                        wk_client **made) {
	wk_client_options defaults;
	wk_client_options_init(&defaults);
	wk_client *client = calloc(1, sizeof *client);
	if (client == NULL)
		return WK_NO_MEMORY;
	client->options = given != NULL ? *given : defaults;
	take_default(&client->options.connect_timeout_ns, defaults.connect_timeout_ns);
	take_default(&client->options.add_timeout_ns, defaults.add_timeout_ns);
	take_default(&client->options.read_timeout_ns, defaults.read_timeout_ns);
	take_default(&client->options.link_bytes_max, defaults.link_bytes_max);
	take_default(&client->options.lac_idle_ns, defaults.lac_idle_ns);
	client->lac_due_ns = client->change_due_ns = UINT64_MAX;
	take_default(&client->options.change_timeout_ns, defaults.change_timeout_ns);
	client->references = 1;
	client->clock = clock;
	client->clock_context = clock_context;
	pthread_mutex_init(&client->lock, NULL);
	if (wk_dispatcher_new(net, &client->options, &client->dispatcher) != WK_OK) {
		free_client(client);
		return WK_NO_MEMORY;
	}
	client->net = net;
	*made = client;
	return WK_OK;
}

static uint64_t monotonic_ns(void *context) {
	(void)context;
	return wk_clock_monotonic_ns();
}

wk_status wk_client_start(const wk_client_options *options, wk_client **started, wk_error *error) {
	wk_net *net;
	wk_client *client;
	wk_status status = make_net(options != NULL ? options->backend : WK_BACKEND_AUTO, &net, error);
	if (status != WK_OK)
		return status;
	if (wk_client_new(net, options, monotonic_ns, NULL, &client) != WK_OK) {
		net->operations->destroy(net);
		return wk_client_fail(error, WK_NO_MEMORY, -1, -1, false, "no memory for a client");
	}
	int result = wk_thread_start(&client->thread, drive, client);
	if (result < 0) {
		free_client(client);
		return wk_client_fail(error, WK_IO, -1, -1, false, "starting the client's thread: %s", strerror(-result));
	}
	client->has_thread = true;
	*started = client;
	return WK_OK;
}

void wk_client_stop(wk_client *client) {
	if (atomic_exchange(&client->stops, true))
		return;
	if (!client->has_thread) {
		wk_client_end(client);
		return;
	}
	client->net->operations->wake(client->net);
	pthread_join(client->thread, NULL);
}

void wk_client_release(wk_client *client) {
	wk_client_stop(client);
	wk_client_drop(client);
}

wk_status wk_client_bookie(wk_client *client, const char *id, const char *host, uint16_t port, uint32_t *bookie,
                           wk_error *error) {
	wk_client_lock(client);
	wk_status status = wk_dispatcher_bookie(client->dispatcher, id, host, port, bookie);
	pthread_mutex_unlock(&client->lock);
	if (status == WK_INVALID)
		return wk_client_fail(error, status, -1, -1, false, "bookie %.255s: %.64s is no numeric address", id, host);
	if (status != WK_OK)
		return wk_client_fail(error, status, -1, -1, false, "no memory for a bookie");
	return WK_OK;
}
