/*
 * lock_text.c: what the file `lock` says.
 *
 *     text := pid "\n" [ boot " " crc "\n" ] zeros
 * pid in decimal, boot as 32 and crc as 8 digits in hexadecimal: CRC-32C of the 32 before it.
 */
#include "core/lock_text.h"
#include "core/zero.h"
#include <string.h>

enum {
	DECIMAL_MAX = 19, /* digits of INT64_MAX */
	BOOT_DIGITS = 2 * WK_BOOT_ID_SIZE,
	CRC_DIGITS = 8,
	BOOT_LINE_SIZE = BOOT_DIGITS + 1 + CRC_DIGITS + 1
};

static const char HEXADECIMAL[] = "0123456789abcdef";

/* Without leading zeros. Its size. */
static size_t put_pid(int64_t pid, uint8_t *at) {
	uint8_t digits[DECIMAL_MAX];
	size_t size = 0;
	for (uint64_t left = (uint64_t)pid; left > 0; left /= 10)
		digits[DECIMAL_MAX - ++size] = (uint8_t)('0' + left % 10);
	memcpy(at, digits + DECIMAL_MAX - size, size);
	at[size] = '\n';
	return size + 1;
}

static void put_boot(const uint8_t boot[WK_BOOT_ID_SIZE], uint8_t line[BOOT_LINE_SIZE]) {
	for (int i = 0; i < WK_BOOT_ID_SIZE; i++) {
		line[2 * i] = (uint8_t)HEXADECIMAL[boot[i] >> 4];
		line[2 * i + 1] = (uint8_t)HEXADECIMAL[boot[i] & 15];
	}
	uint32_t crc = wk_crc32c(line, BOOT_DIGITS);
	line[BOOT_DIGITS] = ' ';
	for (int i = 0; i < CRC_DIGITS; i++)
		line[BOOT_DIGITS + 1 + i] = (uint8_t)HEXADECIMAL[crc >> (4 * (CRC_DIGITS - 1 - i)) & 15];
	line[BOOT_LINE_SIZE - 1] = '\n';
}

/* What put_pid writes; the size of that, 0 where it is anything else. */
static size_t get_pid(const uint8_t *bytes, size_t size, int64_t *pid) {
	uint8_t again[DECIMAL_MAX + 1];
	uint64_t value = 0;
	size_t digits = 0;
	for (; digits < size && digits < DECIMAL_MAX && bytes[digits] >= '0' && bytes[digits] <= '9'; digits++)
		value = 10 * value + (uint64_t)(bytes[digits] - '0');
	if (value == 0 || value > INT64_MAX || digits == size)
		return 0;
	size_t line = put_pid((int64_t)value, again);
	if (memcmp(bytes, again, line) != 0) /* no longer than what was read */
		return 0;
	*pid = (int64_t)value;
	return line;
}

static uint8_t value_of(uint8_t digit) {
	return (uint8_t)((digit >= 'a' ? digit - 'a' + 10 : digit - '0') & 15);
}

/* What put_boot writes: what is no digit is not written again. */
static bool get_boot(const uint8_t *line, size_t size, uint8_t boot[WK_BOOT_ID_SIZE]) {
	uint8_t again[BOOT_LINE_SIZE];
	if (size < BOOT_LINE_SIZE)
		return false;
	for (int i = 0; i < WK_BOOT_ID_SIZE; i++)
		boot[i] = (uint8_t)(value_of(line[2 * i]) << 4 | value_of(line[2 * i + 1]));
	put_boot(boot, again);
	return memcmp(line, again, BOOT_LINE_SIZE) == 0;
}

void wk_lock_text_encode(const wk_lock_text *text, uint8_t bytes[WK_LOCK_TEXT_SIZE]) {
	memset(bytes, 0, WK_LOCK_TEXT_SIZE);
	size_t size = put_pid(text->pid, bytes);
	if (text->boot_known)
		put_boot(text->boot, bytes + size);
}

wk_status wk_lock_text_decode(const uint8_t *bytes, size_t size, wk_lock_text *text) {
	*text = (wk_lock_text){.pid = -1};
	size_t end = get_pid(bytes, size, &text->pid);
	if (end == 0)
		return WK_CORRUPT;
	text->boot_known = get_boot(bytes + end, size - end, text->boot);
	if (text->boot_known)
		end += BOOT_LINE_SIZE;
	return wk_is_zero(bytes + end, size - end) ? WK_OK : WK_CORRUPT;
}
