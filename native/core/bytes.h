/*
 * bytes.h: integers in byte order. Private: nothing outside native/ sees it.
 *
 * Each load and store works at any alignment (memcpy, never a cast) and on hosts of either endianness; gcc and clang
 * make one instruction of each. be is network order (BookKeeper, DistributedLog), le is our own disk formats.
 */
#ifndef WK_CORE_BYTES_H
#define WK_CORE_BYTES_H
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WK_HOST_IS_LITTLE 1
#else
#define WK_HOST_IS_LITTLE 0
#endif

/* Between the host's order and the named one; the same function goes both ways. */
static inline uint32_t wk_swap_be32(uint32_t x) {
	return WK_HOST_IS_LITTLE ? __builtin_bswap32(x) : x;
}
static inline uint64_t wk_swap_be64(uint64_t x) {
	return WK_HOST_IS_LITTLE ? __builtin_bswap64(x) : x;
}
static inline uint16_t wk_swap_le16(uint16_t x) {
	return WK_HOST_IS_LITTLE ? x : __builtin_bswap16(x);
}
static inline uint32_t wk_swap_le32(uint32_t x) {
	return WK_HOST_IS_LITTLE ? x : __builtin_bswap32(x);
}
static inline uint64_t wk_swap_le64(uint64_t x) {
	return WK_HOST_IS_LITTLE ? x : __builtin_bswap64(x);
}

static inline uint32_t wk_load_be32(const void *at) {
	uint32_t x;
	memcpy(&x, at, sizeof x);
	return wk_swap_be32(x);
}

static inline uint64_t wk_load_be64(const void *at) {
	uint64_t x;
	memcpy(&x, at, sizeof x);
	return wk_swap_be64(x);
}

static inline uint16_t wk_load_le16(const void *at) {
	uint16_t x;
	memcpy(&x, at, sizeof x);
	return wk_swap_le16(x);
}

static inline uint32_t wk_load_le32(const void *at) {
	uint32_t x;
	memcpy(&x, at, sizeof x);
	return wk_swap_le32(x);
}

static inline uint64_t wk_load_le64(const void *at) {
	uint64_t x;
	memcpy(&x, at, sizeof x);
	return wk_swap_le64(x);
}

static inline void wk_store_be32(void *at, uint32_t x) {
	x = wk_swap_be32(x);
	memcpy(at, &x, sizeof x);
}

static inline void wk_store_be64(void *at, uint64_t x) {
	x = wk_swap_be64(x);
	memcpy(at, &x, sizeof x);
}

static inline void wk_store_le16(void *at, uint16_t x) {
	x = wk_swap_le16(x);
	memcpy(at, &x, sizeof x);
}

static inline void wk_store_le32(void *at, uint32_t x) {
	x = wk_swap_le32(x);
	memcpy(at, &x, sizeof x);
}

static inline void wk_store_le64(void *at, uint64_t x) {
	x = wk_swap_le64(x);
	memcpy(at, &x, sizeof x);
}

/* int64 and uint64 share their bits: two's complement, as every format here writes -1. */
static inline int64_t wk_load_be64_signed(const void *at) {
	return (int64_t)wk_load_be64(at);
}
static inline int64_t wk_load_le64_signed(const void *at) {
	return (int64_t)wk_load_le64(at);
}
static inline void wk_store_be64_signed(void *at, int64_t x) {
	wk_store_be64(at, (uint64_t)x);
}
static inline void wk_store_le64_signed(void *at, int64_t x) {
	wk_store_le64(at, (uint64_t)x);
}
#endif
