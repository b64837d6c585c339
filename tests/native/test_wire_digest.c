/* test_wire_digest.c: what a bookie reads in entries, the digests of BookKeeper, and CRC-32 in all its ways. */
/* ctest labels: one-thread simulated */
#include "core/crc32.h"
#include "wire_bytes.h"

#define HEADER_HEX "0000000000000001 0000000000000000 ffffffffffffffff 0000000000000005"
#define HELLO_CRC32_HEX HEADER_HEX "0000000030a56872 68656c6c6f"

/* One bit after the other: the definition. */
static uint32_t crc32_by_bits(uint32_t crc, const uint8_t *data, size_t size) {
	crc = ~crc;
	for (size_t i = 0; i < size; i++) {
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = (crc & 1) != 0 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
	}
	return ~crc;
}

TEST(the_checksum_is_zlibs) {
	CHECK_EQ(wk_crc32_extend(0, "123456789", 9), 0xcbf43926);
	CHECK_EQ(wk_crc32_extend(0, "", 0), 0);
	CHECK_EQ(wk_crc32_extend(wk_crc32_extend(0, "1234", 4), "56789", 5), 0xcbf43926);
	CHECK_EQ(wk_crc32_extend_portable(0, "123456789", 9), 0xcbf43926);
}

/* At every size around the turns of the fast way, at every alignment, and where the memory ends. */
TEST(every_way_gives_the_same_checksum) {
	uint64_t seed = check_seed((uint64_t)time(NULL));
	printf("seed %llu\n", (unsigned long long)seed);
	uint8_t data[700];
	check_random_bytes(&seed, data, sizeof data);
	for (size_t size = 0; size <= 400; size++) {
		size_t at = check_random(&seed) % 64;
		uint32_t before = (uint32_t)check_random(&seed);
		uint8_t *exact = check_exact_copy(data + at, size);
		uint32_t expected = crc32_by_bits(before, exact, size);
		CHECK_EQ(wk_crc32_extend(before, exact, size), expected);
		CHECK_EQ(wk_crc32_extend(before, data + at, size), expected);
		CHECK_EQ(wk_crc32_extend_portable(before, exact, size), expected);
		free(exact);
	}
}

TEST(long_stretches_and_their_parts_agree) {
	uint64_t seed = check_seed((uint64_t)time(NULL));
	printf("seed %llu\n", (unsigned long long)seed);
	static uint8_t data[100000];
	check_random_bytes(&seed, data, sizeof data);
	uint32_t whole = crc32_by_bits(0, data, sizeof data);
	CHECK_EQ(wk_crc32_extend(0, data, sizeof data), whole);
	for (int round = 0; round < 100; round++) {
		size_t cut = check_random(&seed) % sizeof data;
		CHECK_EQ(wk_crc32_extend(wk_crc32_extend(0, data, cut), data + cut, sizeof data - cut), whole);
	}
}

TEST(an_entry_has_four_numbers) {
	bytes hello = hex(HELLO_HEX);
	wk_wire_entry entry;
	CHECK_EQ(wk_wire_entry_decode(hello.at, hello.size, &entry), WK_OK);
	CHECK(entry.ledger_id == 1 && entry.entry_id == 0 && entry.lac == -1 && entry.length == 5);
	CHECK_EQ(wk_wire_entry_decode(hello.at, 32, &entry), WK_OK);
	CHECK_EQ(wk_wire_entry_decode(hello.at, 31, &entry), WK_CORRUPT);
}

/* An entry that recovery writes again may tell of a LAC behind itself; nobody asserts anything about it. */
TEST(an_entry_may_say_any_number) {
	bytes odd = hex("8000000000000000 fffffffffffffffe 7fffffffffffffff ffffffffffffffff");
	wk_wire_entry entry;
	CHECK_EQ(wk_wire_entry_decode(odd.at, odd.size, &entry), WK_OK);
	CHECK(entry.ledger_id == INT64_MIN && entry.entry_id == -2 && entry.lac == INT64_MAX && entry.length == -1);
}

TEST(an_explicit_lac_is_of_its_ledger) {
	static const char *const packets[] = {"0000000000000001 0000000000000000 b64e4ca2",
	                                      "0000000000000001 0000000000000000 00000000fbc05f16",
	                                      "0000000000000001 0000000000000000"};
	for (size_t i = 0; i < 3; i++) {
		bytes packet = hex(packets[i]);
		int64_t lac = 7;
		CHECK_EQ(wk_wire_lac_decode(packet.at, packet.size, 1, &lac), WK_OK);
		CHECK_EQ(lac, 0);
		CHECK_EQ(wk_wire_lac_decode(packet.at, packet.size, 2, &lac), WK_CORRUPT);
		CHECK_EQ(wk_wire_lac_decode(packet.at, 15, 1, &lac), WK_CORRUPT);
	}
	bytes packet = hex(packets[0]);
	CHECK_EQ(wk_crc32c(packet.at, 16), 0xb64e4ca2);
	CHECK_EQ(wk_crc32_extend(0, packet.at, 16), 0xfbc05f16);
}

TEST(digests_are_bookkeepers) {
	bytes crc32c = hex(HELLO_HEX), crc32 = hex(HELLO_CRC32_HEX);
	CHECK(wk_wire_digest_matches(crc32c.at, crc32c.size, WK_DIGEST_CRC32C));
	CHECK(!wk_wire_digest_matches(crc32c.at, crc32c.size, WK_DIGEST_CRC32));
	CHECK(wk_wire_digest_matches(crc32.at, crc32.size, WK_DIGEST_CRC32));
	CHECK(!wk_wire_digest_matches(crc32.at, crc32.size, WK_DIGEST_CRC32C));
	bytes mac = hex(HEADER_HEX "1fc10b7ef25ddc35686904654653862deb5d2933 68656c6c6f");
	bytes dummy = hex(HEADER_HEX "68656c6c6f");
	static const uint32_t digests[] = {WK_DIGEST_UNKNOWN, WK_DIGEST_CRC32, WK_DIGEST_MAC,
	                                   WK_DIGEST_CRC32C,  WK_DIGEST_DUMMY, 99};
	for (size_t i = 0; i < sizeof digests / sizeof *digests; i++) {
		CHECK(!wk_wire_digest_matches(mac.at, mac.size, digests[i]));
		CHECK(!wk_wire_digest_matches(dummy.at, dummy.size, digests[i]));
		CHECK(!wk_wire_digest_matches(dummy.at, 32, digests[i]));
		CHECK(!wk_wire_digest_matches(dummy.at, 3, digests[i]));
	}
}

TEST(a_digest_is_put_where_it_is_looked_for) {
	bytes crc32c = hex(HEADER_HEX "00000000 68656c6c6f"), crc32 = hex(HEADER_HEX "ffffffffffffffff 68656c6c6f");
	wk_wire_digest_put(crc32c.at, crc32c.size, WK_DIGEST_CRC32C);
	wk_wire_digest_put(crc32.at, crc32.size, WK_DIGEST_CRC32);
	bytes expected = hex(HELLO_HEX);
	CHECK(same_bytes(crc32c.at, crc32c.size, expected.at, expected.size));
	expected = hex(HELLO_CRC32_HEX);
	CHECK(same_bytes(crc32.at, crc32.size, expected.at, expected.size));
}

TEST(every_flipped_bit_is_noticed) {
	for (int kind = 0; kind < 2; kind++) {
		bytes entry = hex(kind == 0 ? HELLO_HEX : HELLO_CRC32_HEX);
		uint32_t digest = kind == 0 ? WK_DIGEST_CRC32C : WK_DIGEST_CRC32;
		for (size_t bit = 0; bit < 8 * entry.size; bit++) {
			entry.at[bit / 8] ^= (uint8_t)(1u << bit % 8);
			CHECK(!wk_wire_digest_matches(entry.at, entry.size, digest));
			entry.at[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		for (size_t size = 0; size < entry.size; size++) {
			uint8_t *cut = check_exact_copy(entry.at, size);
			CHECK(!wk_wire_digest_matches(cut, size, digest));
			free(cut);
		}
	}
}

TEST(an_entry_without_payload_has_a_digest) {
	bytes crc32c = hex(HEADER_HEX "00000000"), crc32 = hex(HEADER_HEX "0000000000000000");
	wk_wire_digest_put(crc32c.at, crc32c.size, WK_DIGEST_CRC32C);
	wk_wire_digest_put(crc32.at, crc32.size, WK_DIGEST_CRC32);
	CHECK(wk_wire_digest_matches(crc32c.at, crc32c.size, WK_DIGEST_CRC32C));
	CHECK(wk_wire_digest_matches(crc32.at, crc32.size, WK_DIGEST_CRC32));
}

int main(void) {
	RUN(the_checksum_is_zlibs);
	RUN(every_way_gives_the_same_checksum);
	RUN(long_stretches_and_their_parts_agree);
	RUN(an_entry_has_four_numbers);
	RUN(an_entry_may_say_any_number);
	RUN(an_explicit_lac_is_of_its_ledger);
	RUN(digests_are_bookkeepers);
	RUN(a_digest_is_put_where_it_is_looked_for);
	RUN(every_flipped_bit_is_noticed);
	RUN(an_entry_without_payload_has_a_digest);
	return check_done();
}
