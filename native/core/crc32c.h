/*
 * crc32c.h: what crc32c.c has for crc32c_combine.c. Private.
 */
#ifndef WK_CORE_CRC32C_H
#define WK_CORE_CRC32C_H
#include "walkeeper/core.h"

/* Multiplies by x^(8 size): what a checksum becomes when so many bytes are appended, but for theirs. False: not in hardware. */
bool wk_crc32c_move(uint32_t *crc, uint64_t size);
#endif
