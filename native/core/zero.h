/* zero.h: bytes that a format leaves unused are zero, and are checked to be. Private: nothing outside native/ sees it.
 */
#ifndef WK_CORE_ZERO_H
#define WK_CORE_ZERO_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The first byte is zero, and every other one is like the byte before it. */
static inline bool wk_is_zero(const uint8_t *bytes, size_t size) {
	return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}
#endif
