/*
 * appenders.h: appends of every kind from several threads, and what was acknowledged of them.
 *
 * A record says which appender wrote it and its number there; the rest of its bytes follow from the two. A number is
 * used again only if its append was definitely not written.
 */
#ifndef APPENDERS_H
#define APPENDERS_H
#include "small_directory.h"
#include "watched_threads.h"
#include <poll.h>

enum {
	LOGS = 2,
	APPENDERS = 6,
	NUMBERS_MAX = 300000,
	SIZE_MAX_ = 3000,
	BATCH_MAX = 40,
};

typedef struct head {
	uint32_t appender, number;
} head;

typedef struct shared_log {
	const char *name;
	wk_log *log;
	pthread_rwlock_t lock; /* of writer */
	wk_writer *writer;
	_Atomic int64_t promised; /* sequence id behind the last record known durable */
} shared_log;

typedef struct appender {
	uint32_t id;
	shared_log *log;
	uint32_t numbers;
	int64_t *acknowledged; /* sequence id by number, -1: not known to be durable */
} appender;

static wk_namespace *ns;
static shared_log logs[LOGS];
static appender appenders[APPENDERS];

/* ---- records ---- */

static size_t record_size(uint32_t id, uint32_t number) {
	uint64_t seed = (uint64_t)id << 32 | number;
	uint64_t kind = check_random(&seed) % 10, size = check_random(&seed);
	return sizeof(head) + (size_t)(kind < 8 ? size % 100 : size % (SIZE_MAX_ - sizeof(head)));
}

static size_t make_record(uint32_t id, uint32_t number, uint8_t *bytes) {
	size_t size = record_size(id, number);
	uint64_t seed = ((uint64_t)id << 32 | number) + 99;
	check_random_bytes(&seed, bytes, size);
	head h = {id, number};
	memcpy(bytes, &h, sizeof h);
	return size;
}

static head check_record(const wk_record *record) {
	head h = {0};
	CHECK_EQ(record->kind, WK_RECORD_DATA);
	CHECK(record->size >= sizeof h);
	memcpy(&h, record->payload, sizeof h);
	uint8_t expected[SIZE_MAX_];
	CHECK(h.appender < APPENDERS);
	CHECK_EQ(record->size, make_record(h.appender, h.number, expected));
	CHECK(memcmp(record->payload, expected, record->size) == 0);
	return h;
}

/* ---- appends ---- */

static void promise(shared_log *log, int64_t next) {
	int64_t before = atomic_load(&log->promised);
	while (before < next && !atomic_compare_exchange_weak(&log->promised, &before, next))
		;
}

static void acknowledge(appender *a, uint32_t first_number, size_t count, int64_t first_id) {
	for (size_t i = 0; i < count; i++)
		a->acknowledged[first_number + i] = first_id + (int64_t)i;
}

/* What a failed append means for its numbers: used up if it may have been written. */
static void give_up(appender *a, size_t count, wk_status status, const wk_error *error) {
	MAY_BE(status, error, WK_FENCED, WK_TIMEOUT, WK_WOULD_BLOCK);
	if (error->outcome_unknown)
		a->numbers += (uint32_t)count;
}

static bool full(const appender *a) {
	return a->numbers + BATCH_MAX >= NUMBERS_MAX;
}

static void append_single(appender *a, uint64_t *seed) {
	uint8_t bytes[SIZE_MAX_];
	uint32_t number = a->numbers;
	size_t size = make_record(a->id, number, bytes);
	wk_append_options options;
	wk_append_options_init(&options);
	options.durability = a->id % 3 == 1 ? WK_DEFERRED : WK_SYNC;
	uint64_t luck = check_random(seed) % 50;
	options.timeout_ns = luck == 0 ? 0 : luck < 5 ? 100000 : UINT64_MAX;
	wk_position at;
	wk_error error = {0};
	wk_status status = wk_writer_append(a->log->writer, bytes, size, &options, &at, &error);
	if (status != WK_OK) {
		give_up(a, 1, status, &error);
		return;
	}
	a->numbers++;
	if (options.durability == WK_SYNC) {
		promise(a->log, at.sequence_id + 1);
		acknowledge(a, number, 1, at.sequence_id);
	} else if (check_random(seed) % 20 == 0) {
		status = wk_writer_flush(a->log->writer, UINT64_MAX, NULL, &error);
		MAY_BE(status, &error, WK_FENCED);
		acknowledge(a, number, status == WK_OK, at.sequence_id);
	}
}

static void append_batch(appender *a, uint64_t *seed) {
	uint8_t *bytes = malloc(BATCH_MAX * SIZE_MAX_);
	uint32_t sizes[BATCH_MAX], first_number = a->numbers;
	size_t count = 1 + check_random(seed) % BATCH_MAX, size = 0;
	for (size_t i = 0; i < count; i++)
		size += sizes[i] = (uint32_t)make_record(a->id, first_number + (uint32_t)i, bytes + size);
	wk_append_options options;
	wk_append_options_init(&options);
	options.atomic = check_random(seed) % 2 == 0;
	wk_position first, last;
	uint64_t ticket;
	wk_error error = {0};
	wk_status status = wk_writer_append_many(a->log->writer, bytes, sizes, count, NULL, &options, true, &first, &last,
	                                         &ticket, &error);
	if (status == WK_OK) {
		CHECK_EQ(last.sequence_id, first.sequence_id + (int64_t)count - 1);
		CHECK(!options.atomic || last.dlsn.entry_id == first.dlsn.entry_id);
		a->numbers += (uint32_t)count;
		promise(a->log, last.sequence_id + 1);
		acknowledge(a, first_number, count, first.sequence_id);
	} else {
		give_up(a, count, status, &error);
	}
	free(bytes);
}

/* Several in flight, then the wait; sometimes by the eventfd. */
static void submit_some(appender *a, uint64_t *seed) {
	uint8_t bytes[SIZE_MAX_];
	uint64_t ticket = 0;
	int64_t next = 0;
	uint32_t first_number = a->numbers, count = 1 + (uint32_t)(check_random(seed) % 20), accepted = 0;
	int64_t ids[20];
	wk_error error = {0};
	wk_status status = WK_OK;
	for (; accepted < count && status == WK_OK; accepted += status == WK_OK) {
		size_t size = make_record(a->id, first_number + accepted, bytes);
		wk_position at;
		status = wk_writer_submit(a->log->writer, bytes, size, NULL, &at, &ticket, &error);
		if (status == WK_OK)
			ids[accepted] = at.sequence_id;
		next = status == WK_OK ? at.sequence_id + 1 : next;
	}
	a->numbers += accepted;
	if (status != WK_OK)
		give_up(a, 1, status, &error);
	if (accepted == 0)
		return;
	if (a->id == APPENDERS - 1 && check_random(seed) % 2 == 0) { /* one thread, as there is one eventfd */
		int fd = wk_namespace_eventfd(ns);
		wk_namespace_arm(ns, ticket);
		struct pollfd wanted = {.fd = fd, .events = POLLIN};
		while (wk_namespace_durable(ns) < ticket) {
			CHECK_EQ(poll(&wanted, 1, STUCK_SECONDS * 1000), 1);
			uint64_t value;
			CHECK(read(fd, &value, sizeof value) == sizeof value);
			wk_namespace_arm(ns, ticket);
		}
	} else {
		check_ok(wk_namespace_wait(ns, ticket, UINT64_MAX, &error), &error, "the wait");
	}
	promise(a->log, next);
	for (uint32_t i = 0; i < accepted; i++)
		a->acknowledged[first_number + i] = ids[i];
}

static void *append_on(void *context) {
	appender *a = context;
	uint64_t seed = a->id + 1;
	while (goes_on() && !full(a)) {
		pthread_rwlock_rdlock(&a->log->lock);
		a->id < 2 ? append_single(a, &seed) : a->id < 4 ? append_batch(a, &seed) : submit_some(a, &seed);
		pthread_rwlock_unlock(&a->log->lock);
	}
	return NULL;
}

static void *fence(void *context) {
	for (uint64_t seed = 5; goes_on();) {
		shared_log *log = &logs[check_random(&seed) % LOGS];
		wk_writer *old, *fresh = NULL;
		wk_error error = {0};
		nap_us(20000);
		check_ok(wk_writer_open(log->log, &fresh, &error), &error, "the writer opens");
		pthread_rwlock_wrlock(&log->lock);
		old = log->writer;
		log->writer = fresh;
		pthread_rwlock_unlock(&log->lock);
		check_ok(wk_writer_close(old, UINT64_MAX, &error), &error, "the fenced writer closes");
	}
	return context;
}
#endif
