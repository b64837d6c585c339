/*
 * test_lock_text.c: what the file `lock` says of its holder, of any bytes.
 */
#include "check.h"
#include "engine/lock_text.h"
#include <string.h>

static wk_lock_text example(void) {
	wk_lock_text text = {.pid = 4711, .boot_known = true};
	for (int i = 0; i < WK_BOOT_ID_SIZE; i++)
		text.boot[i] = (uint8_t)(i * 17);
	return text;
}

TEST(what_is_written_is_read) {
	char bytes[WK_LOCK_TEXT_SIZE];
	wk_lock_text text = example();
	wk_lock_text_write(&text, bytes);
	CHECK(strncmp(bytes, "4711\n00112233445566778899aabbccddeeff ", 38) == 0);
	wk_lock_text found = wk_lock_text_read(bytes, sizeof bytes);
	CHECK_EQ(found.pid, 4711);
	CHECK(found.boot_known && memcmp(found.boot, text.boot, sizeof text.boot) == 0);
	CHECK(wk_lock_text_is(bytes, sizeof bytes));
	text = (wk_lock_text){.pid = INT64_MAX, .boot_known = true};
	wk_lock_text_write(&text, bytes);
	CHECK_EQ(wk_lock_text_read(bytes, sizeof bytes).pid, INT64_MAX);
	CHECK(wk_lock_text_read(bytes, sizeof bytes).boot_known);
	text.boot_known = false;
	wk_lock_text_write(&text, bytes);
	CHECK_EQ(wk_lock_text_read(bytes, sizeof bytes).pid, INT64_MAX);
	CHECK(!wk_lock_text_read(bytes, sizeof bytes).boot_known);
	CHECK(wk_lock_text_is(bytes, sizeof bytes));
}

TEST(no_flipped_bit_makes_another_kernel_of_it) {
	char bytes[WK_LOCK_TEXT_SIZE];
	wk_lock_text text = example();
	wk_lock_text_write(&text, bytes);
	for (size_t bit = 0; bit < 8 * strlen(bytes); bit++) {
		bytes[bit / 8] ^= (char)(1 << bit % 8);
		wk_lock_text found = wk_lock_text_read(bytes, sizeof bytes);
		CHECK(!found.boot_known || memcmp(found.boot, text.boot, sizeof text.boot) == 0);
		bytes[bit / 8] ^= (char)(1 << bit % 8);
	}
}

/* It is cut anywhere, as a power cut or another program may. */
TEST(a_part_of_it_says_no_more_than_it_holds) {
	char bytes[WK_LOCK_TEXT_SIZE];
	wk_lock_text text = example();
	wk_lock_text_write(&text, bytes);
	size_t size = strlen(bytes);
	for (size_t left = 0; left <= size; left++) {
		wk_lock_text found = wk_lock_text_read(bytes, left);
		CHECK_EQ(found.pid, left >= 5 ? 4711 : -1);
		CHECK_EQ(found.boot_known, left == size);
	}
}

TEST(other_bytes_are_no_such_text) {
	static const char *const others[] = {
	    "", "\n", "4711", "0\n", "-3\n", "4711 \n", "x\n", "99999999999999999999999999\n", "12\nx"};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		CHECK(!wk_lock_text_is(others[i], strlen(others[i])));
	uint32_t random = 1;
	for (int i = 0; i < 20000; i++) {
		uint8_t bytes[200];
		for (size_t j = 0; j < sizeof bytes; j++) {
			random = random * 1664525 + 1013904223;
			bytes[j] = (uint8_t)(random >> 24);
		}
		CHECK(!wk_lock_text_read(bytes, random % sizeof bytes).boot_known);
		CHECK(!wk_lock_text_is(bytes, sizeof bytes));
	}
}

int main(void) {
	RUN(what_is_written_is_read);
	RUN(no_flipped_bit_makes_another_kernel_of_it);
	RUN(a_part_of_it_says_no_more_than_it_holds);
	RUN(other_bytes_are_no_such_text);
	return check_done();
}
