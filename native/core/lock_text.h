/*
 * lock_text.h: what the file `lock` says (docs/formats/lock.md): who writes or wrote last, and under which kernel. Pure.
 */
#ifndef WK_CORE_LOCK_TEXT_H
#define WK_CORE_LOCK_TEXT_H
#include "walkeeper/core.h"

enum { WK_BOOT_ID_SIZE = 16, WK_LOCK_TEXT_SIZE = 96 };

typedef struct wk_lock_text {
	int64_t pid;     /* of the process, 1 or above; -1: that cannot be told */
	bool boot_known; /* else `boot` says nothing */
	uint8_t boot[WK_BOOT_ID_SIZE];
} wk_lock_text;

/* Zeros stand behind the text. pid is 1 or above. */
void wk_lock_text_encode(const wk_lock_text *text, uint8_t bytes[WK_LOCK_TEXT_SIZE]);
/*
 * Of any bytes, none too; `text` is written whatever comes out. WK_OK: it is such a text, and zeros. WK_CORRUPT: it is not,
 * and `text` has what could be told all the same: a first line without the second one, or nothing.
 */
wk_status wk_lock_text_decode(const uint8_t *bytes, size_t size, wk_lock_text *text);
#endif
