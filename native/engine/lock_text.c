#include "engine/lock_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "walkeeper/core.h"

enum { DIGITS_MAX = 20, LINE_SIZE = 2 * WK_BOOT_ID_SIZE + sizeof " 01234567\n" };

static void write_boot(const uint8_t boot[WK_BOOT_ID_SIZE], char line[LINE_SIZE]) {
	for (int i = 0; i < WK_BOOT_ID_SIZE; i++)
		snprintf(line + 2 * i, 3, "%02x", boot[i]);
	size_t size = 2 * WK_BOOT_ID_SIZE;
	snprintf(line + size, LINE_SIZE - size, " %08x\n", wk_crc32c(line, size));
}

static bool read_boot(const char *line, uint8_t boot[WK_BOOT_ID_SIZE]) {
	char again[LINE_SIZE];
	for (int i = 0; i < WK_BOOT_ID_SIZE; i++) {
		char digits[3] = {line[2 * i], line[2 * i + 1], 0};
		boot[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	write_boot(boot, again);
	return memcmp(line, again, LINE_SIZE - 1) == 0;
}

void wk_lock_text_write(const wk_lock_text *text, char bytes[WK_LOCK_TEXT_SIZE]) {
	memset(bytes, 0, WK_LOCK_TEXT_SIZE);
	int size = snprintf(bytes, WK_LOCK_TEXT_SIZE, "%lld\n", (long long)text->pid);
	if (text->boot_known)
		write_boot(text->boot, bytes + size);
}

wk_lock_text wk_lock_text_read(const void *bytes, size_t size) {
	char copy[WK_LOCK_TEXT_SIZE + 1] = {0};
	wk_lock_text text = {.pid = -1};
	if (size > 0)
		memcpy(copy, bytes, size < WK_LOCK_TEXT_SIZE ? size : WK_LOCK_TEXT_SIZE);
	char *end;
	long long pid = strtoll(copy, &end, 10);
	if (end == copy || end - copy > DIGITS_MAX || *end != '\n' || pid <= 0)
		return text;
	text.pid = pid;
	text.boot_known = read_boot(end + 1, text.boot);
	return text;
}

bool wk_lock_text_is(const void *bytes, size_t size) {
	wk_lock_text text = wk_lock_text_read(bytes, size);
	char wanted[WK_LOCK_TEXT_SIZE];
	wk_lock_text_write(&text, wanted);
	size_t compared = size < sizeof wanted ? size : sizeof wanted;
	if (size == 0 || text.pid < 0 || memcmp(bytes, wanted, compared) != 0)
		return false;
	for (size_t i = compared; i < size; i++)
		if (((const uint8_t *)bytes)[i] != 0)
			return false;
	return true;
}
