/*
 * net_churn.h: peers that come, speak, fall silent, leave and break off at random, and an owner who pauses, resumes and
 * closes at random. Part of net_conformance.h.
 *
 * The byte at a place of any stream follows from the place, so that both ends see whether one was lost, doubled or moved.
 */
#ifndef NET_CHURN_H
#define NET_CHURN_H
#include "net_peers.h"

enum { CHURN_PEERS = 60, CHURN_OWNED = 512, CHURN_PIECE = 20000, CHURN_HELD = 1 << 18 };

struct churn_peer {
	int fd; /* -1: none */
	uint64_t written, read;
};

struct churn_owned {
	wk_connection_id id; /* 0: none */
	uint64_t received, echoed;
	size_t under_way;
	bool closed, sending;
	unsigned closed_in_batch;
};

static struct churn_peer churn_peers[CHURN_PEERS];
static struct churn_owned churn_owned[CHURN_OWNED];
static uint8_t churn_stream[(1 << 16) + CHURN_PIECE + CHURN_HELD];
static unsigned churn_batch;
static int churn_next; /* of the batch */

/* The stream repeats itself after a prime that is no power of two, nor near one. */
enum { CHURN_PERIOD = 65521 };

static const uint8_t *churn_bytes(uint64_t place) {
	return churn_stream + place % CHURN_PERIOD;
}

static void churn_echo(struct churn_owned *owned) {
	uint64_t left = owned->received - owned->echoed;
	if (owned->sending || owned->closed || left == 0)
		return;
	owned->under_way = left < CHURN_HELD ? left : CHURN_HELD;
	size_t half = owned->under_way / 2;
	struct iovec parts[2] = {{(void *)(uintptr_t)churn_bytes(owned->echoed), half},
	                         {(void *)(uintptr_t)churn_bytes(owned->echoed + half), owned->under_way - half}};
	int error = ops->send(net, owned->id, parts, 2);
	owned->sending = error == 0;
	bool closed_behind = false;
	for (int i = churn_next; error == -EBADF && i < batch_count; i++)
		closed_behind = closed_behind || (batch[i].kind == WK_NET_CLOSED && batch[i].connection == owned->id);
	CHECK(error == 0 || closed_behind);
}

static void churn_take(const wk_net_event *event) {
	if (event->kind == WK_NET_ACCEPTED) {
		uint64_t free = 0;
		while (churn_owned[free].id != 0)
			CHECK(++free < CHURN_OWNED);
		churn_owned[free] = (struct churn_owned){.id = event->connection};
		CHECK_EQ(ops->set_tag(net, event->connection, free), 0);
		return;
	}
	CHECK(event->tag < CHURN_OWNED);
	struct churn_owned *owned = &churn_owned[event->tag];
	CHECK_EQ(owned->id, event->connection);
	if (event->kind == WK_NET_CLOSED) {
		CHECK(event->error == -ECANCELED
		          ? owned->closed
		          : !owned->closed && (event->error == 0 || event->error == -ECONNRESET || event->error == -EPIPE));
		owned->id = 0;
		return;
	}
	CHECK(!owned->closed || owned->closed_in_batch == churn_batch);
	if (owned->closed)
		return;
	if (event->kind == WK_NET_RECEIVED) {
		CHECK(event->size > 0);
		for (size_t done = 0; done < event->size; done += CHURN_PIECE) {
			size_t size = event->size - done < CHURN_PIECE ? event->size - done : CHURN_PIECE;
			CHECK(memcmp(event->bytes + done, churn_bytes(owned->received + done), size) == 0);
		}
		owned->received += event->size;
	} else {
		CHECK(event->kind == WK_NET_SENT && owned->sending);
		owned->sending = false;
		owned->echoed += owned->under_way;
	}
	churn_echo(owned);
}

static void churn_wait(uint64_t timeout_ns, uint32_t max) {
	batch_count = ops->wait(net, batch, max, timeout_ns);
	CHECK(batch_count >= 0);
	churn_batch++;
	for (churn_next = 0; churn_next < batch_count;)
		churn_take(&batch[churn_next++]);
	batch_next = batch_count;
}

static void churn_peer_acts(struct churn_peer *peer, uint64_t *seed) {
	static uint8_t found[CHURN_PIECE];
	ssize_t count;
	if (peer->fd < 0) {
		*peer = (struct churn_peer){.fd = dial()};
		return;
	}
	switch (check_random(seed) % 16) {
	case 0:
		close(peer->fd);
		peer->fd = -1;
		break;
	case 1:
		peer_resets(peer->fd);
		peer->fd = -1;
		break;
	case 2:
	case 3:
	case 4:
	case 5:
	case 6:
	case 7:
		count = recv(peer->fd, found, 1 + check_random(seed) % CHURN_PIECE, MSG_DONTWAIT);
		if (count > 0) {
			CHECK(peer->read + (uint64_t)count <= peer->written);
			CHECK(memcmp(found, churn_bytes(peer->read), (size_t)count) == 0);
			peer->read += (uint64_t)count;
		} else if (count == 0 || errno != EAGAIN) { /* our end was closed by its owner */
			close(peer->fd);
			peer->fd = -1;
		}
		break;
	default:
		count = send(peer->fd, churn_bytes(peer->written), 1 + check_random(seed) % CHURN_PIECE,
		             MSG_DONTWAIT | MSG_NOSIGNAL);
		peer->written += count > 0 ? (uint64_t)count : 0;
	}
}

static void churn_owner_acts(struct churn_owned *owned, uint64_t *seed) {
	if (owned->id == 0 || owned->closed)
		return;
	uint64_t choice = check_random(seed) % 16;
	if (choice == 0) {
		CHECK_EQ(ops->close(net, owned->id), 0);
		owned->closed = true;
		owned->closed_in_batch = churn_batch;
	} else if (choice < 6) {
		CHECK_EQ(ops->pause(net, owned->id), 0);
	} else {
		CHECK_EQ(ops->resume(net, owned->id), 0);
	}
}

TEST(no_order_of_events_confuses_it) {
	uint64_t seed = check_seed((uint64_t)time(NULL));
	printf("seed %llu\n", (unsigned long long)seed);
	uint64_t stream_seed = 7;
	check_random_bytes(&stream_seed, churn_stream, CHURN_PERIOD / 8 * 8);
	for (size_t i = CHURN_PERIOD; i < sizeof churn_stream; i++)
		churn_stream[i] = churn_stream[i - CHURN_PERIOD];
	for (int round = 0; round < 6; round++) {
		begin(&(wk_net_options){.receive_size = round % 2 == 0 ? 2048 : 0, .receive_buffers = round % 3 == 0 ? 4 : 0});
		for (int i = 0; i < CHURN_PEERS; i++)
			churn_peers[i].fd = -1;
		memset(churn_owned, 0, sizeof churn_owned);
		for (int step = 0; step < 20000 / CHECK_PART; step++) {
			churn_peer_acts(&churn_peers[check_random(&seed) % CHURN_PEERS], &seed);
			if (check_random(&seed) % 8 == 0)
				churn_owner_acts(&churn_owned[check_random(&seed) % CHURN_PEERS], &seed);
			if (check_random(&seed) % 4 == 0)
				churn_wait(0, (uint32_t)(1 + check_random(&seed) % 64));
		}
		for (int i = 0; i < CHURN_PEERS; i++)
			if (churn_peers[i].fd >= 0)
				close(churn_peers[i].fd);
		if (round < 4) { /* else it is destroyed as it stands */
			uint64_t until = now_ns() + LONG_WAIT;
			unsigned left = 1;
			batch_count = 1;
			while (left > 0 || batch_count > 0) { /* the door may rest, with somebody before it */
				CHECK(now_ns() < until);
				left = 0;
				for (int i = 0; i < CHURN_OWNED; i++) {
					if (churn_owned[i].id != 0 && !churn_owned[i].closed)
						CHECK_EQ(ops->resume(net, churn_owned[i].id), 0);
					left += churn_owned[i].id != 0;
				}
				churn_wait(left > 0 ? MS : 50 * MS, 64);
			}
		}
		end();
	}
}
#endif
