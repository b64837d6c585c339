/* net_socket.c: addresses, and sockets that are made for them. */
#include "io/net_socket.h"
#include "io/descriptor.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KEEPALIVE_PROBES = 6, IDLE_S_MAX = 32767 /* the kernel takes no more */ };

struct wk_net_dial {
	struct addrinfo *found;
	struct addrinfo *next;
};

static int look_up(const char *host, uint16_t port, bool to_listen, struct addrinfo **found) {
	char service[8];
	snprintf(service, sizeof service, "%u", port);
	struct addrinfo hints = {
	    .ai_family = AF_UNSPEC,
	    .ai_socktype = SOCK_STREAM,
	    .ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0),
	};
	int result = getaddrinfo(host, service, &hints, found);
	switch (result) {
	case 0:
		return 0;
	case EAI_SYSTEM:
		return errno != 0 ? -errno : -EIO;
	case EAI_MEMORY:
		return -ENOMEM;
	case EAI_AGAIN:
		return -EAGAIN; /* the resolver cannot say now */
	default:
		return -ENOENT;
	}
}

static int to_address(const struct sockaddr_storage *socket_address, wk_net_address *address) {
	struct sockaddr_in mapped;
	const struct sockaddr *shown = (const struct sockaddr *)socket_address;
	socklen_t size = sizeof(struct sockaddr_in6);
	if (shown->sa_family == AF_INET6) {
		const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)socket_address;
		address->port = ntohs(six->sin6_port);
		if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) { /* who came by IPv4 is shown so */
			mapped = (struct sockaddr_in){.sin_family = AF_INET};
			memcpy(&mapped.sin_addr, &six->sin6_addr.s6_addr[12], sizeof mapped.sin_addr);
			shown = (const struct sockaddr *)&mapped;
			size = sizeof mapped;
		}
	} else {
		address->port = ntohs(((const struct sockaddr_in *)socket_address)->sin_port);
		size = sizeof(struct sockaddr_in);
	}
	return getnameinfo(shown, size, address->host, sizeof address->host, NULL, 0, NI_NUMERICHOST) == 0 ? 0 : -EINVAL;
}

static int set_option(int fd, int level, int option, int value) {
	return setsockopt(fd, level, option, &value, sizeof value) == 0 ? 0 : -errno;
}

/* Rules 5 and 8. */
static int set_options(int fd, uint32_t peer_timeout_s) {
	int idle_s = (int)peer_timeout_s / 2 < IDLE_S_MAX ? (int)peer_timeout_s / 2 : IDLE_S_MAX;
	int between_s = idle_s / KEEPALIVE_PROBES > 1 ? idle_s / KEEPALIVE_PROBES : 1;
	int error = set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	error = error ? error : set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	error = error ? error : set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
	error = error ? error : set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, between_s);
	error = error ? error : set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
	return error ? error : set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)peer_timeout_s * 1000);
}

int wk_net_socket_listen_on(int fd, const wk_net_options *options, wk_net_address *bound) {
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return -errno;
	int error = set_options(fd, options->peer_timeout_s);
	/* Who is accepted has it from here: what lingers of them does not keep the next server from the port. */
	error = error ? error : set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	struct sockaddr_storage where;
	socklen_t size = sizeof where;
	if (error == 0 &&
	    (listen(fd, (int)options->backlog) != 0 || getsockname(fd, (struct sockaddr *)&where, &size) != 0))
		error = -errno;
	if (error == 0 && bound != NULL)
		error = to_address(&where, bound);
	return error;
}

static int listen_at(const struct addrinfo *address, const wk_net_options *options, int *out, wk_net_address *bound) {
	int fd = wk_descriptor_take(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return fd;
	/* A server that starts again takes its port though connections of the last one linger there. */
	int error = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (error == 0 && address->ai_family == AF_INET6) {
		const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address->ai_addr;
		error = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, !IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr));
	}
	if (error == 0 && bind(fd, address->ai_addr, address->ai_addrlen) != 0)
		error = -errno;
	error = error ? error : wk_net_socket_listen_on(fd, options, bound);
	if (error)
		close(fd);
	else
		*out = fd;
	return error;
}

int wk_net_socket_listen(const char *host, uint16_t port, const wk_net_options *options, int *fd,
                         wk_net_address *bound) {
	bool everywhere = host == NULL || *host == 0;
	struct addrinfo *found;
	/* IPv6's "every address" means those of IPv4 too; where there is no IPv6 the second will do. */
	int error = look_up(everywhere ? "::" : host, port, true, &found);
	if (error == 0) {
		error = -EADDRNOTAVAIL;
		for (const struct addrinfo *address = found; address != NULL && error != 0; address = address->ai_next)
			error = listen_at(address, options, fd, bound);
		freeaddrinfo(found);
	}
	if (everywhere && (error == -EAFNOSUPPORT || error == -EADDRNOTAVAIL))
		return wk_net_socket_listen("0.0.0.0", port, options, fd, bound);
	return error;
}

int wk_net_dial_new(const char *host, uint16_t port, wk_net_dial **out) {
	wk_net_dial *dial = malloc(sizeof *dial);
	if (dial == NULL)
		return -ENOMEM;
	int error = look_up(host, port, false, &dial->found);
	if (error) {
		free(dial);
		return error;
	}
	dial->next = dial->found;
	*out = dial;
	return 0;
}

int wk_net_dial_next(wk_net_dial *dial, uint32_t peer_timeout_s, int *out) {
	int error = -ENOENT;
	while (dial->next != NULL) {
		const struct addrinfo *address = dial->next;
		dial->next = address->ai_next;
		int fd = wk_descriptor_take(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
		if (fd < 0) {
			error = fd;
			continue;
		}
		error = set_options(fd, peer_timeout_s);
		if (error == 0 && connect(fd, address->ai_addr, address->ai_addrlen) != 0)
			error = errno == EINTR ? -EINPROGRESS : -errno;
		if (error == 0 || error == -EINPROGRESS) {
			*out = fd;
			return error;
		}
		close(fd);
	}
	return error;
}

void wk_net_dial_free(wk_net_dial *dial) {
	if (dial == NULL)
		return;
	freeaddrinfo(dial->found);
	free(dial);
}

int wk_net_socket_error(int fd) {
	int error;
	socklen_t size = sizeof error;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
		return -errno;
	return -error;
}

int wk_net_socket_peer(int fd, wk_net_address *peer) {
	struct sockaddr_storage address;
	socklen_t size = sizeof address;
	if (getpeername(fd, (struct sockaddr *)&address, &size) != 0)
		return -errno;
	return to_address(&address, peer);
}

bool wk_net_is_shortage(int error) {
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -ENOBUFS;
}
