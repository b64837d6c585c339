/*
 * faulty_request.c: a read, a write or a sync between its call and its completion.
 *
 * What fails is decided at the call, as faults count calls; what it does to the disk is decided at the end. In between
 * a write may already land, and a crash will have it so or not.
 */
#include "sim/faulty_state.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int refuse(const wk_faulty *faulty, const wk_io_request *request);
static void begin_write(wk_faulty *faulty, wk_faulty_request *request);
static void fit_to_disk(wk_faulty *faulty, wk_faulty_request *request);
static uint8_t *copy_unless_zero(const uint8_t *bytes, size_t size);
static void land(wk_faulty *faulty, wk_faulty_request *request, wk_outcome outcome, bool durable);
static void read_map(const wk_live_node *node, const wk_io_request *asked, size_t size);
static bool buffer_is_unchanged(const wk_faulty_request *request);

void wk_faulty_request_begin(wk_faulty *faulty, wk_faulty_request *request) {
	static const uint32_t mask[] = {
	    [WK_IO_OP_READ] = WK_FAULT_READ, [WK_IO_OP_WRITE] = WK_FAULT_WRITE, [WK_IO_OP_SYNC] = WK_FAULT_SYNC};
	request->begin = 0;
	request->covers = faulty->events_count;
	request->error = refuse(faulty, &request->request);
	if (request->error)
		return;
	request->error = wk_faulty_call(faulty, mask[request->request.operation]);
	if (request->request.operation == WK_IO_OP_WRITE)
		begin_write(faulty, request);
}

static int refuse(const wk_faulty *faulty, const wk_io_request *request) {
	const wk_file *file = request->file;
	int error = wk_faulty_file_check(faulty, file);
	if (error || request->operation == WK_IO_OP_SYNC)
		return error;
	if (faulty->disk.nodes[file->node].is_directory)
		return -EISDIR;
	if (request->operation == WK_IO_OP_WRITE && !(file->flags & WK_IO_WRITE))
		return -EBADF;
	if (request->offset > INT64_MAX || request->size > INT64_MAX - request->offset)
		return -EINVAL;
	bool aligned = ((uintptr_t)request->buffer | request->size | request->offset) % WK_IO_ALIGNMENT == 0;
	return file->flags & WK_IO_DIRECT && !aligned ? -EINVAL : 0;
}

static void begin_write(wk_faulty *faulty, wk_faulty_request *request) {
	wk_live_node *node = &faulty->nodes[request->request.file->node];
	request->landing = (wk_pending){.offset = request->request.offset, .size = request->request.size};
	if (node->misdirects) {
		int64_t target = (int64_t)request->landing.offset + node->misdirect_by;
		request->landing.offset = target < 0 ? 0 : (uint64_t)target;
		node->misdirects = false;
	}
	if (!request->error)
		fit_to_disk(faulty, request);
	if (request->error == -ENOSPC && request->landing.size == 0)
		return;
	uint8_t *bytes = copy_unless_zero(request->request.buffer, request->landing.size);
	request->landing.bytes = bytes;
	wk_event event = {.kind = WK_EVENT_WRITE_BEGIN,
	                  .node = request->request.file->node,
	                  .offset = request->landing.offset,
	                  .size = request->landing.size,
	                  .bytes = bytes};
	request->begin = wk_faulty_record(faulty, event);
}

/* A full disk refuses a direct write whole; of a buffered one the part that fits may have gone in. */
static void fit_to_disk(wk_faulty *faulty, wk_faulty_request *request) {
	uint64_t had = faulty->nodes[request->request.file->node].contents.size;
	uint64_t end = request->landing.offset + request->landing.size;
	uint64_t room = end > had ? wk_faulty_room(faulty, request->request.file->node) : UINT64_MAX;
	if (end <= had || end - had <= room)
		return;
	request->error = -ENOSPC;
	bool part = !(request->request.file->flags & WK_IO_DIRECT) && wk_faulty_random(&faulty->random_landing) & 1;
	uint64_t fits = had + room > request->landing.offset ? had + room - request->landing.offset : 0;
	request->landing.size = part ? fits : 0;
}

/* Most large writes prepare a file with zeros; the trace need not keep them. */
static uint8_t *copy_unless_zero(const uint8_t *bytes, size_t size) {
	if (size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0))
		return NULL;
	uint8_t *copy = wk_faulty_allocate(1, size);
	memcpy(copy, bytes, size);
	return copy;
}

int64_t wk_faulty_request_end(wk_faulty *faulty, wk_faulty_request *request) {
	const wk_io_request *asked = &request->request;
	int dead = wk_faulty_file_check(faulty, asked->file);
	if (dead)
		return dead;
	if (request->begin) {
		assert(buffer_is_unchanged(request)); /* it is the kernel's until the write completes */
		wk_outcome outcome = WK_OUTCOME_WHOLE;
		if (request->error && request->error != -ENOSPC)
			outcome = (wk_outcome)(wk_faulty_random(&faulty->random_landing) % 3);
		land(faulty, request, outcome, asked->flags & WK_IO_DSYNC && !request->error);
	}
	if (asked->operation == WK_IO_OP_SYNC) {
		wk_event sync = {.kind = WK_EVENT_SYNC,
		                 .node = asked->file->node,
		                 .covers = request->covers,
		                 .failed = request->error != 0,
		                 .seed = request->error ? wk_faulty_random(&faulty->random_landing) : 0};
		wk_faulty_record(faulty, sync);
	}
	if (request->error)
		return request->error;
	if (asked->operation == WK_IO_OP_READ) {
		size_t size = wk_contents_read(&faulty->nodes[asked->file->node].contents, asked->offset, asked->buffer,
		                               asked->size);
		read_map(&faulty->nodes[asked->file->node], asked, size);
		faulty->read_bytes += size;
		return (int64_t)size;
	}
	return asked->operation == WK_IO_OP_WRITE ? (int64_t)asked->size : 0;
}

/* What was stored to a shared map is in the file's cache, where a read finds it. */
static void read_map(const wk_live_node *node, const wk_io_request *asked, size_t size) {
	if (!node->map || asked->offset >= node->map_size)
		return;
	size_t mapped = node->map_size - (size_t)asked->offset;
	memcpy(asked->buffer, (const uint8_t *)node->map + asked->offset, size < mapped ? size : mapped);
}

static bool buffer_is_unchanged(const wk_faulty_request *request) {
	const uint8_t *now = request->request.buffer, *then = request->landing.bytes;
	size_t size = request->landing.size;
	if (then)
		return memcmp(now, then, size) == 0;
	return size == 0 || (now[0] == 0 && memcmp(now, now + 1, size - 1) == 0);
}

void wk_faulty_request_orphan(wk_faulty *faulty, wk_faulty_request *request) {
	if (request->begin && wk_faulty_file_check(faulty, request->request.file) == 0)
		land(faulty, request, (wk_outcome)(wk_faulty_random(&faulty->random_landing) % 3), false);
}

static void land(wk_faulty *faulty, wk_faulty_request *request, wk_outcome outcome, bool durable) {
	uint32_t node = request->request.file->node;
	uint64_t seed = outcome == WK_OUTCOME_PART ? wk_faulty_random(&faulty->random_landing) : 0;
	wk_event end = {.kind = WK_EVENT_WRITE_END,
	                .node = node,
	                .begin = request->begin,
	                .outcome = outcome,
	                .seed = seed,
	                .durable = durable,
	                .flush = durable && faulty->flush_on_dsync};
	wk_faulty_record(faulty, end);
	if (outcome == WK_OUTCOME_WHOLE)
		wk_pending_land(&request->landing, &faulty->nodes[node].contents);
	else if (outcome == WK_OUTCOME_PART)
		wk_pending_land_torn(&request->landing, &faulty->nodes[node].contents, seed);
}
