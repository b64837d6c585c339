/*
 * index_file.c: the file that says what the footers below LastLogMark say.
 *
 * Header page, little-endian; the bytes not named are zero:
 *   0 uint32 magic "WKIX"     4 uint32 CRC-32C of the other 4092 bytes     8 uint32 version 1     12 uint32 zero
 *  16 16 bytes of directory id           32 uint64 generation              40 uint64 replay epoch
 *  48 uint64 replay sequence             56 uint32 files     60 uint32 ledgers     64 uint32 ranges
 * Magic, checksum and version stay where they are in every version. The other pages are owned by the generation.
 */
#include "core/index_file.h"
#include "core/bytes.h"
#include "core/footer_layout.h"
#include "core/page.h"
#include "core/zero.h"
#include <assert.h>

enum { MAGIC = 0x58494b57, VERSION = 1 }; /* "WKIX" */
enum {
	MAGIC_AT = 0,
	CRC_AT = 4,
	VERSION_AT = 8,
	GAP_AT = 12,
	DIRECTORY_ID_AT = 16,
	GENERATION_AT = 32,
	REPLAY_EPOCH_AT = 40,
	REPLAY_SEQUENCE_AT = 48,
	FILES_COUNT_AT = 56,
	LEDGERS_COUNT_AT = 60,
	RANGES_COUNT_AT = 64,
	UNUSED_AT = 68,
};
enum { FILE_SIZE = 72, LEDGER_SIZE = 136, RANGE_SIZE = 56 };
enum { LEDGER_BITS = WK_LEDGER_FENCED | WK_LEDGER_HAS_KEY | WK_LEDGER_HAS_LAC };
static_assert(WK_PAGE_MEMBERS_AT + WK_INDEX_PAGE_FILES * FILE_SIZE <= WK_PAGE_SIZE, "the files fit their page");
static_assert(WK_PAGE_MEMBERS_AT + WK_INDEX_PAGE_LEDGERS * LEDGER_SIZE <= WK_PAGE_SIZE, "the ledgers fit their page");
static_assert(WK_PAGE_MEMBERS_AT + WK_INDEX_PAGE_RANGES * RANGE_SIZE <= WK_PAGE_SIZE, "the ranges fit their page");
static_assert(sizeof((wk_index_ledger *)0)->key == WK_STATE_DATA_SIZE &&
                  sizeof((wk_index_ledger *)0)->lac == WK_STATE_DATA_SIZE,
              "whatever a state record holds fits");

/* ---- places ---- */

static uint64_t pages_of(uint64_t members, uint64_t members_a_page) {
	return members / members_a_page + (members % members_a_page != 0);
}

static uint32_t members_a_page(enum wk_page_kind kind) {
	return kind == WK_PAGE_KIND_FILES     ? WK_INDEX_PAGE_FILES
	       : kind == WK_PAGE_KIND_LEDGERS ? WK_INDEX_PAGE_LEDGERS
	                                      : WK_INDEX_PAGE_RANGES;
}

static uint32_t members_of(const wk_index_header *header, enum wk_page_kind kind) {
	return kind == WK_PAGE_KIND_FILES     ? header->files_count
	       : kind == WK_PAGE_KIND_LEDGERS ? header->ledgers_count
	                                      : header->ranges_count;
}

/* Where the pages of this kind start; those of each kind stand behind those of the one before. */
static uint64_t start_of(const wk_index_header *header, enum wk_page_kind kind) {
	uint64_t pages = 1;
	for (enum wk_page_kind before = WK_PAGE_KIND_FILES; before < kind; before++)
		pages += pages_of(members_of(header, before), members_a_page(before));
	return pages * WK_PAGE_SIZE;
}

/* Members that the page of this kind at `offset` holds; 0 where no such page stands there. */
static uint32_t page_count(const wk_index_header *header, enum wk_page_kind kind, uint64_t offset) {
	uint64_t start = start_of(header, kind);
	if (offset < start || (offset - start) % WK_PAGE_SIZE != 0)
		return 0;
	uint64_t before = (offset - start) / WK_PAGE_SIZE * members_a_page(kind);
	uint32_t members = members_of(header, kind);
	if (before >= members)
		return 0;
	uint32_t left = members - (uint32_t)before;
	return left < members_a_page(kind) ? left : members_a_page(kind);
}

uint64_t wk_index_size(uint64_t files, uint64_t ledgers, uint64_t ranges) {
	return (1 + pages_of(files, WK_INDEX_PAGE_FILES) + pages_of(ledgers, WK_INDEX_PAGE_LEDGERS) +
	        pages_of(ranges, WK_INDEX_PAGE_RANGES)) *
	       WK_PAGE_SIZE;
}

uint64_t wk_index_file_page(const wk_index_header *header, uint32_t file) {
	assert(file < header->files_count);
	return start_of(header, WK_PAGE_KIND_FILES) + (uint64_t)(file / WK_INDEX_PAGE_FILES) * WK_PAGE_SIZE;
}

uint64_t wk_index_ledger_page(const wk_index_header *header, uint32_t ledger) {
	assert(ledger < header->ledgers_count);
	return start_of(header, WK_PAGE_KIND_LEDGERS) + (uint64_t)(ledger / WK_INDEX_PAGE_LEDGERS) * WK_PAGE_SIZE;
}

uint64_t wk_index_range_page(const wk_index_header *header, uint32_t range) {
	assert(range < header->ranges_count);
	return start_of(header, WK_PAGE_KIND_RANGES) + (uint64_t)(range / WK_INDEX_PAGE_RANGES) * WK_PAGE_SIZE;
}

/* ---- what a member may say: the encoder asserts it, the decoder refuses what breaks it ---- */

static bool file_is_possible(const wk_index_header *header, const wk_footer *file) {
	return file->file_id > 0 && file->file_id < header->replay_epoch && wk_footer_is_possible(file);
}

static bool ledger_is_possible(const wk_index_ledger *ledger) {
	return ledger->ledger_id >= 0 && ledger->last_entry >= -1 && ledger->first_live >= 0 && ledger->length >= 0 &&
	       (ledger->bits & ~(uint32_t)LEDGER_BITS) == 0 &&
	       ledger->key_size <= ((ledger->bits & WK_LEDGER_HAS_KEY) != 0 ? WK_STATE_DATA_SIZE : 0) &&
	       ledger->lac_size <= ((ledger->bits & WK_LEDGER_HAS_LAC) != 0 ? WK_STATE_DATA_SIZE : 0);
}

static bool range_is_possible(const wk_index_header *header, const wk_index_range *range) {
	return range->ledger_id >= 0 && range->first_entry >= 0 && range->last_entry >= range->first_entry &&
	       range->last_entry < INT64_MAX && range->count > 0 &&
	       (uint64_t)(range->last_entry - range->first_entry) >= range->count - 1 && range->dead <= range->count &&
	       range->file < header->files_count && range->runs_count > 0 && range->runs_count <= range->count &&
	       (range->runs_count > 1 ? range->runs_count : range->count) <= UINT32_MAX - range->start &&
	       range->uncounted <= 1 && range->bytes <= UINT32_MAX &&
	       (range->runs_count > 1 || (uint64_t)(range->last_entry - range->first_entry) == range->count - 1);
}

static bool range_is_before(const wk_index_range *a, const wk_index_range *b) {
	if (a->ledger_id != b->ledger_id)
		return a->ledger_id < b->ledger_id;
	return a->first_entry != b->first_entry ? a->first_entry < b->first_entry : a->file < b->file;
}

/* ---- members ---- */

static void put_file(uint8_t *at, const wk_footer *file) {
	wk_store_le64(at, file->file_id);
	wk_store_le64(at + 8, file->file_size);
	wk_store_le64(at + 16, file->incarnation);
	wk_store_le64(at + 24, file->first_sequence);
	wk_store_le64(at + 32, file->last_sequence);
	wk_store_le64(at + 40, file->end_offset);
	wk_store_le32(at + 48, file->first_previous_crc);
	wk_store_le32(at + 52, file->last_crc);
	wk_store_le32(at + 56, file->items_count);
	wk_store_le32(at + 60, file->runs_count);
	wk_store_le32(at + 64, file->states_count);
	wk_store_le32(at + 68, file->kind);
}

static wk_footer get_file(const wk_index_header *header, const uint8_t *at) {
	wk_footer file = {
	    .file_id = wk_load_le64(at),
	    .file_size = wk_load_le64(at + 8),
	    .incarnation = wk_load_le64(at + 16),
	    .first_sequence = wk_load_le64(at + 24),
	    .last_sequence = wk_load_le64(at + 32),
	    .end_offset = wk_load_le64(at + 40),
	    .first_previous_crc = wk_load_le32(at + 48),
	    .last_crc = wk_load_le32(at + 52),
	    .items_count = wk_load_le32(at + 56),
	    .runs_count = wk_load_le32(at + 60),
	    .states_count = wk_load_le32(at + 64),
	    .kind = wk_load_le32(at + 68),
	};
	memcpy(file.directory_id, header->directory_id, sizeof file.directory_id);
	return file;
}

static void put_ledger(uint8_t *at, const wk_index_ledger *ledger) {
	wk_store_le64_signed(at, ledger->ledger_id);
	wk_store_le64_signed(at + 8, ledger->last_entry);
	wk_store_le64_signed(at + 16, ledger->first_live);
	wk_store_le64_signed(at + 24, ledger->length);
	wk_store_le32(at + 32, ledger->bits);
	at[36] = ledger->key_size;
	at[37] = ledger->lac_size;
	memcpy(at + 40, ledger->key, ledger->key_size); /* the rest of the page was zeroed */
	memcpy(at + 88, ledger->lac, ledger->lac_size);
}

static wk_index_ledger get_ledger(const uint8_t *at) {
	wk_index_ledger ledger = {
	    .ledger_id = wk_load_le64_signed(at),
	    .last_entry = wk_load_le64_signed(at + 8),
	    .first_live = wk_load_le64_signed(at + 16),
	    .length = wk_load_le64_signed(at + 24),
	    .bits = wk_load_le32(at + 32),
	    .key_size = at[36],
	    .lac_size = at[37],
	};
	memcpy(ledger.key, at + 40, sizeof ledger.key);
	memcpy(ledger.lac, at + 88, sizeof ledger.lac);
	return ledger;
}

static void put_range(uint8_t *at, const wk_index_range *range) {
	wk_store_le64_signed(at, range->ledger_id);
	wk_store_le64_signed(at + 8, range->first_entry);
	wk_store_le64_signed(at + 16, range->last_entry);
	wk_store_le64(at + 24, range->bytes);
	wk_store_le32(at + 32, range->file);
	wk_store_le32(at + 36, range->count);
	wk_store_le32(at + 40, range->dead);
	wk_store_le32(at + 44, range->runs_count);
	wk_store_le32(at + 48, range->start);
	wk_store_le32(at + 52, range->uncounted);
}

static wk_index_range get_range(const uint8_t *at) {
	return (wk_index_range){
	    .ledger_id = wk_load_le64_signed(at),
	    .first_entry = wk_load_le64_signed(at + 8),
	    .last_entry = wk_load_le64_signed(at + 16),
	    .bytes = wk_load_le64(at + 24),
	    .file = wk_load_le32(at + 32),
	    .count = wk_load_le32(at + 36),
	    .dead = wk_load_le32(at + 40),
	    .runs_count = wk_load_le32(at + 44),
	    .start = wk_load_le32(at + 48),
	    .uncounted = wk_load_le32(at + 52),
	};
}

/* ---- pages ---- */

static uint32_t header_checksum(const uint8_t page[WK_PAGE_SIZE]) {
	return wk_crc32c_extend(wk_crc32c(page, CRC_AT), page + VERSION_AT, WK_PAGE_SIZE - VERSION_AT);
}

static bool header_is_possible(const wk_index_header *header) {
	return header->generation > 0 && header->replay_epoch > 0;
}

void wk_index_encode_header(const wk_index_header *header, uint8_t page[WK_PAGE_SIZE]) {
	assert(header_is_possible(header));
	memset(page, 0, WK_PAGE_SIZE);
	wk_store_le32(page + MAGIC_AT, MAGIC);
	wk_store_le32(page + VERSION_AT, VERSION);
	memcpy(page + DIRECTORY_ID_AT, header->directory_id, WK_DIRECTORY_ID_SIZE);
	wk_store_le64(page + GENERATION_AT, header->generation);
	wk_store_le64(page + REPLAY_EPOCH_AT, header->replay_epoch);
	wk_store_le64(page + REPLAY_SEQUENCE_AT, header->replay_sequence);
	wk_store_le32(page + FILES_COUNT_AT, header->files_count);
	wk_store_le32(page + LEDGERS_COUNT_AT, header->ledgers_count);
	wk_store_le32(page + RANGES_COUNT_AT, header->ranges_count);
	wk_store_le32(page + CRC_AT, header_checksum(page));
}

void wk_index_encode_files(const wk_index_header *header, const wk_footer *files, uint32_t count, uint64_t offset,
                           uint8_t page[WK_PAGE_SIZE]) {
	assert(count <= WK_INDEX_PAGE_FILES);
	wk_page_begin(page, WK_PAGE_KIND_FILES, count);
	for (uint32_t i = 0; i < count; i++) {
		assert(file_is_possible(header, &files[i]));
		assert(i == 0 || files[i - 1].file_id < files[i].file_id);
		put_file(wk_page_member(page, i, FILE_SIZE), &files[i]);
	}
	wk_page_end(page, &(wk_page_place){header->directory_id, header->generation, offset});
}

void wk_index_encode_ledgers(const wk_index_header *header, const wk_index_ledger *ledgers, uint32_t count,
                             uint64_t offset, uint8_t page[WK_PAGE_SIZE]) {
	assert(count <= WK_INDEX_PAGE_LEDGERS);
	wk_page_begin(page, WK_PAGE_KIND_LEDGERS, count);
	for (uint32_t i = 0; i < count; i++) {
		assert(ledger_is_possible(&ledgers[i]));
		assert(i == 0 || ledgers[i - 1].ledger_id < ledgers[i].ledger_id);
		put_ledger(wk_page_member(page, i, LEDGER_SIZE), &ledgers[i]);
	}
	wk_page_end(page, &(wk_page_place){header->directory_id, header->generation, offset});
}

void wk_index_encode_ranges(const wk_index_header *header, const wk_index_range *ranges, uint32_t count,
                            uint64_t offset, uint8_t page[WK_PAGE_SIZE]) {
	assert(count <= WK_INDEX_PAGE_RANGES);
	wk_page_begin(page, WK_PAGE_KIND_RANGES, count);
	for (uint32_t i = 0; i < count; i++) {
		assert(range_is_possible(header, &ranges[i]));
		assert(i == 0 || range_is_before(&ranges[i - 1], &ranges[i]));
		put_range(wk_page_member(page, i, RANGE_SIZE), &ranges[i]);
	}
	wk_page_end(page, &(wk_page_place){header->directory_id, header->generation, offset});
}

void wk_index_encode(const wk_index_header *header, const wk_footer *files, const wk_index_ledger *ledgers,
                     const wk_index_range *ranges, uint8_t *bytes) {
	wk_index_encode_header(header, bytes);
	uint64_t at = WK_PAGE_SIZE;
	for (uint32_t i = 0, count; i < header->files_count; i += count, at += WK_PAGE_SIZE) {
		count = page_count(header, WK_PAGE_KIND_FILES, at);
		assert(i == 0 || files[i - 1].file_id < files[i].file_id);
		wk_index_encode_files(header, files + i, count, at, bytes + at);
	}
	for (uint32_t i = 0, count; i < header->ledgers_count; i += count, at += WK_PAGE_SIZE) {
		count = page_count(header, WK_PAGE_KIND_LEDGERS, at);
		assert(i == 0 || ledgers[i - 1].ledger_id < ledgers[i].ledger_id);
		wk_index_encode_ledgers(header, ledgers + i, count, at, bytes + at);
	}
	for (uint32_t i = 0, count; i < header->ranges_count; i += count, at += WK_PAGE_SIZE) {
		count = page_count(header, WK_PAGE_KIND_RANGES, at);
		assert(i == 0 || range_is_before(&ranges[i - 1], &ranges[i]));
		wk_index_encode_ranges(header, ranges + i, count, at, bytes + at);
	}
	assert(at == wk_index_size(header->files_count, header->ledgers_count, header->ranges_count));
}

wk_status wk_index_decode(const uint8_t page[4096], wk_index_header *header) {
	if (wk_load_le32(page + MAGIC_AT) != MAGIC || wk_load_le32(page + CRC_AT) != header_checksum(page))
		return WK_CORRUPT;
	uint32_t version = wk_load_le32(page + VERSION_AT);
	if (version > VERSION)
		return WK_UNSUPPORTED;
	if (version != VERSION || !wk_is_zero(page + GAP_AT, DIRECTORY_ID_AT - GAP_AT) ||
	    !wk_is_zero(page + UNUSED_AT, WK_PAGE_SIZE - UNUSED_AT))
		return WK_CORRUPT;
	wk_index_header found = {
	    .generation = wk_load_le64(page + GENERATION_AT),
	    .replay_epoch = wk_load_le64(page + REPLAY_EPOCH_AT),
	    .replay_sequence = wk_load_le64(page + REPLAY_SEQUENCE_AT),
	    .files_count = wk_load_le32(page + FILES_COUNT_AT),
	    .ledgers_count = wk_load_le32(page + LEDGERS_COUNT_AT),
	    .ranges_count = wk_load_le32(page + RANGES_COUNT_AT),
	};
	memcpy(found.directory_id, page + DIRECTORY_ID_AT, WK_DIRECTORY_ID_SIZE);
	if (!header_is_possible(&found))
		return WK_CORRUPT;
	*header = found;
	return WK_OK;
}

/* How many members this page holds; 0 where it is not the page that stands at `offset`. */
static uint32_t check_page(const wk_index_header *header, const uint8_t *page, uint64_t offset, enum wk_page_kind kind,
                           uint32_t member_size) {
	wk_page_place place = {header->directory_id, header->generation, offset};
	uint32_t count = page_count(header, kind, offset);
	return wk_page_is_whole(page, &place, kind, count, member_size) ? count : 0;
}

wk_status wk_index_files(const wk_index_header *header, const uint8_t page[4096], uint64_t offset, wk_footer files[56],
                         uint32_t *count) {
	uint32_t found = check_page(header, page, offset, WK_PAGE_KIND_FILES, FILE_SIZE);
	uint64_t before = 0;
	for (uint32_t i = 0; i < found; i++) {
		wk_footer file = get_file(header, wk_page_member_in(page, i, FILE_SIZE));
		if (!file_is_possible(header, &file) || file.file_id <= before)
			return WK_CORRUPT;
		before = file.file_id;
	}
	for (uint32_t i = 0; i < found; i++)
		files[i] = get_file(header, wk_page_member_in(page, i, FILE_SIZE));
	if (found == 0)
		return WK_CORRUPT;
	*count = found;
	return WK_OK;
}

wk_status wk_index_ledgers(const wk_index_header *header, const uint8_t page[4096], uint64_t offset,
                           wk_index_ledger ledgers[30], uint32_t *count) {
	uint32_t found = check_page(header, page, offset, WK_PAGE_KIND_LEDGERS, LEDGER_SIZE);
	int64_t before = -1;
	for (uint32_t i = 0; i < found; i++) {
		const uint8_t *at = wk_page_member_in(page, i, LEDGER_SIZE);
		wk_index_ledger ledger = get_ledger(at);
		if (!ledger_is_possible(&ledger) || ledger.ledger_id <= before || !wk_is_zero(at + 38, 2) ||
		    !wk_is_zero(ledger.key + ledger.key_size, sizeof ledger.key - ledger.key_size) ||
		    !wk_is_zero(ledger.lac + ledger.lac_size, sizeof ledger.lac - ledger.lac_size))
			return WK_CORRUPT;
		before = ledger.ledger_id;
	}
	for (uint32_t i = 0; i < found; i++)
		ledgers[i] = get_ledger(wk_page_member_in(page, i, LEDGER_SIZE));
	if (found == 0)
		return WK_CORRUPT;
	*count = found;
	return WK_OK;
}

wk_status wk_index_ranges(const wk_index_header *header, const uint8_t page[4096], uint64_t offset,
                          wk_index_range ranges[73], uint32_t *count) {
	uint32_t found = check_page(header, page, offset, WK_PAGE_KIND_RANGES, RANGE_SIZE);
	wk_index_range before = {.ledger_id = -1};
	for (uint32_t i = 0; i < found; i++) {
		wk_index_range range = get_range(wk_page_member_in(page, i, RANGE_SIZE));
		if (!range_is_possible(header, &range) || !range_is_before(&before, &range))
			return WK_CORRUPT;
		before = range;
	}
	for (uint32_t i = 0; i < found; i++)
		ranges[i] = get_range(wk_page_member_in(page, i, RANGE_SIZE));
	if (found == 0)
		return WK_CORRUPT;
	*count = found;
	return WK_OK;
}
