/*
 * faulty_disk.h: what of a simulated disk would outlive a power cut. Private to native/sim.
 *
 * Everything that happens to the disk is an event with a number. The disk is a function of its events: faulty.c applies
 * each as it happens, and wk_faulty_image applies the first few again to a copy. So whatever chance decided is written
 * into the event, and nothing here keeps a generator. This is an instrument for tests: out of memory ends the program.
 */
#ifndef WK_SIM_FAULTY_DISK_H
#define WK_SIM_FAULTY_DISK_H
#include "io/io.h"
#include <stdatomic.h>

enum { WK_FAULTY_SECTOR = 512, WK_FAULTY_NAME_MAX = 255, WK_FAULTY_ROOT = 0, WK_FAULTY_DEVICES_MAX = 2 };

void *wk_faulty_allocate(size_t count, size_t size); /* zeroed; never NULL */
/* Room for one more in an array of `count`; *capacity grows by doubling. */
void *wk_faulty_grow(void *array, size_t count, size_t *capacity, size_t size);

/* splitmix64. A decision about one thing among many is wk_faulty_chance(seed, which), so that it does not hang on the
 * order of asking. */
uint64_t wk_faulty_random(uint64_t *state);
uint64_t wk_faulty_chance(uint64_t seed, uint64_t which);
/* Whether a sector of a torn write survives: a prefix of them as often as any subset. */
bool wk_faulty_sector_survives(uint64_t seed, uint64_t sector, uint64_t sectors_count);

/* The bytes of a file, shared between copies until one of them is written (faulty_contents.c). */
typedef struct wk_contents {
	struct wk_contents_bytes *shared;
	uint64_t size;
} wk_contents;

wk_contents wk_contents_share(const wk_contents *contents);
void wk_contents_release(wk_contents *contents);
void wk_contents_resize(wk_contents *contents, uint64_t size);
/* bytes may be NULL: zeros. Grows the file where it must. */
void wk_contents_write(wk_contents *contents, uint64_t offset, const uint8_t *bytes, uint64_t size);
size_t wk_contents_read(const wk_contents *contents, uint64_t offset, uint8_t *bytes, size_t size);

/* The names of all directories, ordered by directory and name (faulty_names.c). */
typedef struct wk_name {
	uint32_t directory;
	uint32_t node;
	char text[WK_FAULTY_NAME_MAX + 1];
} wk_name;

typedef struct wk_names {
	wk_name *names;
	size_t count, capacity;
} wk_names;

/* Takes away `from` and sets `to`, either of which may be absent (empty text): create and link, unlink, rename. */
typedef struct wk_name_change {
	wk_name from, to;
	bool creates;      /* `to` is a new node */
	bool is_directory; /* and that is a directory */
	uint32_t device;   /* where it lies */
} wk_name_change;

wk_name *wk_names_find(const wk_names *names, uint32_t directory, const char *text);
const wk_name *wk_names_of(const wk_names *names, uint32_t node); /* one of them; NULL: it has none */
size_t wk_names_first(const wk_names *names,
                      uint32_t directory); /* index of the first name not before that directory's */
void wk_names_change(wk_names *names, const wk_name_change *change);
wk_names wk_names_copy(const wk_names *names);

typedef enum wk_event_kind {
	WK_EVENT_WRITE_BEGIN,    /* node, offset, size, bytes: from here on the write may land */
	WK_EVENT_WRITE_END,      /* node, begin, outcome, durable, flush, seed */
	WK_EVENT_RESIZE,         /* node, size */
	WK_EVENT_SYNC,           /* node, covers, failed, seed */
	WK_EVENT_CHANGE,         /* change */
	WK_EVENT_SYNC_DIRECTORY, /* node */
	WK_EVENT_CRASH,          /* seed */
} wk_event_kind;

typedef enum wk_outcome { WK_OUTCOME_WHOLE, WK_OUTCOME_PART, WK_OUTCOME_NOTHING } wk_outcome;

typedef struct wk_event {
	wk_event_kind kind;
	uint32_t node;
	wk_outcome outcome;
	bool durable;    /* the write was made with WK_IO_DSYNC */
	bool flush;      /* and the device has no FUA: it flushed what had completed before */
	bool failed;     /* a failed sync drops what it should have written, or not */
	uint64_t begin;  /* number of the WRITE_BEGIN */
	uint64_t covers; /* a sync speaks for writes completed up to this number */
	uint64_t offset, size, seed;
	uint8_t *bytes;         /* owned by the event; NULL for zeros */
	wk_name_change *change; /* owned by the event */
} wk_event;

/* A write or a change of size that a power cut may undo. */
typedef struct wk_pending {
	bool is_resize;
	uint64_t begin;
	uint64_t end; /* 0: still in flight */
	uint64_t offset, size;
	const uint8_t *bytes; /* the event's */
} wk_pending;

/* What is pending happens to the contents: all of it, or of a write only the sectors that survive by the seed. */
void wk_pending_land(const wk_pending *pending, wk_contents *contents);
void wk_pending_land_torn(const wk_pending *write, wk_contents *contents, uint64_t seed);

/* A file or a directory (faulty_node.c). */
typedef struct wk_disk_node {
	bool is_directory;
	uint32_t device;
	wk_contents durable;
	wk_pending *pending; /* the completed ones in the order of completion */
	size_t pending_count, pending_capacity;
} wk_disk_node;

typedef struct wk_disk {
	wk_disk_node *nodes; /* never removed: a lost unlink brings the file back */
	size_t nodes_count, nodes_capacity;
	wk_names names;                 /* the durable ones */
	const wk_name_change **changes; /* since then, in order; the events' */
	size_t changes_count, changes_capacity;
} wk_disk;

void wk_disk_node_begin_write(wk_disk_node *node, const wk_event *event, uint64_t number);
void wk_disk_node_end_write(wk_disk_node *node, const wk_event *event, uint64_t number);
void wk_disk_node_resize(wk_disk_node *node, uint64_t size, uint64_t number);
void wk_disk_node_sync(wk_disk_node *node, const wk_event *event);
/* A power cut, by the seed (faulty_crash.c). Nothing is pending after it. */
void wk_disk_crash(wk_disk *disk, uint64_t seed);

void wk_disk_init(wk_disk *disk);
void wk_disk_free(wk_disk *disk);
/* Of a disk with nothing pending. */
void wk_disk_copy(wk_disk *disk, const wk_disk *from);
/* The event must stay where its bytes are for as long as the disk. Numbers are counted from 1. */
void wk_disk_apply(wk_disk *disk, const wk_event *event, uint64_t number);
#endif
