/* net_origins.c: how many connections come from each address. */
#include "io/net_origins.h"
#include "core/bytes.h"
#include "core/id_hash.h"
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY_MIN = 64 };

/* No network of 64 bits that is given out begins so. */
static const uint64_t V4 = 0x0000FFFF00000000u, LINK_LOCAL = 0xFE80000000000000u;
static const uint8_t NAT64[12] = {0x00, 0x64, 0xff, 0x9b}; /* an IPv4 address behind a gateway: RFC 6052 */

wk_net_origin wk_net_origin_of(const struct sockaddr *address) {
	if (address->sa_family == AF_INET) {
		struct sockaddr_in v4;
		memcpy(&v4, address, sizeof v4);
		return V4 | ntohl(v4.sin_addr.s_addr);
	}
	if (address->sa_family != AF_INET6)
		return 0;
	struct sockaddr_in6 v6;
	memcpy(&v6, address, sizeof v6);
	const uint8_t *bytes = v6.sin6_addr.s6_addr;
	if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) || memcmp(bytes, NAT64, sizeof NAT64) == 0)
		return V4 | wk_load_be32(bytes + 12);
	uint64_t network = wk_load_be64(bytes), rest = wk_load_be64(bytes + 8);
	if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) /* nobody has a network of this kind elsewhere */
		return LINK_LOCAL | ((rest ^ rest >> 48) & 0xFFFFFFFFFFFFu);
	return network != 0 ? network : 1;
}

/* Where it stands, or would. */
static uint32_t find(const wk_net_origins *origins, wk_net_origin origin) {
	uint32_t at = wk_id_home(origins->seed, (int64_t)origin, origins->capacity);
	while (origins->slots[at].origin != 0 && origins->slots[at].origin != origin)
		at = (at + 1) & (origins->capacity - 1);
	return at;
}

static int grow(wk_net_origins *origins) {
	wk_net_origins larger = *origins;
	larger.capacity = origins->capacity != 0 ? origins->capacity * 2 : CAPACITY_MIN;
	larger.slots = calloc(larger.capacity, sizeof *larger.slots);
	if (larger.slots == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < origins->capacity; i++)
		if (origins->slots[i].origin != 0)
			larger.slots[find(&larger, origins->slots[i].origin)] = origins->slots[i];
	free(origins->slots);
	*origins = larger;
	return 0;
}

int wk_net_origins_enter(wk_net_origins *origins, wk_net_origin origin) {
	if (origin == 0 || origins->max == 0)
		return 0;
	int error = origins->used >= origins->capacity / 4 * 3 ? grow(origins) : 0;
	if (error)
		return error;
	wk_net_origin_slot *slot = &origins->slots[find(origins, origin)];
	if (slot->count >= origins->max)
		return -EMFILE;
	origins->used += slot->count == 0;
	*slot = (wk_net_origin_slot){.origin = origin, .count = slot->count + 1};
	return 0;
}

/* Those behind it that would not be found past a free slot move up. */
static void vacate(wk_net_origins *origins, uint32_t at) {
	uint32_t mask = origins->capacity - 1;
	for (uint32_t next = (at + 1) & mask; origins->slots[next].origin != 0; next = (next + 1) & mask) {
		uint32_t home = wk_id_home(origins->seed, (int64_t)origins->slots[next].origin, origins->capacity);
		if (((next - home) & mask) < ((next - at) & mask))
			continue;
		origins->slots[at] = origins->slots[next];
		at = next;
	}
	origins->slots[at] = (wk_net_origin_slot){0};
	origins->used--;
}

void wk_net_origins_leave(wk_net_origins *origins, wk_net_origin origin) {
	if (origin == 0 || origins->max == 0)
		return;
	uint32_t at = find(origins, origin);
	assert(origins->slots[at].count > 0);
	if (--origins->slots[at].count == 0)
		vacate(origins, at);
}

void wk_net_origins_free(wk_net_origins *origins) {
	free(origins->slots);
}
