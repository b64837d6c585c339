/* dispatcher.c: see dispatcher.h. */
#include "client/dispatcher.h"
#include "client/link.h"
#include <stdlib.h>
#include <string.h>

wk_status wk_dispatcher_new(wk_net *net, const wk_client_options *options, wk_dispatcher **made) {
	wk_dispatcher *dispatcher = calloc(1, sizeof *dispatcher);
	if (dispatcher == NULL)
		return WK_NO_MEMORY;
	dispatcher->net = net;
	dispatcher->options = *options;
	*made = dispatcher;
	return WK_OK;
}

void wk_dispatcher_end(wk_dispatcher *dispatcher) {
	dispatcher->ended = true;
	for (uint32_t i = 0; i < dispatcher->links_count; i++)
		wk_link_lose(dispatcher->links[i]);
}

void wk_dispatcher_free(wk_dispatcher *dispatcher) {
	for (uint32_t i = 0; i < dispatcher->links_count; i++)
		wk_link_free(dispatcher->links[i]);
	free(dispatcher->links);
	free(dispatcher);
}

void wk_dispatcher_begin(wk_dispatcher *dispatcher, uint64_t now_ns) {
	dispatcher->now_ns = now_ns;
}

void wk_dispatcher_event(wk_dispatcher *dispatcher, const wk_net_event *event) {
	(void)dispatcher;
	wk_link *link = (wk_link *)(uintptr_t)event->tag;
	if (link != NULL)
		wk_link_event(link, event);
}

void wk_dispatcher_turn(wk_dispatcher *dispatcher) {
	do { /* a link that is lost makes askers ask others */
		dispatcher->asked = false;
		for (uint32_t i = 0; i < dispatcher->links_count; i++)
			wk_link_turn(dispatcher->links[i]);
	} while (dispatcher->asked);
}

uint64_t wk_dispatcher_deadline(const wk_dispatcher *dispatcher) {
	uint64_t deadline_ns = UINT64_MAX;
	for (uint32_t i = 0; i < dispatcher->links_count; i++) {
		uint64_t of_link_ns = wk_link_deadline(dispatcher->links[i]);
		deadline_ns = of_link_ns < deadline_ns ? of_link_ns : deadline_ns;
	}
	return deadline_ns;
}

static bool is_numeric_host(const char *host) {
	size_t size = strlen(host);
	return size > 0 && size < sizeof((wk_link *)0)->host && strspn(host, "0123456789abcdefABCDEF.:%") > 0 &&
	       strchr(host, ' ') == NULL;
}

wk_status wk_dispatcher_bookie(wk_dispatcher *dispatcher, const char *id, const char *host, uint16_t port,
                               uint32_t *bookie) {
	if (strlen(id) >= sizeof((wk_link *)0)->id || !is_numeric_host(host))
		return WK_INVALID;
	uint32_t at = 0;
	while (at < dispatcher->links_count && strcmp(dispatcher->links[at]->id, id) != 0)
		at++;
	if (at == dispatcher->links_count) {
		if (at == dispatcher->links_capacity) {
			uint32_t capacity = at > 0 ? at * 2 : 8;
			wk_link **larger = realloc(dispatcher->links, capacity * sizeof(wk_link *));
			if (larger == NULL)
				return WK_NO_MEMORY;
			dispatcher->links = larger;
			dispatcher->links_capacity = capacity;
		}
		wk_link *link = wk_link_new(dispatcher, id);
		if (link == NULL)
			return WK_NO_MEMORY;
		dispatcher->links[dispatcher->links_count++] = link;
	}
	wk_link *link = dispatcher->links[at];
	memset(link->host, 0, sizeof link->host);
	memcpy(link->host, host, strlen(host));
	link->port = port;
	*bookie = at;
	return WK_OK;
}

const char *wk_dispatcher_bookie_id(const wk_dispatcher *dispatcher, uint32_t bookie) {
	return bookie < dispatcher->links_count ? dispatcher->links[bookie]->id : "?";
}

bool wk_dispatcher_is_silent(const wk_dispatcher *dispatcher, uint32_t bookie) {
	const wk_link *link = dispatcher->links[bookie];
	bool away = link->state == WK_LINK_DOWN && dispatcher->now_ns < link->retry_at_ns;
	return away || dispatcher->now_ns < link->silent_until_ns;
}

void wk_dispatcher_silence(wk_dispatcher *dispatcher, uint32_t bookie) {
	wk_link_silence(dispatcher->links[bookie]);
}

const wk_latency *wk_dispatcher_latency(const wk_dispatcher *dispatcher, uint32_t bookie) {
	return &dispatcher->links[bookie]->latency;
}

uint32_t wk_dispatcher_bookies(const wk_dispatcher *dispatcher) {
	return dispatcher->links_count;
}

uint64_t wk_dispatcher_number(wk_dispatcher *dispatcher) {
	return ++dispatcher->last_number;
}

bool wk_dispatcher_ask(wk_dispatcher *dispatcher, uint32_t bookie, wk_asker *asker, const wk_note *note,
                       uint64_t number, uint64_t timeout_ns, wk_frame *frame) {
	dispatcher->asked = true;
	return wk_link_ask(dispatcher->links[bookie], asker, note, number, timeout_ns, frame);
}
