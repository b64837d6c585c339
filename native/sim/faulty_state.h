/*
 * faulty_state.h: the running side of a simulated disk: what readers see, the handles, the faults that lie in wait. Private
 * to native/sim.
 *
 * The durable side is faulty_disk.h's. All state is behind one mutex; functions here expect it to be held unless they
 * are operations of the seam.
 */
#ifndef WK_SIM_FAULTY_STATE_H
#define WK_SIM_FAULTY_STATE_H
#include "sim/faulty.h"
#include "sim/faulty_disk.h"
#include <pthread.h>

enum { WK_FAULTY_OPERATIONS = 6, WK_FAULTY_FAULTS_MAX = 16 };

typedef struct wk_live_node {
	wk_contents contents;
	bool misdirects;
	int64_t misdirect_by;
	void *map; /* one for all that map it; a store to it is not a write, and is lost in a crash */
	size_t map_size;
} wk_live_node;

typedef struct wk_armed_fault {
	uint32_t mask;
	uint64_t after_calls;
	int error;
	bool sticky;
} wk_armed_fault;

struct wk_file {
	wk_file *next, **link;
	uint32_t node;
	uint64_t generation; /* of the disk when it was opened; another one means that its process is dead */
	uint32_t flags;
	bool locked;
};

/* A request between its call and its completion (faulty_request.c). */
typedef struct wk_faulty_request {
	wk_io_request request;
	int error;          /* decided when it was called */
	uint64_t begin;     /* event number of the write's begin; 0: nothing of it can land */
	uint64_t covers;    /* of a sync: the last event before the call */
	wk_pending landing; /* of a write: what lands where */
} wk_faulty_request;

struct wk_io_queue {
	wk_io_queue *next, **link;
	uint32_t depth;
	uint32_t in_flight;
	int event_fd; /* -1: none */
	bool woken;
	wk_faulty_request requests[WK_IO_QUEUE_DEPTH_MAX];
};

struct wk_faulty {
	wk_io io;
	pthread_mutex_t mutex;
	pthread_cond_t news; /* a wake, a crash, or time has moved */
	wk_disk disk;
	wk_disk base; /* the disk before the first event */
	wk_event *events;
	size_t events_count, events_capacity;
	wk_live_node *nodes; /* as many as the disk's */
	size_t nodes_count, nodes_capacity;
	wk_names names; /* what a reader sees */
	wk_file *files;
	wk_io_queue *queues;
	uint64_t generation; /* crashes and kills so far */
	uint64_t clock_ns;
	int64_t wall_shift_ns; /* what the wall clock was set to, beside that */
	uint64_t boots;        /* power cuts that the disk has behind it */
	uint64_t capacity_bytes[WK_FAULTY_DEVICES_MAX];
	bool flush_on_dsync;
	uint64_t calls[WK_FAULTY_OPERATIONS];
	uint64_t read_bytes;
	wk_armed_fault faults[WK_FAULTY_FAULTS_MAX];
	size_t faults_count;
	uint64_t random_landing, random_order, random_entropy;
	void **old_maps; /* of before a crash: a thread of the dead process may still touch them */
	size_t old_maps_count, old_maps_capacity;
};

/* Lock, and a microsecond passes: each call to the seam begins with it. */
wk_faulty *wk_faulty_enter(wk_io *io);
void wk_faulty_leave(wk_faulty *faulty);
/* Counts a call; -error where a fault meets it. `operation` is one bit of the mask. */
int wk_faulty_call(wk_faulty *faulty, uint32_t operation);
/* Writes an event down and lets it happen to the disk. Returns its number. */
uint64_t wk_faulty_record(wk_faulty *faulty, wk_event event);
uint64_t wk_faulty_used(const wk_faulty *faulty, uint32_t device);
/* What is left on the device of a node; UINT64_MAX: it has no end. */
uint64_t wk_faulty_room(const wk_faulty *faulty, uint32_t node);
uint64_t wk_faulty_links(const wk_faulty *faulty, uint32_t node);
/* Drops the map of a node whose contents are another's now. */
void wk_faulty_retire_map(wk_faulty *faulty, wk_live_node *node);

/* -EBADF: the handle's process is dead. */
int wk_faulty_file_check(const wk_faulty *faulty, const wk_file *file);

/* Begins a request; a refusal is told by end like every other result. */
void wk_faulty_request_begin(wk_faulty *faulty, wk_faulty_request *request);
int64_t wk_faulty_request_end(wk_faulty *faulty, wk_faulty_request *request);
/* The process was killed while the request was in flight. */
void wk_faulty_request_orphan(wk_faulty *faulty, wk_faulty_request *request);

/* Where a path leads. node is UINT32_MAX where there is nothing of that name. */
typedef struct wk_place {
	uint32_t directory;
	uint32_t node;
	char text[WK_FAULTY_NAME_MAX + 1];
} wk_place;

int wk_faulty_resolve(const wk_faulty *faulty, const char *path, wk_place *place);
/* The directory, or the file, that stands at the path; else -ENOENT, -ENOTDIR or -EISDIR. */
int wk_faulty_find(const wk_faulty *faulty, const char *path, bool directory, uint32_t *node);
/* A new file or directory at a place that is free, on the device of the directory that it is in. */
uint32_t wk_faulty_create(wk_faulty *faulty, const wk_place *place, bool is_directory);

int wk_faulty_open(wk_io *io, const char *path, uint32_t flags, wk_file **file);
void wk_faulty_close(wk_io *io, wk_file *file);
int64_t wk_faulty_pread(wk_io *io, wk_file *file, void *buffer, size_t size, uint64_t offset);
int64_t wk_faulty_pwrite(wk_io *io, wk_file *file, const void *buffer, size_t size, uint64_t offset, uint32_t flags);
int wk_faulty_sync(wk_io *io, wk_file *file);
int wk_faulty_reserve(wk_io *io, wk_file *file, uint64_t size);
int wk_faulty_await_writes(wk_io *io, wk_file *file);
int wk_faulty_truncate(wk_io *io, wk_file *file, uint64_t size);
int wk_faulty_stat(wk_io *io, wk_file *file, wk_io_stat *stat);
int wk_faulty_lock(wk_io *io, wk_file *file, bool exclusive);
int wk_faulty_map_shared(wk_io *io, wk_file *file, size_t size, bool writable, void **address);
void wk_faulty_unmap(wk_io *io, void *address, size_t size);

int wk_faulty_make_directory(wk_io *io, const char *path);
int wk_faulty_rename(wk_io *io, const char *from, const char *to);
int wk_faulty_link(wk_io *io, const char *from, const char *to);
int wk_faulty_unlink(wk_io *io, const char *path);
int wk_faulty_sync_directory(wk_io *io, const char *path);
int wk_faulty_list(wk_io *io, const char *path, wk_io_list_fn fn, void *context);
int wk_faulty_space(wk_io *io, const char *path, wk_io_space *space);

int wk_faulty_queue_new(wk_io *io, uint32_t depth, wk_io_queue **queue);
void wk_faulty_queue_free(wk_io *io, wk_io_queue *queue);
int wk_faulty_queue_submit(wk_io *io, wk_io_queue *queue, const wk_io_request *request);
int wk_faulty_queue_wait(wk_io *io, wk_io_queue *queue, wk_io_completion *out, uint32_t out_max, uint64_t timeout_ns);
void wk_faulty_queue_wake(wk_io *io, wk_io_queue *queue);
int wk_faulty_queue_notify(wk_io *io, wk_io_queue *queue, int event_fd);
#endif
