#include "engine/index/read_ahead.h"

#include <pthread.h>
#include <stdlib.h>

#include "io/io.h"

enum { STREAMS_MAX = 64, RUN_MIN = 3, WINDOW_MIN = 64 * 1024, WINDOW_MAX = 256 * 1024 };
/* Several threads read for one client: its reads come in any order, so far apart. */
enum { ASTRAY_MAX = 64 };

/* A ledger that is being read, and its window. */
typedef struct stream {
	int64_t ledger_id;
	int64_t next;         /* entry behind the furthest that was asked for */
	uint64_t file_id;     /* where that stands, */
	uint64_t next_offset; /* and where it ends */
	uint64_t used;        /* the clock, when it was asked for last; 0: the place is free */
	uint32_t run;         /* reads that each went on where the one before it ended */
	uint32_t hits;        /* reads in this file that windows served */
	size_t window;        /* how much the next one is to bring */
	bool reading;         /* somebody is about it */
	wk_buffer *buffer;    /* of `window_file`, `size` bytes from `offset` on; NULL: there is none */
	uint64_t window_file, offset;
	size_t size;
} stream;

struct wk_read_ahead {
	pthread_mutex_t lock;
	uint64_t bytes, bytes_max;
	uint64_t clock;
	stream streams[STREAMS_MAX];
};

wk_read_ahead *wk_read_ahead_new(uint64_t bytes_max) {
	wk_read_ahead *ahead = calloc(1, sizeof *ahead);
	if (ahead == NULL)
		return NULL;
	pthread_mutex_init(&ahead->lock, NULL);
	ahead->bytes_max = bytes_max;
	return ahead;
}

static void drop_window(wk_read_ahead *ahead, stream *s) {
	if (s->buffer != NULL)
		ahead->bytes -= s->buffer->capacity;
	wk_buffer_release(s->buffer);
	s->buffer = NULL;
}

void wk_read_ahead_free(wk_read_ahead *ahead) {
	if (ahead == NULL)
		return;
	for (int i = 0; i < STREAMS_MAX; i++)
		drop_window(ahead, &ahead->streams[i]);
	pthread_mutex_destroy(&ahead->lock);
	free(ahead);
}

static stream *find(wk_read_ahead *ahead, int64_t ledger_id) {
	for (int i = 0; i < STREAMS_MAX; i++)
		if (ahead->streams[i].used != 0 && ahead->streams[i].ledger_id == ledger_id)
			return &ahead->streams[i];
	return NULL;
}

/* The place that was not used for longest. */
static stream *make(wk_read_ahead *ahead, int64_t ledger_id) {
	stream *oldest = &ahead->streams[0];
	for (int i = 1; i < STREAMS_MAX; i++)
		if (ahead->streams[i].used < oldest->used)
			oldest = &ahead->streams[i];
	drop_window(ahead, oldest);
	*oldest = (stream){.ledger_id = ledger_id, .next = -1, .window = WINDOW_MIN};
	return oldest;
}

/* Entry after entry, and near enough in the file for a window to have both; a new file may begin at any place. */
static bool goes_on(const stream *s, const wk_ahead_read *read) {
	bool by_id = read->first - s->next <= ASTRAY_MAX && s->next - read->first <= ASTRAY_MAX;
	uint64_t from = s->next_offset > WINDOW_MAX ? s->next_offset - WINDOW_MAX : 0;
	return by_id &&
	       (s->file_id != read->file_id || (read->offset >= from && read->offset <= s->next_offset + WINDOW_MIN));
}

static stream *note(wk_read_ahead *ahead, const wk_ahead_read *read) {
	stream *s = find(ahead, read->ledger_id);
	if (s == NULL)
		s = make(ahead, read->ledger_id);
	if (s->run > 0 && !goes_on(s, read)) {
		drop_window(ahead, s);
		s->window = WINDOW_MIN;
		s->run = 0;
		s->next = -1;
	}
	s->run += s->run < RUN_MIN;
	s->used = ++ahead->clock;
	if (read->last < s->next)
		return s;
	if (s->run > 1 && s->file_id != read->file_id) { /* where few of its entries stand in a file, windows are in vain */
		if (s->hits == 0) {
			s->run = 1;
			s->window = WINDOW_MIN;
		}
		s->hits = 0;
	}
	s->next = read->last + 1;
	s->file_id = read->file_id;
	s->next_offset = read->offset + read->size;
	return s;
}

static bool has(const stream *s, const wk_ahead_read *read) {
	return s->buffer != NULL && s->window_file == read->file_id && read->offset >= s->offset &&
	       read->offset + read->size <= s->offset + s->size;
}

wk_buffer *wk_read_ahead_get(wk_read_ahead *ahead, const wk_ahead_read *read, size_t *at) {
	if (ahead->bytes_max < WINDOW_MIN || read->size >= WINDOW_MIN)
		return NULL;
	wk_buffer *found = NULL;
	pthread_mutex_lock(&ahead->lock);
	stream *own = note(ahead, read);
	for (int i = 0; i < STREAMS_MAX && found == NULL; i++)
		if (has(&ahead->streams[i], read)) {
			*at = (size_t)(read->offset - ahead->streams[i].offset);
			found = wk_buffer_retain(ahead->streams[i].buffer);
			ahead->streams[i].used = ahead->clock; /* it serves another ledger, too */
			own->hits++;
		}
	pthread_mutex_unlock(&ahead->lock);
	return found;
}

size_t wk_read_ahead_size(wk_read_ahead *ahead, const wk_ahead_read *read) {
	if (ahead->bytes_max < WINDOW_MIN || read->size >= WINDOW_MIN)
		return read->size;
	size_t size = read->size;
	pthread_mutex_lock(&ahead->lock);
	stream *s = find(ahead, read->ledger_id);
	/* Not for a read that comes late, behind the window. */
	bool behind = s != NULL && s->buffer != NULL && s->window_file == read->file_id && read->offset < s->offset;
	if (s != NULL && s->run >= RUN_MIN && !s->reading && !behind) {
		s->reading = true;
		size = s->window;
		if (size > ahead->bytes_max / 4)
			size = (size_t)(ahead->bytes_max / 4 > WINDOW_MIN ? ahead->bytes_max / 4 : WINDOW_MIN);
		size = size / WK_IO_ALIGNMENT * WK_IO_ALIGNMENT;
		s->window = s->window < WINDOW_MAX ? s->window * 2 : WINDOW_MAX;
	}
	pthread_mutex_unlock(&ahead->lock);
	return size;
}

static stream *oldest_window(wk_read_ahead *ahead) {
	stream *oldest = NULL;
	for (int i = 0; i < STREAMS_MAX; i++) {
		stream *s = &ahead->streams[i];
		if (s->buffer != NULL && (oldest == NULL || s->used < oldest->used))
			oldest = s;
	}
	return oldest;
}

void wk_read_ahead_put(wk_read_ahead *ahead, const wk_ahead_read *read, wk_buffer *buffer, size_t size) {
	pthread_mutex_lock(&ahead->lock);
	stream *s = find(ahead, read->ledger_id);
	if (s != NULL)
		s->reading = false;
	if (s != NULL && buffer != NULL && buffer->capacity <= ahead->bytes_max) {
		drop_window(ahead, s);
		while (ahead->bytes + buffer->capacity > ahead->bytes_max)
			drop_window(ahead, oldest_window(ahead));
		s->buffer = wk_buffer_retain(buffer);
		s->window_file = read->file_id;
		s->offset = read->offset;
		s->size = size;
		ahead->bytes += buffer->capacity;
	}
	pthread_mutex_unlock(&ahead->lock);
	wk_buffer_release(buffer);
}

void wk_read_ahead_drop_file(wk_read_ahead *ahead, uint64_t file_id) {
	pthread_mutex_lock(&ahead->lock);
	for (int i = 0; i < STREAMS_MAX; i++)
		if (ahead->streams[i].window_file == file_id)
			drop_window(ahead, &ahead->streams[i]);
	pthread_mutex_unlock(&ahead->lock);
}

uint64_t wk_read_ahead_bytes(wk_read_ahead *ahead) {
	pthread_mutex_lock(&ahead->lock);
	uint64_t bytes = ahead->bytes;
	pthread_mutex_unlock(&ahead->lock);
	return bytes;
}
