/*
 * test_bit_flips.c: one bit turned anywhere in a small directory, then opened and read: everything is there as it was written, or the call says WK_DAMAGED and
 * names the file, or (the last block, not confirmed yet) a cut tail is reported. Never a record less without a word, never another record, never a crash.
 *
 *	test_bit_flips           all bits of headers, footers and superblock of some places, a sample of the rest
 *	test_bit_flips all       every bit of every byte (hours)
 */
#include "engine/catalogue.h"
#include "engine/store_file.h"
#include "walkeeper/superblock.h"
#include "workload.h"

enum { FILE_BYTES = 64 * 1024, FILES_MAX = 32, FILE_ID_MAX = 64, SAMPLE = 3000 };

enum use { UNUSED, USED, LAST_BLOCK };

typedef struct file {
	char path[64];
	uint64_t id; /* 0: the superblock */
	size_t size;
	uint8_t *bytes;
	uint8_t *use;      /* of each byte */
	uint8_t *headline; /* whether all its bits are always turned */
} file;

/* The directory under test: every flip is made in a copy of its disk. */
typedef struct subject {
	workload w;
	file files[FILES_MAX];
	size_t files_count;
	bool confirmed;
	unsigned damaged, cut, same; /* outcomes */
} subject;

/* ---- making it ---- */

static wk_status open_flat(wk_io *io, wk_namespace **ns, wk_error *error) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.manual = true;
	options.file_size_min = options.file_size_max = FILE_BYTES;
	options.sync_method = WK_SYNC_DSYNC;
	*ns = NULL;
	return wk_open_on(io, "wal", &options, ns, error);
}

static void open_all(workload *w) {
	CHECK_EQ(open_flat(w->io, &w->ns, &w->error), WK_OK);
	for (size_t i = 0; i < LOGS; i++) {
		w->possible[i].exists = w->promised[i].exists = true;
		CHECK_EQ(wk_log_open(w->ns, names[i], strlen(names[i]), true, NULL, &w->logs[i], &w->error), WK_OK);
		CHECK_EQ(wk_writer_open(w->logs[i], &w->writers[i], &w->error), WK_OK);
	}
}

static void close_in_order(workload *w) {
	for (size_t i = 0; i < LOGS; i++) {
		CHECK_EQ(wk_writer_close(w->writers[i], UINT64_MAX, &w->error), WK_OK);
		w->writers[i] = NULL;
	}
	release_logs(w);
	CHECK_EQ(wk_close(w->ns, UINT64_MAX, &w->error), WK_OK);
	w->ns = NULL;
}

static void some_appends(workload *w, int rounds) {
	for (int i = 0; i < rounds; i++) {
		CHECK(append(w, (size_t)i % 2, 1, false, false));
		CHECK(append(w, (size_t)i % 2, 3, i % 3 == 0, false));
		if (i % 4 == 3)
			CHECK(work_in_background(w));
	}
}

static void let_background_work(workload *w) {
	for (int i = 0; i < 30; i++)
		CHECK(work_in_background(w));
}

/* The first log is thinned out, so that what the second has in the same files is moved to an entry log. */
static void truncate_first(workload *w) {
	wk_position at;
	CHECK_EQ(wk_log_find(w->logs[0], WK_FIND_SEQUENCE_ID, w->promised[0].next - 2, NULL, &at, &w->error), WK_OK);
	CHECK_EQ(wk_log_truncate(w->logs[0], &at.dlsn, true, &w->error), WK_OK);
	w->promised[0].first = w->possible[0].first = at.sequence_id;
}

static void mark(file *f, uint64_t from, uint64_t to, enum use use) {
	assert(from <= to && to <= f->size);
	memset(f->use + from, (int)use, to - from);
}

static void mark_headline(file *f, uint64_t from, uint64_t to) { memset(f->headline + from, 1, to - from); }

static void mark_footer(file *f) {
	wk_footer footer;
	if (f->size < WK_PAGE_SIZE || wk_footer_decode(f->bytes + f->size - WK_PAGE_SIZE, &footer) != WK_OK || footer.file_id != f->id)
		return;
	uint64_t size = wk_footer_size(footer.items_count, footer.runs_count, footer.states_count);
	mark(f, f->size - size, f->size, USED);
	mark_headline(f, f->size - size, f->size - size + 64);
	mark_headline(f, f->size - WK_PAGE_SIZE, f->size - WK_PAGE_SIZE + 112);
	if (footer.kind == WK_FILE_ENTRY_LOG)
		mark(f, 0, footer.end_offset, USED);
}

/* The blocks of the file; *last and *end are those of the block with the highest sequence of all files. */
static void mark_blocks(file *f, uint64_t *highest, file **last_file, uint64_t *last_offset) {
	wk_block_header header;
	for (uint64_t at = 0; at < f->size && wk_block_decode(f->bytes + at, f->size - at, &header) == WK_OK && header.epoch == f->id && header.offset == at;
	     at += header.size) {
		mark(f, at, at + header.size, USED);
		mark_headline(f, at, at + WK_BLOCK_HEADER_SIZE + 4 + WK_ENTRY_HEADER_SIZE + 4);
		if (header.sequence > *highest) {
			*highest = header.sequence;
			*last_file = f;
			*last_offset = at;
		}
	}
}

static void add_file(subject *s, uint64_t id, const char *path) {
	int64_t size = wk_faulty_file_size(s->w.disk, path);
	if (size <= 0)
		return;
	CHECK(s->files_count < FILES_MAX);
	file *f = &s->files[s->files_count++];
	*f = (file){.id = id, .size = (size_t)size, .bytes = malloc((size_t)size), .use = calloc(1, (size_t)size), .headline = calloc(1, (size_t)size)};
	snprintf(f->path, sizeof f->path, "%s", path);
	CHECK_EQ(wk_faulty_read_file(s->w.disk, path, f->bytes, f->size, 0), size);
}

static void map_files(subject *s) {
	char path[64];
	add_file(s, 0, "wal/superblock");
	mark(&s->files[0], 0, s->files[0].size, USED);
	mark_headline(&s->files[0], 0, 168);
	mark_headline(&s->files[0], WK_SUPERBLOCK_SLOT_SIZE, WK_SUPERBLOCK_SLOT_SIZE + 168);
	for (uint64_t id = 1; id < FILE_ID_MAX; id++) {
		snprintf(path, sizeof path, "wal/journal/%016llx.wkj", (unsigned long long)id);
		add_file(s, id, path);
		snprintf(path, sizeof path, "wal/entries/%016llx.wke", (unsigned long long)id);
		add_file(s, id, path);
	}
	uint64_t highest = 0, last_offset = 0;
	file *last = NULL;
	for (size_t i = 1; i < s->files_count; i++) {
		if (strstr(s->files[i].path, ".wkj") != NULL)
			mark_blocks(&s->files[i], &highest, &last, &last_offset);
		mark_footer(&s->files[i]);
	}
	CHECK(last != NULL);
	wk_block_header header;
	CHECK_EQ(wk_block_decode(last->bytes + last_offset, last->size - last_offset, &header), WK_OK);
	s->confirmed = (header.flags & WK_BLOCK_CONFIRM) != 0;
	mark(last, last_offset, last_offset + header.size, LAST_BLOCK);
}

static size_t count_files(const subject *s, const char *kind) {
	size_t count = 0;
	for (size_t i = 0; i < s->files_count; i++)
		count += strstr(s->files[i].path, kind) != NULL;
	return count;
}

/* Sealed files, an entry log, a file under way; on a disk of its own where nothing is pending. */
static void make(subject *s, uint64_t seed, bool closed) {
	memset(s, 0, sizeof *s);
	workload *w = &s->w;
	bool idle;
	make_disk(w, seed);
	open_all(w);
	some_appends(w, 40);
	let_background_work(w);
	truncate_first(w);
	let_background_work(w);
	for (int i = 0; i < 20; i++) { /* full files, which nobody moves, and lone records, mostly padding */
		CHECK(append(w, (size_t)i % 2, BATCH_MAX, i % 3 == 0, false));
		CHECK(append(w, (size_t)i % 2, 1, false, i % 2 == 0));
		CHECK(wk_namespace_step(w->ns, &idle, &w->error) == WK_OK);
	}
	CHECK(move_cursor(w, 1));
	if (closed) {
		close_in_order(w);
		open_all(w);
	}
	CHECK(append(w, 0, 2, false, false));
	CHECK(append(w, 1, 2, false, false));
	if (closed)
		close_in_order(w);
	else
		abandon(w);
	wk_faulty_kill(w->disk);
	wk_io *settled; /* what is durable, without the trace of how it came about */
	CHECK_EQ(wk_faulty_image(w->disk, wk_faulty_trace_length(w->disk), 1, &settled), 0);
	w->io->operations->destroy(w->io);
	w->io = settled;
	w->disk = wk_faulty_of(settled);
	map_files(s);
	CHECK_EQ(s->confirmed, closed);
}

static void unmake(subject *s) {
	for (size_t i = 0; i < s->files_count; i++) {
		free(s->files[i].bytes);
		free(s->files[i].use);
		free(s->files[i].headline);
	}
	s->w.io->operations->destroy(s->w.io);
}

/* ---- looking at it ---- */

typedef struct outcome {
	bool damaged;      /* something said WK_DAMAGED ... */
	wk_error error;    /* ... with these words */
	int64_t next[LOGS];/* sequence id behind the last record that was read */
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
	static uint8_t payload[PAYLOAD_MAX];
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
	wk_batch *batch;
	while ((status = wk_reader_next(reader, 1000, 1 << 20, 0, &batch, &error)) == WK_OK) {
		size_t count;
		const wk_record *records = wk_batch_records(batch, &count);
		for (size_t k = 0; k < count; k++, expected++) {
			CHECK_EQ(records[k].kind, WK_RECORD_DATA);
			CHECK_EQ(records[k].at.sequence_id, expected);
			CHECK_EQ(records[k].size, size_of(i, expected));
			fill(i, expected, payload);
			CHECK(memcmp(records[k].payload, payload, records[k].size) == 0);
		}
		wk_batch_release(batch);
	}
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
	wk_status status = open_flat(io, &ns, &error);
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

/* ---- one flip ---- */

static bool names_file(const outcome *o, const file *f) {
	char number[32], name[32];
	snprintf(number, sizeof number, " %llu ", (unsigned long long)f->id);
	snprintf(name, sizeof name, " %llu:", (unsigned long long)f->id);
	return strstr(o->error.text, number) != NULL || strstr(o->error.text, name) != NULL;
}

static void check_outcome(subject *s, const outcome *o, const file *f, uint64_t offset) {
	enum use use = f->use[offset];
	if (o->damaged) {
		CHECK_EQ(use, USED);
		CHECK(f->id != 0); /* one slot of the superblock is enough */
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
	check_test_name = name;
	io->operations->destroy(io);
}

/* ---- all of them ---- */

static bool everything;

/* Of the headlines one bit of each byte here and there, all bits of some; the rest is a sample by the seed. */
static void turn_many(subject *s, uint64_t seed) {
	uint64_t total = 0;
	for (size_t i = 0; i < s->files_count; i++)
		total += s->files[i].size;
	for (size_t i = 0; i < s->files_count; i++) {
		const file *f = &s->files[i];
		for (uint64_t at = 0; at < f->size; at++) {
			bool chosen = check_random(&seed) % total < SAMPLE, head = f->headline[at] && check_random(&seed) % 32 == 0;
			for (uint32_t bit = 0; bit < 8; bit++)
				if (everything || (chosen && bit == at % 8) || head)
					turn(s, f, at, bit);
		}
	}
}

static subject s;

static void check_subject(uint64_t seed, bool closed) {
	make(&s, seed, closed);
	CHECK(count_files(&s, ".wkj") >= 4);
	CHECK(count_files(&s, ".wke") >= 1);
	outcome untouched = look(&s, s.w.io);
	CHECK(!untouched.damaged);
	unmake(&s);
	make(&s, seed, closed);
	turn_many(&s, seed);
	printf("%u the same, %u damaged, %u cut\n", s.same, s.damaged, s.cut);
	CHECK(s.same > 0 && s.damaged > 0 && s.cut > 0);
	unmake(&s);
}

TEST(a_bit_turned_in_a_closed_directory_is_mended_or_named) { check_subject(11, true); }

TEST(a_bit_turned_after_a_kill_is_mended_or_named_or_cut_with_the_unconfirmed_block) { check_subject(12, false); }

int main(int count, char **arguments) {
	everything = count > 1 && strcmp(arguments[1], "all") == 0;
	RUN(a_bit_turned_in_a_closed_directory_is_mended_or_named);
	RUN(a_bit_turned_after_a_kill_is_mended_or_named_or_cut_with_the_unconfirmed_block);
	return check_done();
}
