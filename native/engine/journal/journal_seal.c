/* journal_seal.c: the open block becomes bytes: entries, digests, header, CRC. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/catalogue.h"
#include "engine/directory.h"
#include "engine/index.h"
#include "engine/journal/journal.h"
#include "engine/journal/journal_file.h"
#include "engine/journal/journal_zeros.h"
#include "engine/ledger.h"
#include "records/codec.h"
#include "walkeeper/entry.h"

/* Where the first builder's records stand when they are put straight into the block. */
enum { ENVELOPE_AT = WK_BLOCK_HEADER_SIZE + WK_ENTRY_OVERHEAD };
enum { PREFETCH = 12 }; /* builders ahead */

static size_t envelope_size(const wk_builder *builder) {
	return builder->log != NULL ? WK_ENVELOPE_HEADER_SIZE : 0;
}

/* Compresses a builder's records where its log asks for that, it pays, and there is memory for it. */
static wk_status compress(wk_builder *builder, uint32_t *original_size) {
	*original_size = (uint32_t)builder->size;
	if (builder->log == NULL || builder->codec == WK_CODEC_NONE)
		return WK_OK;
	size_t bound = wk_codec_bound(builder->codec, builder->size);
	uint8_t *packed = malloc(bound);
	size_t size = 0;
	wk_status status = packed != NULL
	                       ? wk_codec_compress(builder->codec, builder->bytes, builder->size, packed, bound, &size)
	                       : WK_NO_MEMORY;
	if (status == WK_OK && size < builder->size) {
		free(builder->bytes);
		builder->bytes = packed;
		builder->capacity = bound;
		builder->size = size;
		builder->summed = 0;
	} else {
		free(packed);
		builder->codec = WK_CODEC_NONE;
	}
	return status == WK_FULL || status == WK_NO_MEMORY ? WK_OK : status;
}

/* The checksum of the payload: mostly known already, as records are summed when they come. */
static uint32_t payload_checksum(const wk_builder *builder, const uint8_t *payload, size_t payload_size) {
	if (builder->summed != builder->size || builder->size == 0)
		return wk_crc32c(payload, payload_size);
	return wk_crc32c_combine(wk_crc32c(payload, payload_size - builder->size), builder->crc, builder->size);
}

/*
 * Lays the entry out at `at` in the block, headers and digest; its records are copied unless they stand there.
 * *records_crc is of all records before it, and then with it: what is long is summed once, not for the entry and
 * again for the block.
 */
static void lay_out(uint8_t *block, size_t at, wk_builder *builder, uint32_t original_size, uint32_t *records_crc) {
	size_t envelope = envelope_size(builder);
	size_t payload_size = envelope + builder->size;
	uint8_t *entry = block + at + WK_BLOCK_RECORD_HEADER_SIZE;
	uint8_t *payload = entry + WK_ENTRY_HEADER_SIZE;
	if (envelope > 0)
		wk_envelope_encode_header(&(wk_envelope){.codec = builder->codec,
		                                         .original_size = original_size,
		                                         .stored_size = (uint32_t)builder->size},
		                          payload);
	if (!builder->in_place)
		memcpy(payload + envelope, builder->bytes, builder->size);
	wk_entry header = {.ledger_id = builder->ledger->id,
	                   .entry_id = builder->entry_id,
	                   .lac = builder->lac,
	                   .length = builder->length,
	                   .payload = payload,
	                   .payload_size = payload_size};
	wk_block_put_record_header(block + at, WK_BLOCK_ENTRY, (uint32_t)(WK_ENTRY_HEADER_SIZE + payload_size));
	if (payload_size < WK_SUM_ONCE_SIZE) {
		wk_entry_encode_header(&header, entry);
		*records_crc = wk_crc32c_extend(*records_crc, block + at, WK_ENTRY_OVERHEAD + payload_size);
	} else {
		uint32_t crc = payload_checksum(builder, payload, payload_size);
		wk_entry_encode_header_with(&header, crc, entry);
		*records_crc = wk_crc32c_combine(wk_crc32c_extend(*records_crc, block + at, WK_ENTRY_OVERHEAD), crc,
		                                 payload_size);
	}
	builder->item_offset = (uint32_t)(at + WK_BLOCK_RECORD_HEADER_SIZE);
	builder->item_size = (uint32_t)(WK_ENTRY_HEADER_SIZE + payload_size);
}

/* Makes the file that the next block goes to, here and now; where it cannot be had, of the reserve. (locked, dropped) */
static wk_status make_next(wk_engine *engine, uint64_t need, wk_store_file **next, wk_error *error) {
	uint64_t size = engine->file_size_next > need
	                    ? engine->file_size_next
	                    : (need + WK_BLOCK_ALIGNMENT - 1) / WK_BLOCK_ALIGNMENT * WK_BLOCK_ALIGNMENT;
	wk_status status = wk_journal_file_make(engine, size, WK_MAKE_NOW, next, error);
	if (status == WK_OK || !wk_error_is_shortage(error))
		return status;
	wk_reserve_is_short(engine, error);
	engine->disk_full = true; /* appends are refused from here on; truncation and deletes have the reserve */
	wk_journal_wake_room(engine);
	return wk_journal_file_make(engine, need, WK_MAKE_FROM_RESERVE, next, error);
}

/*
 * The active file has no room for `size` bytes and its footer: go on in the next one. WK_NO_SPACE: there is none, now.
 * (locked, dropped)
 */
static wk_status roll(wk_engine *engine, uint64_t size, const wk_block *block) {
	uint32_t entries = block->builders_count + block->ledgers.entries_count;
	uint64_t need = size + wk_footer_size(entries, entries, block->ledgers.states_count);
	wk_store_file *next = engine->next;
	if (next != NULL && next->size >= need) {
		engine->next = NULL;
	} else {
		wk_error error;
		wk_status status = make_next(engine, need, &next, &error);
		if (status != WK_OK && wk_error_is_shortage(&error))
			return WK_NO_SPACE;
		if (status != WK_OK) {
			wk_journal_fail(engine, error.system_error != 0 ? -error.system_error : -EIO, "making the next file", NULL);
			return status;
		}
		wk_store_file *spare = engine->next; /* too small for this block, or the keeper was quicker after all */
		if (spare != NULL && spare->id < next->id) {
			spare->state = WK_FILE_SEALED; /* holds nothing: the keeper recycles it */
			engine->next = NULL;
		}
	}
	uint64_t blocks = engine->window.next - engine->active->first_sequence;
	engine->rolled_block_size = blocks > 0 ? engine->offset / blocks : 0;
	bool empty = blocks == 0; /* its first block does not fit: nothing is in it, and the keeper recycles it */
	engine->active->state = empty ? WK_FILE_SEALED : WK_FILE_FULL;
	engine->footers_due += !empty;
	next->state = WK_FILE_ACTIVE;
	next->first_sequence = engine->window.next;
	next->first_previous_crc = engine->last_crc;
	engine->active = next;
	engine->offset = 0;
	engine->rolled_ns = wk_engine_now(engine);
	wk_keeper_wake(engine);
	return WK_OK;
}

/* The footer of the active file has room for the block's entries and states, too. */
bool wk_journal_fits(const wk_engine *engine, uint64_t size, const wk_block *block) {
	const wk_store_file *file = engine->active;
	if (!wk_engine_holds_ledgers(engine))
		return engine->offset + size + wk_journal_file_footer(file, block->builders_count, block->builders_count) <=
		       file->size;
	return engine->offset + size + wk_ledger_block_footer(engine, file, block) <= file->size;
}

static void prefetch(const wk_block *block, uint32_t builder, enum wk_ledger_part part) {
	if (builder < block->builders_count)
		wk_ledger_prefetch(block->builders[builder].ledger, part);
}

/* Numbers, lengths and a place for every entry. */
static void number(wk_block *block) {
	for (uint32_t i = 0; i < block->builders_count; i++) {
		wk_builder *builder = &block->builders[i];
		prefetch(block, i + 2 * PREFETCH, WK_LEDGER_ITSELF);
		prefetch(block, i + PREFETCH, WK_LEDGER_RANGES); /* for index_block */
		builder->lac = builder->ledger->durable_entry;
		builder->ledger->length += (int64_t)(envelope_size(builder) + builder->size);
		builder->length = builder->ledger->length;
	}
}

static size_t total_size(const wk_block *block) {
	size_t used = WK_BLOCK_HEADER_SIZE + block->ledgers.size;
	for (uint32_t i = 0; i < block->builders_count; i++)
		used += WK_ENTRY_OVERHEAD + envelope_size(&block->builders[i]) + block->builders[i].size;
	return used;
}

/* All bytes of the block; no lock held. */
static wk_status assemble(wk_engine *engine, wk_block *block, size_t used, const uint32_t *original_sizes) {
	size_t size = block->header.size;
	if (block->buffer == NULL)
		block->buffer = wk_buffer_new(engine->block_pool, size);
	else if (block->buffer->capacity < size) {
		wk_buffer *larger = wk_buffer_new(NULL, size);
		if (larger != NULL)
			memcpy(larger->bytes, block->buffer->bytes, block->buffer->capacity);
		wk_buffer_release(block->buffer);
		block->buffer = larger;
	}
	if (block->buffer == NULL)
		return WK_NO_MEMORY;
	wk_journal_zeros_put(block);
	size_t at = WK_BLOCK_HEADER_SIZE + block->ledgers.size;
	uint32_t records_crc = block->ledgers.crc;
	for (uint32_t i = 0; i < block->builders_count; i++) {
		wk_builder *builder = &block->builders[i];
		assert(!builder->in_place || at == WK_BLOCK_HEADER_SIZE);
		lay_out(block->buffer->bytes, at, builder, original_sizes[i], &records_crc);
		at += WK_ENTRY_OVERHEAD + envelope_size(builder) + builder->size;
	}
	assert(at == used);
	block->header.used = (uint32_t)used;
	if (used < WK_SUM_ONCE_SIZE && block->ledgers.size == 0)
		wk_block_seal(block->buffer->bytes, &block->header);
	else
		wk_block_seal_with(block->buffer->bytes, &block->header, records_crc);
	return WK_OK;
}

/* Takes the open block away and opens the next. */
static wk_block *detach(wk_engine *engine) {
	wk_block *block = &engine->in_flight[engine->open.sequence % WK_BLOCKS_IN_FLIGHT_MAX];
	assert(block->buffer == NULL && block->builders == NULL);
	wk_ledger_block ledgers = wk_ledger_block_emptied(&block->ledgers);
	*block = engine->open;
	engine->unplaced_bytes = wk_journal_block_bound(block->estimate);
	engine->unplaced_entries = block->builders_count;
	engine->open = (wk_block){
	    .sequence = block->sequence + 1,
	    .ledgers = ledgers,
	    .deferred_until_ns = UINT64_MAX,
	};
	if (engine->spare_count > 0) {
		engine->open.builders = engine->spare[--engine->spare_count].builders;
		engine->open.builders_capacity = engine->spare[engine->spare_count].capacity;
	}
	return block;
}

static wk_status index_block(wk_engine *engine, wk_block *block) {
	wk_status status = WK_OK;
	for (uint32_t i = 0; i < block->builders_count && status == WK_OK; i++) {
		wk_builder *builder = &block->builders[i];
		prefetch(block, i + 2 * PREFETCH, WK_LEDGER_LIST);
		prefetch(block, i + PREFETCH, WK_LEDGER_PLACE);
		wk_footer_item item = {(uint32_t)block->header.offset + builder->item_offset, builder->item_size};
		status = wk_ledger_add_item(engine, builder->ledger, block->file, builder->entry_id, item);
	}
	return status;
}

wk_block *wk_journal_seal(wk_engine *engine) {
	assert(!engine->sealing && !engine->zeros_under_way);
	engine->sealing = true;
	wk_block *block = detach(engine);
	uint32_t *original_sizes = calloc(block->builders_count + 1, sizeof *original_sizes);
	wk_status status = original_sizes == NULL ? WK_NO_MEMORY : WK_OK;
	bool packs = false;
	for (uint32_t i = 0; i < block->builders_count && status == WK_OK; i++) {
		packs |= block->builders[i].codec != WK_CODEC_NONE;
		original_sizes[i] = (uint32_t)block->builders[i].size;
	}
	if (packs && status == WK_OK) {
		wk_engine_unlock(engine);
		for (uint32_t i = 0; i < block->builders_count && status == WK_OK; i++)
			status = compress(&block->builders[i], &original_sizes[i]);
		wk_engine_lock(engine);
	}
	size_t used = total_size(block);
	uint64_t size = (used + WK_BLOCK_ALIGNMENT - 1) / WK_BLOCK_ALIGNMENT * WK_BLOCK_ALIGNMENT;
	while (status == WK_OK && !wk_journal_fits(engine, size, block)) {
		status = roll(engine, size, block);
		if (status == WK_NO_SPACE && !engine->closing && engine->driver_runs) {
			/* Even the reserve is used up, or cannot be opened. The block waits here until somebody makes room. */
			wk_engine_sleep(engine, &engine->tail, wk_wait_word_look(&engine->tail), 50 * 1000 * 1000);
			status = engine->failed ? WK_FAILED : WK_OK;
		}
	}
	if (status != WK_OK || engine->failed) {
		if (!engine->failed)
			wk_journal_fail(engine, status == WK_NO_SPACE ? -engine->shortage : -ENOMEM, "building a block",
			                engine->active);
		free(original_sizes);
		engine->sealing = false;
		return NULL;
	}
	number(block);
	block->sealed_ns = wk_engine_now(engine);
	block->sync_wanted |= block->deferred_until_ns <= block->sealed_ns;
	if (!block->sync_wanted && !block->confirm && block->deferred_until_ns < engine->deferred_sync_ns)
		engine->deferred_sync_ns = block->deferred_until_ns; /* it goes out because it is full: its sync may wait */
	block->with_sync = engine->options.sync_method != WK_SYNC_WRITE_THEN_SYNC && (block->sync_wanted || block->confirm);
	uint64_t sequence;
	status = wk_block_window_submit(&engine->window, block->with_sync, &sequence);
	assert(status == WK_OK && sequence == block->sequence);
	block->file = engine->active;
	block->file->pins++;
	block->header = (wk_block_header){
	    .previous_crc = engine->last_crc,
	    .epoch = engine->active->id,
	    .offset = engine->offset,
	    .size = (uint32_t)size,
	    .sequence = block->sequence,
	    .incarnation = engine->superblock.incarnation,
	    .durable_through = engine->window.durable_through,
	    .in_flight_max = (uint16_t)engine->window.in_flight_max,
	    .flags = (uint16_t)((block->confirm ? WK_BLOCK_CONFIRM : 0) |
	                        (block->with_sync || block->sync_wanted ? 0 : WK_BLOCK_DEFERRED)),
	};
	memcpy(block->header.directory_id, engine->superblock.directory_id, sizeof block->header.directory_id);
	engine->offset += size;
	engine->unplaced_bytes = engine->unplaced_entries = 0;
	if (block->sync_wanted || block->confirm)
		engine->sync_goal = block->sequence;
	wk_journal_zeros_plan(engine, block);

	wk_engine_unlock(engine);
	status = assemble(engine, block, used, original_sizes);
	free(original_sizes);
	wk_engine_lock(engine);
	if (status == WK_OK)
		status = index_block(engine, block);
	if (status != WK_OK) {
		wk_journal_fail(engine, -ENOMEM, "building a block", block->file);
		engine->sealing = false;
		return NULL;
	}
	wk_journal_zeros_begin(engine, block);
	engine->last_crc = block->header.crc;
	block->file->end_offset = engine->offset;
	block->file->last_sequence = block->sequence;
	block->file->last_crc = block->header.crc;
	block->file->incarnation = block->header.incarnation;
	if (!block->confirm)
		__atomic_store_n(&engine->last_activity_ns, wk_engine_now(engine), __ATOMIC_RELAXED);
	engine->sealing = false;
	wk_journal_wake_room(engine);
	return block;
}
