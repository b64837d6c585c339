/*
 * crc32c.h: what crc32c.c has for crc32c_combine.c, and for who has eight bytes in a register. Private.
 */
#ifndef WK_CORE_CRC32C_H
#define WK_CORE_CRC32C_H
#include "walkeeper/core.h"

/* Multiplies by x^(8 size): what a checksum becomes when so many bytes are appended, but for theirs. False: not in hardware. */
bool wk_crc32c_move(uint32_t *crc, uint64_t size);
/*
 * wk_crc32c_extend of the value's eight bytes in little-endian: of bytes that were stored a moment ago this does not
 * wait until they, and all that was stored before them, have reached the cache.
 */
uint32_t wk_crc32c_extend_le64(uint32_t crc, uint64_t value);
#endif
