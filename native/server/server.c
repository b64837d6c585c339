/* server.c: the thread that serves, and what other threads ask of it. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "io/clock.h"
#include "io/io.h"
#include "server/service.h"

enum { EVENTS_MAX = 256, STORE_TAG = 1, POOL_TAG = 2, RETRY_NS = 1000000 };

#define NS_PER_S 1000000000ull
#define PART_NS NS_PER_S

struct wk_server {
	wk_namespace *ns;
	wk_net *net;
	wk_service *service; /* the thread's, while it runs */
	wk_net_event *events;
	pthread_t thread;
	_Atomic uint16_t port;
	uint32_t backend;
	uint64_t stop_at_ns, part_ns; /* the thread's */
	bool drained;
	_Atomic bool has_orders;
	pthread_mutex_t lock;
	pthread_cond_t told;
	/* what is asked of the thread, under the lock */
	struct {
		bool stop, stats, read_only, space, limbo, deleted, listen;
		int socket, listen_result;
		uint64_t drain_ns;
		bool read_only_value, high_priority, limbo_all;
		uint64_t total_bytes, free_bytes;
		int64_t *limbo_ids, *deleted_ids;
		size_t limbo_count, deleted_count;
	} asked;
	bool ended;
	uint64_t stats_round;
	wk_server_stats stats;
};

static wk_status fail(wk_error *error, wk_status status, int system_error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static wk_status fail(wk_error *error, wk_status status, int system_error, const char *format, ...) {
	if (error == NULL)
		return status;
	*error = (wk_error){
	    .status = status, .system_error = system_error, .ledger_id = -1, .entry_id = -1, .sequence_id = -1, .txid = -1};
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(error->text, sizeof error->text, format, arguments);
	va_end(arguments);
	return status;
}

void wk_server_options_init(wk_server_options *options) {
	*options = (wk_server_options){
	    .host = "127.0.0.1",
	    .connections_max = 65536,
	    .connections_per_address_max = 16384,
	    .reader_threads = 2,
	    .verify_digest = WK_VERIFY_DIGEST_LEARNED,
	    .frame_size_max = WK_FRAME_SIZE_MAX,
	    .receive_bytes = 256 * 1024 * 1024,
	    .reply_bytes = 256 * 1024 * 1024,
	    .reads_max = 10000,
	    .batch_bytes_max = WK_FRAME_SIZE_MAX,
	    .frame_timeout_ns = 30000000000,
	    .peer_timeout_ns = 120000000000,
	    .poll_timeout_max_ns = 60000000000,
	};
}

static void take_default(uint64_t *value, uint64_t by_default) {
	*value = *value != 0 ? *value : by_default;
}

static wk_status check_options(const wk_server_options *given, wk_server_options *options, wk_error *error) {
	wk_server_options defaults;
	wk_server_options_init(&defaults);
	*options = given != NULL ? *given : defaults;
	options->host = options->host != NULL ? options->host : defaults.host;
	options->connections_max = options->connections_max != 0 ? options->connections_max : defaults.connections_max;
	if (options->connections_per_address_max == 0)
		options->connections_per_address_max = defaults.connections_per_address_max;
	options->reader_threads = options->reader_threads != 0 ? options->reader_threads : defaults.reader_threads;
	take_default(&options->frame_size_max, defaults.frame_size_max);
	take_default(&options->receive_bytes, defaults.receive_bytes);
	take_default(&options->reply_bytes, defaults.reply_bytes);
	take_default(&options->reads_max, defaults.reads_max);
	take_default(&options->batch_bytes_max, defaults.batch_bytes_max);
	take_default(&options->frame_timeout_ns, defaults.frame_timeout_ns);
	take_default(&options->peer_timeout_ns, defaults.peer_timeout_ns);
	take_default(&options->poll_timeout_max_ns, defaults.poll_timeout_max_ns);
	if (options->frame_size_max < 1024 || options->frame_size_max > WK_LEDGER_ENTRY_MAX)
		return fail(error, WK_INVALID, 0, "frame_size_max is %llu: it must be 1024 to %d bytes",
		            (unsigned long long)options->frame_size_max, WK_LEDGER_ENTRY_MAX);
	if (options->reads_max > 1000000 || options->reader_threads > 64)
		return fail(error, WK_INVALID, 0, "reads_max is at most 1000000, reader_threads at most 64");
	if (options->peer_timeout_ns < 2 * NS_PER_S || options->peer_timeout_ns > 86400 * NS_PER_S)
		return fail(error, WK_INVALID, 0, "peer_timeout_ns is %llu: it must be 2 seconds to a day",
		            (unsigned long long)options->peer_timeout_ns);
	if (options->batch_bytes_max > options->frame_size_max)
		options->batch_bytes_max = options->frame_size_max;
	return WK_OK;
}

/* ---- the thread ---- */

/* (locked) */
static void listen_on_socket(wk_server *server) {
	wk_net_address bound;
	server->asked.listen_result = server->net->operations->listen_on(server->net, server->asked.socket, &bound);
	if (server->asked.listen_result == 0)
		server->port = bound.port;
}

static void take_orders(wk_server *server) {
	wk_service *service = server->service;
	pthread_mutex_lock(&server->lock);
	if (server->asked.stop && server->stop_at_ns == 0) {
		uint64_t drain_ns = server->asked.drain_ns;
		server->part_ns = drain_ns < PART_NS ? drain_ns : PART_NS;
		server->stop_at_ns = drain_ns < UINT64_MAX - service->now_ns ? service->now_ns + drain_ns : UINT64_MAX;
		server->net->operations->stop_listening(server->net);
		wk_service_drain(service);
	}
	if (server->asked.read_only) {
		service->rules.read_only = server->asked.read_only_value;
		service->rules.high_priority = server->asked.high_priority;
	}
	if (server->asked.space) {
		service->total_space = server->asked.total_bytes;
		service->free_space = server->asked.free_bytes;
	}
	if (server->asked.limbo)
		wk_service_set_limbo(service, server->asked.limbo_all, server->asked.limbo_ids, server->asked.limbo_count);
	if (server->asked.deleted)
		wk_service_set_deleted(service, server->asked.deleted_ids, server->asked.deleted_count);
	if (server->asked.listen && server->stop_at_ns == 0)
		listen_on_socket(server);
	if (server->asked.stats) {
		server->stats = service->stats;
		server->stats.backend = server->backend;
	}
	server->stats_round++;
	server->asked.read_only = server->asked.space = server->asked.limbo = server->asked.deleted = server->asked.stats =
	    server->asked.listen = false;
	pthread_cond_broadcast(&server->told);
	pthread_mutex_unlock(&server->lock);
}

static bool is_over(wk_server *server) {
	if (server->stop_at_ns == 0)
		return false;
	server->drained = wk_service_is_idle(server->service);
	return server->drained || server->service->now_ns >= server->stop_at_ns;
}

static uint64_t time_left(const wk_server *server) {
	uint64_t deadline = wk_service_deadline(server->service);
	if (server->stop_at_ns != 0 && server->stop_at_ns < deadline)
		deadline = server->stop_at_ns;
	if (deadline == UINT64_MAX)
		return UINT64_MAX;
	uint64_t now_ns = wk_clock_monotonic_ns();
	if (server->stop_at_ns != 0 && server->stop_at_ns <= now_ns)
		return RETRY_NS; /* only blocks that are under way are waited for */
	return deadline > now_ns ? deadline - now_ns : 0;
}

static void take_event(wk_service *service, const wk_net_event *event) {
	if (event->kind == WK_NET_READABLE && event->tag == STORE_TAG)
		wk_service_store_event(service);
	else if (event->kind == WK_NET_READABLE)
		wk_service_pool_event(service);
	else
		wk_service_event(service, event);
}

/* Clients that hear of the end close their side: until then what they sent is received, so that no answer is lost to them. */
static void part(wk_server *server, uint64_t patience_ns) {
	wk_service *service = server->service;
	uint64_t now_ns = wk_clock_monotonic_ns(), until_ns = now_ns + patience_ns;
	for (wk_service_part(service); service->peers != NULL && now_ns < until_ns; now_ns = wk_clock_monotonic_ns()) {
		int count = server->net->operations->wait(server->net, server->events, EVENTS_MAX, until_ns - now_ns);
		if (count < 0)
			return;
		for (int i = 0; i < count; i++)
			if (server->events[i].kind != WK_NET_RECEIVED)
				take_event(service, &server->events[i]);
	}
}

static void *serve(void *context) {
	wk_server *server = context;
	wk_service *service = server->service;
	wk_net_event *events = server->events;
	wk_futex_be_punctual();
	wk_service_commit(service);
	while (!is_over(server) || !wk_service_commit_ends(service)) {
		int count = server->net->operations->wait(server->net, events, EVENTS_MAX, time_left(server));
		if (count < 0) /* no memory for it now, or worse: it is tried again */
			nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
		wk_service_begin(service, wk_clock_monotonic_ns(), wk_clock_wall_ms());
		if (count < 0) /* orders are taken nonetheless, and what is done with blocks is looked for */
			wk_service_store_event(service);
		for (int i = 0; i < count; i++)
			take_event(service, &events[i]);
		if (atomic_exchange(&server->has_orders, false))
			take_orders(server);
		wk_service_turn(service);
	}
	part(server, server->part_ns);
	pthread_mutex_lock(&server->lock);
	server->stats = service->stats;
	server->ended = true;
	pthread_cond_broadcast(&server->told);
	pthread_mutex_unlock(&server->lock);
	return NULL;
}

/* ---- start and stop ---- */

static void order(wk_server *server) {
	atomic_store(&server->has_orders, true);
	server->net->operations->wake(server->net);
}

/* (locked) Until the thread has taken what was asked. */
static void wait_taken(wk_server *server) {
	uint64_t round = server->stats_round;
	order(server);
	while (server->stats_round == round && !server->ended)
		pthread_cond_wait(&server->told, &server->lock);
}

static void free_server(wk_server *server) {
	if (server->net != NULL)
		server->net->operations->destroy(server->net);
	if (server->service != NULL)
		wk_service_free(server->service);
	free(server->asked.limbo ? server->asked.limbo_ids : NULL);
	free(server->asked.deleted ? server->asked.deleted_ids : NULL);
	pthread_mutex_destroy(&server->lock);
	pthread_cond_destroy(&server->told);
	free(server->events);
	free(server);
}

static wk_status make_net(wk_server *server, const wk_server_options *options, wk_error *error) {
	wk_net_options net = {.connections_max = options->connections_max,
	                      .connections_per_address_max = options->connections_per_address_max,
	                      .peer_timeout_s = (uint32_t)(options->peer_timeout_ns / NS_PER_S)};
	int result = -ENOSYS;
	if (options->backend != WK_BACKEND_PSYNC) {
		result = wk_net_uring_new(&net, &server->net);
		server->backend = WK_BACKEND_URING;
	}
	if (result < 0 && options->backend == WK_BACKEND_URING)
		return fail(error, WK_UNSUPPORTED, -result, "this kernel gives no io_uring for sockets (%s): use backend psync",
		            strerror(-result));
	if (result < 0) {
		result = wk_net_epoll_new(&net, &server->net);
		server->backend = WK_BACKEND_PSYNC;
	}
	return result < 0 ? fail(error, WK_IO, -result, "no sockets: %s", strerror(-result)) : WK_OK;
}

static wk_status watch(wk_server *server, wk_error *error) {
	int store, pool;
	wk_service_descriptors(server->service, &store, &pool);
	int result = store < 0 ? -EMFILE : server->net->operations->watch(server->net, store, STORE_TAG);
	if (result >= 0)
		result = server->net->operations->watch(server->net, pool, POOL_TAG);
	return result < 0 ? fail(error, WK_IO, -result, "watching the store: %s", strerror(-result)) : WK_OK;
}

static wk_status listen_at(wk_server *server, const wk_server_options *options, wk_error *error) {
	wk_net_address bound;
	int result = server->net->operations->listen(server->net, options->host, options->port, &bound);
	if (result < 0)
		return fail(error, WK_IO, -result, "listening on %s:%u: %s%s", options->host, options->port,
		            result == -ENOENT ? "this host has no address" : strerror(-result),
		            result == -EADDRINUSE ? "; another process serves there, or served there a moment ago" : "");
	server->port = bound.port;
	return WK_OK;
}

wk_status wk_server_start(wk_namespace *ns, const wk_server_options *given, wk_server **started, wk_error *error) {
	wk_server_options options;
	wk_status status = check_options(given, &options, error);
	if (status != WK_OK)
		return status;
	wk_server *server = calloc(1, sizeof *server);
	if (server == NULL)
		return fail(error, WK_NO_MEMORY, 0, "no memory for a server");
	pthread_mutex_init(&server->lock, NULL);
	pthread_cond_init(&server->told, NULL);
	server->ns = ns;
	server->events = calloc(EVENTS_MAX, sizeof *server->events);
	if (server->events == NULL) {
		free_server(server);
		return fail(error, WK_NO_MEMORY, 0, "no memory for a server");
	}
	status = make_net(server, &options, error);
	if (status == WK_OK && wk_service_new(ns, server->net, &options, &server->service) != WK_OK)
		status = fail(error, WK_NO_MEMORY, 0, "no memory, or no thread, for a server");
	if (status == WK_OK) {
		wk_hosted_seed(&server->service->hosted, wk_random_number()); /* ids are chosen by clients */
		server->service->rules.read_only = options.read_only;
		server->service->rules.limbo_all = options.limbo_all;
		status = watch(server, error);
	}
	if (status == WK_OK && !options.listen_later)
		status = listen_at(server, &options, error);
	if (status == WK_OK) {
		int result = wk_thread_start(&server->thread, serve, server);
		if (result < 0)
			status = fail(error, WK_IO, -result, "starting the server's thread: %s", strerror(-result));
	}
	if (status != WK_OK) {
		free_server(server);
		return status;
	}
	*started = server;
	return WK_OK;
}

wk_status wk_server_stop(wk_server *server, uint64_t drain_ns, wk_error *error) {
	pthread_mutex_lock(&server->lock);
	server->asked.stop = true;
	server->asked.drain_ns = drain_ns;
	pthread_mutex_unlock(&server->lock);
	order(server);
	pthread_join(server->thread, NULL);
	bool drained = server->drained;
	free_server(server);
	return drained ? WK_OK
	               : fail(error, WK_TIMEOUT, 0,
	                      "stopping the server: some requests were not answered in time; their clients ask others");
}

wk_status wk_server_listen(wk_server *server, int socket, wk_error *error) {
	pthread_mutex_lock(&server->lock);
	server->asked.listen = true;
	server->asked.socket = socket;
	server->asked.listen_result = -ECANCELED;
	wait_taken(server);
	int result = server->asked.listen_result;
	pthread_mutex_unlock(&server->lock);
	return result == 0 ? WK_OK : fail(error, WK_IO, -result, "listening: %s", strerror(-result));
}

uint16_t wk_server_port(const wk_server *server) {
	return server->port;
}

/* ---- orders ---- */

void wk_server_set_read_only(wk_server *server, bool read_only, bool high_priority) {
	pthread_mutex_lock(&server->lock);
	server->asked.read_only = true;
	server->asked.read_only_value = read_only;
	server->asked.high_priority = high_priority;
	pthread_mutex_unlock(&server->lock);
	order(server);
}

void wk_server_set_space(wk_server *server, uint64_t total_bytes, uint64_t free_bytes) {
	pthread_mutex_lock(&server->lock);
	server->asked.space = true;
	server->asked.total_bytes = total_bytes;
	server->asked.free_bytes = free_bytes;
	pthread_mutex_unlock(&server->lock);
	order(server);
}

/* Sorted here, and not by the loop, which others wait for. */
static wk_status copy_ids(const int64_t *ids, size_t count, int64_t **copy, wk_error *error) {
	*copy = malloc((count > 0 ? count : 1) * sizeof **copy);
	if (*copy == NULL)
		return fail(error, WK_NO_MEMORY, 0, "no memory for %zu ledger ids", count);
	if (count > 0)
		memcpy(*copy, ids, count * sizeof **copy);
	wk_id_set sorted;
	wk_id_set_init(&sorted, *copy, count);
	return WK_OK;
}

wk_status wk_server_set_limbo(wk_server *server, bool all, const int64_t *ledger_ids, size_t count, wk_error *error) {
	int64_t *copy;
	wk_status status = copy_ids(ledger_ids, count, &copy, error);
	if (status != WK_OK)
		return status;
	pthread_mutex_lock(&server->lock);
	free(server->asked.limbo ? server->asked.limbo_ids : NULL);
	server->asked.limbo = true;
	server->asked.limbo_all = all;
	server->asked.limbo_ids = copy;
	server->asked.limbo_count = count;
	wait_taken(server);
	pthread_mutex_unlock(&server->lock);
	return WK_OK;
}

wk_status wk_server_set_deleted(wk_server *server, const int64_t *ledger_ids, size_t count, wk_error *error) {
	int64_t *copy;
	wk_status status = copy_ids(ledger_ids, count, &copy, error);
	if (status != WK_OK)
		return status;
	pthread_mutex_lock(&server->lock);
	free(server->asked.deleted ? server->asked.deleted_ids : NULL);
	server->asked.deleted = true;
	server->asked.deleted_ids = copy;
	server->asked.deleted_count = count;
	wait_taken(server);
	pthread_mutex_unlock(&server->lock);
	return WK_OK;
}

void wk_server_stats_get(wk_server *server, wk_server_stats *stats) {
	pthread_mutex_lock(&server->lock);
	server->asked.stats = true;
	if (!server->ended)
		wait_taken(server);
	*stats = server->stats;
	pthread_mutex_unlock(&server->lock);
}
