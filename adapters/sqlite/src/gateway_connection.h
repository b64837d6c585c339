/*
 * gateway_connection.h: a connection to a gateway on this machine: by a Unix socket, or by TCP over loopback. No call waits longer
 * than its time. Of one connection one thread sends, and one receives.
 */
#ifndef WK_SQLITE_GATEWAY_CONNECTION_H
#define WK_SQLITE_GATEWAY_CONNECTION_H
#include <stdatomic.h>

#include "gateway_protocol.h"

/* Which gateway, and what it is shown. The texts are the owner's. */
typedef struct wk_gateway_peer {
	const char *address; /* HOST:PORT, or unix:PATH */
	const char *token;
	uint64_t timeout_ns; /* of each answer, and of each frame that is sent */
} wk_gateway_peer;

typedef struct wk_gateway_connection {
	const wk_gateway_peer *peer;
	int fd;             /* -1: there is none */
	atomic_bool broken; /* of no use any more */
	wk_gateway_head head;
	uint8_t *body; /* of the last answer; kept for the next one */
	size_t room;
} wk_gateway_connection;

/* WK_INVALID, WK_UNSUPPORTED: no such address can be asked. Nothing is sent. */
wk_status wk_gateway_check_address(const char *address, wk_error *error);
/*
 * Connects, and shows the token. A connection that was there before is closed. WK_UNAVAILABLE, WK_TIMEOUT: there is no gateway;
 * WK_INVALID: it refuses this client; WK_CORRUPT: it is none. Behind any error there is no connection.
 */
wk_status wk_gateway_connect(wk_gateway_connection *connection, wk_error *error);
/* Whether it can be used: the gateway has not closed it, and has said nothing unasked. Only while no answer is awaited. */
bool wk_gateway_connected(const wk_gateway_connection *connection);
/*
 * A frame, the end of which may stand elsewhere. Behind an error the connection is broken, and nothing is done of the frame: a gateway
 * does nothing for a part of one. error->outcome_unknown is false.
 */
wk_status wk_gateway_send(wk_gateway_connection *connection, const uint8_t *frame, size_t size, const uint8_t *rest,
                          size_t rest_size, wk_error *error);
/*
 * The next answer, into `head` and `body`. WK_UNAVAILABLE, WK_TIMEOUT; WK_CORRUPT: the peer speaks something else; WK_NO_MEMORY. Behind an
 * error the connection is broken, and error->outcome_unknown is true.
 */
wk_status wk_gateway_receive(wk_gateway_connection *connection, wk_error *error);
/* Closing it twice is fine. */
void wk_gateway_disconnect(wk_gateway_connection *connection);
/* Whether the frame of `size` bytes was answered `ok`. The request is number `request`; the answer is in `head` and `body`. */
wk_status wk_gateway_call(wk_gateway_connection *connection, const uint8_t *frame, size_t size, uint32_t request,
                          wk_error *error);
/* What the answer in `head` and `body`, which is a refusal, says of the request. WK_CORRUPT: it says nothing that is known. */
wk_status wk_gateway_refused(const wk_gateway_connection *connection, wk_error *error);
#endif
