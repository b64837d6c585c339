/* wire_double.h: stands in for wk_wire_digest_matches of walkeeper/wire.h, bit by bit. */
#ifndef WIRE_DOUBLE_H
#define WIRE_DOUBLE_H
#include "core/bytes.h"
#include "walkeeper/wire.h"

static uint32_t double_crc(uint32_t polynomial, uint32_t crc, const uint8_t *bytes, size_t size) {
	crc = ~crc;
	for (size_t i = 0; i < size; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (polynomial & (0u - (crc & 1)));
	}
	return ~crc;
}

__attribute__((weak)) bool wk_wire_digest_matches(const uint8_t *bytes, size_t size, uint32_t digest) {
	size_t width = digest == WK_DIGEST_CRC32C ? 4 : 8;
	if (size < 32 + width || (width == 8 && wk_load_be32(bytes + 32) != 0))
		return false;
	uint32_t polynomial = width == 4 ? 0x82f63b78u : 0xedb88320u;
	uint32_t crc = double_crc(polynomial, 0, bytes, 32);
	return double_crc(polynomial, crc, bytes + 32 + width, size - 32 - width) == wk_load_be32(bytes + 28 + width);
}
#endif
