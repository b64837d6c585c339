#include "server/entry_list.h"

#include <stdlib.h>

enum { RANGES_MAX = 512, FIRST_CAPACITY = 4096 };

typedef struct list {
	wk_read_job *job;
	uint64_t capacity, size_max;
	uint32_t groups_count;
	wk_availability_group group; /* the last one: more may belong to it */
} list;

static wk_status make_room(list *l) {
	wk_read_job *job = l->job;
	uint64_t needed = job->body_size + WK_AVAILABILITY_GROUP_SIZE;
	if (needed <= l->capacity)
		return WK_OK;
	if (needed > l->size_max)
		return WK_TOO_LARGE;
	uint64_t larger = l->capacity * 2 < l->size_max ? l->capacity * 2 : l->size_max;
	uint8_t *body = realloc(job->body, larger);
	if (body == NULL)
		return WK_NO_MEMORY;
	job->body = body;
	l->capacity = larger;
	return WK_OK;
}

static wk_status put_group(list *l) {
	if (l->group.size == 0)
		return WK_OK;
	wk_status status = make_room(l);
	if (status != WK_OK)
		return status;
	wk_availability_group_encode(&l->group, l->job->body + l->job->body_size);
	l->job->body_size += WK_AVAILABILITY_GROUP_SIZE;
	l->groups_count++;
	l->group = (wk_availability_group){0};
	return WK_OK;
}

static wk_status put_run(list *l, int64_t first, int64_t last) {
	if (wk_availability_extend(&l->group, first, last))
		return WK_OK;
	wk_status status = put_group(l);
	if (status == WK_OK)
		(void)wk_availability_extend(&l->group, first, last);
	return status;
}

/* A run as long as it likes, which may end at the highest id there is. */
static wk_status put_range(list *l, const wk_entry_range *range) {
	int64_t first = range->first;
	wk_status status;
	for (; range->last - first >= WK_AVAILABILITY_RUN_MAX; first += WK_AVAILABILITY_RUN_MAX)
		if ((status = put_run(l, first, first + WK_AVAILABILITY_RUN_MAX - 1)) != WK_OK)
			return status;
	return put_run(l, first, range->last);
}

void wk_entry_list_read(wk_namespace *ns, wk_read_job *job) {
	uint64_t size_max = job->frame_max - WK_WIRE_HEAD_SIZE_MAX;
	list l = {.job = job, .size_max = size_max, .capacity = size_max < FIRST_CAPACITY ? size_max : FIRST_CAPACITY};
	job->body = malloc(l.capacity);
	job->body_size = WK_AVAILABILITY_HEAD_SIZE;
	job->status = job->body != NULL ? WK_OK : WK_NO_MEMORY;
	wk_entry_range ranges[RANGES_MAX];
	size_t count = RANGES_MAX;
	for (int64_t from = 0; job->status == WK_OK && count == RANGES_MAX;) {
		job->status = wk_ledger_entries(ns, job->owed.ledger_id, from, ranges, RANGES_MAX, &count, NULL);
		for (size_t i = 0; job->status == WK_OK && i < count; i++) {
			from = ranges[i].last + 1;
			job->status = put_range(&l, &ranges[i]);
		}
	}
	if (job->status == WK_OK)
		job->status = put_group(&l);
	if (job->status == WK_OK)
		wk_availability_head(l.groups_count, job->body);
}
