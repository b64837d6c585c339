/* crc32.h: the same checksum without special instructions; for tests. Private. */
#ifndef WK_CORE_CRC32_H
#define WK_CORE_CRC32_H
#include <stddef.h>
#include <stdint.h>

uint32_t wk_crc32_extend_portable(uint32_t crc, const void *data, size_t size);
#endif
