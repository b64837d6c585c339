#include "record.h"

#include <assert.h>
#include <string.h>

#include "little_endian.h"

enum { CRC_AT = 4, MERGE_BELOW = 4 };
static const uint32_t DELTA = UINT32_C(1) << 31;

static uint32_t crc_of(const uint8_t *bytes, size_t size) {
	return wk_crc32c_extend(wk_crc32c(bytes, CRC_AT), bytes + CRC_AT + 4, size - CRC_AT - 4);
}

uint32_t wk_pages_record_seal(uint8_t *bytes, size_t size, const wk_pages_record *record) {
	assert(size >= WK_PAGES_RECORD_HEADER && size <= WK_PAGES_RECORD_MAX);
	assert(record->page_size >= 512 && record->page_size <= WK_PAGE_SIZE_MAX);
	bytes[0] = 1;
	bytes[1] = (uint8_t)record->kind;
	bytes[2] = (uint8_t)record->flags;
	bytes[3] = (uint8_t)__builtin_ctz(record->page_size);
	wk_put32(bytes + 8, record->before);
	wk_put32(bytes + 12, record->part);
	wk_put64(bytes + 16, record->database);
	wk_put64(bytes + 24, record->transaction);
	wk_put32(bytes + 32, record->pages);
	wk_put32(bytes + 36, record->count);
	uint32_t crc = crc_of(bytes, size);
	wk_put32(bytes + CRC_AT, crc);
	return crc;
}

wk_status wk_pages_joint_next(const uint8_t *bytes, size_t size, size_t *offset, const uint8_t **record,
                              size_t *record_size) {
	if (*offset == 0)
		*offset = WK_PAGES_RECORD_HEADER;
	if (*offset == size)
		return WK_END;
	if (size - *offset < 4 || wk_get32(bytes + *offset) > size - *offset - 4)
		return WK_CORRUPT;
	*record = bytes + *offset + 4;
	*record_size = wk_get32(bytes + *offset);
	*offset += 4 + *record_size;
	return WK_OK;
}

static wk_status check_joint(const uint8_t *bytes, size_t size, const wk_pages_record *joint) {
	size_t offset = 0, record_size;
	const uint8_t *record;
	uint64_t databases[WK_PAGES_JOINT_MAX];
	if (joint->count < 2 || joint->count > WK_PAGES_JOINT_MAX || joint->flags != (WK_PAGES_FIRST | WK_PAGES_LAST))
		return WK_CORRUPT;
	for (uint32_t i = 0; i < joint->count; i++) {
		wk_pages_record part;
		if (wk_pages_joint_next(bytes, size, &offset, &record, &record_size) != WK_OK || record_size < 2 ||
		    record[1] != WK_PAGES_COMMIT || wk_pages_record_decode(record, record_size, &part) != WK_OK ||
		    (part.flags & WK_PAGES_LAST) == 0)
			return WK_CORRUPT;
		databases[i] = part.database;
		for (uint32_t j = 0; j < i; j++)
			if (databases[j] == part.database)
				return WK_CORRUPT;
	}
	return offset == size ? WK_OK : WK_CORRUPT;
}

wk_status wk_pages_record_decode(const uint8_t *bytes, size_t size, wk_pages_record *record) {
	if (size < WK_PAGES_RECORD_HEADER)
		return WK_CORRUPT;
	if (bytes[0] != 1)
		return WK_UNSUPPORTED;
	if (wk_get32(bytes + CRC_AT) != crc_of(bytes, size))
		return WK_CORRUPT;
	if (bytes[1] < WK_PAGES_COMMIT || bytes[1] > WK_PAGES_NAME ||
	    bytes[2] > (WK_PAGES_FIRST | WK_PAGES_LAST | WK_PAGES_NAMED))
		return WK_CORRUPT;
	if (bytes[3] < 9 || bytes[3] > 16)
		return WK_CORRUPT;
	*record = (wk_pages_record){
	    .kind = bytes[1],
	    .flags = bytes[2],
	    .page_size = 1u << bytes[3],
	    .crc = wk_get32(bytes + CRC_AT),
	    .before = wk_get32(bytes + 8),
	    .part = wk_get32(bytes + 12),
	    .database = wk_get64(bytes + 16),
	    .transaction = wk_get64(bytes + 24),
	    .pages = wk_get32(bytes + 32),
	    .count = wk_get32(bytes + 36),
	};
	if (record->kind == WK_PAGES_NAME)
		return size > WK_PAGES_RECORD_HEADER && size - WK_PAGES_RECORD_HEADER <= WK_DATABASE_NAME_MAX ? WK_OK
		                                                                                              : WK_CORRUPT;
	if (record->kind == WK_PAGES_JOINT)
		return check_joint(bytes, size, record);
	bool first = (record->flags & WK_PAGES_FIRST) != 0, last = (record->flags & WK_PAGES_LAST) != 0;
	if (first != (record->part == 0) || last != (record->pages != 0))
		return WK_CORRUPT;
	size_t offset = 0;
	for (uint32_t i = 0; i < record->count; i++) {
		wk_pages_image image;
		if (wk_pages_image_next(bytes, size, &offset, &image) != WK_OK)
			return WK_CORRUPT;
	}
	return (record->count == 0 ? size == WK_PAGES_RECORD_HEADER : offset == size) ? WK_OK : WK_CORRUPT;
}

static size_t put_varint(uint8_t *at, size_t value) {
	size_t size = 0;
	for (; value >= 0x80; value >>= 7)
		at[size++] = (uint8_t)(value | 0x80);
	at[size++] = (uint8_t)value;
	return size;
}

/* False: it does not end within the bytes, or is larger than any range. */
static bool get_varint(const uint8_t *bytes, size_t size, size_t *offset, size_t *value) {
	*value = 0;
	for (unsigned shift = 0; shift <= 14 && *offset < size; shift += 7) {
		uint8_t byte = bytes[(*offset)++];
		*value |= (size_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
}

/* The first byte from `at` on that differs from the base. */
static size_t differs_from(const uint8_t *page, const uint8_t *base, size_t at, size_t size) {
	for (; at + 8 <= size; at += 8) {
		uint64_t a, b = 0;
		memcpy(&a, page + at, 8);
		if (base != NULL)
			memcpy(&b, base + at, 8);
		if (a != b)
			break;
	}
	while (at < size && page[at] == (base != NULL ? base[at] : 0))
		at++;
	return at;
}

/* The end of the range that differs from `at` on: MERGE_BELOW equal bytes follow, or the page ends. */
static size_t differs_until(const uint8_t *page, const uint8_t *base, size_t at, size_t size) {
	size_t end = at + 1;
	for (size_t next = end; next < size && next - end < MERGE_BELOW; next++)
		if (page[next] != (base != NULL ? base[next] : 0))
			end = next + 1;
	return end;
}

size_t wk_pages_image_encode(uint32_t number, const uint8_t *page, const uint8_t *base, size_t page_size,
                             uint8_t *bytes) {
	assert(number > 0 && page_size <= WK_PAGE_SIZE_MAX);
	uint8_t *ranges = bytes + WK_PAGES_IMAGE_HEADER;
	size_t size = 0, behind = 0;
	for (size_t at = differs_from(page, base, 0, page_size); at < page_size;) {
		size_t end = differs_until(page, base, at, page_size);
		if (size + (end - at) + 6 > page_size + 8) { /* many small ranges: the rest is one */
			end = page_size;
			if (size + (end - at) + 6 > page_size + 8) { /* or the whole page is */
				size = 0;
				behind = at = 0;
			}
		}
		size += put_varint(ranges + size, at - behind);
		size += put_varint(ranges + size, end - at);
		memcpy(ranges + size, page + at, end - at);
		size += end - at;
		behind = end;
		at = differs_from(page, base, end, page_size);
	}
	wk_put32(bytes, number);
	wk_put32(bytes + 4, (uint32_t)size | (base != NULL ? DELTA : 0));
	assert(WK_PAGES_IMAGE_HEADER + size <= WK_PAGES_IMAGE_MAX);
	return WK_PAGES_IMAGE_HEADER + size;
}

wk_status wk_pages_image_next(const uint8_t *bytes, size_t size, size_t *offset, wk_pages_image *image) {
	if (*offset == 0)
		*offset = WK_PAGES_RECORD_HEADER;
	if (*offset == size)
		return WK_END;
	if (size - *offset < WK_PAGES_IMAGE_HEADER)
		return WK_CORRUPT;
	uint32_t word = wk_get32(bytes + *offset + 4);
	*image = (wk_pages_image){
	    .number = wk_get32(bytes + *offset),
	    .delta = (word & DELTA) != 0,
	    .ranges = bytes + *offset + WK_PAGES_IMAGE_HEADER,
	    .size = word & ~DELTA,
	};
	if (image->number == 0 || image->size > size - *offset - WK_PAGES_IMAGE_HEADER)
		return WK_CORRUPT;
	*offset += WK_PAGES_IMAGE_HEADER + image->size;
	return WK_OK;
}

wk_status wk_pages_image_apply(const wk_pages_image *image, uint8_t *page, size_t page_size) {
	size_t at = 0;
	for (size_t offset = 0; offset < image->size;) {
		size_t gap, length;
		if (!get_varint(image->ranges, image->size, &offset, &gap) ||
		    !get_varint(image->ranges, image->size, &offset, &length))
			return WK_CORRUPT;
		if (gap > page_size - at || length > page_size - at - gap || length > image->size - offset || length == 0)
			return WK_CORRUPT;
		memcpy(page + at + gap, image->ranges + offset, length);
		at += gap + length;
		offset += length;
	}
	return WK_OK;
}
