/*
 * crc32c_combine.c: the checksum of two pieces from theirs.
 *
 * Appending size_b bytes multiplies what A left by x^(8 size_b) modulo the polynomial; init and final inversion of both cancel. Bit 31 is x^0, as the CRC is
 * reflected. (The arithmetic is that of any CRC: Hacker's Delight, chapter 14.)
 */
#include "core/crc32c.h"

enum { MOVE_MAX = 64 * 1024 }; /* beyond that squaring takes fewer steps than moving by 2 KiB */

static const uint32_t POLYNOMIAL = 0x82F63B78;
static const uint32_t ONE = 0x80000000, X8 = 0x00800000; /* x^0 and x^8 */

static uint32_t multiply(uint32_t a, uint32_t b) {
	uint32_t product = 0;
	for (uint32_t bit = ONE; bit != 0; bit >>= 1) {
		product ^= (a & bit) != 0 ? b : 0;
		b = (b >> 1) ^ ((b & 1) != 0 ? POLYNOMIAL : 0);
	}
	return product;
}

uint64_t wk_crc32c_combine_from(void) {
	uint32_t zero = 0;
	return wk_crc32c_move(&zero, 0) ? 128 : 16 * 1024; /* GCOV_EXCL_BR_LINE: the machine decides */
}

uint32_t wk_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b) {
	if (size_b <= MOVE_MAX && wk_crc32c_move(&crc_a, size_b)) /* GCOV_EXCL_BR_LINE: the machine decides */
		return crc_a ^ crc_b;
	uint32_t power = ONE;
	for (uint32_t square = X8; size_b != 0; size_b >>= 1, square = multiply(square, square))
		if ((size_b & 1) != 0)
			power = multiply(power, square);
	return multiply(power, crc_a) ^ crc_b;
}
