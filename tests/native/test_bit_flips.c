/*
 * test_bit_flips.c: one bit turned anywhere in a small directory, then opened and read: everything is there as it was written, or the call says WK_DAMAGED and
 * names the file, or (the last block, not confirmed yet) a cut tail is reported. Never a record less without a word, never another record, never a crash.
 *
 *	test_bit_flips           some of every kind of structure, a sample of the rest
 *	test_bit_flips all       every bit of every byte (hours); those that accept the damage, of one bit of each byte
 *	test_bit_flips all K N   the same, of every N-th byte from byte K on, so that N processes share the work
 */
/* ctest labels: one-thread simulated */
#include "core/bytes.h"
#include "sim/faulty.h"
#include "small_wal.h"

/* What is turned beside, of all bytes; and bytes at least of each structure's header, body and padding, in each file. */
#ifdef __SANITIZE_ADDRESS__ /* slow, and asks another question */
enum { SAMPLE = 300, EACH = 1 };
#else
enum { SAMPLE = 2000, EACH = 3 };
#endif

static bool everything;
static uint64_t share, shares = 1; /* of all bytes, those whose offset leaves this remainder */

/* ---- looking at it ---- */

typedef struct outcome {
	bool damaged;       /* something said WK_DAMAGED ... */
	wk_error error;     /* ... with these words */
	int64_t next[LOGS]; /* sequence id behind the last record that was read */
	wk_recovery_report report;
} outcome;

static void expect_damage(outcome *o, wk_status status, const wk_error *error) {
	if (status != WK_DAMAGED)
		printf("status %d: %s\n", (int)status, error->text);
	CHECK_EQ(status, WK_DAMAGED);
	if (!o->damaged)
		o->error = *error;
	o->damaged = true;
}

static void read_log(subject *s, outcome *o, wk_namespace *ns, size_t i) {
	const bounds *promised = &s->w.promised[i];
	wk_log *log = NULL;
	wk_error error = {0};
	CHECK_EQ(wk_log_open(ns, names[i], strlen(names[i]), false, NULL, &log, &error), WK_OK);
	wk_log_info info = {0};
	wk_status status = wk_log_describe(log, &info, &error);
	wk_reader *reader = NULL;
	o->next[i] = -1;
	if (status == WK_OK)
		status = wk_reader_open(log, NULL, &reader, &error);
	if (status != WK_OK) {
		expect_damage(o, status, &error);
		wk_log_release(log);
		return;
	}
	CHECK_EQ(info.first.sequence_id, promised->first);
	CHECK_EQ(info.count, info.next.sequence_id - info.first.sequence_id);
	check_cursor(log, promised->cursor, promised->cursor);
	int64_t expected = info.first.sequence_id;
	payload_rule rule = rule_of(i);
	status = read_expected(reader, &rule, &expected, &error);
	if (status != WK_END)
		expect_damage(o, status, &error);
	else
		CHECK_EQ(expected, info.next.sequence_id);
	o->next[i] = info.next.sequence_id;
	wk_position at;
	int64_t wanted = info.first.sequence_id + info.count / 3;
	status = wk_log_find(log, WK_FIND_SEQUENCE_ID, wanted, NULL, &at, &error);
	if (status != WK_OK)
		expect_damage(o, status, &error);
	else
		CHECK_EQ(at.sequence_id, wanted);
	wk_reader_release(reader);
	wk_log_release(log);
}

static outcome look(subject *s, wk_io *io) {
	outcome o = {.next = {-1, -1}};
	wk_namespace *ns = NULL;
	wk_error error = {0};
	wk_status status = open_flat(io, WK_ON_DAMAGE_STOP, &ns, &error);
	if (status != WK_OK) {
		expect_damage(&o, status, &error);
		return o;
	}
	wk_namespace_recovery(ns, &o.report);
	for (size_t i = 0; i < LOGS; i++)
		read_log(s, &o, ns, i);
	wk_abandon(ns);
	return o;
}

/* ---- accepting it ---- */

static bool is_footer(const file *f, uint64_t offset) {
	return f->structure[offset] == FOOTER_PAGE || f->structure[offset] == FOOTER_TRAILER;
}

/* Of an entry log: its entries say where they are themselves. */
static bool is_page_of_items(const file *f, uint64_t offset) {
	wk_footer footer;
	if (strstr(f->path, ".wke") == NULL || f->structure[offset] != FOOTER_PAGE)
		return false;
	CHECK_EQ(wk_footer_decode(f->bytes + f->size - WK_PAGE_SIZE, &footer), WK_OK);
	return offset < wk_footer_item_page(&footer, footer.items_count - 1) + WK_PAGE_SIZE;
}

static bool is_block_header(const file *f, uint64_t offset) {
	enum structure structure = f->structure[offset];
	return f->part[offset] == HEADER &&
	       (structure == FIRST_BLOCK || structure == FIRST_BLOCK_UNSEALED || structure == LATER_BLOCK);
}

/*
 * One entry of the catalogue is lost: of the records, none is, whatever log they are found in. But an entry log whose
 * runs or trailer cannot be read is set aside as a whole, with entries of the catalogue too: what it held is not known.
 */
static void check_salvaged(subject *s, wk_io *io, wk_namespace *ns, const file *f, uint64_t offset,
                           const wk_recovery_report *report) {
	bool set_aside = report->lost_files == 1 && strstr(f->path, ".wke") != NULL && is_footer(f, offset);
	int64_t promised = 0, found = count_records_of_all(ns);
	wk_error error = {0};
	for (size_t i = 0; i < LOGS; i++)
		promised += s->w.promised[i].next - s->w.promised[i].first;
	if (found < promised && !set_aside)
		printf("%lld of %lld; lost records %llu, entries %llu, catalogue %llu, adopted %llu\n", (long long)found,
		       (long long)promised, (unsigned long long)report->lost_records, (unsigned long long)report->lost_entries,
		       (unsigned long long)report->catalogue_lost, (unsigned long long)report->adopted_ledgers);
	CHECK_EQ(report->lost_files, set_aside);
	CHECK(set_aside || found >= promised);
	CHECK(set_aside || report->catalogue_lost <= 1);
	CHECK_EQ(wk_close(ns, UINT64_MAX, &error), WK_OK);
	wk_status status = open_flat(io, WK_ON_DAMAGE_STOP, &ns, &error);
	if (status != WK_OK)
		printf("%s\n", error.text);
	CHECK_EQ(status, WK_OK);
	CHECK_EQ(count_records_of_all(ns), found);
	wk_abandon(ns);
	s->salvaged++;
	io->operations->destroy(io);
}

/*
 * The size of its contents that an envelope names once the bit is turned, where the byte is of that; else 0. Nobody can
 * tell this from a compressed envelope whose codec was turned.
 */
static uint32_t size_named(const file *f, uint64_t offset, uint32_t bit) {
	static const uint8_t not_compressed[] = {1, 0, 0, 0, 0}; /* its version and its flags; then the size, twice */
	enum { SIZE_AT = sizeof not_compressed, SIZE_SIZE = 4 };
	for (uint64_t i = 0; i < SIZE_SIZE && offset >= i + SIZE_AT; i++) {
		const uint8_t *start = f->bytes + offset - i - SIZE_AT, *size = start + SIZE_AT;
		bool is_envelope = offset - i + 2 * SIZE_SIZE <= f->size && memcmp(start, not_compressed, SIZE_AT) == 0 &&
		                   memcmp(size, size + SIZE_SIZE, SIZE_SIZE) == 0;
		if (is_envelope)
			return wk_load_be32(size) ^ 1u << (8 * (SIZE_SIZE - 1 - i) + bit);
	}
	return 0;
}

/* Where it cannot be told how many records the structure around this byte held: at most as many as fit in its bytes. */
static int64_t records_fit(const file *f, uint64_t offset, uint32_t bit) {
	uint32_t named = size_named(f, offset, bit);
	if (named > 0 && named <= WK_ENVELOPE_SIZE_MAX)
		return named / WK_RECORD_HEADER_SIZE;
	uint64_t begin = offset, end = offset;
	while (begin > 0 && !(f->part[begin] == HEADER && f->part[begin - 1] != HEADER))
		begin--;
	while (end < f->size && f->part[end] == HEADER)
		end++;
	while (end < f->size && f->part[end] != HEADER)
		end++;
	return (int64_t)((end - begin) / WK_RECORD_HEADER_SIZE);
}

static void accept(subject *s, const file *f, uint64_t offset, uint32_t bit, uint32_t on_damage) {
	wk_io *io;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	CHECK_EQ(wk_faulty_image(s->w.disk, 0, 1, &io), 0);
	CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), f->path, offset, bit), 0);
	bool check_all = (offset + bit) % 2 == 0;
	rehearsed shown = rehearse(io, on_damage, check_all);
	wk_status status = open_checking(io, on_damage, check_all, &ns, &error);
	if (status != WK_OK)
		printf("%s\n", error.text);
	CHECK_EQ(status, WK_OK);
	wk_recovery_report report;
	wk_namespace_recovery(ns, &report);
	if (shown.any) {
		CHECK_EQ(shown.report.lost_records, report.lost_records);
		CHECK_EQ(shown.report.catalogue_lost, report.catalogue_lost);
		CHECK_EQ(shown.report.lost_files, report.lost_files);
		CHECK_EQ(shown.records, count_records_of_all(ns));
		s->rehearsed++;
	}
	if (report.catalogue_lost > 0 || report.adopted_ledgers > 0) {
		check_salvaged(s, io, ns, f, offset, &report);
		return;
	}
	bool found_at_open = report.damaged_blocks + report.lost_files > 0 || check_all;
	if (on_damage == WK_ON_DAMAGE_SKIP || found_at_open) { /* else it surfaces when it is read, as under stop */
		accepted all[LOGS];
		int64_t lost = 0;
		for (size_t i = 0; i < LOGS; i++) {
			all[i] = read_with_gaps(ns, i);
			lost += all[i].lost;
			CHECK_EQ(all[i].first, s->w.promised[i].first);
			CHECK(all[i].next <= s->w.promised[i].next + records_fit(f, offset, bit));
			if (f->use[offset] != LAST_BLOCK && report.unknown_blocks == 0)
				CHECK(all[i].next >= s->w.promised[i].next);
			if (on_damage == WK_ON_DAMAGE_POINT_IN_TIME && all[i].lost > 0)
				CHECK_EQ(all[i].last_lost, all[i].next);
		}
		if (found_at_open)
			CHECK_EQ(lost, report.lost_records);
		if (is_block_header(f, offset)) /* its entries are intact */
			CHECK_EQ(lost, 0);
		s->lossy += lost > 0;
		s->unknown += report.unknown_blocks > 0;
		live_on(io, ns, all, found_at_open);
	} else {
		wk_abandon(ns);
	}
	s->accepted++;
	io->operations->destroy(io);
}

/* ---- one flip ---- */

/* As it is called below the directory. */
static bool names_file(const outcome *o, const file *f) {
	return strstr(o->error.text, f->path + strlen("wal/")) != NULL;
}

static void check_outcome(subject *s, const outcome *o, const file *f, uint64_t offset) {
	enum use use = f->use[offset];
	if (o->damaged) {
		CHECK_EQ(use, USED);
		CHECK(!is_page_of_items(f, offset));
		CHECK(f->id != 0); /* one slot of the superblock is enough, and an index file is a cache */
		if (!names_file(o, f))
			printf("%s\n", o->error.text);
		CHECK(names_file(o, f));
		s->damaged++;
		return;
	}
	bool whole = true;
	for (size_t i = 0; i < LOGS; i++) {
		CHECK(o->next[i] <= s->w.promised[i].next);
		whole &= o->next[i] == s->w.promised[i].next;
	}
	if (use == UNUSED)
		CHECK_EQ(o->report.cut_bytes, 0);
	if (use == LAST_BLOCK) {
		CHECK_EQ(o->report.cut_file, f->id);
		CHECK(o->report.cut_bytes > 0);
		CHECK_EQ(whole, s->confirmed);
		s->cut++;
	} else {
		CHECK(whole);
		s->same++;
	}
}

static void turn(subject *s, const file *f, uint64_t offset, uint32_t bit) {
	wk_io *io;
	CHECK_EQ(wk_faulty_image(s->w.disk, 0, 1, &io), 0);
	CHECK_EQ(wk_faulty_flip(wk_faulty_of(io), f->path, offset, bit), 0);
	static char where[128];
	snprintf(where, sizeof where, "bit %u of byte %llu of %s", bit, (unsigned long long)offset, f->path);
	const char *name = check_test_name;
	check_test_name = where;
	outcome o = look(s, io);
	check_outcome(s, &o, f, offset);
	io->operations->destroy(io);
	/* Of every bit of every byte, one of a byte: what they are accepted as depends on the byte. */
	if (o.damaged && (!everything || bit == offset / 2 % 8)) {
		accept(s, f, offset, bit, WK_ON_DAMAGE_SKIP);
		accept(s, f, offset, bit, WK_ON_DAMAGE_POINT_IN_TIME);
	}
	check_test_name = name;
}

/* ---- all of them ---- */

/* One stratum of the sample: what is taken of one part of one structure of a file. */
typedef struct stratum {
	uint64_t seen, taken[EACH];
} stratum;

/* A reservoir: every byte of the file is as likely as another of its stratum. */
static void take_some(const file *f, stratum strata[STRUCTURES][PARTS], uint64_t *seed) {
	memset(strata, 0, STRUCTURES * sizeof *strata);
	for (uint64_t at = 0; at < f->size; at++) {
		stratum *one = &strata[f->structure[at]][f->part[at]];
		uint64_t place = one->seen < EACH ? one->seen : check_random(seed) % (one->seen + 1);
		if (place < EACH)
			one->taken[place] = at;
		one->seen++;
	}
}

/* Which bits of this byte to turn. A sample: of every stratum some bytes, all bits of those in a header, and of the rest some by the seed. */
static unsigned choose(const file *f, uint64_t at, const stratum *one, uint64_t total, uint64_t *seed) {
	if (everything)
		return at % shares == share ? 0xff : 0;
	bool taken = false;
	for (uint64_t k = 0; k < EACH && k < one->seen; k++)
		taken |= one->taken[k] == at;
	if (taken && f->structure[at] != NO_STRUCTURE && f->part[at] == HEADER)
		return 0xff;
	return taken || check_random(seed) % total < SAMPLE ? 1u << at % 8 : 0;
}

static void turn_many(subject *s, uint64_t seed) {
	static stratum strata[STRUCTURES][PARTS];
	uint64_t total = 0;
	for (size_t i = 0; i < s->files_count; i++)
		total += s->files[i].size;
	for (size_t i = 0; i < s->files_count; i++) {
		const file *f = &s->files[i];
		take_some(f, strata, &seed);
		for (uint64_t at = 0; at < f->size; at++) {
			unsigned bits = choose(f, at, &strata[f->structure[at]][f->part[at]], total, &seed);
			for (uint32_t bit = 0; bit < 8; bit++)
				if (bits >> bit & 1)
					turn(s, f, at, bit);
			s->turned[f->structure[at]][f->part[at]] += bits != 0;
		}
	}
}

static unsigned count_unsealed(const subject *s) {
	unsigned count = 0;
	for (size_t i = 0; i < s->files_count; i++)
		count += s->files[i].structure[0] == FIRST_BLOCK_UNSEALED;
	return count;
}

/* A kind of structure that this directory does not have would go unattacked without a word. */
static void check_strata(const subject *s, bool closed) {
	static const char *const part_names[PARTS] = {"header", "body", "padding"};
	for (int structure = SUPERBLOCK_SLOT; structure < STRUCTURES; structure++) {
		bool expected = closed || (structure != INDEX_HEADER && structure != INDEX_PAGE);
		for (int part = HEADER; part < PARTS && expected; part++) {
			bool padded = part != PADDING || structure != MOVED_ENTRY;
			if (padded && s->turned[structure][part] == 0)
				printf("no %s of a %s\n", part_names[part], structure_names[structure]);
			CHECK(!padded || s->turned[structure][part] > 0);
		}
	}
}

static subject s;

static void check_subject(uint64_t seed, bool closed) {
	make(&s, seed, closed);
	CHECK(count_files(&s, ".wkj") >= 4);
	CHECK(count_files(&s, ".wke") >= 1);
	CHECK(closed || count_unsealed(&s) >= 2); /* one of them has others behind it, and can be passed over */
	outcome untouched = look(&s, s.w.io);
	CHECK(!untouched.damaged);
	unmake(&s);
	make(&s, seed, closed);
	turn_many(&s, seed);
	printf("%u the same, %u damaged, %u cut; accepted %u, of these %u with gaps and %u with blocks unknown; salvaged "
	       "%u; read without writing %u\n",
	       s.same, s.damaged, s.cut, s.accepted, s.lossy, s.unknown, s.salvaged, s.rehearsed);
	CHECK(s.same > 0 && s.damaged > 0 && s.cut > 0);
	CHECK(s.accepted > s.salvaged && s.lossy > 0 && s.salvaged > 0 && s.rehearsed > 0);
	if (shares == 1) /* no share has a byte of each */
		check_strata(&s, closed);
	unmake(&s);
}

TEST(a_bit_turned_in_a_closed_directory_is_mended_or_named) {
	check_subject(check_seed(11), true);
}

TEST(a_bit_turned_after_a_kill_is_mended_or_named_or_cut_with_the_unconfirmed_block) {
	check_subject(check_seed(12), false);
}

int main(int count, char **arguments) {
	everything = count > 1 && strcmp(arguments[1], "all") == 0;
	if (everything && count > 3) {
		share = strtoull(arguments[2], NULL, 10);
		shares = strtoull(arguments[3], NULL, 10);
	}
	RUN(a_bit_turned_after_a_kill_is_mended_or_named_or_cut_with_the_unconfirmed_block);
	RUN(a_bit_turned_in_a_closed_directory_is_mended_or_named);
	return check_done();
}
