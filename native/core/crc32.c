/*
 * crc32.c: zlib's CRC-32 (IEEE 802.3; reflected, init and xorout all ones), the digest of BookKeeper's older ledgers.
 *
 * No CPU of x86-64 has an instruction for this polynomial, but a carry-less multiplication moves a register of any
 * polynomial past a stretch of bytes: four registers of 16 bytes move in turn past 64 bytes each and take up what
 * stands there; then they are folded into one, and its 16 bytes are what the table is asked about at last. Elsewhere,
 * and for short stretches, it is slicing by eight, as in crc32c.c, which says more of both.
 */
#include "core/crc32.h"
#include "core/bytes.h"
#include "core/crc_slices.h"
#include "core/wire.h"

#if defined(__x86_64__)
#include <wmmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

static const wk_crc_slices slices = {
    {SPAN(0x77073096, 0xee0e612c, 0x076dc419, 0x0edb8832, 0x1db71064, 0x3b6e20c8, 0x76dc4190, 0xedb88320)},
    {SPAN(0x191b3141, 0x32366282, 0x646cc504, 0xc8d98a08, 0x4ac21251, 0x958424a2, 0xf0794f05, 0x3b83984b)},
    {SPAN(0x01c26a37, 0x0384d46e, 0x0709a8dc, 0x0e1351b8, 0x1c26a370, 0x384d46e0, 0x709a8dc0, 0xe1351b80)},
    {SPAN(0xb8bc6765, 0xaa09c88b, 0x8f629757, 0xc5b428ef, 0x5019579f, 0xa032af3e, 0x9b14583d, 0xed59b63b)},
    {SPAN(0x3d6029b0, 0x7ac05360, 0xf580a6c0, 0x30704bc1, 0x60e09782, 0xc1c12f04, 0x58f35849, 0xb1e6b092)},
    {SPAN(0xcb5cd3a5, 0x4dc8a10b, 0x9b914216, 0xec53826d, 0x03d6029b, 0x07ac0536, 0x0f580a6c, 0x1eb014d8)},
    {SPAN(0xa6770bb4, 0x979f1129, 0xf44f2413, 0x33ef4e67, 0x67de9cce, 0xcfbd399c, 0x440b7579, 0x8816eaf2)},
    {SPAN(0xccaa009e, 0x4225077d, 0x844a0efa, 0xd3e51bb5, 0x7cbb312b, 0xf9766256, 0x299dc2ed, 0x533b85da)},
};

static uint32_t extend_tables(uint32_t state, const uint8_t *bytes, size_t size) {
	return wk_crc_slices_extend(slices, state, bytes, size);
}

#if defined(__x86_64__)
enum { LANE = 16, LANES = 4, TURN = LANE * LANES };

/*
 * x^(bits + 32) and x^(bits - 32) modulo the polynomial, reflected, and doubled as a reflected product is one bit short:
 * they move the earlier and the later eight bytes of a lane by so many bits.
 */
static const uint64_t turn_powers[2] = {0x154442bd4, 0x1c6e41596}; /* 512 bits */
static const uint64_t lane_powers[2] = {0x1751997d0, 0x0ccaa009e}; /* 128 bits */

__attribute__((target("sse2,pclmul"))) static inline __m128i load(const void *at) {
	return _mm_loadu_si128((const __m128i *)at);
}

/* The lane moved onto `next`, the bytes that stand where it comes to stand. */
__attribute__((target("sse2,pclmul"))) static inline __m128i fold(__m128i lane, __m128i powers, __m128i next) {
	__m128i early = _mm_clmulepi64_si128(lane, powers, 0x00), late = _mm_clmulepi64_si128(lane, powers, 0x11);
	return _mm_xor_si128(_mm_xor_si128(early, late), next);
}

/* size >= TURN */
__attribute__((target("sse2,pclmul"))) static uint32_t extend_hardware(uint32_t state, const uint8_t *bytes,
                                                                       size_t size) {
	__m128i first = _mm_xor_si128(load(bytes), _mm_cvtsi32_si128((int32_t)state));
	__m128i second = load(bytes + LANE), third = load(bytes + 2 * LANE), fourth = load(bytes + 3 * LANE);
	__m128i powers = load(turn_powers);
	for (bytes += TURN, size -= TURN; size >= TURN; bytes += TURN, size -= TURN) {
		first = fold(first, powers, load(bytes));
		second = fold(second, powers, load(bytes + LANE));
		third = fold(third, powers, load(bytes + 2 * LANE));
		fourth = fold(fourth, powers, load(bytes + 3 * LANE));
	}
	powers = load(lane_powers);
	__m128i lane = fold(fold(fold(first, powers, second), powers, third), powers, fourth);
	for (; size >= LANE; bytes += LANE, size -= LANE)
		lane = fold(lane, powers, load(bytes));
	uint8_t rest[LANE];
	_mm_storeu_si128((__m128i *)rest, lane);
	return extend_tables(extend_tables(0, rest, LANE), bytes, size);
}

static inline bool pays(size_t size) {
	return size >= TURN && __builtin_cpu_supports("pclmul"); /* GCOV_EXCL_BR_LINE: the machine decides, in one way */
}

#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
static uint32_t extend_hardware(uint32_t state, const uint8_t *bytes, size_t size) {
	for (; size >= 8; bytes += 8, size -= 8)
		state = __crc32d(state, wk_load_le64(bytes));
	for (; size > 0; bytes++, size--)
		state = __crc32b(state, *bytes);
	return state;
}

static inline bool pays(size_t size) {
	return size > 0;
}

#else
static uint32_t extend_hardware(uint32_t state, const uint8_t *bytes, size_t size) {
	return extend_tables(state, bytes, size);
}

static inline bool pays(size_t size) {
	return size > 0;
}
#endif

uint32_t wk_crc32_extend(uint32_t crc, const void *data, size_t size) {
	return ~(pays(size) ? extend_hardware(~crc, data, size) : extend_tables(~crc, data, size));
}

uint32_t wk_crc32_extend_portable(uint32_t crc, const void *data, size_t size) {
	return ~extend_tables(~crc, data, size);
}
