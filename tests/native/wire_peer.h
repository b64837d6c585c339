/*
 * wire_peer.h: the other end of a bookie's connection, without the connection: requests pile up as frames in a buffer,
 * and replies are looked for in what came back.
 *
 *	wire_peer peer;
 *	peer_open(&peer, WK_WIRE_V3);
 *	peer_entry entry = peer_entry_of(1, 0, -1, WK_DIGEST_CRC32C, "hello");
 *	uint64_t txn_id = peer_add(&peer, &entry);
 *	... send peer.bytes, peer.size; peer_sent(&peer, so many); receive into `bytes`, `size` ...
 *	wk_wire_reply reply;
 *	size_t taken = peer_reply(&peer, bytes, size, &reply); // 0: not whole yet
 *	peer_close(&peer);
 *
 * Each request function appends one frame, and returns its transaction id, which counts from 1. Replies of v2 are
 * matched by operation, ledger and entry, as it has no such id but that of a batch read.
 */
#ifndef WIRE_PEER_H
#define WIRE_PEER_H
#include "check.h"
#include "core/bytes.h"
#include "walkeeper/wire.h"

/* The master keys of the password "" and of "testPasswd". */
static const uint8_t peer_key[WK_MASTER_KEY_SIZE] = {0x85, 0x0b, 0xf1, 0x07, 0x1c, 0x5e, 0x3d, 0x8c, 0x24, 0x23,
                                                     0x56, 0x76, 0xf8, 0x81, 0x6a, 0xe0, 0xcb, 0xe2, 0xf1, 0x4f};
static const uint8_t peer_other_key[WK_MASTER_KEY_SIZE] = {0x2e, 0x2a, 0x69, 0xd8, 0x70, 0x79, 0x6f, 0xe0, 0x5c, 0x0e,
                                                           0x77, 0xc5, 0x2a, 0x29, 0xce, 0x5e, 0x42, 0x22, 0xb7, 0x58};

typedef struct wire_peer {
	uint32_t version;
	uint64_t txn_id;    /* the last one */
	const uint8_t *key; /* of adds, fences and explicit LACs: peer_key at first. NULL: none (not for v2's adds) */
	uint8_t *bytes;     /* not sent yet */
	size_t size, capacity;
} wire_peer;

static inline void peer_open(wire_peer *peer, uint32_t version) {
	*peer = (wire_peer){.version = version, .key = peer_key};
}

static inline void peer_close(wire_peer *peer) {
	free(peer->bytes);
	peer->bytes = NULL;
	peer->size = peer->capacity = 0;
}

/* So many bytes of the buffer are on their way. */
static inline void peer_sent(wire_peer *peer, size_t size) {
	CHECK(size <= peer->size);
	if (size > 0)
		memmove(peer->bytes, peer->bytes + size, peer->size - size);
	peer->size -= size;
}

/* Bytes as they are, for what is no request. */
static inline void peer_put(wire_peer *peer, const void *bytes, size_t size) {
	if (peer->size + size > peer->capacity) {
		peer->capacity = 2 * (peer->size + size);
		peer->bytes = realloc(peer->bytes, peer->capacity);
		CHECK(peer->bytes != NULL);
	}
	if (size > 0)
		memcpy(peer->bytes + peer->size, bytes, size);
	peer->size += size;
}

/* A payload with its prefix, whatever it is. */
static inline void peer_put_frame(wire_peer *peer, const void *payload, size_t size) {
	uint8_t prefix[WK_FRAME_PREFIX_SIZE];
	wk_store_be32(prefix, (uint32_t)size);
	peer_put(peer, prefix, sizeof prefix);
	peer_put(peer, payload, size);
}

/* ---- entries ---- */

enum { PEER_ENTRY_SIZE_MAX = 4096 };
typedef struct peer_entry {
	size_t size;
	uint8_t at[PEER_ENTRY_SIZE_MAX]; /* larger ones: peer_entry_put */
} peer_entry;

/*
 * An entry into `at`, which has room for its 32 bytes, 8 of digest, and its payload; its size. WK_DIGEST_CRC32C, CRC32, or
 * DUMMY for none. The header's length is the payload's, as a first entry has it.
 */
static inline size_t peer_entry_put(uint8_t *at, int64_t ledger_id, int64_t entry_id, int64_t lac, uint32_t digest,
                                    const void *payload, size_t payload_size) {
	size_t digest_size = digest == WK_DIGEST_CRC32C ? 4 : digest == WK_DIGEST_CRC32 ? 8 : 0;
	size_t size = WK_WIRE_ENTRY_HEADER_SIZE + digest_size + payload_size;
	wk_store_be64_signed(at, ledger_id);
	wk_store_be64_signed(at + 8, entry_id);
	wk_store_be64_signed(at + 16, lac);
	wk_store_be64(at + 24, payload_size);
	if (payload_size > 0)
		memcpy(at + WK_WIRE_ENTRY_HEADER_SIZE + digest_size, payload, payload_size);
	if (digest_size > 0)
		wk_wire_digest_put(at, size, digest);
	return size;
}

static inline peer_entry peer_entry_of(int64_t ledger_id, int64_t entry_id, int64_t lac, uint32_t digest,
                                       const char *text) {
	peer_entry entry;
	CHECK(strlen(text) <= PEER_ENTRY_SIZE_MAX - WK_WIRE_ENTRY_HEADER_SIZE - 8);
	entry.size = peer_entry_put(entry.at, ledger_id, entry_id, lac, digest, text, strlen(text));
	return entry;
}

/* An explicit LAC packet with its CRC32C; its size. */
static inline size_t peer_lac_put(uint8_t at[20], int64_t ledger_id, int64_t lac) {
	wk_store_be64_signed(at, ledger_id);
	wk_store_be64_signed(at + 8, lac);
	wk_store_be32(at + 16, wk_crc32c(at, 16));
	return 20;
}

/* ---- requests ---- */

/* To be changed, and then given to peer_request: what the functions below do not say. */
static inline wk_wire_request peer_request_of(wire_peer *peer, uint32_t operation, int64_t ledger_id) {
	return (wk_wire_request){.version = peer->version,
	                         .header_version = peer->version,
	                         .operation = operation,
	                         .txn_id = ++peer->txn_id,
	                         .ledger_id = ledger_id,
	                         .entry_id = -1};
}

static inline uint64_t peer_request(wire_peer *peer, const wk_wire_request *request) {
	uint8_t head[WK_WIRE_HEAD_SIZE_MAX];
	peer_put(peer, head, wk_wire_request_encode(request, head));
	peer_put(peer, request->body, request->body_size);
	return request->txn_id;
}

static inline void peer_give_key(const wire_peer *peer, wk_wire_request *request) {
	request->key = peer->key;
	request->key_size = peer->key == NULL ? 0 : WK_MASTER_KEY_SIZE;
}

/* v2's flag, v3's number. */
static inline void peer_hurry(wk_wire_request *request) {
	request->flags |= WK_WIRE_HIGH_PRIORITY;
	request->priority = request->version == WK_WIRE_V3 ? 100 : 0;
}

/* `flags`: WK_WIRE_RECOVERY, _DEFERRED (v3 alone has it), _HIGH_PRIORITY. */
static inline uint64_t peer_add_bytes(wire_peer *peer, const uint8_t *entry, size_t size, uint32_t flags) {
	wk_wire_request add = peer_request_of(peer, WK_WIRE_ADD, wk_load_be64_signed(entry));
	CHECK(peer->version == WK_WIRE_V3 || !(flags & WK_WIRE_DEFERRED));
	add.entry_id = wk_load_be64_signed(entry + 8);
	add.flags = flags;
	add.body = entry;
	add.body_size = size;
	peer_give_key(peer, &add);
	if (flags & WK_WIRE_HIGH_PRIORITY)
		peer_hurry(&add);
	return peer_request(peer, &add);
}

static inline uint64_t peer_add(wire_peer *peer, const peer_entry *entry) {
	return peer_add_bytes(peer, entry->at, entry->size, 0);
}
static inline uint64_t peer_recovery_add(wire_peer *peer, const peer_entry *entry) {
	return peer_add_bytes(peer, entry->at, entry->size, WK_WIRE_RECOVERY | WK_WIRE_HIGH_PRIORITY);
}
static inline uint64_t peer_deferred_add(wire_peer *peer, const peer_entry *entry) {
	return peer_add_bytes(peer, entry->at, entry->size, WK_WIRE_DEFERRED);
}

/* entry_id -1: the last one. */
static inline uint64_t peer_read(wire_peer *peer, int64_t ledger_id, int64_t entry_id) {
	wk_wire_request read = peer_request_of(peer, WK_WIRE_READ, ledger_id);
	read.entry_id = entry_id;
	return peer_request(peer, &read);
}

static inline uint64_t peer_fencing_read(wire_peer *peer, int64_t ledger_id, int64_t entry_id) {
	wk_wire_request read = peer_request_of(peer, WK_WIRE_READ, ledger_id);
	read.entry_id = entry_id;
	read.flags = WK_WIRE_FENCE;
	peer_give_key(peer, &read);
	peer_hurry(&read);
	return peer_request(peer, &read);
}

/* max_count 0: no limit. */
static inline uint64_t peer_batch_read(wire_peer *peer, int64_t ledger_id, int64_t first, int32_t max_count,
                                       int64_t max_size) {
	wk_wire_request read = peer_request_of(peer, WK_WIRE_BATCH_READ, ledger_id);
	CHECK_EQ(peer->version, WK_WIRE_V2);
	read.entry_id = first;
	read.max_count = max_count;
	read.max_size = max_size;
	return peer_request(peer, &read);
}

/* ---- requests that v3 alone has ---- */

static inline wk_wire_request peer_v3_request_of(wire_peer *peer, uint32_t operation, int64_t ledger_id) {
	CHECK_EQ(peer->version, WK_WIRE_V3);
	return peer_request_of(peer, operation, ledger_id);
}

/* The entry, once the LAC is above previous_lac or the time is over. timeout_ms below 0: none is given. */
static inline uint64_t peer_long_poll(wire_peer *peer, int64_t ledger_id, int64_t entry_id, int64_t previous_lac,
                                      int64_t timeout_ms) {
	wk_wire_request poll = peer_v3_request_of(peer, WK_WIRE_READ, ledger_id);
	poll.entry_id = entry_id;
	poll.flags = WK_WIRE_LONG_POLL;
	poll.previous_lac = previous_lac;
	poll.has_timeout = timeout_ms >= 0;
	poll.timeout_ms = poll.has_timeout ? timeout_ms : 0;
	return peer_request(peer, &poll);
}

/* The LAC, once it is above previous_lac or the time is over, and entry previous_lac + 1 if the bookie has it. */
static inline uint64_t peer_piggyback(wire_peer *peer, int64_t ledger_id, int64_t previous_lac, int64_t timeout_ms) {
	wk_wire_request poll = peer_v3_request_of(peer, WK_WIRE_READ, ledger_id);
	poll.flags = WK_WIRE_LONG_POLL | WK_WIRE_PIGGYBACK;
	poll.previous_lac = previous_lac;
	poll.has_timeout = timeout_ms >= 0;
	poll.timeout_ms = poll.has_timeout ? timeout_ms : 0;
	return peer_request(peer, &poll);
}

static inline uint64_t peer_read_lac(wire_peer *peer, int64_t ledger_id) {
	wk_wire_request request = peer_v3_request_of(peer, WK_WIRE_READ_LAC, ledger_id);
	return peer_request(peer, &request);
}

static inline uint64_t peer_write_lac(wire_peer *peer, int64_t ledger_id, int64_t lac) {
	uint8_t packet[20];
	wk_wire_request request = peer_v3_request_of(peer, WK_WIRE_WRITE_LAC, ledger_id);
	request.lac = lac;
	request.body = packet;
	request.body_size = peer_lac_put(packet, ledger_id, lac);
	peer_give_key(peer, &request);
	return peer_request(peer, &request);
}

static inline uint64_t peer_force(wire_peer *peer, int64_t ledger_id) {
	wk_wire_request request = peer_v3_request_of(peer, WK_WIRE_FORCE, ledger_id);
	return peer_request(peer, &request);
}

static inline uint64_t peer_list(wire_peer *peer, int64_t ledger_id) {
	wk_wire_request request = peer_v3_request_of(peer, WK_WIRE_LIST_ENTRIES, ledger_id);
	return peer_request(peer, &request);
}

/* `wanted`: 1 total, 2 free. */
static inline uint64_t peer_info(wire_peer *peer, uint32_t wanted) {
	wk_wire_request request = peer_v3_request_of(peer, WK_WIRE_BOOKIE_INFO, -1);
	request.wanted = wanted;
	return peer_request(peer, &request);
}

static inline uint64_t peer_start_tls(wire_peer *peer) {
	wk_wire_request request = peer_v3_request_of(peer, WK_WIRE_START_TLS, -1);
	return peer_request(peer, &request);
}

/* In both protocols. */
static inline uint64_t peer_auth(wire_peer *peer, const char *plugin, const char *payload) {
	wk_wire_request request = peer_request_of(peer, WK_WIRE_AUTH, -1);
	request.auth_name = (const uint8_t *)plugin;
	request.auth_name_size = strlen(plugin);
	request.body = (const uint8_t *)payload;
	request.body_size = strlen(payload);
	return peer_request(peer, &request);
}

/* ---- replies ---- */

/* The first frame of what came, which *reply points into; how many bytes it takes, or 0: it is not whole yet. */
static inline size_t peer_reply(const wire_peer *peer, const uint8_t *bytes, size_t size, wk_wire_reply *reply) {
	uint64_t frame_size;
	CHECK_EQ(wk_frame_size(bytes, size, INT32_MAX, &frame_size), WK_OK);
	if (frame_size == 0 || frame_size > size)
		return 0;
	CHECK_EQ(
	    wk_wire_reply_decode(bytes + WK_FRAME_PREFIX_SIZE, frame_size - WK_FRAME_PREFIX_SIZE, peer->version, reply),
	    WK_OK);
	return frame_size;
}

static inline bool peer_is_entry(const wk_wire_reply *reply, const peer_entry *entry) {
	return reply->has_body && reply->body_size == entry->size && memcmp(reply->body, entry->at, entry->size) == 0;
}

/* The entries of a batch read one by one; *at is 0 at first. False: there are no more. */
static inline bool peer_batch_next(const wk_wire_reply *reply, size_t *at, const uint8_t **entry, size_t *size) {
	if (*at == reply->body_size)
		return false;
	CHECK(*at + 4 <= reply->body_size);
	*size = wk_load_be32(reply->body + *at);
	*entry = reply->body + *at + 4;
	*at += 4 + *size;
	CHECK(*at <= reply->body_size);
	return true;
}

/* Whether a list of entries names this one. */
static inline bool peer_list_has(const wk_wire_reply *reply, int64_t entry_id) {
	CHECK(reply->has_body && reply->body_size >= WK_AVAILABILITY_HEAD_SIZE);
	uint32_t groups = wk_load_be32(reply->body + 4);
	CHECK_EQ(wk_load_be32(reply->body), 0);
	CHECK_EQ(reply->body_size, WK_AVAILABILITY_HEAD_SIZE + (uint64_t)groups * WK_AVAILABILITY_GROUP_SIZE);
	for (uint32_t i = 0; i < groups; i++) {
		const uint8_t *group = reply->body + WK_AVAILABILITY_HEAD_SIZE + i * WK_AVAILABILITY_GROUP_SIZE;
		int64_t first = wk_load_be64_signed(group), last = wk_load_be64_signed(group + 8);
		int64_t count = wk_load_be32(group + 16), period = wk_load_be32(group + 20);
		if (period == 0)
			CHECK_EQ(first, last);
		if (entry_id < first || entry_id >= last + count)
			continue;
		if ((period == 0 ? entry_id - first : (entry_id - first) % period) < count)
			return true;
	}
	return false;
}
#endif
