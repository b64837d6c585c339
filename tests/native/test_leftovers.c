/*
 * test_leftovers.c: a power cut loses a block and keeps a later one, at the start of the next file. Where the journal does
 * not go on in that file, as what comes next is too large for it, its old block is not taken for one that follows.
 */
#include "core/journal_block.h"
#include "ledger_store.h"
#include "sim/faulty.h"
#include "walkeeper/log.h"

enum { BEFORE = 25000, TOO_LARGE = 100 * 1000, MORE = 3, LIVES = 40 };
static uint8_t bytes[400 * 1000];

static wk_open_options options_of(uint32_t kind) {
	wk_open_options options = store_options();
	options.kind = kind;
	options.blocks_in_flight = 4;
	options.file_size_max = 1 << 20;
	return options;
}

typedef struct store {
	wk_io *io;
	uint32_t kind;
	wk_namespace *ns;
	wk_log *log;
	wk_writer *writer;
	int64_t next; /* entry, or record */
} store;

static void open_again(store *s) {
	wk_error error = {0};
	wk_open_options options = options_of(s->kind);
	check_ok(wk_open_on(s->io, "store", &options, &s->ns, &error), &error, "the store opens");
	if (s->kind == WK_KIND_LEDGERS)
		return;
	check_ok(wk_log_open(s->ns, "log", 3, true, NULL, &s->log, &error), &error, "the log opens");
	check_ok(wk_writer_open(s->log, &s->writer, &error), &error, "the writer");
}

static void leave(store *s) {
	wk_abandon(s->ns);
	if (s->kind != WK_KIND_LEDGERS) {
		wk_writer_close(s->writer, 0, NULL);
		wk_log_release(s->log);
	}
	wk_faulty_kill(wk_faulty_of(s->io));
}

static void put(store *s, size_t size) {
	wk_error error = {0};
	wk_position at;
	wk_store_be64(bytes, 1);
	wk_store_be64(bytes + 8, (uint64_t)s->next);
	wk_add add = an_add(bytes, size, 0);
	wk_status status = s->kind == WK_KIND_LEDGERS ? wk_ledger_add(s->ns, &add, 1, UINT64_MAX, true, &error)
	                                              : wk_writer_append(s->writer, bytes, size, NULL, &at, &error);
	check_ok(status, &error, "it is acknowledged");
	s->next++;
}

static void all_is_there(store *s) {
	if (s->kind == WK_KIND_LEDGERS) {
		CHECK_EQ(entries_of(s->ns, 1), s->next);
		return;
	}
	wk_position next;
	wk_writer_next(s->writer, &next);
	CHECK_EQ(next.sequence_id, s->next);
}

/* The one after the one that is lost, whole, first in the file that was prepared next. */
static void write_later_block(store *s, uint64_t ahead) {
	wk_engine *engine = s->ns->engine;
	CHECK(engine->next != NULL);
	static uint8_t block[4096] __attribute__((aligned(4096)));
	memset(block, 0, sizeof block);
	wk_block_header header = {
	    .previous_crc = 0x1234567,
	    .size = sizeof block,
	    .epoch = engine->next->id,
	    .sequence = engine->durable + ahead,
	    .incarnation = engine->superblock.incarnation,
	    .durable_through = engine->durable,
	    .used = WK_BLOCK_HEADER_SIZE,
	    .in_flight_max = 4,
	    .flags = WK_BLOCK_CONFIRM,
	};
	memcpy(header.directory_id, engine->superblock.directory_id, sizeof header.directory_id);
	wk_block_seal(block, &header);
	char name[80];
	snprintf(name, sizeof name, "store/journal/%016llx.wkj", (unsigned long long)engine->next->id);
	leave(s);
	wk_file *file;
	CHECK_EQ(s->io->operations->open(s->io, name, WK_IO_WRITE | WK_IO_DIRECT, &file), 0);
	CHECK_EQ(s->io->operations->pwrite(s->io, file, block, sizeof block, 0, 0), (int64_t)sizeof block);
	CHECK_EQ(s->io->operations->sync(s->io, file), 0);
	s->io->operations->close(s->io, file);
}

static void one_life(uint32_t kind, uint64_t seed) {
	store s = {.io = new_disk(seed), .kind = kind};
	open_again(&s);
	while (s.ns->engine->offset < BEFORE) {
		put(&s, 2000);
		work(s.ns);
	}
	write_later_block(&s, 2 + seed % 2);
	open_again(&s);
	all_is_there(&s);
	put(&s, TOO_LARGE + check_random(&seed) % TOO_LARGE);
	for (uint64_t more = check_random(&seed) % MORE; more > 0; more--)
		put(&s, 1000 + check_random(&seed) % TOO_LARGE);
	leave(&s); /* before the keeper gave that file away */
	for (int round = 0; round < 2; round++) {
		open_again(&s);
		all_is_there(&s);
		put(&s, 1000);
		leave(&s);
	}
	s.io->operations->destroy(s.io);
}

TEST(entries_behind_a_lost_block_are_kept) {
	for (uint64_t seed = 1; seed <= LIVES; seed++)
		one_life(WK_KIND_LEDGERS, seed);
}

TEST(records_behind_a_lost_block_are_kept) {
	for (uint64_t seed = 1; seed <= LIVES; seed++)
		one_life(WK_KIND_LOGS, seed);
}

/* An open may begin in an empty file: what comes first need not fit there. */
/* As a power cut leaves a file whose first block is not durable. */
static void lose_blocks(wk_io *io, const char *name) {
	wk_file *file;
	wk_io_stat stat;
	CHECK_EQ(io->operations->open(io, name, WK_IO_WRITE, &file), 0);
	CHECK_EQ(io->operations->stat(io, file, &stat), 0);
	CHECK_EQ(io->operations->truncate(io, file, 0), 0);
	CHECK_EQ(io->operations->truncate(io, file, stat.size), 0);
	io->operations->close(io, file);
}

TEST(an_empty_file_is_left_behind_by_what_does_not_fit) {
	store s = {.io = new_disk(3), .kind = WK_KIND_LEDGERS};
	open_again(&s);
	while (s.ns->engine->active->id == 1)
		put(&s, 2000);
	char name[80];
	snprintf(name, sizeof name, "store/journal/%016llx.wkj", (unsigned long long)s.ns->engine->active->id);
	uint64_t lost = s.ns->engine->durable - s.ns->engine->active->first_sequence + 1;
	work(s.ns);
	leave(&s);
	lose_blocks(s.io, name); /* the end of the journal: all of one file is left, and sealed */
	CHECK_EQ(s.io->operations->unlink(s.io, "store/shared"), 0);
	s.next -= (int64_t)lost;
	open_again(&s);
	CHECK_EQ(s.ns->engine->active->end_offset, 0);
	put(&s, sizeof bytes);
	work(s.ns);
	put(&s, 1000);
	leave(&s);
	open_again(&s);
	all_is_there(&s);
	leave(&s);
	s.io->operations->destroy(s.io);
}

int main(void) {
	RUN(entries_behind_a_lost_block_are_kept);
	RUN(records_behind_a_lost_block_are_kept);
	RUN(an_empty_file_is_left_behind_by_what_does_not_fit);
	return check_done();
}
