#include "wal_format.h"

#include <string.h>

enum { MAGIC = 0x377f0682, VERSION = 3007000 };

static void put32(uint8_t *at, uint32_t value) {
	at[0] = (uint8_t)(value >> 24);
	at[1] = (uint8_t)(value >> 16);
	at[2] = (uint8_t)(value >> 8);
	at[3] = (uint8_t)value;
}

static uint32_t native_word(const uint8_t *at) {
	uint32_t word;
	memcpy(&word, at, 4);
	return word;
}

void wk_wal_checksum(bool big_endian, const uint8_t *bytes, size_t size, uint32_t checksum[2]) {
	uint32_t a = checksum[0], b = checksum[1];
	bool swap = big_endian == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
	for (size_t i = 0; i < size; i += 8) {
		uint32_t x = native_word(bytes + i), y = native_word(bytes + i + 4);
		a += (swap ? __builtin_bswap32(x) : x) + b;
		b += (swap ? __builtin_bswap32(y) : y) + a;
	}
	checksum[0] = a;
	checksum[1] = b;
}

bool wk_wal_header_decode(const uint8_t header[WK_WAL_HEADER], wk_wal_format *format, uint32_t checksum[2]) {
	uint32_t magic = wk_wal_get32(header), page_size = wk_wal_get32(header + 8);
	if ((magic & ~(uint32_t)1) != MAGIC || wk_wal_get32(header + 4) != VERSION)
		return false;
	if (page_size < 512 || page_size > 65536 || (page_size & (page_size - 1)) != 0)
		return false;
	*format = (wk_wal_format){.page_size = page_size, .big_endian = (magic & 1) != 0};
	memcpy(format->salt, header + 16, sizeof format->salt);
	checksum[0] = checksum[1] = 0;
	wk_wal_checksum(format->big_endian, header, 24, checksum);
	return wk_wal_get32(header + 24) == checksum[0] && wk_wal_get32(header + 28) == checksum[1];
}

void wk_wal_header_encode(const wk_wal_format *format, uint8_t header[WK_WAL_HEADER], uint32_t checksum[2]) {
	memset(header, 0, WK_WAL_HEADER);
	put32(header, MAGIC | (format->big_endian ? 1 : 0));
	put32(header + 4, VERSION);
	put32(header + 8, format->page_size);
	memcpy(header + 16, format->salt, sizeof format->salt);
	checksum[0] = checksum[1] = 0;
	wk_wal_checksum(format->big_endian, header, 24, checksum);
	put32(header + 24, checksum[0]);
	put32(header + 28, checksum[1]);
}

void wk_wal_frame_begin(uint8_t header[WK_WAL_FRAME_HEADER], uint32_t page, uint32_t pages) {
	memset(header, 0, WK_WAL_FRAME_HEADER);
	put32(header, page);
	put32(header + 4, pages);
}

void wk_wal_frame_checksum(const wk_wal_format *format, const uint8_t *header, const uint8_t *page,
                           uint32_t checksum[2]) {
	wk_wal_checksum(format->big_endian, header, 8, checksum);
	wk_wal_checksum(format->big_endian, page, format->page_size, checksum);
}

bool wk_wal_frame_has(const wk_wal_format *format, const uint8_t *header, const uint32_t checksum[2]) {
	return memcmp(header + 8, format->salt, sizeof format->salt) == 0 &&
	       wk_wal_get32(header + WK_WAL_CHECKSUM_AT) == checksum[0] &&
	       wk_wal_get32(header + WK_WAL_CHECKSUM_AT + 4) == checksum[1];
}

void wk_wal_frame_sign(const wk_wal_format *format, uint8_t *header, const uint32_t checksum[2]) {
	memcpy(header + 8, format->salt, sizeof format->salt);
	put32(header + WK_WAL_CHECKSUM_AT, checksum[0]);
	put32(header + WK_WAL_CHECKSUM_AT + 4, checksum[1]);
}
