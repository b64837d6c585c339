/*
 * test_accepted_loss.c: blocks of a small directory are wiped out, and an open accepts that: what is left is read in order, with gaps for what is known to be lost; appends go on; a power
 * cut in the middle of the accepting open changes nothing of that.
 */
/* ctest labels: one-thread simulated */
#include "engine/engine.h"
#include "manual_options.h"
#include "sim/faulty.h"
#include "small_wal.h"

static subject s;

/* Pages of 4096 bytes of a file become zeros. */
static void wipe(wk_io *io, const char *path, uint64_t offset, uint64_t pages) {
	uint8_t *zeros = aligned_alloc(WK_BLOCK_ALIGNMENT, pages * WK_BLOCK_ALIGNMENT);
	wk_file *opened;
	CHECK(zeros != NULL);
	memset(zeros, 0, pages * WK_BLOCK_ALIGNMENT);
	CHECK_EQ(io->operations->open(io, path, WK_IO_WRITE, &opened), 0);
	CHECK_EQ(io->operations->pwrite(io, opened, zeros, pages * WK_BLOCK_ALIGNMENT, offset, 0),
	         pages * WK_BLOCK_ALIGNMENT);
	CHECK_EQ(io->operations->sync(io, opened), 0);
	io->operations->close(io, opened);
	free(zeros);
}

static const char *where(const file *f, uint64_t page, uint64_t pages) {
	static char text[128];
	snprintf(text, sizeof text, "%llu pages from page %llu of %s", (unsigned long long)pages, (unsigned long long)page,
	         f->path);
	return text;
}

/* Somewhere in a journal file, where blocks or a footer stand. */
static file *somewhere(uint64_t *seed, uint64_t *page, uint64_t *pages) {
	for (;;) {
		file *f = &s.files[1 + check_random(seed) % (s.files_count - 1)];
		*page = check_random(seed) % (f->size / WK_BLOCK_ALIGNMENT);
		*pages = 1 + check_random(seed) % 3;
		*pages = *page + *pages > f->size / WK_BLOCK_ALIGNMENT ? 1 : *pages;
		if (strstr(f->path, ".wkj") != NULL && f->use[*page * WK_BLOCK_ALIGNMENT] != UNUSED)
			return f;
	}
}

static wk_io *copy_with_damage(uint64_t seed, int places) {
	wk_io *io;
	CHECK_EQ(wk_faulty_image(s.w.disk, 0, 1, &io), 0);
	for (int i = 0; i < places; i++) {
		uint64_t page, pages;
		const file *f = somewhere(&seed, &page, &pages);
		check_test_name = where(f, page, pages);
		wipe(io, f->path, page * WK_BLOCK_ALIGNMENT, pages);
	}
	return io;
}

static wk_namespace *open_accepting(wk_io *io, uint32_t on_damage) {
	wk_namespace *ns;
	wk_error error = {0};
	wk_status status = open_flat(io, on_damage, &ns, &error);
	if (status != WK_OK)
		printf("status %d: %s\n", (int)status, error.text);
	CHECK_EQ(status, WK_OK);
	return ns;
}

/* What the scan met is recorded; sealed files are not looked at before they are read. */
static void opens_without_a_policy(wk_io *io) {
	wk_namespace *ns;
	wk_error error = {0};
	wk_status status = open_flat(io, WK_ON_DAMAGE_STOP, &ns, &error);
	if (status != WK_OK)
		printf("%s\n", error.text);
	CHECK_EQ(status, WK_OK);
	wk_abandon(ns);
}

/* With the catalogue damaged too, logs may go by other names: as much is read of all of them from then on. */
static bool is_salvaged(wk_io *io, wk_namespace *ns) {
	wk_recovery_report report;
	wk_error error = {0};
	wk_namespace_recovery(ns, &report);
	if (report.catalogue_lost + report.adopted_ledgers == 0)
		return false;
	int64_t found = count_records_of_all(ns);
	wk_log *log = NULL;
	wk_position next = {0};
	wk_writer *writer = NULL;
	CHECK_EQ(wk_log_open(ns, names[0], strlen(names[0]), true, NULL, &log, &error), WK_OK);
	CHECK_EQ(wk_writer_open(log, &writer, &error), WK_OK);
	wk_writer_next(writer, &next);
	CHECK_EQ(wk_writer_close(writer, UINT64_MAX, &error), WK_OK);
	wk_log_release(log);
	append_one(ns, 0, next.sequence_id);
	CHECK_EQ(wk_close(ns, UINT64_MAX, &error), WK_OK);
	CHECK_EQ(open_flat(io, WK_ON_DAMAGE_SKIP, &ns, &error), WK_OK);
	CHECK_EQ(count_records_of_all(ns), found + 1);
	wk_abandon(ns);
	opens_without_a_policy(io);
	return true;
}

TEST(after_wiped_blocks_what_is_left_is_read_in_order_and_appends_go_on) {
	make(&s, 21, false);
	unsigned opened = 0, lossy = 0, salvaged = 0;
	const char *name = check_test_name;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		wk_io *io = copy_with_damage(seed, 1 + (int)(seed % 3));
		wk_namespace *ns = open_accepting(io, WK_ON_DAMAGE_SKIP);
		if (is_salvaged(io, ns)) {
			salvaged++;
		} else {
			accepted all[LOGS];
			for (size_t i = 0; i < LOGS; i++) {
				all[i] = read_with_gaps(ns, i);
				CHECK(all[i].next <= s.w.promised[i].next + 300);
				lossy += all[i].lost > 0;
			}
			live_on(io, ns, all, false);
			opens_without_a_policy(io);
			opened++;
		}
		io->operations->destroy(io);
	}
	check_test_name = name;
	printf("%u opened, %u logs with gaps, %u with the catalogue salvaged\n", opened, lossy, salvaged);
	CHECK(opened > 150 && lossy > 30 && salvaged > 5);
	unmake(&s);
}

/* Whatever the moment: the next open refuses as before, or finds the loss recorded; one that accepts it finds the same. */
static void check_cut(wk_io *cut, const accepted expected[LOGS]) {
	wk_namespace *ns;
	wk_error error = {0};
	wk_status status = open_flat(cut, WK_ON_DAMAGE_STOP, &ns, &error);
	if (status == WK_DAMAGED)
		CHECK_EQ(open_flat(cut, WK_ON_DAMAGE_SKIP, &ns, &error), WK_OK);
	else
		CHECK_EQ(status, WK_OK);
	for (size_t i = 0; i < LOGS; i++) {
		accepted found = read_with_gaps(ns, i);
		CHECK_EQ(found.lost, expected[i].lost);
		CHECK_EQ(found.next, expected[i].next);
	}
	wk_abandon(ns);
}

static bool is_unsealed(const file *f) {
	return strstr(f->path, ".wkj") != NULL && f->use[f->size - 1] == UNUSED && f->use[0] == USED;
}

/* One bit of the payload in the middle of a block that is scanned at the next open. */
static bool flip_a_scanned_block(wk_io *io, uint64_t seed) {
	for (size_t i = s.files_count; i-- > 1;) {
		file *f = &s.files[i];
		if (!is_unsealed(f))
			continue;
		uint64_t offset = WK_BLOCK_HEADER_SIZE + 4 + WK_ENTRY_HEADER_SIZE + 40 + seed % 50;
		CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), f->path, offset, (uint32_t)(seed % 8)), 0);
		wk_file *opened;
		CHECK_EQ(io->operations->open(io, f->path, WK_IO_WRITE, &opened), 0);
		CHECK_EQ(io->operations->sync(io, opened), 0); /* the flip is on the disk before anything else happens */
		io->operations->close(io, opened);
		return true;
	}
	return false;
}

/* A full file without a footer, of which no block is whole: blocks behind it show that it held some. */
TEST(a_file_of_which_no_block_is_whole_is_accepted_and_sealed) {
	unsigned accepted_files = 0;
	for (uint64_t seed = 41; seed < 45; seed++) {
		make(&s, seed, false);
		for (size_t i = 1; i + 1 < s.files_count; i++) {
			file *f = &s.files[i];
			if (!is_unsealed(f) || !is_unsealed(&s.files[i + 1]))
				continue;
			wk_io *io;
			CHECK_EQ(wk_faulty_image(s.w.disk, 0, 1, &io), 0);
			wk_block_header header;
			for (uint64_t at = 0; wk_block_decode(f->bytes + at, f->size - at, &header) == WK_OK; at += header.size)
				CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), f->path, at + WK_BLOCK_HEADER_SIZE + 60, 3), 0);
			wk_abandon(open_accepting(io, WK_ON_DAMAGE_SKIP));
			opens_without_a_policy(io);
			io->operations->destroy(io);
			accepted_files++;
		}
		unmake(&s);
	}
	CHECK(accepted_files >= 2);
}

TEST(logs_cut_at_their_first_loss_open_without_a_policy_from_then_on) {
	make(&s, 22, true);
	unsigned opened = 0;
	const char *name = check_test_name;
	for (uint64_t seed = 1; seed <= 150; seed++) {
		wk_io *io = copy_with_damage(seed, 1 + (int)(seed % 3));
		wk_namespace *ns = open_accepting(io, WK_ON_DAMAGE_POINT_IN_TIME);
		if (ns != NULL) {
			wk_abandon(ns);
			opens_without_a_policy(io);
			opened++;
		}
		io->operations->destroy(io);
	}
	check_test_name = name;
	CHECK(opened > 75);
	unmake(&s);
}

TEST(a_power_cut_while_loss_is_accepted_changes_nothing) {
	unsigned cuts = 0;
	for (uint64_t seed = 31; seed < 39; seed++) {
		make(&s, seed, false);
		wk_io *io;
		CHECK_EQ(wk_faulty_image(s.w.disk, 0, 1, &io), 0);
		bool flipped = flip_a_scanned_block(io, seed);
		uint64_t begin = wk_faulty_trace_length(wk_faulty_of(io));
		wk_namespace *ns = flipped ? open_accepting(io, WK_ON_DAMAGE_SKIP) : NULL;
		if (ns != NULL) {
			accepted all[LOGS];
			for (size_t i = 0; i < LOGS; i++)
				all[i] = read_with_gaps(ns, i);
			wk_abandon(ns);
			uint64_t calls = wk_faulty_trace_length(wk_faulty_of(io));
			for (uint64_t at = begin; at <= calls; at++) {
				for (uint64_t chance = 0; chance < 4; chance++, cuts++) {
					wk_io *cut;
					CHECK_EQ(wk_faulty_image(wk_faulty_of(io), at, chance, &cut), 0);
					check_cut(cut, all);
					cut->operations->destroy(cut);
				}
			}
		}
		io->operations->destroy(io);
		unmake(&s);
	}
	printf("%u power cuts\n", cuts);
	CHECK(cuts > 100);
}

/* Full files that lack a footer are counted, as the journal waits for them: also where the open wrote those footers. */
TEST(after_accepted_loss_the_journal_goes_on_from_file_to_file) {
	make(&s, 51, false);
	wk_io *io;
	CHECK_EQ(wk_faulty_image(s.w.disk, 0, 1, &io), 0);
	CHECK(flip_a_scanned_block(io, 51));
	wk_namespace *ns = open_accepting(io, WK_ON_DAMAGE_SKIP);
	CHECK_EQ(ns->engine->footers_due, 0);
	int64_t next = read_with_gaps(ns, 0).next;
	for (int i = 0; i < 60; i++)
		append_one(ns, 0, next++);
	CHECK_EQ(read_with_gaps(ns, 0).next, next);
	wk_abandon(ns);
	io->operations->destroy(io);
	unmake(&s);
}

enum { BLOCKS = 60 };

static wk_status open_sized(wk_io *io, uint32_t on_damage, uint64_t file_size, wk_namespace **ns) {
	wk_error error = {0};
	wk_open_options options = manual_options(file_size);
	options.on_damage = on_damage;
	return wk_open_on(io, "wal", &options, ns, &error);
}

/* A file of lone blocks, every second of them damaged: more gaps than one small file takes the records of. */
static wk_io *many_damaged_blocks(void) {
	wk_io *made, *io;
	wk_namespace *ns;
	CHECK_EQ(wk_faulty_new(52, &made), 0);
	CHECK_EQ(open_sized(made, WK_ON_DAMAGE_STOP, 8 * FILE_BYTES, &ns), WK_OK);
	wk_log *log = NULL;
	CHECK_EQ(wk_log_open(ns, names[0], strlen(names[0]), true, NULL, &log, NULL), WK_OK);
	wk_log_release(log);
	for (int64_t i = 0; i < BLOCKS; i++)
		append_one(ns, 0, i);
	wk_store_file *active = ns->engine->active;
	char path[64];
	snprintf(path, sizeof path, "wal/journal/%016llx.wkj", (unsigned long long)active->id);
	uint64_t end = ns->engine->offset;
	wk_abandon(ns);
	CHECK_EQ(wk_faulty_image(wk_faulty_of(made), wk_faulty_trace_length(wk_faulty_of(made)), 1, &io), 0);
	made->operations->destroy(made);
	for (uint64_t at = end - 2 * (uint64_t)WK_BLOCK_ALIGNMENT; at > 20 * (uint64_t)WK_BLOCK_ALIGNMENT;
	     at -= 2 * (uint64_t)WK_BLOCK_ALIGNMENT)
		CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), path, at + WK_BLOCK_HEADER_SIZE + 4 + WK_ENTRY_HEADER_SIZE + 60, 2),
		         0);
	CHECK_EQ(wk_faulty_image(wk_faulty_of(io), wk_faulty_trace_length(wk_faulty_of(io)), 1, &made), 0);
	io->operations->destroy(io);
	return made;
}

/* What records the loss takes several files: none of the damaged ones is sealed before all of it is durable. */
TEST(loss_that_takes_files_to_record_is_recorded_before_it_is_sealed) {
	wk_io *io = many_damaged_blocks();
	wk_namespace *ns;
	CHECK_EQ(open_sized(io, WK_ON_DAMAGE_STOP, FILE_BYTES, &ns), WK_DAMAGED);
	uint64_t begin = wk_faulty_trace_length(wk_faulty_of(io));
	CHECK_EQ(open_sized(io, WK_ON_DAMAGE_SKIP, FILE_BYTES, &ns), WK_OK);
	accepted all = read_with_gaps(ns, 0);
	uint32_t files = 0;
	for (uint32_t i = 0; i < ns->engine->files_count; i++)
		files += ns->engine->files[i]->kind == WK_FILE_JOURNAL;
	printf("%lld lost, %u files\n", (long long)all.lost, files);
	CHECK(all.lost >= 16 && files >= 3);
	wk_abandon(ns);
	uint64_t calls = wk_faulty_trace_length(wk_faulty_of(io));
	for (uint64_t at = begin; at <= calls; at++) {
		wk_io *cut;
		CHECK_EQ(wk_faulty_image(wk_faulty_of(io), at, at, &cut), 0);
		wk_status status = open_sized(cut, WK_ON_DAMAGE_STOP, FILE_BYTES, &ns);
		if (status == WK_DAMAGED)
			status = open_sized(cut, WK_ON_DAMAGE_SKIP, FILE_BYTES, &ns);
		CHECK_EQ(status, WK_OK);
		accepted found = read_with_gaps(ns, 0);
		CHECK_EQ(found.lost, all.lost);
		CHECK_EQ(found.next, all.next);
		wk_abandon(ns);
		cut->operations->destroy(cut);
	}
	io->operations->destroy(io);
}

int main(void) {
	RUN(after_wiped_blocks_what_is_left_is_read_in_order_and_appends_go_on);
	RUN(a_file_of_which_no_block_is_whole_is_accepted_and_sealed);
	RUN(logs_cut_at_their_first_loss_open_without_a_policy_from_then_on);
	RUN(a_power_cut_while_loss_is_accepted_changes_nothing);
	RUN(after_accepted_loss_the_journal_goes_on_from_file_to_file);
	RUN(loss_that_takes_files_to_record_is_recorded_before_it_is_sealed);
	return check_done();
}
