/*
 * crc32c.c: the checksum of every format, as fast as the CPU has it.
 *
 * Inside this file `state` is the checksum's shift register, that is the complement of the checksum: registers are
 * linear in the bytes fed to them, and all three implementations rest on that.
 *
 * - x86-64 with SSE4.2 and PCLMUL: the crc32 instruction answers after three cycles but starts every cycle, so three
 *   neighbouring stretches of the input run side by side, and a carry-less multiplication joins the registers.
 * - aarch64 compiled for CPUs with the CRC extension (+crc, any armv8.1-a): its crc32 instruction, one stream.
 *   Decided by the compiler, as asking the kernel for the CPU's features is not for a pure function.
 * - everywhere: slicing by eight, that is eight table look-ups for eight bytes (Kounavis and Berry, 2005).
 *
 * The choice on x86-64 is made at each call from the CPU model that the compiler's runtime read before main; nothing
 * here changes, so nothing can race.
 */
#include "core/crc32c.h"
#include "core/bytes.h"
#include "core/crc_slices.h"
#include "walkeeper/core.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#include <wmmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

static const wk_crc_slices slices = {
    {SPAN(0xf26b8303, 0xe13b70f7, 0xc79a971f, 0x8ad958cf, 0x105ec76f, 0x20bd8ede, 0x417b1dbc, 0x82f63b78)},
    {SPAN(0x13a29877, 0x274530ee, 0x4e8a61dc, 0x9d14c3b8, 0x3fc5f181, 0x7f8be302, 0xff17c604, 0xfbc3faf9)},
    {SPAN(0xa541927e, 0x4f6f520d, 0x9edea41a, 0x38513ec5, 0x70a27d8a, 0xe144fb14, 0xc76580d9, 0x8b277743)},
    {SPAN(0xdd45aab8, 0xbf672381, 0x7b2231f3, 0xf64463e6, 0xe964b13d, 0xd725148b, 0xaba65fe7, 0x52a0c93f)},
    {SPAN(0x38116fac, 0x7022df58, 0xe045beb0, 0xc5670b91, 0x8f2261d3, 0x1ba8b557, 0x37516aae, 0x6ea2d55c)},
    {SPAN(0xef306b19, 0xdb8ca0c3, 0xb2f53777, 0x6006181f, 0xc00c303e, 0x85f4168d, 0x0e045beb, 0x1c08b7d6)},
    {SPAN(0x68032cc8, 0xd0065990, 0xa5e0c5d1, 0x4e2dfd53, 0x9c5bfaa6, 0x3d5b83bd, 0x7ab7077a, 0xf56e0ef4)},
    {SPAN(0x493c7d27, 0x9278fa4e, 0x211d826d, 0x423b04da, 0x847609b4, 0x0d006599, 0x1a00cb32, 0x34019664)},
};

static uint32_t extend_portable(uint32_t state, const uint8_t *bytes, size_t size) {
	return wk_crc_slices_extend(slices, state, bytes, size);
}

#if defined(__x86_64__)
enum { STRETCH_WORDS_MAX = 128 }; /* joining costs 15 cycles for 384 of work: 3 KiB a turn is enough */

/*
 * powers[n - 1] is x^(64 n - 33) modulo the polynomial, bits reflected. A register multiplied by it and fed to the
 * crc32 instruction (which itself multiplies by x^32; reflection adds one x) has moved past n words of zeros.
 */
static const uint32_t powers[2 * STRETCH_WORDS_MAX] = {
    0x00000001, 0x493c7d27, 0xf20c0dfe, 0xba4fc28e, 0x3da6d0cb, 0xddc0152b, 0x1c291d04, 0x9e4addf8, 0x740eef02,
    0x39d3b296, 0x083a6eec, 0x0715ce53, 0xc49f4f67, 0x47db8317, 0x2ad91c30, 0x0d3b6092, 0x6992cea2, 0xc96cfdc0,
    0x7e908048, 0x878a92a7, 0x1b3d8f29, 0xdaece73e, 0xf1d0f55e, 0xab7aff2a, 0xa87ab8a8, 0x2162d385, 0x8462d800,
    0x83348832, 0x71d111a8, 0x299847d5, 0xffd852c6, 0xb9e02b86, 0xdcb17aa4, 0x18b33a4e, 0xf37c5aee, 0xb6dd949b,
    0x6051d5a2, 0x78d9ccb7, 0x18b0d4ff, 0xbac2fd7b, 0x21f3d99c, 0xa60ce07b, 0x8f158014, 0xce7f39f4, 0xa00457f7,
    0x61d82e56, 0x8d6d2c43, 0xd270f1a2, 0x00ac29cf, 0xc619809d, 0xe9adf796, 0x2b3cac5d, 0x96638b34, 0x65863b64,
    0xe0e9f351, 0x1b03397f, 0x9af01f2d, 0xebb883bd, 0x2cff42cf, 0xb3e32c28, 0x88f25a3a, 0x064f7f26, 0x4e36f0b0,
    0xdd7e3b0c, 0xbd6f81f8, 0xf285651c, 0x91c9bd4b, 0x10746f3c, 0x885f087b, 0xc7a68855, 0x4c144932, 0x271d9844,
    0x52148f02, 0x8e766a0c, 0xa3c6f37a, 0x93a5f730, 0xd7c0557f, 0x6cb08e5c, 0x63ded06a, 0x6b749fb2, 0x4d56973c,
    0x1393e203, 0x9669c9df, 0xcec3662e, 0xe417f38a, 0x96c515bb, 0x4b9e0f71, 0xe6fc4e6a, 0xd104b8fc, 0x8227bb8a,
    0x5b397730, 0xb0cd4768, 0xe78eb416, 0x39c7ff35, 0x61ff0e01, 0xd7a4825c, 0x8d96551c, 0x0ab3844b, 0x0bf80dd2,
    0x0167d312, 0x8821abed, 0xf6076544, 0x6a45d2b2, 0x26f6a60a, 0xd8d26619, 0xa741c1bf, 0xde87806c, 0x98d8d9cb,
    0x14338754, 0x49c3cc9c, 0x5bd2011f, 0x68bce87a, 0xdd07448e, 0x57a3d037, 0xdde8f5b9, 0x6956fc3b, 0xa3e3e02c,
    0x42d98888, 0xd73c7bea, 0x3771e98f, 0x80ff0093, 0xb42ae3d9, 0x8fe4c34d, 0x2178513a, 0xdf99fc11, 0xe0ac139e,
    0x6c23e841, 0x170076fa, 0xfe314258, 0x444dd413, 0x0d8373a0, 0x6f345e45, 0x19e3635e, 0x41d17b64, 0x29f268b4,
    0xff0dba97, 0x1dc0632a, 0xa2b73df1, 0x1614f396, 0xf872e54c, 0x9e2993d3, 0x1e41e9fc, 0x6bebd73c, 0x86d8e4d2,
    0x63ae91e6, 0x651bd98b, 0xf8c9da7a, 0x5bb8f1bc, 0x945a19c1, 0xa90fd27a, 0xee8213b7, 0xb3af077a, 0x93781dc7,
    0x4984d782, 0xccc4a1b9, 0xca6ef3ac, 0xa2c2d971, 0x234e0b26, 0x1cad4452, 0xdd66cbbb, 0x74922601, 0x4597456a,
    0xc55f7eab, 0xe9e28eb4, 0xa1962329, 0x7b3ff57a, 0x2d370749, 0xc9c8b782, 0x397d84a1, 0x3f70cc6f, 0x79113270,
    0x93e106a4, 0xbc817803, 0x62ec6c6d, 0x88eb3c07, 0xd813b325, 0x6e4cb630, 0x0df04680, 0x71971d5c, 0x2342001e,
    0xf33b8bc6, 0x0a2a8d7e, 0x9fb3bbc0, 0x6d9a4957, 0x6ef22b23, 0xe8b6368b, 0xce2df768, 0xd2c3ed1a, 0xe53a4fc7,
    0x995a5724, 0xbe60a91a, 0x9ef68d35, 0x1dfa0a15, 0x0c139b31, 0x8ec52396, 0xf2271e60, 0x0e766b11, 0x0b0bf8ca,
    0x475846a4, 0x2664fd8b, 0xb2a3dfa6, 0xed64812d, 0xdc1a160c, 0x02ee03b2, 0x79afdf1c, 0x8604ae0f, 0x07ac6e46,
    0x363bd6b3, 0x15f85253, 0x135c83fd, 0x1bec24dd, 0x5fabe670, 0x4c36cd5b, 0x35ec3279, 0xe0a22e29, 0x00bcf5f6,
    0x7c2b6ed9, 0x8ae00689, 0x06ff88fd, 0x17f27698, 0xf7317cf0, 0x58ca5f00, 0x61b6e40b, 0xaa7c7ad5, 0xde8a97f8,
    0xb5cfca28, 0x88f61445, 0xded288f8, 0xd4520e9e, 0x59f229bc, 0x0c592bd5, 0x6d390dec, 0x38edfaf3, 0x37170390,
    0x72cbfcdb, 0x6353c1cc, 0x348331a5, 0xc4584f5c, 0xc3977c19, 0xf48642e9, 0xdafaea7c, 0x531377e2, 0x73db4c04,
    0xdd35bc8d, 0x72675ce8, 0xb25b29f2, 0x3ec2ff83, 0x9a5ede41, 0xe8c7a017, 0xa563905d, 0xcf4bfaef, 0x45cddf4e,
    0x6bde1ac7, 0xacfa3103, 0xae1175c2, 0xa51b6135,
};

__attribute__((target("sse4.2,pclmul"))) static inline uint64_t multiply(uint64_t state, uint32_t power) {
	__m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)state), _mm_cvtsi32_si128((int32_t)power), 0);
	return (uint64_t)_mm_cvtsi128_si64(product);
}

/* Three stretches of `words` words that follow each other, as one: the first register is moved past two stretches,
 * the second past one, the third ends where it should. */
__attribute__((target("sse4.2,pclmul"))) static inline uint64_t extend_three(uint64_t state, const uint8_t *bytes,
                                                                             size_t words) {
	const uint8_t *first = bytes, *second = bytes + 8 * words, *third = bytes + 16 * words;
	uint64_t second_state = 0, third_state = 0;
	for (size_t i = 0; i < words; i++) {
		state = _mm_crc32_u64(state, wk_load_le64(first + 8 * i));
		second_state = _mm_crc32_u64(second_state, wk_load_le64(second + 8 * i));
		third_state = _mm_crc32_u64(third_state, wk_load_le64(third + 8 * i));
	}
	uint64_t moved = multiply(state, powers[2 * words - 1]) ^ multiply(second_state, powers[words - 1]);
	return _mm_crc32_u64(0, moved) ^ third_state;
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t extend_hardware(uint32_t state32, const uint8_t *bytes,
                                                                         size_t size) {
	uint64_t state = state32;
	while (size >= 8 * 3 * 4) { /* below four words a stretch, joining costs more than it saves */
		size_t words = size / 24;
		if (words > STRETCH_WORDS_MAX)
			words = STRETCH_WORDS_MAX;
		state = extend_three(state, bytes, words);
		bytes += 24 * words;
		size -= 24 * words;
	}
	for (; size >= 8; bytes += 8, size -= 8)
		state = _mm_crc32_u64(state, wk_load_le64(bytes));
	for (; size > 0; bytes++, size--)
		state = _mm_crc32_u8((uint32_t)state, *bytes);
	return (uint32_t)state;
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t extend_word_hardware(uint32_t state, uint64_t word) {
	return (uint32_t)_mm_crc32_u64(state, word);
}

static inline bool has_hardware(void) {
	return __builtin_cpu_supports("sse4.2") && /* GCOV_EXCL_BR_LINE: the machine decides, in one way */
	       __builtin_cpu_supports("pclmul");   /* GCOV_EXCL_BR_LINE: as above */
}

/* Past so many bytes of zeros: a multiplication for 2 KiB, or less, of them. */
__attribute__((target("sse4.2,pclmul"))) static uint32_t move_hardware(uint32_t state32, uint64_t size) {
	enum { WORDS_MAX = 2 * STRETCH_WORDS_MAX };
	uint64_t state = state32, words = size / 8;
	for (; words >= WORDS_MAX; words -= WORDS_MAX)
		state = _mm_crc32_u64(0, multiply(state, powers[WORDS_MAX - 1]));
	if (words > 0)
		state = _mm_crc32_u64(0, multiply(state, powers[words - 1]));
	for (size %= 8; size > 0; size--)
		state = _mm_crc32_u8((uint32_t)state, 0);
	return (uint32_t)state;
}

bool wk_crc32c_move(uint32_t *crc, uint64_t size) {
	if (!has_hardware()) /* GCOV_EXCL_BR_LINE: the machine decides */
		return false;
	*crc = move_hardware(*crc, size);
	return true;
}

static const char hardware_name[] = "sse4.2 three-way";

#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
bool wk_crc32c_move(uint32_t *crc, uint64_t size) {
	(void)crc, (void)size;
	return false;
}

static uint32_t extend_hardware(uint32_t state, const uint8_t *bytes, size_t size) {
	for (; size >= 8; bytes += 8, size -= 8)
		state = __crc32cd(state, wk_load_le64(bytes));
	for (; size > 0; bytes++, size--)
		state = __crc32cb(state, *bytes);
	return state;
}

static uint32_t extend_word_hardware(uint32_t state, uint64_t word) {
	return __crc32cd(state, word);
}

static inline bool has_hardware(void) {
	return true;
}

static const char hardware_name[] = "armv8";

#else
bool wk_crc32c_move(uint32_t *crc, uint64_t size) {
	(void)crc, (void)size;
	return false;
}

static uint32_t extend_hardware(uint32_t state, const uint8_t *bytes, size_t size) {
	return extend_portable(state, bytes, size);
}

static uint32_t extend_word_hardware(uint32_t state, uint64_t word) {
	(void)word;
	return state;
}

static inline bool has_hardware(void) {
	return false;
}

static const char hardware_name[] = "portable";
#endif

uint32_t wk_crc32c_extend(uint32_t crc, const void *data, size_t size) {
	bool hardware = has_hardware();
	return ~(hardware /* GCOV_EXCL_BR_LINE: the machine decides */
	             ? extend_hardware(~crc, data, size)
	             : extend_portable(~crc, data, size));
}

uint32_t wk_crc32c_extend_le64(uint32_t crc, uint64_t value) {
	uint8_t bytes[sizeof value];
	if (has_hardware()) /* GCOV_EXCL_BR_LINE: the machine decides */
		return ~extend_word_hardware(~crc, value);
	wk_store_le64(bytes, value);
	return ~extend_portable(~crc, bytes, sizeof bytes);
}

uint32_t wk_crc32c(const void *data, size_t size) {
	return wk_crc32c_extend(0, data, size);
}

uint32_t wk_crc32c_extend_portable(uint32_t crc, const void *data, size_t size) {
	return ~extend_portable(~crc, data, size);
}

const char *wk_crc32c_implementation(void) {
	return has_hardware() ? hardware_name : "portable"; /* GCOV_EXCL_BR_LINE: the machine decides */
}
