/* The checksum: published vectors, a bit-by-bit model, and the fast version against the portable one. */
/* ctest labels: one-thread */
#include "check.h"
#include "core/bytes.h"
#include "core/crc32c.h"
#include "walkeeper/core.h"

static uint32_t model(uint32_t crc, const uint8_t *bytes, size_t size) {
	crc = ~crc;
	for (size_t i = 0; i < size; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
	}
	return ~crc;
}

static void check_both(const void *bytes, size_t size, uint32_t expected) {
	CHECK_EQ(wk_crc32c(bytes, size), expected);
	CHECK_EQ(wk_crc32c_extend_portable(0, bytes, size), expected);
}

TEST(vectors_of_rfc_3720) {
	static const uint8_t read_command[48] = {
	    0x01, 0xc0, 0, 0,    0, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0,
	    0,    0,    0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0,    0,
	};
	uint8_t bytes[32];
	memset(bytes, 0, sizeof bytes);
	check_both(bytes, sizeof bytes, 0x8a9136aa);
	memset(bytes, 0xff, sizeof bytes);
	check_both(bytes, sizeof bytes, 0x62a8ab43);
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)i;
	check_both(bytes, sizeof bytes, 0x46dd794e);
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)(31 - i);
	check_both(bytes, sizeof bytes, 0x113fdb5c);
	check_both(read_command, sizeof read_command, 0xd9963a56);
	check_both("123456789", 9, 0xe3069283);
}

TEST(nothing_has_the_checksum_zero_and_extends_nothing) {
	check_both("", 0, 0);
	CHECK_EQ(wk_crc32c_extend(0xdeadbeef, "", 0), 0xdeadbeef);
	CHECK_EQ(wk_crc32c_extend_portable(0xdeadbeef, "", 0), 0xdeadbeef);
}

TEST(every_length_to_300_at_every_alignment_to_15_agrees_with_the_model) {
	uint64_t seed = 1;
	_Alignas(16) uint8_t bytes[320];
	check_random_bytes(&seed, bytes, sizeof bytes);
	for (size_t at = 0; at < 16; at++)
		for (size_t size = 0; size <= 300; size++)
			check_both(bytes + at, size, model(0, bytes + at, size));
}

TEST(every_split_extends_to_the_whole) {
	uint64_t seed = 2;
	uint8_t bytes[700];
	check_random_bytes(&seed, bytes, sizeof bytes);
	uint32_t whole = model(0, bytes, sizeof bytes);
	for (size_t split = 0; split <= sizeof bytes; split++) {
		const uint8_t *rest = bytes + split;
		size_t rest_size = sizeof bytes - split;
		CHECK_EQ(wk_crc32c_extend(wk_crc32c(bytes, split), rest, rest_size), whole);
		CHECK_EQ(wk_crc32c_extend_portable(wk_crc32c_extend_portable(0, bytes, split), rest, rest_size), whole);
	}
}

/* Three stretches of 1 to 128 words: to 6,500 bytes each of the fast version's constants takes part. */
TEST(every_length_to_6500_has_one_answer) {
	uint64_t seed = 3;
	static uint8_t bytes[6500];
	check_random_bytes(&seed, bytes, sizeof bytes);
	for (size_t size = 0; size <= sizeof bytes; size++) {
		uint32_t before = (uint32_t)check_random(&seed);
		CHECK_EQ(wk_crc32c_extend(before, bytes, size), wk_crc32c_extend_portable(before, bytes, size));
	}
}

TEST(random_big_buffers_have_one_answer) {
	uint64_t seed = 4;
	static uint8_t bytes[1 << 20];
	check_random_bytes(&seed, bytes, sizeof bytes);
	for (int round = 0; round < 50; round++) {
		size_t at = check_random(&seed) % (sizeof bytes / 2);
		size_t size = check_random(&seed) % (sizeof bytes - at);
		uint32_t expected = wk_crc32c_extend_portable(0, bytes + at, size);
		CHECK_EQ(wk_crc32c(bytes + at, size), expected);
		if (round < 3)
			CHECK_EQ(model(0, bytes + at, size), expected);
	}
}

TEST(every_bit_counts) {
	uint64_t seed = 5;
	uint8_t bytes[1024];
	check_random_bytes(&seed, bytes, sizeof bytes);
	uint32_t whole = wk_crc32c(bytes, sizeof bytes);
	for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		CHECK(wk_crc32c(bytes, sizeof bytes) != whole);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

TEST(eight_bytes_in_a_register_are_eight_bytes) {
	uint64_t seed = 8;
	for (int i = 0; i < 1000; i++) {
		uint8_t bytes[8];
		uint64_t value = check_random(&seed);
		uint32_t before = i == 0 ? 0 : (uint32_t)check_random(&seed);
		wk_store_le64(bytes, value);
		CHECK_EQ(wk_crc32c_extend_le64(before, value), model(before, bytes, sizeof bytes));
	}
}

TEST(two_pieces_combine_to_the_whole) {
	uint64_t seed = 7;
	static uint8_t bytes[1 << 16];
	check_random_bytes(&seed, bytes, sizeof bytes);
	for (size_t size = 0; size <= sizeof bytes; size = size * 3 + 1) {
		uint32_t whole = wk_crc32c(bytes, size);
		for (size_t split = 0; split <= size; split = split * 2 + 1) {
			uint32_t first = wk_crc32c(bytes, split), second = wk_crc32c(bytes + split, size - split);
			CHECK_EQ(wk_crc32c_combine(first, second, size - split), whole);
		}
	}
}

TEST(nothing_behind_the_end_is_read) {
	uint64_t seed = 6;
	uint8_t bytes[200];
	check_random_bytes(&seed, bytes, sizeof bytes);
	for (size_t size = 1; size <= sizeof bytes; size++) {
		uint8_t *exact = check_exact_copy(bytes, size); /* the address sanitizer watches its end */
		check_both(exact, size, model(0, bytes, size));
		free(exact);
	}
}

TEST(the_implementation_has_a_name) {
	const char *name = wk_crc32c_implementation();
	printf("crc32c runs as: %s\n", name);
	CHECK(strcmp(name, "sse4.2 three-way") == 0 || strcmp(name, "armv8") == 0 || strcmp(name, "portable") == 0);
}

int main(void) {
	RUN(vectors_of_rfc_3720);
	RUN(nothing_has_the_checksum_zero_and_extends_nothing);
	RUN(every_length_to_300_at_every_alignment_to_15_agrees_with_the_model);
	RUN(every_split_extends_to_the_whole);
	RUN(every_length_to_6500_has_one_answer);
	RUN(random_big_buffers_have_one_answer);
	RUN(every_bit_counts);
	RUN(eight_bytes_in_a_register_are_eight_bytes);
	RUN(two_pieces_combine_to_the_whole);
	RUN(nothing_behind_the_end_is_read);
	RUN(the_implementation_has_a_name);
	return check_done();
}
