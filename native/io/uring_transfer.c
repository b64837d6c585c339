/*
 * uring_transfer.c: the requests of a ring, each in its slot until all of its bytes have gone or one try fails for
 * good.
 */
#include "io/uring.h"
#include <assert.h>

static void prepare(wk_io_queue *queue, uint32_t index);
static void finish(wk_io_queue *queue, uint32_t index, int64_t result);

void wk_uring_begin(wk_io_queue *queue, const wk_io_request *request) {
	assert(queue->free_count > 0);
	uint32_t index = queue->free_slots[--queue->free_count];
	queue->slots[index] = (struct wk_uring_transfer){.request = *request};
	queue->in_flight++;
	int error = 0;
	if (request->operation != WK_IO_OP_SYNC)
		error = wk_posix_check(request->file, request->buffer, request->size, request->offset);
	if (error)
		finish(queue, index, error); /* told like every other result */
	else
		prepare(queue, index);
}

void wk_uring_catch_up(wk_io_queue *queue) {
	uint64_t slots = queue->left_behind;
	queue->left_behind = 0;
	for (; slots != 0; slots &= slots - 1)
		prepare(queue, (uint32_t)__builtin_ctzll(slots));
}

static void prepare(wk_io_queue *queue, uint32_t index) {
	struct wk_uring_transfer *transfer = &queue->slots[index];
	const wk_io_request *request = &transfer->request;
	struct io_uring_sqe *sqe = queue->rides != NULL ? queue->rides->entry(queue->rides)
	                                                : io_uring_get_sqe(&queue->ring);
	if (sqe == NULL) {
		assert(queue->rides != NULL); /* else there is an entry for each slot and one for the wake */
		queue->left_behind |= UINT64_C(1) << index;
		return;
	}
	char *rest = request->buffer != NULL ? (char *)request->buffer + transfer->done : NULL; /* a sync has none */
	/* A length is 32 bits; the short count of a larger transfer brings the rest round again. */
	size_t left = request->size - transfer->done;
	unsigned length = left > INT32_MAX ? (unsigned)INT32_MAX / WK_IO_ALIGNMENT * WK_IO_ALIGNMENT : (unsigned)left;
	switch (request->operation) {
	case WK_IO_OP_READ:
		io_uring_prep_read(sqe, request->file->fd, rest, length, request->offset + transfer->done);
		break;
	case WK_IO_OP_WRITE:
		io_uring_prep_write(sqe, request->file->fd, rest, length, request->offset + transfer->done);
		if (request->flags & WK_IO_DSYNC)
			sqe->rw_flags = RWF_DSYNC;
		break;
	case WK_IO_OP_SYNC:
		io_uring_prep_fsync(sqe, request->file->fd, IORING_FSYNC_DATASYNC);
		break;
	}
	io_uring_sqe_set_data64(sqe, queue->rides != NULL ? (uint64_t)index << queue->rides->mark_bits | queue->rides->mark
	                                                  : index);
}

void wk_uring_advance(wk_io_queue *queue, uint32_t index, int result) {
	struct wk_uring_transfer *transfer = &queue->slots[index];
	wk_io_request *request = &transfer->request;
	if (result == -EAGAIN || result == -EINTR) {
		if (++transfer->retries < WK_POSIX_RETRIES_MAX)
			prepare(queue, index);
		else
			finish(queue, index, -EIO);
		return;
	}
	if ((result == -EINVAL || result == -EOPNOTSUPP) && request->operation != WK_IO_OP_SYNC) {
		/* The file system refuses O_DIRECT or RWF_DSYNC. It is a rare one, so the synchronous call and its fallbacks
		 * do. */
		finish(queue, index,
		       request->operation == WK_IO_OP_READ
		           ? wk_posix_pread(NULL, request->file, request->buffer, request->size, request->offset)
		           : wk_posix_pwrite(NULL, request->file, request->buffer, request->size, request->offset,
		                             request->flags));
		return;
	}
	if (result < 0 || request->operation == WK_IO_OP_SYNC) {
		finish(queue, index, result);
		return;
	}
	size_t before = transfer->done;
	transfer->done += (size_t)result;
	bool ended;
	if (request->operation == WK_IO_OP_READ) {
		ended = result == 0 || wk_posix_read_ended(request->file, &transfer->done, request->size, request->offset);
	} else {
		ended = transfer->done == request->size;
		if (!ended && atomic_load(&request->file->direct))
			transfer->done -= transfer->done % WK_IO_ALIGNMENT; /* the rest must start at a block again */
	}
	transfer->retries = transfer->done > before ? 0 : transfer->retries + 1;
	if (ended)
		finish(queue, index, (int64_t)transfer->done);
	else if (transfer->retries < WK_POSIX_RETRIES_MAX)
		prepare(queue, index);
	else
		finish(queue, index, -EIO);
}

static void finish(wk_io_queue *queue, uint32_t index, int64_t result) {
	assert(queue->finished_count < queue->depth && queue->free_count < queue->depth);
	queue->finished[queue->finished_count++] = (wk_io_completion){
	    .tag = queue->slots[index].request.tag,
	    .result = result,
	};
	queue->free_slots[queue->free_count++] = index;
}
