/*
 * The chain of blocks and where it ends (storage rules 9 and 10): each verdict, each rule of evidence, then every small
 * history: whatever a power cut may leave is a torn tail and loses nothing acknowledged; a bad block that a survivor
 * knew durable is damage.
 */
/* ctest labels: one-thread */
#include "check.h"
#include "core/bytes.h"
#include "core/journal_scan.h"

enum { BLOCKS_MAX = 16, BLOCK = 4096, EPOCH = 5 };
static uint8_t file[BLOCKS_MAX * BLOCK];
static uint32_t crcs[BLOCKS_MAX + 1]; /* of block n, at [n] */
static const uint8_t directory_id[16] = "directory id 16";
static wk_scan scan;

static wk_block_header a_header(uint64_t sequence, uint64_t durable_through, uint16_t in_flight_max) {
	wk_block_header header = {
	    .previous_crc = crcs[sequence - 1],
	    .size = BLOCK,
	    .used = WK_BLOCK_HEADER_SIZE,
	    .epoch = EPOCH,
	    .offset = (sequence - 1) * BLOCK,
	    .sequence = sequence,
	    .incarnation = 1,
	    .durable_through = durable_through,
	    .in_flight_max = in_flight_max,
	};
	memcpy(header.directory_id, directory_id, sizeof directory_id);
	return header;
}

/* Block n stands at block place n - 1. */
static void put(wk_block_header header) {
	wk_block_seal(file + (header.sequence - 1) * BLOCK, &header);
	crcs[header.sequence] = header.crc;
}

static void write_block(uint64_t sequence, uint64_t durable_through) {
	put(a_header(sequence, durable_through, 2));
}

static void lose(uint64_t sequence) {
	memset(file + (sequence - 1) * BLOCK, 0, BLOCK);
}

/* The first sector of an older block of zeros landed, the rest did not, or the other way round. */
static void tear(uint64_t sequence) {
	file[(sequence - 1) * BLOCK + 600] ^= 1;
}

static void empty_file(void) {
	memset(file, 0, sizeof file);
	memset(crcs, 0, sizeof crcs);
}

/* A journal whose first block is still there: what comes first must be block 1. */
static void start(void) {
	wk_scan_init(&scan, directory_id);
	wk_scan_file(&scan, EPOCH);
	scan.anchored = true;
}

static wk_scan_verdict next(void) {
	wk_block_header header = {.sequence = 77};
	wk_scan before = scan;
	wk_scan_verdict verdict = wk_scan_block(&scan, file + scan.offset, sizeof file - scan.offset, &header);
	if (verdict == WK_SCAN_ACCEPTED) {
		CHECK_EQ(scan.sequence, header.sequence);
		CHECK_EQ(scan.offset, before.offset + header.size);
	} else {
		CHECK(memcmp(&scan, &before, sizeof scan) == 0 && header.sequence == 77);
	}
	return verdict;
}

/* As recovery does: along the chain, then every whole block behind its end that is in its place. */
static wk_scan_verdict recover(void) {
	wk_scan_verdict verdict;
	start();
	do
		verdict = next();
	while (verdict == WK_SCAN_ACCEPTED);
	for (uint64_t at = scan.offset; at < sizeof file; at += BLOCK) {
		wk_block_header header;
		if (wk_block_decode(file + at, sizeof file - at, &header) == WK_OK && header.offset == at &&
		    header.epoch == EPOCH)
			wk_scan_later(&scan, &header);
	}
	return verdict;
}

static void three_blocks(void) {
	empty_file();
	write_block(1, 0), write_block(2, 1), write_block(3, 2);
}

TEST(a_whole_chain_is_accepted_and_ends_cleanly) {
	three_blocks();
	CHECK_EQ(recover(), WK_SCAN_ABSENT);
	CHECK_EQ(scan.sequence, 3);
	CHECK_EQ(scan.offset, 3 * BLOCK);
	CHECK_EQ(scan.durable_through, 2);
	CHECK_EQ(scan.crc, crcs[3]);
	CHECK(!wk_scan_damaged(&scan));
}

TEST(an_empty_file_is_a_clean_end) {
	empty_file();
	CHECK_EQ(recover(), WK_SCAN_ABSENT);
	CHECK_EQ(scan.sequence, 0);
	CHECK(!wk_scan_damaged(&scan));
}

TEST(the_end_of_the_file_is_a_clean_end) {
	three_blocks();
	start();
	wk_block_header header;
	CHECK_EQ(wk_scan_block(&scan, file, 0, &header), WK_SCAN_ABSENT);
	CHECK_EQ(wk_scan_block(&scan, file, 79, &header), WK_SCAN_ABSENT);
	CHECK_EQ(wk_scan_block(&scan, file, 80, &header), WK_SCAN_BROKEN);
	CHECK_EQ(wk_scan_block(&scan, file, BLOCK - 1, &header), WK_SCAN_BROKEN);
	CHECK_EQ(wk_scan_block(&scan, file, BLOCK, &header), WK_SCAN_ACCEPTED);
}

TEST(the_chain_goes_on_in_the_next_file) {
	three_blocks();
	recover();
	wk_block_header header = a_header(4, 3, 2), found;
	header.epoch = EPOCH + 1;
	header.offset = 0;
	wk_block_seal(file, &header);
	wk_scan_file(&scan, EPOCH + 1);
	CHECK_EQ(wk_scan_block(&scan, file, BLOCK, &found), WK_SCAN_ACCEPTED);
	CHECK_EQ(scan.sequence, 4);
	CHECK_EQ(scan.offset, BLOCK);
}

TEST(where_older_files_are_gone_the_first_block_is_taken_as_it_is) {
	three_blocks();
	wk_block_header header;
	wk_scan_init(&scan, directory_id);
	wk_scan_file(&scan, EPOCH);
	scan.offset = BLOCK;
	CHECK_EQ(wk_scan_block(&scan, file + BLOCK, BLOCK, &header), WK_SCAN_ACCEPTED);
	CHECK_EQ(scan.sequence, 2);
	CHECK(scan.anchored);
	lose(3);
	write_block(3, 1);
	crcs[3] = 0;
	write_block(4, 1); /* chains to nothing */
	CHECK_EQ(next(), WK_SCAN_ACCEPTED);
	CHECK_EQ(next(), WK_SCAN_STALE);
}

TEST(where_older_files_are_gone_no_sequence_is_expected) {
	three_blocks();
	tear(1);
	wk_block_header header;
	wk_scan_init(&scan, directory_id);
	wk_scan_file(&scan, EPOCH);
	CHECK_EQ(wk_scan_block(&scan, file, BLOCK, &header), WK_SCAN_BROKEN);
	CHECK(!scan.anchored);
	file[32] ^= 1; /* without the epoch nothing says that it was one of this file */
	CHECK_EQ(wk_scan_block(&scan, file, BLOCK, &header), WK_SCAN_ABSENT);
}

TEST(an_anchored_chain_starts_with_block_1) {
	three_blocks();
	memmove(file, file + BLOCK, BLOCK);
	wk_block_header header = a_header(2, 1, 2);
	header.offset = 0;
	wk_block_seal(file, &header);
	start();
	CHECK_EQ(next(), WK_SCAN_STALE);
}

TEST(a_sequence_that_is_not_the_next_is_stale) {
	empty_file();
	write_block(1, 0);
	for (uint64_t sequence = 1; sequence < 5; sequence++) {
		wk_block_header header = a_header(2, 0, 2);
		header.sequence = sequence;
		wk_block_seal(file + BLOCK, &header);
		CHECK_EQ(recover(), sequence == 2 ? WK_SCAN_ABSENT : WK_SCAN_STALE);
	}
}

TEST(a_block_that_follows_another_predecessor_is_stale) {
	empty_file();
	write_block(1, 0);
	crcs[1] ^= 1;
	write_block(2, 1);
	CHECK_EQ(recover(), WK_SCAN_STALE);
	CHECK_EQ(scan.sequence, 1);
}

TEST(a_block_of_an_earlier_incarnation_is_stale_and_of_a_later_one_is_not) {
	for (uint64_t incarnation = 6; incarnation <= 8; incarnation++) {
		empty_file();
		wk_block_header header = a_header(1, 0, 2);
		header.incarnation = 7;
		put(header);
		header = a_header(2, 1, 2);
		header.incarnation = incarnation;
		put(header);
		CHECK_EQ(recover(), incarnation < 7 ? WK_SCAN_STALE : WK_SCAN_ABSENT);
		CHECK_EQ(scan.sequence, incarnation < 7 ? 1 : 2);
	}
}

TEST(what_an_earlier_epoch_left_in_a_recycled_file_is_no_trace) {
	empty_file();
	write_block(1, 0);
	wk_block_header header = a_header(2, 1, 2);
	header.epoch = EPOCH - 1;
	header.sequence = 9;
	wk_block_seal(file + BLOCK, &header);
	CHECK_EQ(recover(), WK_SCAN_ABSENT);
	file[BLOCK + 700] = 1; /* nor is it one when torn */
	CHECK_EQ(recover(), WK_SCAN_ABSENT);
}

TEST(a_block_that_landed_in_another_place_is_not_accepted) {
	three_blocks();
	memcpy(file + BLOCK, file + 2 * BLOCK, BLOCK);
	CHECK_EQ(recover(), WK_SCAN_BROKEN);
	three_blocks();
	memcpy(file + 2 * BLOCK, file + BLOCK, BLOCK);
	CHECK_EQ(recover(), WK_SCAN_BROKEN);
	CHECK_EQ(scan.sequence, 2);
}

TEST(a_block_of_another_directory_is_not_accepted) {
	empty_file();
	write_block(1, 0);
	wk_block_header header = a_header(2, 1, 2);
	header.directory_id[15] = 'x';
	wk_block_seal(file + BLOCK, &header);
	CHECK_EQ(recover(), WK_SCAN_BROKEN);
}

/* Magic, directory id, epoch, offset, sequence: the bit set says which are wrong. */
TEST(three_fields_that_fit_are_a_trace_if_epoch_or_sequence_is_one) {
	for (uint32_t wrong = 0; wrong < 32; wrong++) {
		empty_file();
		write_block(1, 0), write_block(2, 1);
		static const uint32_t at[] = {0, 16, 32, 40, 48};
		uint32_t fitting = 0;
		for (uint32_t i = 0; i < 5; i++) {
			if ((wrong >> i & 1) != 0)
				file[BLOCK + at[i]] ^= 0x80;
			else
				fitting++;
		}
		file[BLOCK + 700] = 1; /* torn in any case */
		bool own = (wrong & 4) == 0 || (wrong & 16) == 0;
		CHECK_EQ(recover(), fitting >= 3 && own ? WK_SCAN_BROKEN : WK_SCAN_ABSENT);
	}
}

TEST(every_flipped_bit_breaks_the_block_and_is_damage_below_a_durable_point) {
	three_blocks();
	for (uint32_t bit = 0; bit < BLOCK * 8; bit++) {
		file[BLOCK + bit / 8] ^= (uint8_t)(1u << bit % 8);
		CHECK_EQ(recover(), WK_SCAN_BROKEN);
		CHECK_EQ(scan.sequence, 1);
		CHECK(wk_scan_damaged(&scan)); /* block 3 knew block 2 durable */
		CHECK_EQ(scan.witness, 3);
		file[BLOCK + bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

TEST(a_torn_block_before_a_whole_one_that_did_not_know_it_durable_is_a_torn_tail) {
	empty_file();
	write_block(1, 0), write_block(2, 0), write_block(3, 1); /* K = 2: blocks 2 and 3 were in flight together */
	tear(2);
	CHECK_EQ(recover(), WK_SCAN_BROKEN);
	CHECK(!wk_scan_damaged(&scan));
}

/* The chain ended at block 10 of incarnation 4. */
static bool damaged_by(uint64_t sequence, uint64_t durable_through, uint16_t in_flight_max, uint64_t incarnation) {
	start();
	scan.sequence = 10;
	scan.incarnation = 4;
	wk_block_header header = a_header(1, 0, in_flight_max);
	header.sequence = sequence;
	header.durable_through = durable_through;
	header.incarnation = incarnation;
	wk_scan_later(&scan, &header);
	CHECK_EQ(scan.witness, wk_scan_damaged(&scan) ? sequence : 0);
	return wk_scan_damaged(&scan);
}

TEST(a_later_block_that_knew_the_bad_one_durable_proves_damage) {
	CHECK(!damaged_by(12, 10, 8, 4));
	CHECK(damaged_by(12, 11, 8, 4));
}

TEST(a_later_block_K_or_more_above_the_bad_one_proves_damage) {
	for (uint16_t in_flight_max = 1; in_flight_max <= 8; in_flight_max++) {
		CHECK(!damaged_by(11 + in_flight_max - 1u, 10, in_flight_max, 4));
		CHECK(damaged_by(11u + in_flight_max, 10, in_flight_max, 4));
		CHECK(damaged_by(UINT64_MAX, 10, in_flight_max, 4));
	}
}

TEST(distance_is_no_evidence_from_an_earlier_incarnation_but_a_claim_is) {
	CHECK(!damaged_by(40, 10, 2, 3));
	CHECK(damaged_by(40, 10, 2, 5));
	CHECK(damaged_by(40, 11, 2, 3));
}

TEST(blocks_at_or_below_the_chain_prove_nothing) {
	CHECK(!damaged_by(10, 9, 1, 4));
	CHECK(!damaged_by(3, 2, 1, 9));
}

TEST(a_block_of_another_directory_proves_nothing) {
	start();
	wk_block_header header = a_header(9, 8, 1);
	header.directory_id[0] ^= 1;
	wk_scan_later(&scan, &header);
	CHECK(!wk_scan_damaged(&scan));
	header.directory_id[0] ^= 1;
	wk_scan_later(&scan, &header);
	CHECK(wk_scan_damaged(&scan));
}

/* ---- every small history ------------------------------------------------------------------------- */

typedef struct history {
	uint32_t in_flight_max;
	uint64_t last;     /* blocks 1..last were submitted */
	uint64_t knew[10]; /* [n]: the durable point when block n was submitted */
	uint64_t durable;  /* when the power went: at most this was acknowledged */
} history;

static void write_history(const history *h, uint64_t first, uint64_t incarnation) {
	for (uint64_t n = first; n <= h->last; n++) {
		wk_block_header header = a_header(n, h->knew[n], (uint16_t)h->in_flight_max);
		header.incarnation = incarnation;
		put(header);
	}
}

static unsigned long histories_count;

/* Calls `then` for every history of blocks first..last that the window allows, and every durable point at its end. */
static void each_history(history *h, uint64_t first, uint64_t n, void (*then)(const history *, uint64_t)) {
	uint64_t known = n == first ? first - 1 : h->knew[n - 1];
	if (n > h->last) {
		for (h->durable = known; h->durable <= h->last; h->durable++) {
			histories_count++;
			then(h, first);
		}
		return;
	}
	for (uint64_t knew = known; knew < n; knew++) {
		if (n - 1 - knew < h->in_flight_max) { /* else the window was full */
			h->knew[n] = knew;
			each_history(h, first, n + 1, then);
		}
	}
}

/* Each block above the durable point is whole, torn or missing, in every combination. */
static void cut_in_every_way(const history *h, void (*then)(const history *, uint64_t), uint64_t first) {
	uint64_t ways = 1;
	for (uint64_t n = h->durable + 1; n <= h->last; n++)
		ways *= 3;
	uint8_t before[sizeof file];
	memcpy(before, file, sizeof file);
	for (uint64_t way = 0; way < ways; way++) {
		memcpy(file, before, sizeof file);
		uint64_t left = way;
		for (uint64_t n = h->durable + 1; n <= h->last; n++, left /= 3) {
			if (left % 3 == 1)
				tear(n);
			else if (left % 3 == 2)
				lose(n);
		}
		then(h, first);
	}
	memcpy(file, before, sizeof file);
}

static void nothing_acknowledged_is_lost(const history *h, uint64_t first) {
	(void)first;
	recover();
	CHECK(!wk_scan_damaged(&scan));
	CHECK_EQ(scan.rival, 0); /* one process wrote after the other */
	CHECK(scan.sequence >= h->durable);
}

static void one_power_cut(const history *h, uint64_t first) {
	empty_file();
	write_history(h, first, 1);
	cut_in_every_way(h, nothing_acknowledged_is_lost, first);
}

TEST(no_power_cut_is_taken_for_damage_or_loses_what_was_acknowledged) {
	histories_count = 0;
	for (uint32_t in_flight_max = 1; in_flight_max <= 3; in_flight_max++) {
		for (uint64_t last = 1; last <= 6; last++) {
			history h = {.in_flight_max = in_flight_max, .last = last};
			each_history(&h, 1, 1, one_power_cut);
		}
	}
	CHECK(histories_count > 500);
}

static void each_single_bad_block(const history *h, uint64_t first) {
	for (uint64_t bad = 1; bad <= h->last; bad++) {
		for (uint32_t how = 0; how < 2; how++) {
			empty_file();
			write_history(h, first, 1);
			how == 0 ? tear(bad) : lose(bad);
			bool known_durable = false;
			for (uint64_t n = bad + 1; n <= h->last; n++)
				known_durable = known_durable || h->knew[n] >= bad;
			recover();
			CHECK_EQ(scan.sequence, bad - 1);
			CHECK_EQ(wk_scan_damaged(&scan), known_durable);
		}
	}
}

TEST(a_bad_block_that_a_survivor_knew_durable_is_always_damage) {
	for (uint32_t in_flight_max = 1; in_flight_max <= 3; in_flight_max++) {
		for (uint64_t last = 1; last <= 6; last++) {
			history h = {.in_flight_max = in_flight_max, .last = last};
			each_history(&h, 1, 1, each_single_bad_block);
		}
	}
}

/* What the first power cut left above the chain stays on the disk, below and beside what is written after it. */
static void a_second_life(const history *before, uint64_t first) {
	(void)before, (void)first;
	uint8_t left[sizeof file];
	uint32_t left_crcs[sizeof crcs / sizeof crcs[0]];
	recover();
	memcpy(left, file, sizeof file);
	memcpy(left_crcs, crcs, sizeof crcs);
	uint64_t end = scan.sequence;
	uint32_t end_crc = scan.crc;
	for (uint32_t in_flight_max = 1; in_flight_max <= 2; in_flight_max++) {
		history h = {.in_flight_max = in_flight_max, .last = end + 2};
		for (uint32_t choice = 0; choice < 4; choice++) {
			h.knew[end + 1] = end;
			h.knew[end + 2] = end + (choice & 1);
			if (end + 1 - h.knew[end + 2] >= in_flight_max)
				continue;
			memcpy(file, left, sizeof file);
			memcpy(crcs, left_crcs, sizeof crcs);
			crcs[end] = end_crc;
			/* The cut may come before the second block is submitted. */
			h.last = end + 1 + (choice >> 1);
			uint64_t known = h.knew[h.last];
			uint8_t old[sizeof file];
			memcpy(old, file, sizeof file);
			write_history(&h, end + 1, 2);
			for (h.durable = known; h.durable <= h.last; h.durable++) {
				cut_in_every_way(&h, nothing_acknowledged_is_lost, end + 1);
				/* A write that never landed leaves the block of the first life in its place. */
				uint8_t whole[sizeof file];
				memcpy(whole, file, sizeof file);
				for (uint64_t n = h.durable + 1; n <= h.last; n++) {
					memcpy(file + (n - 1) * BLOCK, old + (n - 1) * BLOCK, BLOCK);
					nothing_acknowledged_is_lost(&h, end + 1);
					memcpy(file, whole, sizeof file);
				}
			}
		}
	}
	memcpy(file, left, sizeof file);
	memcpy(crcs, left_crcs, sizeof crcs);
}

static void two_power_cuts(const history *h, uint64_t first) {
	empty_file();
	write_history(h, first, 1);
	cut_in_every_way(h, a_second_life, first);
}

TEST(what_a_power_cut_left_behind_never_misleads_the_next_recovery) {
	for (uint32_t in_flight_max = 1; in_flight_max <= 3; in_flight_max++) {
		history h = {.in_flight_max = in_flight_max, .last = 4};
		each_history(&h, 1, 1, two_power_cuts);
	}
}

/* ---- two writers at once ---- */

/* The chain has blocks 1 to 3 of incarnation 1, 4 and 5 of incarnation 3. */
static void two_incarnations(void) {
	empty_file();
	for (uint64_t sequence = 1; sequence <= 5; sequence++) {
		wk_block_header header = a_header(sequence, sequence - 1, 2);
		header.incarnation = sequence > 3 ? 3 : 1;
		put(header);
	}
	start();
	for (int i = 0; i < 5; i++)
		CHECK_EQ(next(), WK_SCAN_ACCEPTED);
	CHECK_EQ(scan.incarnation, 3);
	CHECK_EQ(scan.incarnation_from, 4);
}

/* The rival that a whole block makes, which stands somewhere behind the end; 0: none. */
static uint64_t rival(uint64_t sequence, uint64_t incarnation, uint64_t durable_through, uint32_t previous_crc) {
	wk_block_header header = a_header(1, 0, 2);
	header.sequence = sequence;
	header.incarnation = incarnation;
	header.durable_through = durable_through;
	header.previous_crc = previous_crc;
	wk_scan at_end = scan;
	wk_scan_later(&at_end, &header);
	return at_end.rival;
}

TEST(a_later_incarnation_that_repeats_a_sequence_is_a_rival) {
	two_incarnations();
	CHECK_EQ(rival(4, 4, 3, crcs[3]), 4);
	CHECK_EQ(rival(5, 4, 3, crcs[4]), 5);
	CHECK_EQ(rival(6, 4, 4, crcs[5]), 0);
	CHECK_EQ(rival(5, 3, 3, crcs[4]), 0); /* of the same open: it landed in another place */
	CHECK_EQ(rival(5, 2, 3, crcs[4]), 0); /* and this one was never acknowledged */
}

TEST(an_earlier_incarnation_that_saw_another_block_is_a_rival) {
	two_incarnations();
	CHECK_EQ(rival(7, 2, 4, 0), 7); /* its block 4 is not the one that is there */
	CHECK_EQ(rival(5, 2, 4, 0), 5);
	CHECK_EQ(rival(7, 2, 3, 0), 0);
	CHECK_EQ(rival(7, 3, 4, 0), 0);
}

TEST(a_next_block_that_follows_another_durable_one_is_a_rival) {
	two_incarnations();
	CHECK_EQ(rival(6, 3, 5, crcs[5] ^ 1), 6);
	CHECK_EQ(rival(6, 4, 5, crcs[5] ^ 1), 6);
	CHECK_EQ(rival(6, 3, 5, crcs[5]), 0);
	CHECK_EQ(rival(6, 3, 4, crcs[5] ^ 1), 0); /* its predecessor was torn, and written again */
	CHECK_EQ(rival(7, 3, 5, crcs[5] ^ 1), 0);
}

TEST(where_the_chain_is_not_known_nothing_is_a_rival) {
	two_incarnations();
	scan.anchored = false;
	CHECK_EQ(rival(4, 4, 3, crcs[3]), 0);
	CHECK_EQ(rival(7, 2, 4, 0), 0);
	CHECK_EQ(rival(6, 3, 5, crcs[5] ^ 1), 0);
	wk_scan_init(&scan, directory_id);
	CHECK_EQ(rival(4, 4, 3, crcs[3]), 0);
}

int main(void) {
	RUN(a_whole_chain_is_accepted_and_ends_cleanly);
	RUN(an_empty_file_is_a_clean_end);
	RUN(the_end_of_the_file_is_a_clean_end);
	RUN(the_chain_goes_on_in_the_next_file);
	RUN(where_older_files_are_gone_the_first_block_is_taken_as_it_is);
	RUN(where_older_files_are_gone_no_sequence_is_expected);
	RUN(an_anchored_chain_starts_with_block_1);
	RUN(a_sequence_that_is_not_the_next_is_stale);
	RUN(a_block_that_follows_another_predecessor_is_stale);
	RUN(a_block_of_an_earlier_incarnation_is_stale_and_of_a_later_one_is_not);
	RUN(what_an_earlier_epoch_left_in_a_recycled_file_is_no_trace);
	RUN(a_block_that_landed_in_another_place_is_not_accepted);
	RUN(a_block_of_another_directory_is_not_accepted);
	RUN(three_fields_that_fit_are_a_trace_if_epoch_or_sequence_is_one);
	RUN(every_flipped_bit_breaks_the_block_and_is_damage_below_a_durable_point);
	RUN(a_torn_block_before_a_whole_one_that_did_not_know_it_durable_is_a_torn_tail);
	RUN(a_later_block_that_knew_the_bad_one_durable_proves_damage);
	RUN(a_later_block_K_or_more_above_the_bad_one_proves_damage);
	RUN(distance_is_no_evidence_from_an_earlier_incarnation_but_a_claim_is);
	RUN(blocks_at_or_below_the_chain_prove_nothing);
	RUN(a_block_of_another_directory_proves_nothing);
	RUN(a_later_incarnation_that_repeats_a_sequence_is_a_rival);
	RUN(an_earlier_incarnation_that_saw_another_block_is_a_rival);
	RUN(a_next_block_that_follows_another_durable_one_is_a_rival);
	RUN(where_the_chain_is_not_known_nothing_is_a_rival);
	RUN(no_power_cut_is_taken_for_damage_or_loses_what_was_acknowledged);
	RUN(a_bad_block_that_a_survivor_knew_durable_is_always_damage);
	RUN(what_a_power_cut_left_behind_never_misleads_the_next_recovery);
	return check_done();
}
