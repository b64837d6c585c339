/* Compression: what goes in comes out, and nothing else than exactly that is accepted. */
/* ctest labels: one-thread */
#include "check.h"
#include "records/codec.h"

static const uint32_t codecs[] = {WK_CODEC_NONE, WK_CODEC_LZ4, WK_CODEC_ZSTD};
enum { CODECS_COUNT = 3, BUFFER_SIZE = 2 * WK_CODEC_SIZE_MAX };

static uint8_t original[WK_CODEC_SIZE_MAX], packed[BUFFER_SIZE], result[WK_CODEC_SIZE_MAX + 1];

/* Words of a small alphabet: compresses, but not to nothing. */
static void fill_with_text(size_t size, uint64_t seed) {
	for (size_t i = 0; i < size; i++)
		original[i] = (uint8_t)("walkeeper\n"[check_random(&seed) % 10]);
}

static size_t pack(uint32_t codec, size_t size) {
	size_t packed_size = 0;
	CHECK(wk_codec_bound(codec, size) <= sizeof packed);
	CHECK_EQ(wk_codec_compress(codec, original, size, packed, wk_codec_bound(codec, size), &packed_size), WK_OK);
	CHECK(packed_size <= wk_codec_bound(codec, size));
	return packed_size;
}

/* Into a buffer of exactly the size asked for, so that the address sanitizer sees any byte too many. */
static wk_status unpacking(uint32_t codec, const uint8_t *bytes, size_t size, size_t exact_size) {
	uint8_t *source = check_exact_copy(bytes, size), *target = malloc(exact_size);
	CHECK(target != NULL);
	wk_status status = wk_codec_decompress(codec, source, size, target, exact_size);
	if (status == WK_OK)
		memcpy(result, target, exact_size);
	free(source);
	free(target);
	return status;
}

TEST(bodies_of_every_kind_come_back) {
	static const size_t sizes[] = {0, 1, 2, 13, 100, 4096, 65535, 65536, 300000, WK_CODEC_SIZE_MAX};
	for (int kind = 0; kind < 3; kind++) {
		uint64_t seed = 11;
		if (kind == 0)
			memset(original, 0, sizeof original);
		else if (kind == 1)
			fill_with_text(sizeof original, 12);
		else
			check_random_bytes(&seed, original, sizeof original);
		for (int c = 0; c < CODECS_COUNT; c++)
			for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
				size_t packed_size = pack(codecs[c], sizes[s]);
				CHECK_EQ(unpacking(codecs[c], packed, packed_size, sizes[s]), WK_OK);
				CHECK(memcmp(result, original, sizes[s]) == 0);
			}
	}
}

TEST(text_becomes_smaller) {
	fill_with_text(100000, 13);
	CHECK(pack(WK_CODEC_LZ4, 100000) < 90000);
	CHECK(pack(WK_CODEC_ZSTD, 100000) < 60000);
}

TEST(lz4_is_the_raw_block) { /* one token, literals only: no frame, no size in front */
	memcpy(original, "abc", 3);
	CHECK_EQ(pack(WK_CODEC_LZ4, 3), 4);
	CHECK_HEX(packed, 4, "30616263");
}

TEST(zstd_is_one_frame) {
	memcpy(original, "abc", 3);
	CHECK(pack(WK_CODEC_ZSTD, 3) > 4);
	CHECK_HEX(packed, 4, "28b52ffd");
}

TEST(another_exact_size_is_refused) {
	fill_with_text(1000, 14);
	for (int c = 0; c < CODECS_COUNT; c++) {
		size_t packed_size = pack(codecs[c], 1000);
		for (size_t exact_size = 0; exact_size < 2000; exact_size++)
			CHECK_EQ(unpacking(codecs[c], packed, packed_size, exact_size), exact_size == 1000 ? WK_OK : WK_CORRUPT);
	}
}

TEST(every_truncation_is_refused) {
	fill_with_text(1000, 15);
	for (int c = 0; c < CODECS_COUNT; c++) {
		size_t packed_size = pack(codecs[c], 1000);
		for (size_t kept = 0; kept < packed_size; kept++)
			CHECK_EQ(unpacking(codecs[c], packed, kept, 1000), WK_CORRUPT);
	}
}

TEST(nothing_is_no_body_but_the_empty_one_of_codec_none) {
	for (int c = 0; c < CODECS_COUNT; c++) {
		CHECK_EQ(unpacking(codecs[c], packed, 0, 0), codecs[c] == WK_CODEC_NONE ? WK_OK : WK_CORRUPT);
		CHECK_EQ(unpacking(codecs[c], packed, 0, 1), WK_CORRUPT);
	}
}

TEST(bytes_behind_the_body_are_refused) {
	fill_with_text(1000, 16);
	for (int c = 0; c < CODECS_COUNT; c++) {
		size_t packed_size = pack(codecs[c], 1000);
		packed[packed_size] = 0;
		CHECK_EQ(unpacking(codecs[c], packed, packed_size + 1, 1000), WK_CORRUPT);
	}
}

TEST(two_zstd_frames_are_not_one_body) {
	memcpy(original, "abc", 3);
	size_t packed_size = pack(WK_CODEC_ZSTD, 3);
	memcpy(packed + packed_size, packed, packed_size);
	CHECK_EQ(unpacking(WK_CODEC_ZSTD, packed, 2 * packed_size, 6), WK_CORRUPT);
}

TEST(a_zstd_frame_that_says_skip_me_is_no_body) {
	static const uint8_t skippable[] = {0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'};
	CHECK_EQ(unpacking(WK_CODEC_ZSTD, skippable, sizeof skippable, 0), WK_CORRUPT);
	memcpy(original, "abc", 3);
	size_t packed_size = pack(WK_CODEC_ZSTD, 3);
	memcpy(packed + packed_size, skippable, sizeof skippable);
	CHECK_EQ(unpacking(WK_CODEC_ZSTD, packed, packed_size + sizeof skippable, 3), WK_CORRUPT);
}

/* Neither lz4 blocks nor our zstd frames carry a checksum, so a flip may pass; it must stay inside the buffer. */
TEST(flipped_bits_never_leave_the_buffer) {
	fill_with_text(500, 17);
	for (int c = 0; c < CODECS_COUNT; c++) {
		size_t packed_size = pack(codecs[c], 500);
		for (size_t bit = 0; bit < 8 * packed_size; bit++) {
			packed[bit / 8] ^= (uint8_t)(1 << bit % 8);
			wk_status status = unpacking(codecs[c], packed, packed_size, 500);
			CHECK(status == WK_OK || status == WK_CORRUPT);
			packed[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
	}
}

TEST(random_bytes_are_refused_or_stay_inside_the_buffer) {
	uint64_t seed = 18;
	for (int round = 0; round < 3000; round++) {
		uint8_t noise[64];
		check_random_bytes(&seed, noise, sizeof noise);
		wk_status lz4 = unpacking(WK_CODEC_LZ4, noise, sizeof noise, check_random(&seed) % 300);
		CHECK(lz4 == WK_OK || lz4 == WK_CORRUPT);
		CHECK_EQ(unpacking(WK_CODEC_ZSTD, noise, sizeof noise, check_random(&seed) % 300), WK_CORRUPT);
	}
}

TEST(too_little_room_is_full_and_the_bound_never_is) {
	uint64_t seed = 19;
	check_random_bytes(&seed, original, 1000); /* noise grows under every codec */
	for (int c = 0; c < CODECS_COUNT; c++) {
		size_t needed = pack(codecs[c], 1000), packed_size = 77;
		for (size_t capacity = 0; capacity < needed; capacity++)
			CHECK_EQ(wk_codec_compress(codecs[c], original, 1000, packed, capacity, &packed_size), WK_FULL);
		CHECK_EQ(packed_size, 77);
	}
}

TEST(a_codec_that_is_none_of_ours_is_invalid) {
	size_t packed_size = 77;
	CHECK_EQ(wk_codec_compress(3, original, 10, packed, sizeof packed, &packed_size), WK_INVALID);
	CHECK_EQ(packed_size, 77);
	CHECK_EQ(wk_codec_decompress(3, packed, 10, result, 10), WK_INVALID);
}

TEST(more_than_the_largest_body_is_invalid) {
	for (int c = 0; c < CODECS_COUNT; c++) {
		size_t packed_size = 77;
		CHECK_EQ(wk_codec_compress(codecs[c], packed, WK_CODEC_SIZE_MAX + 1, result, sizeof result, &packed_size),
		         WK_INVALID);
		CHECK_EQ(wk_codec_decompress(codecs[c], packed, 10, result, WK_CODEC_SIZE_MAX + 1), WK_INVALID);
	}
}

int main(void) {
	RUN(bodies_of_every_kind_come_back);
	RUN(text_becomes_smaller);
	RUN(lz4_is_the_raw_block);
	RUN(zstd_is_one_frame);
	RUN(another_exact_size_is_refused);
	RUN(every_truncation_is_refused);
	RUN(nothing_is_no_body_but_the_empty_one_of_codec_none);
	RUN(bytes_behind_the_body_are_refused);
	RUN(two_zstd_frames_are_not_one_body);
	RUN(a_zstd_frame_that_says_skip_me_is_no_body);
	RUN(flipped_bits_never_leave_the_buffer);
	RUN(random_bytes_are_refused_or_stay_inside_the_buffer);
	RUN(too_little_room_is_full_and_the_bound_never_is);
	RUN(a_codec_that_is_none_of_ours_is_invalid);
	RUN(more_than_the_largest_body_is_invalid);
	return check_done();
}
