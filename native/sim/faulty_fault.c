/*
 * faulty_fault.c: the faults a test orders: failing calls, a full disk, rot, misdirected writes.
 */
#include "sim/faulty_state.h"
#include <assert.h>
#include <errno.h>
#include <string.h>

int wk_faulty_call(wk_faulty *faulty, uint32_t operation) {
	unsigned index = 0;
	while (operation >> index != 1)
		index++;
	assert(index < WK_FAULTY_OPERATIONS);
	faulty->calls[index]++;
	int error = 0;
	for (size_t i = 0; i < faulty->faults_count;) {
		wk_armed_fault *fault = &faulty->faults[i];
		if (!(fault->mask & operation)) {
			i++;
		} else if (fault->after_calls > 0) {
			fault->after_calls--;
			i++;
		} else {
			error = error ? error : -fault->error;
			if (fault->sticky)
				i++;
			else
				*fault = faulty->faults[--faulty->faults_count];
		}
	}
	return error;
}

void wk_faulty_fail(wk_faulty *faulty, uint32_t mask, uint64_t after_calls, int error, bool sticky) {
	assert(error > 0 && mask != 0 && (mask & ~(uint32_t)WK_FAULT_ALL) == 0);
	pthread_mutex_lock(&faulty->mutex);
	assert(faulty->faults_count < WK_FAULTY_FAULTS_MAX);
	faulty->faults[faulty->faults_count++] = (wk_armed_fault){mask, after_calls, error, sticky};
	pthread_mutex_unlock(&faulty->mutex);
}

void wk_faulty_heal(wk_faulty *faulty) {
	pthread_mutex_lock(&faulty->mutex);
	faulty->faults_count = 0;
	pthread_mutex_unlock(&faulty->mutex);
}

uint64_t wk_faulty_read_bytes(wk_faulty *faulty) {
	pthread_mutex_lock(&faulty->mutex);
	uint64_t bytes = faulty->read_bytes;
	pthread_mutex_unlock(&faulty->mutex);
	return bytes;
}

uint64_t wk_faulty_calls(wk_faulty *faulty, uint32_t mask) {
	uint64_t sum = 0;
	pthread_mutex_lock(&faulty->mutex);
	for (unsigned i = 0; i < WK_FAULTY_OPERATIONS; i++)
		sum += mask >> i & 1 ? faulty->calls[i] : 0;
	pthread_mutex_unlock(&faulty->mutex);
	return sum;
}

void wk_faulty_set_flush_on_dsync(wk_faulty *faulty, bool on) {
	pthread_mutex_lock(&faulty->mutex);
	faulty->flush_on_dsync = on;
	pthread_mutex_unlock(&faulty->mutex);
}

void wk_faulty_set_capacity(wk_faulty *faulty, uint64_t bytes) {
	pthread_mutex_lock(&faulty->mutex);
	faulty->capacity_bytes[0] = bytes;
	pthread_mutex_unlock(&faulty->mutex);
}

void wk_faulty_set_mount_capacity(wk_faulty *faulty, uint64_t bytes) {
	pthread_mutex_lock(&faulty->mutex);
	faulty->capacity_bytes[WK_FAULTY_DEVICES_MAX - 1] = bytes;
	pthread_mutex_unlock(&faulty->mutex);
}

/* The byte has reached the medium and rots there: a durable write of one wrong byte, even if the right one was still
 * pending. */
int wk_faulty_flip(wk_faulty *faulty, const char *path, uint64_t offset, uint32_t bit) {
	uint32_t node;
	pthread_mutex_lock(&faulty->mutex);
	int error = wk_faulty_find(faulty, path, false, &node);
	if (!error && (bit > 7 || offset >= faulty->nodes[node].contents.size))
		error = -EINVAL;
	if (!error) {
		uint8_t *byte = wk_faulty_allocate(1, 1);
		wk_contents_read(&faulty->nodes[node].contents, offset, byte, 1);
		*byte ^= (uint8_t)(1u << bit);
		wk_contents_write(&faulty->nodes[node].contents, offset, byte, 1);
		wk_event rot = {.kind = WK_EVENT_WRITE_BEGIN, .node = node, .offset = offset, .size = 1, .bytes = byte};
		uint64_t begin = wk_faulty_record(faulty, rot);
		wk_faulty_record(faulty, (wk_event){.kind = WK_EVENT_WRITE_END,
		                                    .node = node,
		                                    .begin = begin,
		                                    .outcome = WK_OUTCOME_WHOLE,
		                                    .durable = true});
	}
	pthread_mutex_unlock(&faulty->mutex);
	return error;
}

int wk_faulty_misdirect_next(wk_faulty *faulty, const char *path, int64_t by_bytes) {
	uint32_t node;
	pthread_mutex_lock(&faulty->mutex);
	int error = wk_faulty_find(faulty, path, false, &node);
	if (!error) {
		faulty->nodes[node].misdirects = true;
		faulty->nodes[node].misdirect_by = by_bytes;
	}
	pthread_mutex_unlock(&faulty->mutex);
	return error;
}

int64_t wk_faulty_file_size(wk_faulty *faulty, const char *path) {
	uint32_t node;
	pthread_mutex_lock(&faulty->mutex);
	int error = wk_faulty_find(faulty, path, false, &node);
	int64_t size = error ? error : (int64_t)faulty->nodes[node].contents.size;
	pthread_mutex_unlock(&faulty->mutex);
	return size;
}

int64_t wk_faulty_read_file(wk_faulty *faulty, const char *path, void *buffer, size_t size, uint64_t offset) {
	uint32_t node;
	pthread_mutex_lock(&faulty->mutex);
	int64_t count = wk_faulty_find(faulty, path, false, &node);
	if (count == 0)
		count = (int64_t)wk_contents_read(&faulty->nodes[node].contents, offset, buffer, size);
	pthread_mutex_unlock(&faulty->mutex);
	return count;
}
