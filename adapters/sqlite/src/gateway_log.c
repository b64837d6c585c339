/*
 * gateway_log.c: a log behind a gateway, as a database sees it. A gateway has one writer of a log for all of its clients. So each
 * append says which sequence id it expects, and who takes the log over appends a record: the one before it then expects a wrong one.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "error.h"
#include "gateway_connection.h"
#include "record.h"
#include "walkeeper/sqlite.h"

enum {
	APPENDS_MAX = 32, /* that are not answered yet; a power of two, as requests are counted in 32 bits */
	FENCES_MAX = 8,   /* tries to take a log over from writers that take it back meanwhile */
	WAIT_MS = 100,
	IDLE_S = 30, /* half of what a gateway keeps a writer that nobody uses */
};
static const uint64_t TIMEOUT_NS = 60 * UINT64_C(1000000000);

/* An append that is not answered yet. */
typedef struct wk_sent_append {
	int64_t last; /* the sequence id that its last record gets */
	bool answered;
} wk_sent_append;

typedef struct wk_gateway_log {
	char *address, *name, *token;
	wk_gateway_peer peer;
	pthread_mutex_t asking; /* of all that changes no records */
	wk_gateway_connection questions;
	int64_t fence; /* the record that this writer took the log over with; -1: none */

	pthread_mutex_t sending; /* of these */
	int64_t next;            /* the sequence id of the next append */
	time_t used;

	wk_gateway_connection appends; /* connected anew only while no answer is awaited */
	pthread_mutex_t answers; /* of these; it is taken behind `sending`, and never held while an answer is awaited */
	pthread_cond_t answer_came;
	bool receiving;                         /* a thread awaits the next answer, for all */
	wk_sent_append unanswered[APPENDS_MAX]; /* by their number */
	uint64_t sent;                          /* appends, which are tickets too: request number n is the nth */
	uint64_t answered;                      /* from the first on */
	uint64_t refused;                       /* the first one that was not carried out; 0: none */
	wk_error refusal;
} wk_gateway_log;

static time_t now_s(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* ---- questions ---- */

/* A question whose frame is `size` bytes; 0: it did not fit. The answer is in `connection`. */
static wk_status ask(wk_gateway_connection *connection, const uint8_t *frame, size_t size, wk_error *error) {
	if (size == 0)
		return wk_database_fail(error, WK_INVALID, "the name of a log has %d bytes at most", WK_LOG_NAME_MAX);
	wk_status status = wk_gateway_connected(connection) ? WK_OK : wk_gateway_connect(connection, error);
	return status == WK_OK ? wk_gateway_call(connection, frame, size, 0, error) : status;
}

static wk_status bad_answer(const wk_gateway_log *self, wk_error *error) {
	return wk_database_fail(error, WK_CORRUPT, "the gateway %s gives an answer that is none to what it was asked",
	                        self->address);
}

static wk_status describe(wk_gateway_log *self, wk_gateway_connection *connection, wk_gateway_info *info,
                          wk_error *error) {
	uint8_t frame[WK_GATEWAY_REQUEST_MAX];
	size_t size = wk_gateway_put_named(frame, 0, WK_GATEWAY_LOG_INFO, self->name);
	wk_status status = ask(connection, frame, size, error);
	if (status == WK_OK && wk_gateway_get_info(connection->body, connection->head.size, info) != WK_OK)
		return bad_answer(self, error);
	return status;
}

static wk_status log_range(void *context, int64_t *first, int64_t *next, wk_error *error) {
	wk_gateway_log *self = context;
	wk_gateway_info info;
	pthread_mutex_lock(&self->asking);
	wk_status status = describe(self, &self->questions, &info, error);
	pthread_mutex_unlock(&self->asking);
	if (status != WK_OK)
		return status;
	*first = info.first;
	*next = info.next > self->fence ? info.next : self->fence + 1;
	return WK_OK;
}

static wk_status read_batch(wk_gateway_log *self, const wk_gateway_place *place, uint32_t records_max, uint32_t wait_ms,
                            wk_gateway_batch *batch, wk_error *error) {
	uint8_t frame[WK_GATEWAY_REQUEST_MAX];
	size_t size = wk_gateway_put_read(frame, 0, self->name, place, records_max, wait_ms);
	wk_status status = ask(&self->questions, frame, size, error);
	if (status == WK_OK && wk_gateway_get_batch(self->questions.body, self->questions.head.size, batch) != WK_OK)
		return bad_answer(self, error);
	return status;
}

/* The records before the fence are durable, and bookies may show them a moment later. */
static wk_status read_all(wk_gateway_log *self, int64_t from, wk_database_record_fn record, void *record_context,
                          wk_error *error) {
	wk_gateway_place place = wk_gateway_at_sequence_id(from);
	int64_t next = from;
	time_t last_try = now_s() + (time_t)(self->peer.timeout_ns / 1000000000);
	while (true) {
		wk_gateway_batch batch;
		bool missing = next < self->fence;
		wk_status status = read_batch(self, &place, 0, missing ? WAIT_MS : 0, &batch, error);
		if (status != WK_OK)
			return status;
		for (uint32_t i = 0; i < batch.count; i++) {
			wk_gateway_record found = wk_gateway_batch_record(&batch, i);
			status = record(record_context, found.payload, found.size, found.sequence_id, found.txid);
			if (status != WK_OK)
				return status;
			next = found.sequence_id + 1;
		}
		place = batch.next;
		if (batch.count == 0 && !missing)
			return WK_OK;
		if (batch.count == 0 && now_s() > last_try)
			return wk_database_fail(error, WK_TIMEOUT, "the gateway %s does not show the end of the log %s",
			                        self->address, self->name);
	}
}

static wk_status log_read(void *context, int64_t from, wk_database_record_fn record, void *record_context,
                          wk_error *error) {
	wk_gateway_log *self = context;
	pthread_mutex_lock(&self->asking);
	wk_status status = read_all(self, from, record, record_context, error);
	pthread_mutex_unlock(&self->asking);
	return status;
}

/* ---- appends ---- */

static wk_status fenced(const wk_gateway_log *self, wk_error *error) {
	return wk_database_fail(error, WK_FENCED, "another program has appended to the log %s since this one did",
	                        self->name);
}

/* Before the first append behind a pause: the gateway's writer may be another one by now, and opening it would fence. */
static wk_status look_again(wk_gateway_log *self, wk_error *error) {
	bool idle = now_s() - self->used >= IDLE_S;
	if (wk_gateway_connected(&self->appends) && !idle)
		return WK_OK;
	wk_gateway_info info;
	wk_status status = describe(self, &self->appends, &info, error);
	if (status == WK_OK && info.next > self->next)
		return fenced(self, error);
	if (status != WK_OK && error != NULL)
		error->outcome_unknown = false; /* nothing was appended */
	return status;
}

/* The answer in `appends`, to append number `number`. */
static wk_status take_answer(wk_gateway_log *self, uint64_t number, wk_error *error) {
	wk_gateway_appended appended;
	wk_status status = WK_OK;
	if (self->appends.head.code != WK_GATEWAY_OK)
		status = wk_gateway_refused(&self->appends, error);
	if (status == WK_MISMATCH && (error == NULL || !error->outcome_unknown))
		return fenced(self, error);
	if (status != WK_OK)
		return status;
	int64_t last = self->unanswered[number % APPENDS_MAX].last;
	if (wk_gateway_get_appended(self->appends.body, self->appends.head.size, &appended) == WK_OK &&
	    (appended.last == last || last < 0)) {
		self->unanswered[number % APPENDS_MAX].last = appended.last;
		return WK_OK;
	}
	status = bad_answer(self, error);
	if (error != NULL)
		error->outcome_unknown = true;
	return status;
}

/* Notes the answer that was received. What fails stays. */
static void note_answer(wk_gateway_log *self, wk_status status, const wk_error *error) {
	uint64_t number = self->answered + 1;
	self->refusal = *error;
	if (status == WK_OK) {
		uint32_t ahead = self->appends.head.request - (uint32_t)number;
		number += ahead;
		bool awaited = number <= self->sent && !self->unanswered[number % APPENDS_MAX].answered;
		if (!awaited) {
			number = self->answered + 1;
			status = bad_answer(self, &self->refusal);
			self->refusal.outcome_unknown = true;
		}
	}
	if (status == WK_OK)
		status = take_answer(self, number, &self->refusal);
	if (status != WK_OK) {
		self->refused = number;
		return;
	}
	self->unanswered[number % APPENDS_MAX].answered = true;
	while (self->answered < self->sent && self->unanswered[(self->answered + 1) % APPENDS_MAX].answered)
		self->answered++;
}

/* The next answer, received by this thread or by another one. */
static void await_answer(wk_gateway_log *self) {
	if (self->receiving) {
		pthread_cond_wait(&self->answer_came, &self->answers);
		return;
	}
	wk_error error = {0};
	self->receiving = true;
	pthread_mutex_unlock(&self->answers);
	wk_status status = wk_gateway_receive(&self->appends, &error);
	pthread_mutex_lock(&self->answers);
	self->receiving = false;
	note_answer(self, status, &error);
	pthread_cond_broadcast(&self->answer_came);
}

/* All appends up to that number are durable; else what the first other one was refused with. */
static wk_status await(wk_gateway_log *self, uint64_t number, wk_error *error) {
	pthread_mutex_lock(&self->answers);
	while (self->answered < number && self->refused == 0)
		await_answer(self);
	wk_status status = self->answered >= number ? WK_OK : self->refusal.status;
	if (status != WK_OK && error != NULL)
		*error = self->refusal;
	pthread_mutex_unlock(&self->answers);
	return status;
}

/* Where so many appends wait for their answers that no more is sent, waits for one. *idle: none waits. */
static wk_status await_room(wk_gateway_log *self, bool *idle, wk_error *error) {
	pthread_mutex_lock(&self->answers);
	while (self->refused == 0 && self->sent - self->answered >= APPENDS_MAX)
		await_answer(self);
	*idle = self->answered == self->sent;
	wk_status status = self->refused == 0 ? WK_OK : WK_FAILED;
	if (status != WK_OK && error != NULL) { /* nobody knows what the next append would follow */
		wk_database_fail(error, status, "an earlier append failed: %.400s", self->refusal.text);
		error->outcome_unknown = true;
	}
	pthread_mutex_unlock(&self->answers);
	return status;
}

/* Sends records that fit one frame. Where it fails, nothing was sent. `expected` -1: whatever comes next. */
static wk_status send_append(wk_gateway_log *self, const uint8_t *bytes, const uint32_t *sizes, size_t count,
                             int64_t expected, uint64_t *number, wk_error *error) {
	uint8_t frame[WK_GATEWAY_REQUEST_MAX];
	size_t payload = 0;
	for (size_t i = 0; i < count; i++)
		payload += sizes[i];
	pthread_mutex_lock(&self->answers); /* the answer may come before this thread goes on */
	*number = ++self->sent;
	self->unanswered[*number % APPENDS_MAX] = (wk_sent_append){.last = expected >= 0 ? expected + (int64_t)count - 1
	                                                                                 : -1};
	pthread_mutex_unlock(&self->answers);
	wk_status status = WK_TOO_LARGE;
	size_t size = wk_gateway_put_append(frame, (uint32_t)*number, self->name, expected, sizes, count);
	if (size > 0)
		status = wk_gateway_send(&self->appends, frame, size, bytes, payload, error);
	else
		wk_database_fail(error, status, "%zu records of %zu bytes are more than a frame has", count, payload);
	self->used = now_s();
	if (status == WK_OK)
		return WK_OK;
	pthread_mutex_lock(&self->answers);
	self->sent--;
	pthread_mutex_unlock(&self->answers);
	return status;
}

/* How many of the records go into one frame. */
static size_t fitting(const uint32_t *sizes, size_t count) {
	size_t fit = 0, bytes = WK_GATEWAY_REQUEST_MAX;
	while (fit < count && fit < WK_GATEWAY_RECORDS_MAX && bytes + sizes[fit] <= WK_GATEWAY_FRAME_MAX)
		bytes += sizes[fit++];
	return fit > 0 ? fit : 1;
}

/* Sends all. `each`: waits for each frame before the next one. *number is that of the last append. */
static wk_status send_records(wk_gateway_log *self, const uint8_t *bytes, const uint32_t *sizes, size_t count,
                              bool each, uint64_t *number, wk_error *error) {
	while (count > 0) {
		size_t fit = fitting(sizes, count);
		bool idle;
		wk_status status = await_room(self, &idle, error);
		if (status == WK_OK && idle)
			status = look_again(self, error);
		if (status == WK_OK)
			status = send_append(self, bytes, sizes, fit, self->next, number, error);
		if (status == WK_OK && each)
			status = await(self, *number, error);
		if (status != WK_OK)
			return status;
		self->next += (int64_t)fit;
		for (size_t i = 0; i < fit; i++)
			bytes += sizes[i];
		sizes += fit;
		count -= fit;
	}
	return WK_OK;
}

/* Where append `number` (0: none was sent) is the last, and certainly not in the log, the next one takes its place. */
static void forget_refusal(wk_gateway_log *self, uint64_t number) {
	pthread_mutex_lock(&self->answers);
	if (number != 0 && self->refused == number && !self->refusal.outcome_unknown) {
		self->answered = self->refused;
		self->refused = 0;
	}
	pthread_mutex_unlock(&self->answers);
}

static wk_status log_append(void *context, const uint8_t *bytes, const uint32_t *sizes, size_t count, int64_t *last,
                            wk_error *error) {
	wk_gateway_log *self = context;
	uint64_t number = 0;
	pthread_mutex_lock(&self->sending);
	wk_status status = send_records(self, bytes, sizes, count, true, &number, error);
	if (status != WK_OK)
		forget_refusal(self, number);
	*last = self->next - 1;
	pthread_mutex_unlock(&self->sending);
	return status;
}

static wk_status log_submit(void *context, const uint8_t *bytes, const uint32_t *sizes, size_t count, int64_t *last,
                            uint64_t *ticket, wk_error *error) {
	wk_gateway_log *self = context;
	pthread_mutex_lock(&self->sending);
	wk_status status = send_records(self, bytes, sizes, count, false, ticket, error);
	*last = self->next - 1;
	pthread_mutex_unlock(&self->sending);
	return status;
}

static wk_status log_wait(void *context, uint64_t ticket, wk_error *error) {
	return await(context, ticket, error);
}

/* ---- taking over ---- */

/* A part of a snapshot that is never finished: whoever reads the log passes it over. */
typedef struct wk_fence {
	uint8_t bytes[WK_PAGES_RECORD_HEADER];
	bool wanted; /* the log has records */
} wk_fence;

/* It is of the database that the last record is of. */
static wk_status make_fence(wk_gateway_log *self, wk_fence *fence, wk_error *error) {
	wk_gateway_info info;
	wk_gateway_batch batch;
	wk_pages_record record;
	fence->wanted = false;
	wk_status status = describe(self, &self->questions, &info, error);
	if (status == WK_OK)
		self->next = info.next;
	if (status != WK_OK || info.first < 0 || info.first == info.next)
		return status;
	const wk_gateway_place place = wk_gateway_at_sequence_id(info.next - 1);
	status = read_batch(self, &place, 1, WAIT_MS, &batch, error);
	if (status != WK_OK)
		return status;
	if (batch.count == 0)
		return wk_database_fail(error, WK_UNAVAILABLE, "the gateway %s does not show the last record of the log %s",
		                        self->address, self->name);
	wk_gateway_record last = wk_gateway_batch_record(&batch, 0);
	status = wk_pages_record_decode(last.payload, last.size, &record);
	if (status != WK_OK)
		return wk_database_fail(error, status, "the last record of the log %s is no record of a SQLite database: %s",
		                        self->name, wk_status_text(status));
	const wk_pages_record made = {
	    .kind = WK_PAGES_SNAPSHOT,
	    .flags = WK_PAGES_FIRST,
	    .page_size = record.page_size,
	    .before = record.before,
	    .database = record.database,
	    .transaction = record.transaction,
	};
	wk_pages_record_seal(fence->bytes, sizeof fence->bytes, &made);
	fence->wanted = true;
	return WK_OK;
}

static wk_status append_fence(wk_gateway_log *self, const wk_fence *fence, wk_error *error) {
	const uint32_t size = sizeof fence->bytes;
	uint64_t number;
	wk_status status = wk_gateway_connected(&self->appends) ? WK_OK : wk_gateway_connect(&self->appends, error);
	if (status == WK_OK)
		status = send_append(self, fence->bytes, &size, 1, -1, &number, error);
	if (status != WK_OK)
		return status;
	status = await(self, number, error);
	self->refused = 0; /* another fence behind this one does no harm */
	self->answered = number;
	if (status == WK_OK) {
		self->fence = self->unanswered[self->answered % APPENDS_MAX].last;
		self->next = self->fence + 1;
	}
	return status;
}

static wk_status try_to_take_over(wk_gateway_log *self, wk_error *error) {
	uint8_t frame[WK_GATEWAY_REQUEST_MAX];
	wk_fence fence;
	size_t size = wk_gateway_put_named(frame, 0, WK_GATEWAY_TAKE_LOG, self->name);
	wk_status status = ask(&self->questions, frame, size, error);
	if (status == WK_OK)
		status = make_fence(self, &fence, error);
	return status == WK_OK && fence.wanted ? append_fence(self, &fence, error) : status;
}

static wk_status log_take_over(void *context, wk_error *error) {
	wk_gateway_log *self = context;
	pthread_mutex_lock(&self->asking);
	pthread_mutex_lock(&self->sending);
	wk_status status = WK_FENCED;
	for (int i = 0; status == WK_FENCED && i < FENCES_MAX; i++)
		status = try_to_take_over(self, error);
	self->used = now_s();
	pthread_mutex_unlock(&self->sending);
	pthread_mutex_unlock(&self->asking);
	return status;
}

/* ---- opening ---- */

/* The first line of a file, without the space around it. NULL: no memory, or `error` says more. */
static char *first_line(const char *path, wk_error *error) {
	char line[WK_GATEWAY_TOKEN_MAX + 1];
	FILE *file = fopen(path, "re");
	if (file == NULL || fgets(line, sizeof line, file) == NULL)
		line[0] = 0;
	if (file != NULL)
		fclose(file);
	const char *from = line + strspn(line, " \t\r\n");
	size_t size = strcspn(from, "\r\n");
	while (size > 0 && (from[size - 1] == ' ' || from[size - 1] == '\t'))
		size--;
	if (size > 0)
		return strndup(from, size);
	wk_database_fail(error, WK_INVALID, "%s: its first line is to be the token of the gateway", path);
	return NULL;
}

static char *token_of(const wk_gateway_options *options, wk_error *error) {
	const char *token = options->token, *file = options->token_file;
	if (token == NULL && file == NULL) {
		token = getenv("WALKEEPER_TOKEN");
		file = getenv("WALKEEPER_TOKEN_FILE");
	}
	wk_database_fail(error, WK_NO_MEMORY, "the token of a gateway: no memory");
	if (token != NULL && token[0] != 0)
		return strdup(token);
	if (file != NULL && file[0] != 0)
		return first_line(file, error);
	wk_database_fail(error, WK_INVALID,
	                 "a gateway wants a token: name its file by wk_token_file=, or by WALKEEPER_TOKEN_FILE in the "
	                 "environment");
	return NULL;
}

static void log_close(void *context) {
	wk_gateway_log *self = context;
	wk_gateway_disconnect(&self->questions);
	wk_gateway_disconnect(&self->appends);
	pthread_mutex_destroy(&self->asking);
	pthread_mutex_destroy(&self->sending);
	pthread_mutex_destroy(&self->answers);
	pthread_cond_destroy(&self->answer_came);
	free(self->questions.body);
	free(self->appends.body);
	free(self->address);
	free(self->name);
	free(self->token);
	free(self);
}

static wk_status open_log(wk_gateway_log *self, bool create, wk_gateway_info *info, wk_error *error) {
	uint8_t frame[WK_GATEWAY_REQUEST_MAX];
	size_t size = wk_gateway_put_open_log(frame, 0, self->name, create);
	wk_status status = ask(&self->questions, frame, size, error);
	if (status == WK_OK && wk_gateway_get_info(self->questions.body, self->questions.head.size, info) != WK_OK)
		return bad_answer(self, error);
	return status;
}

void wk_gateway_options_init(wk_gateway_options *options) {
	*options = (wk_gateway_options){.timeout_ns = TIMEOUT_NS};
}

wk_status wk_database_log_connect(const char *address, const char *name, bool write, const wk_gateway_options *options,
                                  wk_database_log *log, wk_error *error) {
	wk_gateway_options defaults;
	wk_gateway_options_init(&defaults);
	options = options != NULL ? options : &defaults;
	wk_status status = wk_gateway_check_address(address, error);
	if (status != WK_OK)
		return status;
	wk_gateway_log *self = calloc(1, sizeof *self);
	if (self == NULL)
		return wk_database_fail(error, WK_NO_MEMORY, "opening the log %s: no memory", name);
	*self = (wk_gateway_log){.address = strdup(address), .name = strdup(name), .fence = -1};
	self->questions = self->appends = (wk_gateway_connection){.peer = &self->peer, .fd = -1};
	pthread_mutex_init(&self->asking, NULL);
	pthread_mutex_init(&self->sending, NULL);
	pthread_mutex_init(&self->answers, NULL);
	pthread_cond_init(&self->answer_came, NULL);
	wk_error reason;
	self->token = token_of(options, &reason);
	self->peer = (wk_gateway_peer){.address = self->address, .token = self->token, .timeout_ns = options->timeout_ns};
	wk_gateway_info info;
	if (self->address == NULL || self->name == NULL)
		status = wk_database_fail(error, WK_NO_MEMORY, "opening the log %s: no memory", name);
	else if (self->token == NULL)
		status = wk_database_fail(error, reason.status, "%s", reason.text);
	else
		status = open_log(self, write, &info, error);
	if (status != WK_OK) {
		log_close(self);
		return status;
	}
	*log = (wk_database_log){
	    .context = self,
	    .log_id = info.log_id,
	    .take_over = write ? log_take_over : NULL,
	    .append = write ? log_append : NULL,
	    .submit = write ? log_submit : NULL,
	    .wait = write ? log_wait : NULL,
	    .read = log_read,
	    .range = log_range,
	    .close = log_close,
	};
	return WK_OK;
}
