/*
 * full_disk_churn.h: a store on a faulty disk that is full again and again, and the model of what it promised.
 *
 * A holder is a ledger or a log. What it holds are records of dense ids, whose bytes follow from holder, life and id:
 * each delete begins another life.
 */
#ifndef FULL_DISK_CHURN_H
#define FULL_DISK_CHURN_H
#include <errno.h>

#include "engine/manual.h"
#include "ledger_store.h"
#include "sim/faulty.h"

enum { HOLDERS = 48, SOME = 8 };

typedef struct holder {
	int64_t first, promised, possible; /* ids from first on; those below promised are there for certain */
	uint64_t life, size;               /* size: of what is live */
	bool deleting;                     /* accepted, not acknowledged */
	bool exists;                       /* a log */
	wk_log *log;
	wk_writer *writer;
} holder;

typedef struct churn {
	wk_io *io;
	wk_faulty *disk;
	wk_namespace *ns;
	wk_open_options options;
	uint64_t seed, live, holders_count;
	uint64_t unit, base, capacity; /* of the disk: a file, what it had, what it has */
	uint64_t owed;                 /* the ticket of deletes that nobody waited for */
	holder holders[HOLDERS];
	bool ledgers;
	const char *did; /* last */
} churn;

static inline uint64_t chance(churn *c, uint64_t of) {
	return check_random(&c->seed) % of;
}

/* ---- the disk: ENOSPC once, where a file system says it ---- */

static struct wk_io_operations refusing_operations;
static const struct wk_io_operations *plain_operations;
static uint64_t refuses_in;             /* so many calls from now; 0: none */
static const wk_engine *refused_engine; /* NULL: none is open */

/* Not to a block that looks for its place: without a driver nobody tries that again. */
static inline bool is_refused(void) {
	if (refused_engine != NULL && refused_engine->sealing)
		return false;
	return refuses_in > 0 && --refuses_in == 0;
}

static int refusing_open(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	return flags & WK_IO_CREATE && is_refused() ? -ENOSPC : plain_operations->open(io, path, flags, file);
}

static int refusing_allocate(wk_io *io, wk_file *file, uint64_t size) {
	return is_refused() ? -ENOSPC : plain_operations->allocate(io, file, size);
}

static int refusing_rename(wk_io *io, const char *from, const char *to) {
	return is_refused() ? -ENOSPC : plain_operations->rename(io, from, to);
}

static inline void refuse_some(wk_io *io) {
	refuses_in = 0;
	refused_engine = NULL;
	plain_operations = io->operations;
	refusing_operations = *plain_operations;
	refusing_operations.open = refusing_open;
	refusing_operations.allocate = refusing_allocate;
	refusing_operations.rename = refusing_rename;
	io->operations = &refusing_operations;
}

static inline uint64_t used(churn *c) {
	wk_io_space space;
	uint64_t most = (uint64_t)1 << 40;
	wk_faulty_set_capacity(c->disk, most);
	CHECK_EQ(c->io->operations->space(c->io, ".", &space), 0);
	wk_faulty_set_capacity(c->disk, c->capacity);
	return most - space.free_bytes;
}

static inline void set_capacity(churn *c, uint64_t capacity) {
	c->capacity = capacity;
	wk_faulty_set_capacity(c->disk, capacity);
}

/* ---- records ---- */

static inline uint64_t salt_of(const churn *c, size_t h, int64_t id) {
	return (c->holders[h].life << 40) + ((uint64_t)h << 32) + (uint64_t)id;
}

static inline size_t size_of(const churn *c, size_t h, int64_t id) {
	static const uint64_t most[] = {300, 6000, ENTRY_SIZE_MAX - ENTRY_HEAD};
	uint64_t seed = salt_of(c, h, id), kind = check_random(&seed) % 100;
	size_t class = h % 4 == 3 ? (kind < 70 ? 0 : kind < 95 ? 1 : 2) : h % 4;
	return ENTRY_HEAD + check_random(&seed) % most[class];
}

static inline size_t fill(const churn *c, size_t h, int64_t id, uint8_t *bytes) {
	size_t size = size_of(c, h, id);
	uint64_t seed = salt_of(c, h, id) + 77;
	wk_store_be64(bytes, h);
	wk_store_be64(bytes + 8, (uint64_t)id);
	check_random_bytes(&seed, bytes + 16, size - 16);
	return size;
}

static inline void check_bytes(const churn *c, size_t h, int64_t id, const uint8_t *bytes, uint64_t size) {
	static uint8_t expected[ENTRY_SIZE_MAX];
	CHECK_EQ(size, fill(c, h, id, expected));
	CHECK(memcmp(bytes, expected, size) == 0);
}

static inline void count(churn *c, size_t h, int64_t id, bool added) {
	uint64_t size = size_of(c, h, id);
	c->holders[h].size += added ? size : -size;
	c->live += added ? size : -size;
}

static inline void all_is_promised(churn *c) {
	for (size_t h = 0; h < HOLDERS; h++)
		c->holders[h].promised = c->holders[h].possible;
}

static inline void forget(churn *c, size_t h) {
	holder *at = &c->holders[h];
	c->live -= at->size;
	*at = (holder){.life = at->life + 1, .log = at->log, .writer = at->writer};
}

static inline void all_deletes_are_done(churn *c) {
	for (size_t h = 0; h < c->holders_count; h++)
		if (c->holders[h].deleting)
			forget(c, h);
}

/* What calls on a full disk may answer. The journal goes on. */
static inline void check_refused(churn *c, wk_status status, const wk_error *error) {
	if (status != WK_OK && (status != WK_NO_SPACE || error->outcome_unknown))
		printf("%s: status %d: %s\n", c->did, (int)status, error->text);
	CHECK(status == WK_OK || (status == WK_NO_SPACE && !error->outcome_unknown));
	CHECK(!stats_of(c->ns).failed);
}

static inline void keep(churn *c, int steps, uint64_t step_ms) {
	for (int i = 0; i < steps; i++) {
		bool idle;
		wk_error error = {0};
		wk_faulty_advance(c->disk, step_ms * 1000000);
		check_ok(wk_namespace_step(c->ns, &idle, &error), &error, "background work");
	}
	CHECK(!stats_of(c->ns).failed);
}
#endif
