/*
 * lock_text.h: what the file `lock` says: who holds it or held it last, and in a second line the boot id of the kernel under
 * which that ran, with its CRC32C, so that a spoiled one is not taken for another kernel's. Zeros follow. Private.
 */
#ifndef WK_ENGINE_LOCK_TEXT_H
#define WK_ENGINE_LOCK_TEXT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WK_BOOT_ID_SIZE = 16, WK_LOCK_TEXT_SIZE = 96 };

typedef struct wk_lock_text {
	int64_t pid;     /* -1: nobody ever had it, or that cannot be told */
	bool boot_known; /* else `boot` says nothing */
	uint8_t boot[WK_BOOT_ID_SIZE];
} wk_lock_text;

/* At most WK_LOCK_TEXT_SIZE bytes, zeros behind the text. Pure. */
void wk_lock_text_write(const wk_lock_text *text, char bytes[WK_LOCK_TEXT_SIZE]);
/* Of any bytes. Pure. */
wk_lock_text wk_lock_text_read(const void *bytes, size_t size);
/* Are these bytes such a text, and zeros? Pure. */
bool wk_lock_text_is(const void *bytes, size_t size);
#endif
