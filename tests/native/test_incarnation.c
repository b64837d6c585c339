/*
 * test_incarnation.c: each open for writing takes a new incarnation, durable before its first block, and a new file
 * never gets an epoch that was used before. Without the first, a cut tail chains on again when the same bytes are
 * appended; without the second, blocks of a recycled file count twice. Storage rules 3, 10 and 16.
 */
#include "core/superblock.h"
#include "sim/faulty.h"
#include "workload.h"

static wk_superblock superblock_of(wk_faulty *disk) {
	uint8_t slots[2 * WK_SUPERBLOCK_SLOT_SIZE];
	wk_superblock superblock;
	CHECK_EQ(wk_faulty_read_file(disk, "wal/superblock", slots, sizeof slots, 0), sizeof slots);
	CHECK(wk_superblock_choose(slots, &superblock) >= 0);
	return superblock;
}

TEST(each_open_for_writing_has_a_higher_incarnation_than_all_before) {
	static workload w;
	make_disk(&w, 1);
	uint64_t before = 0;
	for (int i = 0; i < 5; i++) {
		CHECK(open_logs(&w));
		wk_superblock now = superblock_of(w.disk);
		CHECK(now.incarnation > before);
		before = now.incarnation;
		CHECK(append(&w, 0, 1, false, false));
		abandon(&w);
		wk_faulty_crash(w.disk, (uint64_t)i); /* it was durable, so it is not forgotten */
		CHECK_EQ(superblock_of(w.disk).incarnation, before);
	}
	w.io->operations->destroy(w.io);
}

typedef struct listed {
	uint64_t epochs[4096];
	size_t count;
} listed;

static bool list_epoch(void *context, const char *name) {
	listed *found = context;
	if (strlen(name) == 20 && strcmp(name + 16, ".wkj") == 0 && found->count < 4096)
		found->epochs[found->count++] = strtoull(name, NULL, 16);
	return true;
}

static bool holds(const listed *found, uint64_t epoch) {
	for (size_t i = 0; i < found->count; i++) {
		if (found->epochs[i] == epoch)
			return true;
	}
	return false;
}

/* Kills and closes, truncations and rolls: an epoch that is seen again after it was gone was used twice. */
TEST(an_epoch_is_never_used_twice) {
	static workload w;
	static listed ever, now, before;
	make_disk(&w, 3);
	CHECK(open_logs(&w));
	for (int i = 0; i < 2000; i++) {
		if (!do_something(&w))
			check_failed(__FILE__, __LINE__, w.error.text);
		w.batches_count = 0;
		now.count = 0;
		CHECK_EQ(w.io->operations->list(w.io, "wal/journal", list_epoch, &now), 0);
		for (size_t k = 0; k < now.count; k++) {
			if (holds(&before, now.epochs[k]))
				continue;
			CHECK(!holds(&ever, now.epochs[k]));
			CHECK(now.epochs[k] < superblock_of(w.disk).file_id_ceiling);
			CHECK(ever.count < 4096);
			ever.epochs[ever.count++] = now.epochs[k];
		}
		before = now;
	}
	CHECK(ever.count > 20);
	abandon(&w);
	w.io->operations->destroy(w.io);
}

int main(void) {
	RUN(each_open_for_writing_has_a_higher_incarnation_than_all_before);
	RUN(an_epoch_is_never_used_twice);
	return check_done();
}
