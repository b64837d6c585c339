/* utf8.h: names are text. Private. RFC 3629. */
#ifndef WK_CORE_UTF8_H
#define WK_CORE_UTF8_H
#include <stdbool.h>
#include <stddef.h>

/*
 * Bytes of the character at the start; 0: none starts here. Overlong forms, surrogates and what lies above U+10FFFF are
 * none. size > 0.
 */
size_t wk_utf8_character_size(const char *text, size_t size);
bool wk_utf8_is_valid(const char *text, size_t size);
#endif
