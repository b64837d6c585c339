#include "gateway_connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "error.h"

enum { VERSION = 1 };
static const char UNIX[] = "unix:";
static const uint64_t NS_PER_S = 1000000000, NS_PER_MS = 1000000;

/* ---- addresses ---- */

typedef struct wk_socket_address {
	union {
		struct sockaddr any;
		struct sockaddr_in ipv4;
		struct sockaddr_in6 ipv6;
		struct sockaddr_un local;
	};
	socklen_t size;
} wk_socket_address;

static wk_status parse_unix(const char *address, wk_socket_address *parsed, wk_error *error) {
	const char *path = address + strlen(UNIX);
	size_t length = strlen(path);
	if (length == 0 || length >= sizeof parsed->local.sun_path)
		return wk_database_fail(error, WK_INVALID, "%s: the path of a Unix socket has 1 to %zu bytes", address,
		                        sizeof parsed->local.sun_path - 1);
	parsed->local.sun_family = AF_UNIX;
	memcpy(parsed->local.sun_path, path, length + 1);
	parsed->size = sizeof parsed->local;
	return WK_OK;
}

static bool parse_port(const char *text, in_port_t *port) {
	uint32_t number = 0;
	size_t digits = strspn(text, "0123456789");
	if (digits == 0 || digits > 5 || text[digits] != 0)
		return false;
	for (size_t i = 0; i < digits; i++)
		number = 10 * number + (uint32_t)(text[i] - '0');
	*port = htons((uint16_t)number);
	return number > 0 && number <= UINT16_MAX;
}

static bool is_loopback(const wk_socket_address *address) {
	if (address->any.sa_family == AF_INET)
		return ntohl(address->ipv4.sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&address->ipv6.sin6_addr);
}

/* A name is not looked up: what it leads to would be no loopback. */
static wk_status parse_tcp(const char *address, wk_socket_address *parsed, wk_error *error) {
	char host[INET6_ADDRSTRLEN];
	in_port_t port;
	const char *colon = strrchr(address, ':');
	if (colon == NULL || colon == address || !parse_port(colon + 1, &port))
		return wk_database_fail(error, WK_INVALID, "%s is no address of a gateway: HOST:PORT, or unix:PATH", address);
	const char *from = address;
	size_t length = (size_t)(colon - address);
	if (from[0] == '[' && length > 2 && from[length - 1] == ']') {
		from++;
		length -= 2;
	}
	bool known = length < sizeof host;
	if (known) {
		memcpy(host, from, length);
		host[length] = 0;
		known = true;
		if (strcmp(host, "localhost") == 0)
			memcpy(host, "127.0.0.1", sizeof "127.0.0.1");
		if (inet_pton(AF_INET, host, &parsed->ipv4.sin_addr) == 1) {
			parsed->ipv4.sin_family = AF_INET;
			parsed->ipv4.sin_port = port;
			parsed->size = sizeof parsed->ipv4;
		} else if (inet_pton(AF_INET6, host, &parsed->ipv6.sin6_addr) == 1) {
			parsed->ipv6.sin6_family = AF_INET6;
			parsed->ipv6.sin6_port = port;
			parsed->size = sizeof parsed->ipv6;
		} else
			known = false;
	}
	if (known && is_loopback(parsed))
		return WK_OK;
	return wk_database_fail(error, WK_UNSUPPORTED,
	                        "%s is a gateway on another machine, which wants TLS; C speaks none: run a gateway on this "
	                        "machine, and name localhost:PORT or unix:PATH",
	                        address);
}

static wk_status parse_address(const char *address, wk_socket_address *parsed, wk_error *error) {
	*parsed = (wk_socket_address){0};
	bool local = strncmp(address, UNIX, strlen(UNIX)) == 0;
	return local ? parse_unix(address, parsed, error) : parse_tcp(address, parsed, error);
}

wk_status wk_gateway_check_address(const char *address, wk_error *error) {
	wk_socket_address parsed;
	return parse_address(address, &parsed, error);
}

/* ---- the socket, which does not block ---- */

static uint64_t now_ns(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t deadline_of(const wk_gateway_connection *c) {
	uint64_t now = now_ns();
	return c->peer->timeout_ns < UINT64_MAX - now ? now + c->peer->timeout_ns : UINT64_MAX;
}

/* Also wakes the thread that receives. The descriptor stays until nobody uses it. */
static void break_off(wk_gateway_connection *c) {
	atomic_store(&c->broken, true);
	shutdown(c->fd, SHUT_RDWR);
}

static wk_status failed(wk_gateway_connection *c, int system_error, const char *what, wk_error *error) {
	char reason[128];
	break_off(c);
	wk_database_fail(error, WK_UNAVAILABLE, "the gateway %s: %s: %s", c->peer->address, what,
	                 strerror_r(system_error, reason, sizeof reason));
	if (error != NULL)
		error->system_error = system_error;
	return WK_UNAVAILABLE;
}

/* Until the socket can be used, for `events` of poll. */
static wk_status await(wk_gateway_connection *c, short events, uint64_t deadline, wk_error *error) {
	while (true) {
		uint64_t now = now_ns();
		uint64_t left_ms = deadline > now ? (deadline - now + NS_PER_MS - 1) / NS_PER_MS : 0;
		struct pollfd polled = {.fd = c->fd, .events = events};
		int ready = poll(&polled, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX);
		if (ready > 0)
			return WK_OK;
		if (ready < 0 && errno != EINTR)
			return failed(c, errno, "waiting for it", error);
		if (ready == 0 && left_ms == 0) {
			break_off(c);
			return wk_database_fail(error, WK_TIMEOUT, "the gateway %s does not answer", c->peer->address);
		}
	}
}

static wk_status send_all(wk_gateway_connection *c, const uint8_t *bytes, size_t size, int flags, uint64_t deadline,
                          wk_error *error) {
	while (size > 0) {
		ssize_t sent = send(c->fd, bytes, size, MSG_NOSIGNAL | flags);
		if (sent >= 0) {
			bytes += sent;
			size -= (size_t)sent;
		} else if (errno == EAGAIN) {
			wk_status status = await(c, POLLOUT, deadline, error);
			if (status != WK_OK)
				return status;
		} else if (errno != EINTR)
			return failed(c, errno, "sending", error);
	}
	return WK_OK;
}

static wk_status receive_all(wk_gateway_connection *c, uint8_t *bytes, size_t size, uint64_t deadline,
                             wk_error *error) {
	while (size > 0) {
		ssize_t received = recv(c->fd, bytes, size, 0);
		if (received > 0) {
			bytes += received;
			size -= (size_t)received;
		} else if (received == 0) {
			break_off(c);
			return wk_database_fail(error, WK_UNAVAILABLE, "the gateway %s closed the connection", c->peer->address);
		} else if (errno == EAGAIN) {
			wk_status status = await(c, POLLIN, deadline, error);
			if (status != WK_OK)
				return status;
		} else if (errno != EINTR)
			return failed(c, errno, "receiving", error);
	}
	return WK_OK;
}

/* ---- frames ---- */

wk_status wk_gateway_send(wk_gateway_connection *c, const uint8_t *frame, size_t size, const uint8_t *rest,
                          size_t rest_size, wk_error *error) {
	uint64_t deadline = deadline_of(c);
	wk_status status = send_all(c, frame, size, rest_size > 0 ? MSG_MORE : 0, deadline, error);
	return status == WK_OK ? send_all(c, rest, rest_size, 0, deadline, error) : status;
}

static wk_status strange(wk_gateway_connection *c, const char *what, wk_error *error) {
	break_off(c);
	return wk_database_fail(error, WK_CORRUPT, "%s is no gateway, or one with TLS, which C does not speak: %s",
	                        c->peer->address, what);
}

static wk_status receive_frame(wk_gateway_connection *c, wk_error *error) {
	uint64_t deadline = deadline_of(c);
	uint8_t head[WK_GATEWAY_HEAD];
	wk_status status = receive_all(c, head, sizeof head, deadline, error);
	if (status != WK_OK)
		return status;
	if (wk_gateway_get_head(head, &c->head) != WK_OK)
		return strange(c, "the length of its answer is none", error);
	if (c->head.size > c->room) {
		uint8_t *grown = realloc(c->body, c->head.size);
		if (grown == NULL) {
			break_off(c);
			return wk_database_fail(error, WK_NO_MEMORY, "no memory for an answer of %u bytes", c->head.size);
		}
		c->body = grown;
		c->room = c->head.size;
	}
	return receive_all(c, c->body, c->head.size, deadline, error);
}

wk_status wk_gateway_receive(wk_gateway_connection *c, wk_error *error) {
	wk_status status = receive_frame(c, error);
	if (status != WK_OK && error != NULL)
		error->outcome_unknown = true;
	return status;
}

/* Texts of gateways are shown to people: no control characters. */
static wk_status say(const wk_gateway_connection *c, wk_status status, const char *text, size_t size, wk_error *error) {
	char clean[WK_ERROR_TEXT_MAX / 2];
	size = size < sizeof clean - 1 ? size : sizeof clean - 1;
	for (size_t i = 0; i < size; i++)
		clean[i] = (unsigned char)text[i] < ' ' ? '?' : text[i];
	clean[size] = 0;
	return wk_database_fail(error, status, "the gateway %s: %s", c->peer->address, clean);
}

wk_status wk_gateway_refused(const wk_gateway_connection *c, wk_error *error) {
	wk_gateway_refusal refusal;
	if (wk_gateway_get_refusal(c->body, c->head.size, &refusal) != WK_OK) {
		wk_database_fail(error, WK_CORRUPT, "the gateway %s refuses a request, and does not say why", c->peer->address);
		if (error != NULL)
			error->outcome_unknown = true;
		return WK_CORRUPT;
	}
	say(c, refusal.status, refusal.text, refusal.text_size, error);
	if (error != NULL)
		error->outcome_unknown = refusal.outcome_unknown;
	return refusal.status;
}

wk_status wk_gateway_call(wk_gateway_connection *c, const uint8_t *frame, size_t size, uint32_t request,
                          wk_error *error) {
	wk_status status = wk_gateway_send(c, frame, size, NULL, 0, error);
	if (status == WK_OK)
		status = wk_gateway_receive(c, error);
	if (status != WK_OK)
		return status;
	if (c->head.request != request)
		return strange(c, "it answers a request that was not sent", error);
	return c->head.code == WK_GATEWAY_OK ? WK_OK : wk_gateway_refused(c, error);
}

/* ---- connecting ---- */

static wk_status open_socket(wk_gateway_connection *c, wk_error *error) {
	wk_socket_address address;
	wk_status status = parse_address(c->peer->address, &address, error);
	if (status != WK_OK)
		return status;
	c->fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return failed(c, errno, "a socket", error);
	const int on = 1;
	if (address.any.sa_family != AF_UNIX)
		setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (connect(c->fd, &address.any, address.size) == 0)
		return WK_OK;
	if (errno != EINPROGRESS && errno != EINTR)
		return failed(c, errno, "connecting", error);
	status = await(c, POLLOUT, deadline_of(c), error);
	int reason = 0;
	socklen_t reason_size = sizeof reason;
	if (status == WK_OK && (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &reason, &reason_size) != 0 || reason != 0))
		status = failed(c, reason, "connecting", error);
	return status;
}

static wk_status hello(wk_gateway_connection *c, wk_error *error) {
	uint8_t frame[WK_GATEWAY_REQUEST_MAX];
	uint32_t version;
	const char *text;
	size_t text_size;
	size_t size = wk_gateway_put_hello(frame, 0, c->peer->token);
	if (size == 0)
		return wk_database_fail(error, WK_INVALID, "the token of a gateway has %d bytes at most", WK_GATEWAY_TOKEN_MAX);
	wk_status status = wk_gateway_send(c, frame, size, NULL, 0, error);
	if (status == WK_OK)
		status = receive_frame(c, error);
	if (status == WK_UNAVAILABLE)
		wk_database_fail(
		    error, status,
		    "%s closed the connection before it said hello: it is no gateway, or one with TLS, which C does "
		    "not speak",
		    c->peer->address);
	if (status != WK_OK)
		return status;
	if (c->head.request != 0)
		return strange(c, "it answers a request that was not sent", error);
	if (c->head.code != WK_GATEWAY_OK) {
		if (wk_gateway_get_text(c->body, c->head.size, &text, &text_size) != WK_OK)
			return strange(c, "it refuses a hello, and does not say why", error);
		return say(c, WK_INVALID, text, text_size, error);
	}
	if (wk_gateway_get_hello(c->body, c->head.size, &version) != WK_OK || version != VERSION)
		return strange(c, "its hello is none", error);
	return WK_OK;
}

wk_status wk_gateway_connect(wk_gateway_connection *c, wk_error *error) {
	wk_gateway_disconnect(c);
	wk_status status = open_socket(c, error);
	if (status == WK_OK)
		status = hello(c, error);
	if (status != WK_OK)
		wk_gateway_disconnect(c);
	else
		atomic_store(&c->broken, false);
	return status;
}

bool wk_gateway_connected(const wk_gateway_connection *c) {
	struct pollfd polled = {.fd = c->fd, .events = POLLIN | POLLRDHUP};
	return c->fd >= 0 && !atomic_load(&c->broken) && poll(&polled, 1, 0) == 0;
}

void wk_gateway_disconnect(wk_gateway_connection *c) {
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}
