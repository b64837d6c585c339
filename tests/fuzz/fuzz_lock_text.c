/*
 * The input is the file `lock`. Checked as it is, and with the checksum of its second line put right: what decodes is encoded
 * again to the same bytes, and what does not tells no more than a first line.
 */
#include "core/lock_text.h"
#include "fuzz.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { BYTES_MAX = 4096, BOOT_DIGITS = 2 * WK_BOOT_ID_SIZE, BOOT_LINE_SIZE = BOOT_DIGITS + 10 };

static void check(const uint8_t *bytes, size_t size) {
	wk_lock_text text;
	uint8_t again[WK_LOCK_TEXT_SIZE];
	wk_status status = wk_lock_text_decode(bytes, size, &text);
	assert(status == WK_OK || status == WK_CORRUPT);
	assert(text.pid == -1 || text.pid > 0);
	assert(text.pid > 0 || (status == WK_CORRUPT && !text.boot_known));
	if (text.pid < 0)
		return;
	wk_lock_text_encode(&text, again);
	size_t told = strlen((const char *)again);
	assert(told <= size && memcmp(bytes, again, told) == 0);
	for (size_t i = told; i < size && status == WK_OK; i++)
		assert(bytes[i] == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	uint8_t copy[BYTES_MAX];
	if (size > sizeof copy)
		return 0;
	check(bytes, size);
	const uint8_t *end = size > 0 ? memchr(bytes, '\n', size) : NULL;
	if (end == NULL || size - (size_t)(end + 1 - bytes) < BOOT_LINE_SIZE)
		return 0;
	memcpy(copy, bytes, size);
	uint8_t *line = copy + (end + 1 - bytes);
	char sum[BOOT_LINE_SIZE - BOOT_DIGITS + 1];
	snprintf(sum, sizeof sum, " %08x\n", wk_crc32c(line, BOOT_DIGITS));
	memcpy(line + BOOT_DIGITS, sum, sizeof sum - 1);
	check(copy, size);
	return 0;
}
