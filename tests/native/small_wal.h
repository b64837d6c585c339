/*
 * small_wal.h: a small directory on the faulty disk, with sealed files, an entry log and a file under way; which of its bytes belong to a structure; and what is read of it where loss was accepted.
 */
#ifndef SMALL_WAL_H
#define SMALL_WAL_H
#include "check_status.h"
#include "core/index_file.h"
#include "core/superblock.h"
#include "engine/catalogue/catalogue.h"
#include "engine/index/store_file.h"
#include "engine/manual.h"
#include "manual_options.h"
#include "sim/faulty.h"
#include "workload.h"

enum { FILE_BYTES = 64 * 1024, FILES_MAX = 32, FILE_ID_MAX = 64 };

enum use { UNUSED, USED, LAST_BLOCK };

/* What a byte belongs to ... */
enum structure {
	NO_STRUCTURE,
	SUPERBLOCK_SLOT,
	FIRST_BLOCK,          /* of a file with a footer */
	FIRST_BLOCK_UNSEALED, /* of one without: nothing but the chain tells that it is missing */
	LATER_BLOCK,
	MOVED_ENTRY,
	FOOTER_PAGE,
	FOOTER_TRAILER,
	INDEX_HEADER,
	INDEX_PAGE,
	STRUCTURES
};
static const char *const structure_names[STRUCTURES] = {
    "no structure", "superblock slot", "first block", "first block of an unsealed file",
    "later block",  "moved entry",     "footer page", "footer trailer",
    "index header", "index page"};

/* ... and as what. */
enum part { HEADER, BODY, PADDING, PARTS };

typedef struct file {
	char path[64];
	uint64_t id; /* 0: the superblock or an index file */
	size_t size;
	uint8_t *bytes;
	uint8_t *use; /* of each byte, as the next two */
	uint8_t *structure;
	uint8_t *part;
} file;

/* The directory under test: every flip is made in a copy of its disk. */
typedef struct subject {
	workload w;
	file files[FILES_MAX];
	size_t files_count;
	bool confirmed;
	unsigned damaged, cut, same;                            /* outcomes */
	unsigned accepted, salvaged, lossy, unknown, rehearsed; /* of accepting them */
	unsigned turned[STRUCTURES][PARTS];                     /* bytes that the sample had to take */
} subject;

/* ---- making it ---- */

static inline wk_status open_checking(wk_io *io, uint32_t on_damage, bool check_all, wk_namespace **ns,
                                      wk_error *error) {
	wk_open_options options = manual_options(FILE_BYTES);
	options.on_damage = on_damage;
	options.check_all = check_all;
	*ns = NULL;
	return wk_open_on(io, "wal", &options, ns, error);
}

static inline wk_status open_flat(wk_io *io, uint32_t on_damage, wk_namespace **ns, wk_error *error) {
	return open_checking(io, on_damage, false, ns, error);
}

static inline void open_all(workload *w) {
	CHECK_EQ(open_flat(w->io, WK_ON_DAMAGE_STOP, &w->ns, &w->error), WK_OK);
	for (size_t i = 0; i < LOGS; i++) {
		w->possible[i].exists = w->promised[i].exists = true;
		CHECK_EQ(wk_log_open(w->ns, names[i], strlen(names[i]), true, NULL, &w->logs[i], &w->error), WK_OK);
		CHECK_EQ(wk_writer_open(w->logs[i], &w->writers[i], &w->error), WK_OK);
	}
}

static inline void close_in_order(workload *w) {
	for (size_t i = 0; i < LOGS; i++) {
		CHECK_EQ(wk_writer_close(w->writers[i], UINT64_MAX, &w->error), WK_OK);
		w->writers[i] = NULL;
	}
	release_logs(w);
	CHECK_EQ(wk_close(w->ns, UINT64_MAX, &w->error), WK_OK);
	w->ns = NULL;
}

static inline void some_appends(workload *w, int rounds) {
	for (int i = 0; i < rounds; i++) {
		CHECK(append(w, (size_t)i % 2, 1, false, false));
		CHECK(append(w, (size_t)i % 2, 3, i % 3 == 0, false));
		if (i % 4 == 3)
			CHECK(work_in_background(w));
	}
}

static inline void let_background_work(workload *w) {
	for (int i = 0; i < 30; i++)
		CHECK(work_in_background(w));
}

/* The first log is thinned out, so that what the second has in the same files is moved to an entry log. */
static inline void truncate_first(workload *w) {
	wk_position at;
	CHECK_EQ(wk_log_find(w->logs[0], WK_FIND_SEQUENCE_ID, w->promised[0].next - 2, NULL, &at, &w->error), WK_OK);
	CHECK_EQ(wk_log_truncate(w->logs[0], &at.dlsn, true, &w->error), WK_OK);
	w->promised[0].first = w->possible[0].first = at.sequence_id;
}

static inline void mark(file *f, uint64_t from, uint64_t to, enum use use) {
	assert(from <= to && to <= f->size);
	memset(f->use + from, (int)use, to - from);
}

/* `header` bytes, then what the structure holds, then zeros up to its end. */
static inline void mark_structure(file *f, enum structure structure, uint64_t from, uint64_t to, uint64_t header) {
	assert(from + header <= to && to <= f->size);
	uint64_t end = to;
	while (end > from + header && f->bytes[end - 1] == 0)
		end--;
	memset(f->structure + from, (int)structure, to - from);
	memset(f->part + from, HEADER, header);
	memset(f->part + from + header, BODY, end - from - header);
	memset(f->part + end, PADDING, to - end);
}

enum { PAGE_HEADER_SIZE = 8 }; /* of the pages of footers and index files */

static inline void mark_moved_entries(file *f, const wk_footer *footer) {
	mark(f, 0, footer->end_offset, USED);
	uint32_t count = 0;
	for (uint32_t i = 0; i < footer->items_count; i += count) {
		wk_footer_item items[WK_PAGE_ITEMS];
		uint64_t page = wk_footer_item_page(footer, i);
		CHECK_EQ(wk_footer_items(footer, f->bytes + page, page, items, &count), WK_OK);
		for (uint32_t k = 0; k < count; k++)
			mark_structure(f, MOVED_ENTRY, items[k].offset, items[k].offset + items[k].size, WK_ENTRY_HEADER_SIZE);
	}
}

/* Returns whether it has one. */
static inline bool mark_footer(file *f) {
	wk_footer footer;
	if (f->size < WK_PAGE_SIZE || wk_footer_decode(f->bytes + f->size - WK_PAGE_SIZE, &footer) != WK_OK ||
	    footer.file_id != f->id)
		return false;
	uint64_t size = wk_footer_size(footer.items_count, footer.runs_count, footer.states_count);
	mark(f, f->size - size, f->size, USED);
	for (uint64_t at = f->size - size; at < f->size - WK_PAGE_SIZE; at += WK_PAGE_SIZE)
		mark_structure(f, FOOTER_PAGE, at, at + WK_PAGE_SIZE, PAGE_HEADER_SIZE);
	mark_structure(f, FOOTER_TRAILER, f->size - WK_PAGE_SIZE, f->size, PAGE_HEADER_SIZE);
	if (footer.kind == WK_FILE_ENTRY_LOG)
		mark_moved_entries(f, &footer);
	return true;
}

/* The blocks of the file; *last and *end are those of the block with the highest sequence of all files. */
static inline void mark_blocks(file *f, bool sealed, uint64_t *highest, file **last_file, uint64_t *last_offset) {
	wk_block_header header;
	for (uint64_t at = 0; at < f->size && wk_block_decode(f->bytes + at, f->size - at, &header) == WK_OK &&
	                      header.epoch == f->id && header.offset == at;
	     at += header.size) {
		mark(f, at, at + header.size, USED);
		mark_structure(f,
		               at > 0   ? LATER_BLOCK
		               : sealed ? FIRST_BLOCK
		                        : FIRST_BLOCK_UNSEALED,
		               at, at + header.size, WK_BLOCK_HEADER_SIZE);
		if (header.sequence > *highest) {
			*highest = header.sequence;
			*last_file = f;
			*last_offset = at;
		}
	}
}

static inline void mark_index(file *f) {
	mark(f, 0, f->size, USED);
	mark_structure(f, INDEX_HEADER, 0, WK_PAGE_SIZE, PAGE_HEADER_SIZE);
	for (uint64_t at = WK_PAGE_SIZE; at < f->size; at += WK_PAGE_SIZE)
		mark_structure(f, INDEX_PAGE, at, at + WK_PAGE_SIZE, PAGE_HEADER_SIZE);
}

static inline void add_file(subject *s, uint64_t id, const char *path) {
	int64_t size = wk_faulty_file_size(s->w.disk, path);
	if (size <= 0)
		return;
	CHECK(s->files_count < FILES_MAX);
	file *f = &s->files[s->files_count++];
	*f = (file){.id = id,
	            .size = (size_t)size,
	            .bytes = malloc((size_t)size),
	            .use = calloc(1, (size_t)size),
	            .structure = calloc(1, (size_t)size),
	            .part = calloc(1, (size_t)size)};
	snprintf(f->path, sizeof f->path, "%s", path);
	CHECK_EQ(wk_faulty_read_file(s->w.disk, path, f->bytes, f->size, 0), size);
}

static inline void map_files(subject *s) {
	char path[64];
	add_file(s, 0, "wal/superblock");
	mark(&s->files[0], 0, s->files[0].size, USED);
	for (uint64_t at = 0; at < s->files[0].size; at += WK_SUPERBLOCK_SLOT_SIZE)
		mark_structure(&s->files[0], SUPERBLOCK_SLOT, at, at + WK_SUPERBLOCK_SLOT_SIZE, PAGE_HEADER_SIZE);
	for (uint64_t id = 1; id < FILE_ID_MAX; id++) {
		snprintf(path, sizeof path, "wal/journal/%016llx.wkj", (unsigned long long)id);
		add_file(s, id, path);
		snprintf(path, sizeof path, "wal/entries/%016llx.wke", (unsigned long long)id);
		add_file(s, id, path);
		snprintf(path, sizeof path, "wal/index/%016llx.wki", (unsigned long long)id);
		add_file(s, 0, path);
	}
	uint64_t highest = 0, last_offset = 0;
	file *last = NULL;
	for (size_t i = 1; i < s->files_count; i++) {
		if (strstr(s->files[i].path, ".wki") != NULL) {
			mark_index(&s->files[i]);
			continue;
		}
		bool sealed = mark_footer(&s->files[i]);
		if (strstr(s->files[i].path, ".wkj") != NULL)
			mark_blocks(&s->files[i], sealed, &highest, &last, &last_offset);
	}
	CHECK(last != NULL);
	wk_block_header header;
	CHECK_EQ(wk_block_decode(last->bytes + last_offset, last->size - last_offset, &header), WK_OK);
	s->confirmed = (header.flags & WK_BLOCK_CONFIRM) != 0;
	mark(last, last_offset, last_offset + header.size, LAST_BLOCK);
}

static inline size_t count_files(const subject *s, const char *kind) {
	size_t count = 0;
	for (size_t i = 0; i < s->files_count; i++)
		count += strstr(s->files[i].path, kind) != NULL;
	return count;
}

/* Sealed files, an entry log, a file under way; on a disk of its own where nothing is pending. */
static inline void make(subject *s, uint64_t seed, bool closed) {
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
	for (int i = 0; i < 6 && !closed; i++) /* full files that have no footer yet */
		CHECK(append(w, (size_t)i % 2, BATCH_MAX, false, false));
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

static inline void unmake(subject *s) {
	for (size_t i = 0; i < s->files_count; i++) {
		free(s->files[i].bytes);
		free(s->files[i].use);
		free(s->files[i].structure);
		free(s->files[i].part);
	}
	s->w.io->operations->destroy(s->w.io);
}

/* ---- reading it where loss was accepted ---- */

/* What is read of one log where loss was accepted: every sequence id is there, or in a gap. */
typedef struct accepted {
	int64_t first, next, lost, last_lost; /* sequence ids; last_lost: behind the last gap */
} accepted;

static inline accepted read_with_gaps(wk_namespace *ns, size_t i) {
	wk_log *log = NULL;
	wk_error error = {0};
	wk_log_info info;
	wk_reader *reader = NULL;
	CHECK_EQ(wk_log_open(ns, names[i], strlen(names[i]), false, NULL, &log, &error), WK_OK);
	CHECK_EQ(wk_log_describe(log, &info, &error), WK_OK);
	CHECK_EQ(wk_reader_open(log, NULL, &reader, &error), WK_OK);
	accepted a = {.first = info.first.sequence_id, .next = info.first.sequence_id, .last_lost = -1};
	wk_batch *batch;
	wk_status status;
	while ((status = wk_reader_next(reader, 1000, 1 << 20, 0, &batch, &error)) == WK_OK) {
		size_t count;
		const wk_record *records = wk_batch_records(batch, &count);
		for (size_t k = 0; k < count; k++) {
			CHECK_EQ(records[k].at.sequence_id, a.next);
			if (records[k].kind == WK_RECORD_GAP) {
				CHECK(records[k].gap_count > 0);
				a.next += (int64_t)records[k].gap_count;
				a.lost += (int64_t)records[k].gap_count;
				a.last_lost = a.next;
				continue;
			}
			CHECK_EQ(records[k].size, size_of(i, a.next));
			CHECK(memcmp(records[k].payload, payload_of_record(i, a.next), records[k].size) == 0);
			a.next++;
		}
		wk_batch_release(batch);
	}
	if (status != WK_END)
		printf("%s\n", error.text);
	CHECK_EQ(status, WK_END);
	CHECK_EQ(a.next, info.next.sequence_id);
	for (int64_t wanted = a.first; wanted < a.next; wanted += 1 + (a.next - a.first) / 5) {
		wk_position at;
		CHECK_EQ(wk_log_find(log, WK_FIND_SEQUENCE_ID, wanted, NULL, &at, &error), WK_OK);
		CHECK(at.sequence_id == wanted || (a.lost > 0 && at.sequence_id < wanted));
	}
	wk_reader_release(reader);
	wk_log_release(log);
	return a;
}

/* Records of all logs together, whatever they are called now; all that is not in a gap can be read. */
static inline int64_t count_records_of_all(wk_namespace *ns) {
	char *all;
	size_t size;
	uint64_t logs;
	int64_t found = 0;
	wk_error error = {0};
	CHECK_EQ(wk_log_names(ns, "", 0, &all, &size, &logs, &error), WK_OK);
	for (const char *name = all; logs > 0; logs--, name += strlen(name) + 1) {
		wk_log *log = NULL;
		wk_reader *reader = NULL;
		CHECK_EQ(wk_log_open(ns, name, strlen(name), false, NULL, &log, &error), WK_OK);
		CHECK_EQ(wk_reader_open(log, NULL, &reader, &error), WK_OK);
		wk_batch *batch;
		wk_status status;
		while ((status = wk_reader_next(reader, 1000, 1 << 20, 0, &batch, &error)) == WK_OK) {
			size_t count;
			const wk_record *records = wk_batch_records(batch, &count);
			for (size_t k = 0; k < count; k++)
				found += records[k].kind == WK_RECORD_DATA;
			wk_batch_release(batch);
		}
		if (status != WK_END)
			printf("%s: %s\n", name, error.text);
		CHECK_EQ(status, WK_END);
		wk_reader_release(reader);
		wk_log_release(log);
	}
	wk_free(all);
	return found;
}

/* What a read-only open shows of a damaged directory; the disk is left alone. */
typedef struct rehearsed {
	bool any; /* it met the damage; else it surfaces when it is read, if ever */
	int64_t records;
	wk_recovery_report report;
} rehearsed;

static inline rehearsed rehearse(wk_io *io, uint32_t on_damage, bool check_all) {
	enum { CHANGES = WK_FAULT_WRITE | WK_FAULT_ALLOCATE };
	wk_faulty *disk = wk_faulty_of(io);
	uint64_t changes = wk_faulty_calls(disk, CHANGES);
	wk_open_options options;
	wk_open_options_init(&options);
	options.read_only = true;
	options.on_damage = on_damage;
	options.check_all = check_all;
	wk_namespace *ns = NULL;
	wk_error error = {0};
	check_ok(wk_open_on(io, "wal", &options, &ns, &error), &error, "opening read-only");
	rehearsed r = {.any = strcmp(ns->engine->io->operations->name, "overlay") == 0};
	if (r.any) {
		r.records = count_records_of_all(ns);
		wk_namespace_recovery(ns, &r.report);
	}
	check_ok(wk_close(ns, UINT64_MAX, &error), &error, "closing");
	CHECK_EQ(wk_faulty_calls(disk, CHANGES), changes);
	return r;
}

/* Appends go on behind everything that was ever acknowledged, and the directory opens without a policy from then on. */
static inline void live_on(wk_io *io, wk_namespace *ns, const accepted before[LOGS], bool recorded) {
	wk_error error = {0};
	for (size_t i = 0; i < LOGS; i++)
		append_one(ns, i, before[i].next);
	CHECK_EQ(wk_close(ns, UINT64_MAX, &error), WK_OK);
	wk_status status = open_flat(io, recorded ? WK_ON_DAMAGE_STOP : WK_ON_DAMAGE_SKIP, &ns, &error);
	if (status != WK_OK)
		printf("%s\n", error.text);
	CHECK_EQ(status, WK_OK);
	for (size_t i = 0; i < LOGS; i++) {
		accepted after = read_with_gaps(ns, i);
		CHECK_EQ(after.lost, before[i].lost);
		CHECK_EQ(after.next, before[i].next + 1);
	}
	wk_abandon(ns);
}

#endif
