/*
 * crc_slices.h: slicing by eight (Kounavis and Berry, 2005), for a reflected CRC of 32 bits: eight table look-ups for eight
 * bytes. Private.
 */
#ifndef WK_CORE_CRC_SLICES_H
#define WK_CORE_CRC_SLICES_H
#include "core/bytes.h"

/* All 256 sums of eight numbers, where bit i of the index says whether b_i takes part. */
#define SPAN1(x, b0) (x), (x) ^ (b0)
#define SPAN2(x, b0, b1) SPAN1(x, b0), SPAN1((x) ^ (b1), b0)
#define SPAN3(x, b0, b1, b2) SPAN2(x, b0, b1), SPAN2((x) ^ (b2), b0, b1)
#define SPAN4(x, b0, b1, b2, b3) SPAN3(x, b0, b1, b2), SPAN3((x) ^ (b3), b0, b1, b2)
#define SPAN5(x, b0, b1, b2, b3, b4) SPAN4(x, b0, b1, b2, b3), SPAN4((x) ^ (b4), b0, b1, b2, b3)
#define SPAN6(x, b0, b1, b2, b3, b4, b5) SPAN5(x, b0, b1, b2, b3, b4), SPAN5((x) ^ (b5), b0, b1, b2, b3, b4)
#define SPAN7(x, b0, b1, b2, b3, b4, b5, b6) SPAN6(x, b0, b1, b2, b3, b4, b5), SPAN6((x) ^ (b6), b0, b1, b2, b3, b4, b5)
#define SPAN(b0, b1, b2, b3, b4, b5, b6, b7) \
	SPAN7(0u, b0, b1, b2, b3, b4, b5, b6), SPAN7((b7), b0, b1, b2, b3, b4, b5, b6)

/*
 * slices[k][byte]: the register that held `byte` alone, after that byte and k zero bytes. Linear in the byte, so eight
 * registers a table say it all: those of the bytes 1, 2, 4 ... 128. slices[0][128] is the polynomial itself.
 */
typedef uint32_t wk_crc_slices[8][256];

static inline uint32_t wk_crc_slices_extend(const wk_crc_slices slices, uint32_t state, const uint8_t *bytes,
                                            size_t size) {
	for (; size >= 8; bytes += 8, size -= 8) {
		uint32_t low = wk_load_le32(bytes) ^ state;
		uint32_t high = wk_load_le32(bytes + 4);
		state = slices[7][low & 0xff] ^ slices[6][low >> 8 & 0xff] ^ slices[5][low >> 16 & 0xff] ^
		        slices[4][low >> 24] ^ slices[3][high & 0xff] ^ slices[2][high >> 8 & 0xff] ^
		        slices[1][high >> 16 & 0xff] ^ slices[0][high >> 24];
	}
	for (; size > 0; bytes++, size--)
		state = slices[0][(state ^ *bytes) & 0xff] ^ state >> 8;
	return state;
}
#endif
