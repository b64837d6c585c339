/* What the file `lock` says of its holder, of any bytes. */
/* ctest labels: one-thread */
#include "check.h"
#include "core/lock_text.h"
#include <string.h>

enum { PID_LINE = 5 }; /* of the example */

static wk_lock_text example(void) {
	wk_lock_text text = {.pid = 4711, .boot_known = true};
	for (int i = 0; i < WK_BOOT_ID_SIZE; i++)
		text.boot[i] = (uint8_t)(i * 17);
	return text;
}

static size_t written(uint8_t bytes[WK_LOCK_TEXT_SIZE]) {
	wk_lock_text text = example();
	wk_lock_text_encode(&text, bytes);
	return strlen((const char *)bytes);
}

TEST(what_is_written_is_read) {
	static const int64_t pids[] = {1, 9, 10, 4711, INT32_MAX, INT64_MAX};
	uint8_t bytes[WK_LOCK_TEXT_SIZE];
	wk_lock_text found;
	size_t size = written(bytes);
	uint32_t crc = wk_crc32c("00112233445566778899aabbccddeeff", 32);
	char wanted[WK_LOCK_TEXT_SIZE];
	snprintf(wanted, sizeof wanted, "4711\n00112233445566778899aabbccddeeff %08x\n", crc);
	CHECK_EQ(size, strlen(wanted));
	CHECK(memcmp(bytes, wanted, size) == 0);
	for (size_t i = 0; i < sizeof pids / sizeof *pids; i++)
		for (int known = 0; known < 2; known++) {
			wk_lock_text text = example();
			text.pid = pids[i];
			text.boot_known = known;
			wk_lock_text_encode(&text, bytes);
			CHECK_EQ(wk_lock_text_decode(bytes, sizeof bytes, &found), WK_OK);
			CHECK_EQ(found.pid, pids[i]);
			CHECK_EQ(found.boot_known, known);
			CHECK(!known || memcmp(found.boot, text.boot, sizeof text.boot) == 0);
		}
}

TEST(no_flipped_bit_makes_another_kernel_of_it) {
	uint8_t bytes[WK_LOCK_TEXT_SIZE];
	wk_lock_text text = example(), found;
	size_t size = written(bytes);
	for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		wk_status status = wk_lock_text_decode(bytes, sizeof bytes, &found);
		CHECK(!found.boot_known || memcmp(found.boot, text.boot, sizeof text.boot) == 0);
		CHECK(bit / 8 < PID_LINE || status == WK_CORRUPT);
		CHECK_EQ(found.boot_known, bit / 8 >= size || (bit / 8 < PID_LINE && status == WK_OK));
		CHECK(bit / 8 < PID_LINE || found.pid == 4711);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

/* It is cut anywhere, as a power cut or another program may. */
TEST(a_part_of_it_says_no_more_than_it_holds) {
	uint8_t bytes[WK_LOCK_TEXT_SIZE];
	wk_lock_text found;
	size_t size = written(bytes);
	for (size_t left = 0; left <= size; left++) {
		wk_status status = wk_lock_text_decode(bytes, left, &found);
		CHECK_EQ(status, left == PID_LINE || left == size ? WK_OK : WK_CORRUPT);
		CHECK_EQ(found.pid, left >= PID_LINE ? 4711 : -1);
		CHECK_EQ(found.boot_known, left == size);
	}
}

TEST(other_bytes_are_no_such_text) {
	static const char *const others[] = {"",         "\n",    "4711", "0\n",  "04711\n", "-3\n",
	                                     "+3\n",     "4711 ", " 3\n", "x\n",  "12\nx",   "9223372036854775808\n",
	                                     "12\n\n",   "/\n",   ":\n",  "1:\n", "12\r\n",  "99999999999999999999999999\n",
	                                     "12\n\0x\n"};
	wk_lock_text found;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		size_t size = i == sizeof others / sizeof *others - 1 ? 6 : strlen(others[i]);
		CHECK_EQ(wk_lock_text_decode((const uint8_t *)others[i], size, &found), WK_CORRUPT);
		CHECK_EQ(found.pid, strncmp(others[i], "12\n", 3) == 0 ? 12 : -1);
		CHECK(!found.boot_known);
	}
	CHECK_EQ(wk_lock_text_decode(NULL, 0, &found), WK_CORRUPT);
	CHECK_EQ(found.pid, -1);
}

/* Upper case, too, is another spelling; and a digit that is none is not read as one. */
TEST(a_boot_id_has_one_spelling) {
	uint8_t bytes[WK_LOCK_TEXT_SIZE];
	wk_lock_text found;
	size_t size = written(bytes);
	for (size_t i = PID_LINE; i < size; i++)
		for (int other = 0; other < 256; other++) {
			uint8_t was = bytes[i];
			bytes[i] = (uint8_t)other;
			wk_lock_text_decode(bytes, sizeof bytes, &found);
			CHECK_EQ(found.boot_known, other == was);
			bytes[i] = was;
		}
}

int main(void) {
	RUN(what_is_written_is_read);
	RUN(no_flipped_bit_makes_another_kernel_of_it);
	RUN(a_part_of_it_says_no_more_than_it_holds);
	RUN(other_bytes_are_no_such_text);
	RUN(a_boot_id_has_one_spelling);
	return check_done();
}
