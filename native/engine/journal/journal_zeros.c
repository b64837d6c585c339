#include "engine/journal/journal_zeros.h"

#include <string.h>

/* A few zeros at first: who writes eight blocks and ends has little use for them. */
enum { IN_A_ROW = 8, ZEROS_FIRST = 64 * 1024, ZEROS_MAX = 512 * 1024 };

static uint64_t end_of(const wk_block *block) {
	return block->header.offset + block->header.size;
}

void wk_journal_zeros_plan(wk_engine *engine, wk_block *block) {
	if (block->confirm)
		return; /* nothing follows, for a while */
	if (block->header.size > WK_ZEROED_BLOCK_MAX) {
		engine->small_blocks = 0;
		return;
	}
	wk_store_file *file = block->file;
	engine->small_blocks += engine->small_blocks < IN_A_ROW;
	if (end_of(block) <= file->written || engine->small_blocks < IN_A_ROW)
		return;
	uint32_t zeros = file->zeros == 0 ? ZEROS_FIRST : 2 * file->zeros < ZEROS_MAX ? 2 * file->zeros : ZEROS_MAX;
	uint64_t room = file->size - end_of(block);
	block->zeros = zeros < room ? zeros : (uint32_t)room;
	file->zeros = zeros;
}

void wk_journal_zeros_put(wk_block *block) {
	uint64_t room = (block->buffer->capacity - block->header.size) / WK_BLOCK_ALIGNMENT * WK_BLOCK_ALIGNMENT;
	if (block->zeros > room) /* a few are not worth that the next block waits for them */
		block->zeros = room >= ZEROS_FIRST ? (uint32_t)room : 0;
	memset(block->buffer->bytes + block->header.size, 0, block->zeros);
}

void wk_journal_zeros_begin(wk_engine *engine, wk_block *block) {
	uint64_t end = end_of(block) + block->zeros;
	if (end > block->file->written)
		block->file->written = end;
	engine->zeros_under_way = block->zeros > 0;
	__atomic_add_fetch(&engine->zero_filled_bytes, block->zeros, __ATOMIC_RELAXED);
}

void wk_journal_zeros_are_written(wk_engine *engine, wk_block *block) {
	if (block->zeros > 0)
		engine->zeros_under_way = false;
	block->zeros = 0;
}
