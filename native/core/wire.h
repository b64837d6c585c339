/*
 * wire.h: the wire protocol of Apache BookKeeper 4.17, v2 (binary) and v3 (protobuf): docs/protocol.md has the bytes.
 * Every function is pure: bytes in, structs out, and back; nothing is copied but what a head holds.
 *
 * A frame is a 4-byte big-endian length and so many bytes, the payload. What is decoded points into the payload.
 * What is encoded comes in two parts: a head, written here, and the body, the caller's own bytes, which follow it
 * unchanged: the head's lengths count them. So an entry is never copied to be sent.
 *
 * Both directions are here: a bookie decodes requests and encodes replies, a client the other way round.
 */
#ifndef WK_CORE_WIRE_H
#define WK_CORE_WIRE_H
#include "walkeeper/core.h"

enum {
	WK_FRAME_PREFIX_SIZE = 4,
	WK_FRAME_SIZE_MAX = 5 * 1024 * 1024, /* BookKeeper's default limit, of payload and prefix together */
	WK_MASTER_KEY_SIZE = 20,
	WK_WIRE_ENTRY_HEADER_SIZE = 32, /* ledger id, entry id, LAC, length: what stands before an entry's digest */
	WK_WIRE_HEAD_SIZE_MAX = 256,    /* of any head that is encoded here, its prefix included */
	WK_WIRE_AUTH_NAME_MAX = 128,    /* bytes of a plugin's name that are echoed */
};

enum wk_wire_version { WK_WIRE_V2 = 2, WK_WIRE_V3 = 3 };

/* The numbers are v3's. */
typedef enum wk_wire_operation {
	WK_WIRE_READ = 1,
	WK_WIRE_ADD = 2,
	WK_WIRE_RANGE_READ = 3, /* a number that nobody implements, as the next one: WK_WIRE_BAD_REQUEST */
	WK_WIRE_RANGE_ADD = 4,
	WK_WIRE_AUTH = 5,
	WK_WIRE_WRITE_LAC = 6,
	WK_WIRE_READ_LAC = 7,
	WK_WIRE_BOOKIE_INFO = 8,
	WK_WIRE_START_TLS = 9,
	WK_WIRE_FORCE = 10,
	WK_WIRE_LIST_ENTRIES = 11,
	WK_WIRE_BATCH_READ = 12, /* v2 alone has its message */
} wk_wire_operation;

/* What became of a request. The numbers are v3's; v2's follow from them when a reply is encoded. */
typedef enum wk_wire_code {
	WK_WIRE_OK = 0,
	WK_WIRE_NO_LEDGER = 402,
	WK_WIRE_NO_ENTRY = 403,
	WK_WIRE_BAD_REQUEST = 404,
	WK_WIRE_IO_ERROR = 501,
	WK_WIRE_UNAUTHORIZED = 502,
	WK_WIRE_BAD_VERSION = 503,
	WK_WIRE_FENCED = 504,
	WK_WIRE_READ_ONLY = 505,
	WK_WIRE_TOO_MANY_REQUESTS = 506,
	WK_WIRE_UNKNOWN_STATE = 507, /* limbo; v2 clients do not know it and are told an I/O error */
} wk_wire_code;

enum wk_wire_flag {
	WK_WIRE_FENCE = 1,         /* of a read: fence the ledger first */
	WK_WIRE_RECOVERY = 2,      /* of an add: accepted although fenced */
	WK_WIRE_HIGH_PRIORITY = 4, /* v2's flag; v3: a priority above 0 */
	WK_WIRE_PIGGYBACK = 8,     /* of a long poll: with entry previous_lac + 1 */
	WK_WIRE_LONG_POLL = 16,    /* of a read: previous_lac was given, and it does not fence */
	WK_WIRE_DEFERRED = 32,     /* of an add: answered before it is durable (v3's write flag 1) */
};

typedef struct wk_wire_request {
	uint32_t version;        /* enum wk_wire_version: of the protocol that it came in */
	uint32_t header_version; /* what its header says: v2 0 to 2, else WK_WIRE_BAD_VERSION; v3 must say 3 */
	uint32_t operation;      /* wk_wire_operation */
	uint32_t flags;          /* of enum wk_wire_flag */
	uint64_t txn_id;         /* v3; of v2 the request id of a batch read, else 0 */
	uint32_t priority;       /* v3 */
	bool has_timeout;        /* of a long poll */
	int64_t ledger_id; /* of an add by v2: what the entry says; by v3: what the message says. -1 where there is none */
	int64_t entry_id;
	int64_t lac;          /* write LAC: the message's; what counts is its packet's, in body */
	int64_t previous_lac; /* long poll */
	int64_t timeout_ms;   /* long poll */
	int64_t max_size;     /* batch read: bytes of its reply */
	int32_t max_count;    /* batch read: 0 or less: no limit */
	uint32_t wanted;      /* bookie info: 1 total, 2 free */
	const uint8_t *key;   /* master key; NULL: none was given */
	uint64_t key_size;
	const uint8_t *body; /* add: the entry; write LAC: the packet; auth: the plugin's payload. NULL where size is 0 */
	uint64_t body_size;
	const uint8_t *auth_name;
	uint64_t auth_name_size;
	bool bare; /* v3: the header alone, without the operation's message */
} wk_wire_request;

typedef struct wk_wire_reply {
	uint32_t version, header_version, operation;
	uint32_t code; /* wk_wire_code */
	uint64_t txn_id;
	int64_t ledger_id; /* as they were asked for, also -1, but for a piggy-backed entry */
	int64_t entry_id;
	/* read: an entry follows; READ_LAC: the last entry; list of entries: availability; auth: the payload */
	bool has_body;
	bool has_max_lac;
	bool has_space; /* bookie info: which of the two were asked for stands in `wanted` */
	uint32_t wanted;
	int64_t max_lac;
	uint64_t lac_update_ms; /* 0: not told */
	int64_t total_bytes, free_bytes;
	const uint8_t *lac; /* READ_LAC: the explicit LAC packet; NULL: none */
	uint64_t lac_size;
	const uint8_t *auth_name;
	uint64_t auth_name_size;
	const uint8_t *body; /* decoded replies only; when a reply is encoded, its body_size bytes follow the head */
	uint64_t body_size;
	bool bare; /* v3: header and status alone, as for an operation that has no message */
} wk_wire_reply;

/*
 * How many bytes the first frame of `bytes` takes, prefix included; 0: the prefix is not whole yet. WK_TOO_LARGE: more
 * than `max`, or a length below 0: the connection has to go. An empty frame (length 0) is WK_CORRUPT.
 */
wk_status wk_frame_size(const uint8_t *bytes, size_t size, uint64_t max, uint64_t *frame_size);

/*
 * One payload. *version: what this connection speaks, WK_WIRE_V3 at first; the first payload that is no v3 request
 * makes it WK_WIRE_V2 for good, as Java does. WK_CORRUPT: it is neither; the connection has to go. A request that is
 * well formed and cannot be served (an operation without a message, a header version that is not known) is WK_OK:
 * wk_wire_refusal says how.
 */
wk_status wk_wire_request_decode(const uint8_t *payload, size_t size, uint32_t *version, wk_wire_request *request);
/* WK_WIRE_OK where it may be served; else the code that it is answered with, and *bare as in a reply. */
uint32_t wk_wire_refusal(const wk_wire_request *request, bool *bare);
/* A reply to it: version, operation, ids, `wanted` and `bare` filled in, everything else 0. */
void wk_wire_reply_begin(const wk_wire_request *request, uint32_t code, wk_wire_reply *reply);

/*
 * The head of a reply into `head`, which has room for WK_WIRE_HEAD_SIZE_MAX; its size. reply->body_size bytes follow
 * it. A batch read's body is, for each entry, its size in 4 bytes (big-endian) and its bytes. The LAC packet has at most
 * 48 bytes; of the plugin's name WK_WIRE_AUTH_NAME_MAX are said.
 */
size_t wk_wire_reply_encode(const wk_wire_reply *reply, uint8_t *head);
/* The head of a request, for clients; request->body_size bytes follow it. A key of v2 has 20 bytes, of v3 at most 48. */
size_t wk_wire_request_encode(const wk_wire_request *request, uint8_t *head);
/* One payload of a bookie, by a client that speaks `version`. A batch read's body is the entries with their sizes. */
wk_status wk_wire_reply_decode(const uint8_t *payload, size_t size, uint32_t version, wk_wire_reply *reply);

/* ---- entries ---- */

/* The header of a stored entry (bookkeeper: ledger id, entry id, LAC, length; 8 bytes each, big-endian). */
typedef struct wk_wire_entry {
	int64_t ledger_id, entry_id, lac, length;
} wk_wire_entry;
/* WK_CORRUPT: fewer than WK_WIRE_ENTRY_HEADER_SIZE bytes. */
wk_status wk_wire_entry_decode(const uint8_t *bytes, size_t size, wk_wire_entry *entry);
/* The LAC of an explicit LAC packet (ledger id, LAC, digest). WK_CORRUPT: fewer than 16 bytes, or of another ledger. */
wk_status wk_wire_lac_decode(const uint8_t *bytes, size_t size, int64_t ledger_id, int64_t *lac);

/* The digest of an entry: CRC-32C in 4 bytes, CRC-32 (IEEE) in 8, the first four of them 0. */
enum wk_wire_digest {
	WK_DIGEST_UNKNOWN = 0,
	WK_DIGEST_CRC32 = 1,
	WK_DIGEST_MAC = 2,
	WK_DIGEST_CRC32C = 3,
	WK_DIGEST_DUMMY = 4
};
/* Whether the entry has this digest, CRC32 or CRC32C. False: it is shorter, or damaged, or of another type. */
bool wk_wire_digest_matches(const uint8_t *bytes, size_t size, uint32_t digest);
/* Of an entry that has digest CRC32C, as was found: the CRC32C of its payload alone, which starts here. It is not read again. */
enum { WK_WIRE_PAYLOAD_AT_CRC32C = WK_WIRE_ENTRY_HEADER_SIZE + 4 };
uint32_t wk_wire_payload_crc32c(const uint8_t *bytes, size_t size);
/* Puts it behind the header of an entry whose payload starts at header + digest's size (clients, tests). */
void wk_wire_digest_put(uint8_t *bytes, size_t size, uint32_t digest);
/* zlib's CRC-32 of A followed by B, where crc is that of A; 0 to begin. */
uint32_t wk_crc32_extend(uint32_t crc, const void *data, size_t size);

/* ---- the list of entries of a ledger (AvailabilityOfEntriesOfLedger) ---- */

enum { WK_AVAILABILITY_HEAD_SIZE = 64, WK_AVAILABILITY_GROUP_SIZE = 24, WK_AVAILABILITY_RUN_MAX = 0x7fffffff };
/* Runs of `size` entries each: one begins at first_start, and one at every period from there to last_start. */
typedef struct wk_availability_group {
	int64_t first_start, last_start;
	uint32_t size;   /* 0: it is empty */
	uint32_t period; /* 0: one run */
} wk_availability_group;
/*
 * The run of entries first to last, both included, at most WK_AVAILABILITY_RUN_MAX of them and behind the group's, belongs
 * to the group now; false: it cannot, and begins another. An empty group takes any. A striped ledger is one group.
 */
bool wk_availability_extend(wk_availability_group *group, int64_t first, int64_t last);
void wk_availability_group_encode(const wk_availability_group *group, uint8_t *out);
/* The 64 bytes before `groups` groups. */
void wk_availability_head(uint32_t groups, uint8_t *out);
#endif
