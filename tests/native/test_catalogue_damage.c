/*
 * test_catalogue_damage.c: entries of the catalogue that cannot be read. The newest snapshot: the one before it and the
 * changes since say the same. Changes: what is intact is salvaged, and no record of a log becomes unreachable.
 */
/* ctest labels: one-thread */
#include "engine/catalogue/catalogue.h"
#include "engine/catalogue/snapshot.h"
#include "engine/engine.h"
#include "engine/index/lookup.h"
#include "engine/index/read.h"
#include "engine/manual.h"
#include "sim/faulty.h"
#include "small_wal.h"

static wk_io *disk_io;
static wk_namespace *ns;

static void new_disk(uint64_t seed) {
	CHECK_EQ(wk_faulty_new(seed, &disk_io), 0);
	wk_error error = {0};
	CHECK_EQ(open_flat(disk_io, WK_ON_DAMAGE_STOP, &ns, &error), WK_OK);
}

static void append_to(const char *name, int records) {
	wk_log *log = NULL;
	wk_writer *writer = NULL;
	wk_position at;
	wk_error error = {0};
	CHECK_EQ(wk_log_open(ns, name, strlen(name), true, NULL, &log, &error), WK_OK);
	CHECK_EQ(wk_writer_open(log, &writer, &error), WK_OK);
	for (int i = 0; i < records; i++)
		CHECK_EQ(wk_writer_append(writer, name, strlen(name), NULL, &at, &error), WK_OK);
	CHECK_EQ(wk_writer_close(writer, UINT64_MAX, &error), WK_OK);
	wk_log_release(log);
}

static void make_log_of_segments(const char *name, uint64_t segment_bytes) {
	wk_log *log = NULL;
	wk_log_options options;
	wk_log_options_init(&options);
	options.segment_bytes = segment_bytes;
	CHECK_EQ(wk_log_open(ns, name, strlen(name), true, &options, &log, NULL), WK_OK);
	wk_log_release(log);
}

static int64_t next_of(const char *name) {
	wk_log *log = NULL;
	wk_log_info info;
	wk_error error = {0};
	wk_status status = wk_log_open(ns, name, strlen(name), false, NULL, &log, &error);
	if (status == WK_NOT_FOUND)
		return -1;
	CHECK_EQ(status, WK_OK);
	CHECK_EQ(wk_log_describe(log, &info, &error), WK_OK);
	wk_log_release(log);
	return info.next.sequence_id;
}

static wk_snapshot_place write_snapshot(void) {
	wk_error error = {0};
	wk_engine_lock(ns->engine);
	CHECK_EQ(wk_snapshot_write(ns->engine, &error), WK_OK);
	wk_engine_unlock(ns->engine);
	return ns->engine->superblock.snapshots[0];
}

/* Turns a bit of the payload of this entry of the catalogue, whose file is sealed: opening does not scan it. */
static void spoil(int64_t entry_id) {
	wk_span span;
	wk_engine *engine = ns->engine;
	CHECK_EQ(wk_read_entries(engine, WK_CATALOGUE_LEDGER, entry_id, entry_id, 1, &span, NULL), WK_OK);
	uint8_t entry[64];
	memcpy(entry, span.buffer->bytes + span.entries[0].offset, sizeof entry);
	wk_buffer_release(span.buffer);
	wk_stretch place;
	CHECK_EQ(wk_lookup(engine, WK_CATALOGUE_LEDGER, entry_id, entry_id, WK_LOOKUP_ALL, NULL, 0, &place, NULL), WK_OK);
	CHECK(place.file != NULL && place.sealed);
	char path[64];
	snprintf(path, sizeof path,
	         place.file->kind == WK_FILE_JOURNAL ? "wal/journal/%016llx.wkj" : "wal/entries/%016llx.wke",
	         (unsigned long long)place.file->id);
	wk_stretch_release(engine, &place);
	static uint8_t bytes[FILE_BYTES];
	CHECK_EQ(wk_faulty_read_file(wk_faulty_of(disk_io), path, bytes, sizeof bytes, 0), FILE_BYTES);
	for (size_t at = 0; at + sizeof entry < sizeof bytes; at++)
		if (memcmp(bytes + at, entry, sizeof entry) == 0) {
			CHECK_EQ(wk_faulty_flip(wk_faulty_of(disk_io), path, at + 40, 3), 0);
			return;
		}
	check_failed(__FILE__, __LINE__, "the entry is found in its file");
}

static void fill_a_file(void) {
	for (int i = 0; i < 20; i++)
		append_to("filler", 1);
	for (int i = 0; i < 5; i++) {
		bool idle;
		CHECK_EQ(wk_namespace_step(ns, &idle, NULL), WK_OK);
	}
}

static wk_recovery_report reopen(uint32_t on_damage) {
	wk_error error = {0};
	CHECK_EQ(wk_close(ns, UINT64_MAX, &error), WK_OK);
	wk_status status = open_flat(disk_io, on_damage, &ns, &error);
	if (status != WK_OK)
		printf("%s\n", error.text);
	CHECK_EQ(status, WK_OK);
	wk_recovery_report report;
	wk_namespace_recovery(ns, &report);
	return report;
}

static void end(void) {
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	disk_io->operations->destroy(disk_io);
}

/* Logs and snapshots; *newest is one whose file is sealed, changes stand before and behind it. */
static void two_snapshots(uint64_t seed, wk_snapshot_place *earlier, wk_snapshot_place *newest) {
	new_disk(seed);
	append_to("one", 3);
	*earlier = write_snapshot();
	append_to("two", 4);
	fill_a_file();
	*newest = write_snapshot();
	append_to("three", 5);
	CHECK_EQ(wk_log_delete(ns, "one", 3, NULL), WK_OK);
	fill_a_file();
	fill_a_file();
}

static void check_all_there(void) {
	CHECK_EQ(next_of("one"), -1);
	CHECK_EQ(next_of("two"), 4);
	CHECK_EQ(next_of("three"), 5);
	CHECK_EQ(next_of("filler"), 60);
}

TEST(with_the_newest_snapshot_damaged_the_one_before_it_says_the_same) {
	wk_snapshot_place earlier, newest;
	two_snapshots(1, &earlier, &newest);
	spoil(newest.first_entry);
	wk_recovery_report report = reopen(WK_ON_DAMAGE_STOP);
	CHECK_EQ(report.catalogue_fallbacks, 1);
	CHECK_EQ(report.catalogue_lost, 0);
	check_all_there();
	/* From here on two new ones are named: the damaged one is needed by nobody. */
	CHECK(ns->engine->superblock.snapshots[0].first_entry > newest.last_entry);
	CHECK(ns->engine->superblock.snapshots[1].first_entry > newest.last_entry);
	report = reopen(WK_ON_DAMAGE_STOP);
	CHECK_EQ(report.catalogue_fallbacks, 0);
	check_all_there();
	end();
}

TEST(an_open_keeps_the_earlier_snapshot) {
	wk_snapshot_place earlier, newest;
	two_snapshots(7, &earlier, &newest);
	CHECK_EQ(reopen(WK_ON_DAMAGE_STOP).catalogue_fallbacks, 0);
	fill_a_file();
	CHECK_EQ(ns->engine->superblock.snapshots[0].first_entry, newest.first_entry);
	spoil(newest.first_entry);
	CHECK_EQ(reopen(WK_ON_DAMAGE_STOP).catalogue_fallbacks, 1);
	CHECK_EQ(next_of("two"), 4);
	CHECK_EQ(next_of("filler"), 80);
	end();
}

TEST(a_read_only_open_uses_the_earlier_snapshot_too) {
	wk_snapshot_place earlier, newest;
	two_snapshots(2, &earlier, &newest);
	spoil(newest.first_entry);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	wk_open_options options;
	wk_open_options_init(&options);
	options.read_only = true;
	wk_error error = {0};
	CHECK_EQ(wk_open_on(disk_io, "wal", &options, &ns, &error), WK_OK);
	check_all_there();
	end();
}

TEST(a_power_cut_while_it_is_mended_changes_nothing) {
	wk_snapshot_place earlier, newest;
	two_snapshots(3, &earlier, &newest);
	spoil(newest.first_entry);
	CHECK_EQ(wk_close(ns, UINT64_MAX, NULL), WK_OK);
	wk_io *io;
	CHECK_EQ(wk_faulty_image(wk_faulty_of(disk_io), wk_faulty_trace_length(wk_faulty_of(disk_io)), 1, &io), 0);
	disk_io->operations->destroy(disk_io);
	disk_io = io;
	wk_error error = {0};
	uint64_t from = wk_faulty_trace_length(wk_faulty_of(disk_io));
	CHECK_EQ(open_flat(disk_io, WK_ON_DAMAGE_STOP, &ns, &error), WK_OK);
	uint64_t to = wk_faulty_trace_length(wk_faulty_of(disk_io));
	CHECK(to > from);
	wk_namespace *whole = ns;
	for (uint64_t at = from; at <= to; at++) {
		CHECK_EQ(wk_faulty_image(wk_faulty_of(disk_io), at, at, &io), 0);
		CHECK_EQ(open_flat(io, WK_ON_DAMAGE_STOP, &ns, &error), WK_OK);
		check_all_there();
		wk_abandon(ns);
		io->operations->destroy(io);
	}
	ns = whole;
	end();
}

/* ---- what no snapshot holds ---- */

static void refuses_under_stop(void) {
	wk_error error = {0};
	CHECK_EQ(wk_close(ns, UINT64_MAX, &error), WK_OK);
	CHECK_EQ(open_flat(disk_io, WK_ON_DAMAGE_STOP, &ns, &error), WK_DAMAGED);
	CHECK(strstr(error.text, "on_damage=skip") != NULL && strstr(error.text, "walkeeper recover") != NULL);
	CHECK_EQ(open_flat(disk_io, WK_ON_DAMAGE_SKIP, &ns, &error), WK_OK);
}

TEST(a_log_whose_making_is_lost_is_there_by_another_name) {
	new_disk(4);
	append_to("one", 3);
	int64_t lost = ns->engine->next_catalogue_entry;
	append_to("two", 4);
	CHECK_EQ(ns->engine->next_catalogue_entry, lost + 2); /* it is made, its segment begins */
	fill_a_file();
	fill_a_file();
	spoil(lost);
	spoil(lost + 1);
	refuses_under_stop();
	wk_recovery_report report;
	wk_namespace_recovery(ns, &report);
	CHECK_EQ(report.catalogue_lost, 2);
	CHECK_EQ(report.adopted_ledgers, 1);
	CHECK_EQ(next_of("one"), 3);
	CHECK_EQ(next_of("two"), -1);
	CHECK_EQ(next_of("recovered-ledger-2"), 4);
	CHECK_EQ(next_of("filler"), 40);
	append_to("recovered-ledger-2", 2);
	append_to("two", 1); /* a new log: its ids were never another's */
	report = reopen(WK_ON_DAMAGE_STOP);
	CHECK_EQ(report.catalogue_lost, 0);
	CHECK_EQ(next_of("recovered-ledger-2"), 6);
	CHECK_EQ(next_of("two"), 1);
	CHECK_EQ(next_of("one"), 3);
	end();
}

TEST(a_log_whose_name_is_lost_has_another) {
	new_disk(6);
	append_to("one", 3);
	int64_t lost = ns->engine->next_catalogue_entry;
	append_to("two", 4);
	fill_a_file();
	fill_a_file();
	spoil(lost);
	refuses_under_stop();
	wk_recovery_report report;
	wk_namespace_recovery(ns, &report);
	CHECK_EQ(report.catalogue_lost, 1);
	CHECK_EQ(report.adopted_ledgers, 0);
	CHECK_EQ(next_of("recovered-log-2"), 4);
	CHECK_EQ(next_of("filler"), 40);
	end();
}

TEST(with_both_snapshots_damaged_what_is_intact_is_kept) {
	wk_snapshot_place earlier, newest;
	two_snapshots(5, &earlier, &newest);
	spoil(newest.first_entry);
	spoil(earlier.first_entry);
	refuses_under_stop();
	wk_recovery_report report;
	wk_namespace_recovery(ns, &report);
	CHECK_EQ(report.catalogue_lost, 2);
	CHECK_EQ(next_of("two"), 4);
	CHECK_EQ(next_of("three"), 5);
	CHECK_EQ(next_of("filler"), 60);
	report = reopen(WK_ON_DAMAGE_STOP);
	CHECK_EQ(report.catalogue_lost, 0);
	CHECK_EQ(next_of("filler"), 60);
	end();
}

/* Each entry of the catalogue in turn: under skip and point_in_time all records are found in some log. */
TEST(whichever_entry_is_lost_no_record_is_unreachable) {
	int64_t entries = 1;
	for (int64_t lost = 0; lost < entries; lost++)
		for (int policy = 0; policy < 2; policy++) {
			new_disk(100 + (uint64_t)lost);
			append_to("one", 3);
			append_to("two", 4);
			CHECK_EQ(wk_log_rename(ns, "one", 3, "uno", 3, NULL), WK_OK);
			append_to("one", 5);
			fill_a_file();
			append_to("three", 2);
			fill_a_file();
			fill_a_file();
			int64_t all = count_records_of_all(ns);
			CHECK_EQ(all, 74);
			entries = ns->engine->next_catalogue_entry;
			spoil(lost);
			wk_recovery_report report = reopen(policy == 0 ? WK_ON_DAMAGE_SKIP : WK_ON_DAMAGE_POINT_IN_TIME);
			CHECK_EQ(report.catalogue_lost, 1);
			CHECK_EQ(count_records_of_all(ns), all);
			reopen(WK_ON_DAMAGE_STOP);
			CHECK_EQ(count_records_of_all(ns), all);
			end();
		}
	CHECK(entries >= 5);
}

/* Nobody is led past lost records without a word: the log's sequence ids follow each other, records and gaps. */
static void check_dense(const char *name, int64_t *records, int64_t *lost) {
	wk_log *log = NULL;
	wk_reader *reader = NULL;
	wk_log_info info;
	wk_error error = {0};
	*records = *lost = 0;
	wk_status status = wk_log_open(ns, name, strlen(name), false, NULL, &log, &error);
	if (status == WK_NOT_FOUND)
		return;
	CHECK_EQ(status, WK_OK);
	CHECK_EQ(wk_log_describe(log, &info, &error), WK_OK);
	CHECK_EQ(wk_reader_open(log, NULL, &reader, &error), WK_OK);
	wk_batch *batch;
	int64_t next = info.first.sequence_id;
	while ((status = wk_reader_next(reader, 1000, 1 << 20, 0, &batch, &error)) == WK_OK) {
		size_t count;
		const wk_record *found = wk_batch_records(batch, &count);
		for (size_t i = 0; i < count; i++) {
			int64_t missing = found[i].kind == WK_RECORD_GAP ? (int64_t)found[i].gap_count : 0;
			CHECK_EQ(found[i].at.sequence_id, next);
			next += missing > 0 ? missing : 1;
			*lost += missing;
			*records += missing == 0;
		}
		wk_batch_release(batch);
	}
	CHECK_EQ(status, WK_END);
	CHECK_EQ(next, info.next.sequence_id);
	CHECK_EQ(*records, info.count);
	wk_reader_release(reader);
	wk_log_release(log);
}

/* Two entries of the catalogue that follow each other, of a log that begins a segment with each record. */
TEST(where_segments_are_lost_there_is_a_gap) {
	enum { RECORDS = 12 };
	int64_t entries = 1, gaps = 0;
	for (int64_t first = 0; first < entries; first++)
		for (int64_t count = 1; count <= 2; count++)
			for (int policy = 0; policy < 2; policy++) {
				new_disk(200 + (uint64_t)first);
				make_log_of_segments("rolled", 1);
				for (int i = 0; i < RECORDS; i++)
					append_to("rolled", 1);
				entries = ns->engine->next_catalogue_entry - 1;
				fill_a_file();
				fill_a_file();
				for (int64_t i = first; i < first + count; i++)
					spoil(i);
				reopen(policy == 0 ? WK_ON_DAMAGE_SKIP : WK_ON_DAMAGE_POINT_IN_TIME);
				for (int again = 0; again < 2; again++) {
					int64_t records, lost;
					check_dense("rolled", &records, &lost);
					CHECK(records + lost <= RECORDS);
					gaps += lost;
					if (policy == 0)
						CHECK_EQ(count_records_of_all(ns), RECORDS + 40);
					reopen(WK_ON_DAMAGE_STOP);
				}
				end();
			}
	CHECK(entries >= RECORDS && gaps > 0);
}

int main(void) {
	RUN(with_the_newest_snapshot_damaged_the_one_before_it_says_the_same);
	RUN(an_open_keeps_the_earlier_snapshot);
	RUN(a_read_only_open_uses_the_earlier_snapshot_too);
	RUN(a_power_cut_while_it_is_mended_changes_nothing);
	RUN(a_log_whose_making_is_lost_is_there_by_another_name);
	RUN(a_log_whose_name_is_lost_has_another);
	RUN(with_both_snapshots_damaged_what_is_intact_is_kept);
	RUN(whichever_entry_is_lost_no_record_is_unreachable);
	RUN(where_segments_are_lost_there_is_a_gap);
	return check_done();
}
