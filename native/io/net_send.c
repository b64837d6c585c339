/* net_send.c: what is left of a send. */
#include "io/net_send.h"
#include <assert.h>
#include <stdlib.h>

enum { SPARE_MAX = 64 };

wk_net_send *wk_net_send_take(wk_net_send_pool *pool) {
	wk_net_send *send = pool->spare;
	if (send == NULL)
		return malloc(sizeof *send);
	pool->spare = send->next;
	pool->spare_count--;
	return send;
}

void wk_net_send_give_back(wk_net_send_pool *pool, wk_net_send *send) {
	if (pool->spare_count == SPARE_MAX) {
		free(send);
		return;
	}
	send->next = pool->spare;
	pool->spare = send;
	pool->spare_count++;
}

void wk_net_send_pool_free(wk_net_send_pool *pool) {
	while (pool->spare != NULL) {
		wk_net_send *send = pool->spare;
		pool->spare = send->next;
		free(send);
	}
}

void wk_net_send_load(wk_net_send *send, const struct iovec *parts, uint32_t count) {
	assert(count <= WK_NET_PARTS_MAX);
	send->next = NULL;
	send->message = (struct msghdr){.msg_iov = send->parts};
	for (uint32_t i = 0; i < count; i++)
		if (parts[i].iov_len > 0)
			send->parts[send->message.msg_iovlen++] = parts[i];
}

const struct msghdr *wk_net_send_piece(wk_net_send *send) {
	const struct msghdr *left = &send->message;
	size_t size = 0, count = 0;
	while (count < left->msg_iovlen && size + left->msg_iov[count].iov_len <= WK_NET_PIECE_MAX)
		size += left->msg_iov[count++].iov_len;
	send->piece = (struct msghdr){.msg_iov = left->msg_iov, .msg_iovlen = count};
	if (count == 0) {
		send->cut = (struct iovec){left->msg_iov->iov_base, WK_NET_PIECE_MAX};
		send->piece = (struct msghdr){.msg_iov = &send->cut, .msg_iovlen = 1};
	}
	return &send->piece;
}

bool wk_net_send_advance(wk_net_send *send, size_t size) {
	struct msghdr *message = &send->message;
	while (message->msg_iovlen > 0 && size >= message->msg_iov->iov_len) {
		size -= message->msg_iov->iov_len;
		message->msg_iov++;
		message->msg_iovlen--;
	}
	if (message->msg_iovlen == 0) {
		assert(size == 0);
		return true;
	}
	message->msg_iov->iov_base = (char *)message->msg_iov->iov_base + size;
	message->msg_iov->iov_len -= size;
	return false;
}
