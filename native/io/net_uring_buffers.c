/* net_uring_buffers.c: memory to receive into, lent to the kernel. */
#include "io/net_uring.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { GROUP = 0 };

static void lend(wk_uring_buffers *buffers, uint16_t index, int offset) {
	io_uring_buf_ring_add(buffers->ring, wk_uring_buffers_at(buffers, index), (unsigned)buffers->size, index,
	                      io_uring_buf_ring_mask(buffers->count), offset);
}

int wk_uring_buffers_new(wk_uring_buffers *buffers, struct io_uring *ring, uint32_t count, size_t size) {
	size_t ring_size = count * sizeof(struct io_uring_buf);
	void *memory = mmap(NULL, ring_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	*buffers = (wk_uring_buffers){
	    .ring = memory,
	    .bytes = malloc(count * size), /* pages that were never filled take no memory */
	    .size = size,
	    .count = count,
	    .told = malloc(count * sizeof(uint16_t)),
	};
	int error = -ENOMEM;
	if (buffers->bytes != NULL && buffers->told != NULL) {
		struct io_uring_buf_reg registration = {
		    .ring_addr = (uint64_t)(uintptr_t)memory,
		    .ring_entries = count,
		    .bgid = GROUP,
		};
		io_uring_buf_ring_init(buffers->ring);
		for (uint32_t i = 0; i < count; i++)
			lend(buffers, (uint16_t)i, (int)i);
		io_uring_buf_ring_advance(buffers->ring, (int)count);
		error = io_uring_register_buf_ring(ring, &registration, 0);
	}
	if (error)
		wk_uring_buffers_free(buffers);
	return error;
}

void wk_uring_buffers_free(wk_uring_buffers *buffers) {
	munmap(buffers->ring, buffers->count * sizeof(struct io_uring_buf));
	free(buffers->bytes);
	free(buffers->told);
}

uint8_t *wk_uring_buffers_at(const wk_uring_buffers *buffers, uint16_t index) {
	return buffers->bytes + index * buffers->size;
}

void wk_uring_buffers_give_back(wk_uring_buffers *buffers, uint16_t index) {
	lend(buffers, index, 0);
	io_uring_buf_ring_advance(buffers->ring, 1);
}

void wk_uring_buffers_lend_told(wk_uring_buffers *buffers) {
	if (buffers->told_count == 0)
		return;
	for (uint32_t i = 0; i < buffers->told_count; i++)
		lend(buffers, buffers->told[i], (int)i);
	io_uring_buf_ring_advance(buffers->ring, (int)buffers->told_count);
	buffers->told_count = 0;
}
