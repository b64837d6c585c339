/* frame_buffer.c: memory for what comes in: counted for the connection and for all, and never beyond the limit. */
#include <stdlib.h>
#include <string.h>

#include "server/service.h"

enum { CAPACITY_MIN = 512 };

static void charge(wk_service *service, wk_peer *peer, uint64_t before, uint64_t after) {
	peer->input_bytes += after - before;
	service->large_bytes += peer->large ? after - before : 0;
	service->input_bytes += after - before;
	service->unblocked |= after < before && service->memory_wait;
	service->stats.receive_memory = service->input_bytes;
}

/* More than this is not kept: whoever sends it is closed. Those that are told to wait have sent something already. */
static uint64_t input_limit(const wk_service *service) {
	return service->options.receive_bytes + service->options.receive_bytes / 16 + service->options.frame_size_max;
}

static bool is_in_use(const wk_frame_buffer *buffer) {
	return buffer->batched || buffer->walked;
}

wk_frame_buffer *wk_buffer_let_go(wk_service *service, wk_frame_buffer **at) {
	wk_frame_buffer *buffer = *at;
	charge(service, buffer->peer, buffer->capacity, 0);
	buffer->peer = NULL;
	*at = NULL;
	return buffer;
}

void wk_buffer_drop(wk_service *service, wk_frame_buffer **at) {
	if (*at == NULL)
		return;
	wk_frame_buffer *buffer = wk_buffer_let_go(service, at);
	if (!is_in_use(buffer))
		free(buffer);
}

/* What adds point into stays where it is, until the batch is through. */
bool wk_buffer_resize(wk_service *service, wk_peer *peer, wk_frame_buffer **at, size_t capacity) {
	wk_frame_buffer *had = *at;
	size_t size = had != NULL ? had->size - had->taken : 0, before = had != NULL ? had->capacity : 0;
	uint64_t since_ns = had != NULL ? had->since_ns : service->now_ns;
	if (service->input_bytes + (capacity - before) > input_limit(service))
		return false;
	bool stays = had != NULL && (is_in_use(had) || had->taken > 0);
	wk_frame_buffer *buffer = realloc(stays ? NULL : had, sizeof *buffer + capacity);
	if (buffer == NULL)
		return false;
	service->copied_bytes += size;
	if (stays) {
		memcpy(buffer->bytes, had->bytes + had->taken, size);
		had->peer = NULL;
		if (!is_in_use(had))
			free(had);
	}
	buffer->next = NULL;
	buffer->peer = peer;
	buffer->taken = 0;
	buffer->size = size;
	buffer->capacity = capacity;
	buffer->since_ns = since_ns;
	buffer->batched = buffer->walked = false;
	charge(service, peer, before, capacity);
	*at = buffer;
	return true;
}

bool wk_buffer_append(wk_service *service, wk_peer *peer, wk_frame_buffer **at, const uint8_t *bytes, size_t size,
                      size_t most) {
	if (*at == NULL || size > (*at)->capacity - (*at)->size) {
		size_t had = *at != NULL ? (*at)->size - (*at)->taken : 0;
		size_t capacity = had * 2 > CAPACITY_MIN ? had * 2 : CAPACITY_MIN;
		capacity = capacity < most ? capacity : most;
		capacity = capacity > had + size ? capacity : had + size;
		if (!wk_buffer_resize(service, peer, at, capacity))
			return false;
	}
	if (size > 0)
		memcpy((*at)->bytes + (*at)->size, bytes, size);
	(*at)->size += size;
	service->copied_bytes += size;
	return true;
}
