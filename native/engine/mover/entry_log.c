#include "engine/mover/entry_log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/index.h"
#include "engine/space.h"

enum { CHUNK = 1 << 20 };
static_assert(CHUNK % WK_IO_ALIGNMENT == 0, "chunks are written with direct I/O");

int wk_entry_log_begin(wk_engine *engine, uint64_t id, uint64_t reserve, wk_entry_log_writer *writer) {
	*writer = (wk_entry_log_writer){.engine = engine, .id = id};
	writer->temporary = wk_engine_path(engine, "entries/%016llx.tmp", (unsigned long long)id);
	writer->final = wk_store_file_path(engine, id, WK_FILE_ENTRY_LOG);
	writer->chunk = aligned_alloc(WK_IO_ALIGNMENT, CHUNK);
	if (writer->temporary == NULL || writer->final == NULL || writer->chunk == NULL)
		return -ENOMEM;
	const struct wk_io_operations *io = engine->io->operations;
	if (reserve == 0)
		return io->open(engine->io, writer->temporary, WK_IO_WRITE | WK_IO_CREATE | WK_IO_DIRECT, &writer->handle);
	int result = wk_reserve_file_take(engine, WK_RESERVE_OUTPUT, writer->temporary);
	if (result < 0)
		return result;
	writer->reserve = reserve;
	return io->open(engine->io, writer->temporary, WK_IO_WRITE | WK_IO_DIRECT, &writer->handle);
}

static int write_out(wk_entry_log_writer *writer, const uint8_t *bytes, size_t size) {
	int64_t result = writer->engine->io->operations->pwrite(writer->engine->io, writer->handle, bytes, size,
	                                                        writer->flushed, 0);
	if (result < 0)
		return (int)result;
	writer->flushed += size;
	return 0;
}

static int put_bytes(wk_entry_log_writer *writer, const uint8_t *bytes, size_t size) {
	while (size > 0) {
		size_t part = CHUNK - writer->chunk_size < size ? CHUNK - writer->chunk_size : size;
		memcpy(writer->chunk + writer->chunk_size, bytes, part);
		writer->chunk_size += part;
		bytes += part;
		size -= part;
		if (writer->chunk_size == CHUNK) {
			int result = write_out(writer, writer->chunk, CHUNK);
			if (result < 0)
				return result;
			writer->chunk_size = 0;
		}
	}
	return 0;
}

static bool grow(void **array, uint32_t count, uint32_t *capacity, size_t size) {
	if (count < *capacity)
		return true;
	uint32_t larger = *capacity == 0 ? 64 : *capacity * 2;
	void *fresh = realloc(*array, larger * size);
	if (fresh == NULL)
		return false;
	*array = fresh;
	*capacity = larger;
	return true;
}

int wk_entry_log_add(wk_entry_log_writer *writer, int64_t ledger_id, int64_t entry_id, const uint8_t *bytes,
                     uint32_t size) {
	uint64_t offset = writer->flushed + writer->chunk_size;
	if (offset + size > WK_ENTRY_LOG_BYTES_MAX)
		return -EFBIG;
	if (!grow((void **)&writer->items, writer->items_count, &writer->items_capacity, sizeof *writer->items) ||
	    !grow((void **)&writer->runs, writer->runs_count, &writer->runs_capacity, sizeof *writer->runs))
		return -ENOMEM;
	wk_footer_run *run = writer->runs_count > 0 ? &writer->runs[writer->runs_count - 1] : NULL;
	assert(run == NULL || run->ledger_id < ledger_id ||
	       (run->ledger_id == ledger_id && run->first_entry + run->count <= entry_id));
	if (run == NULL || run->ledger_id != ledger_id || run->first_entry + run->count != entry_id) {
		run = &writer->runs[writer->runs_count++];
		*run = (wk_footer_run){.ledger_id = ledger_id, .first_entry = entry_id, .first_item = writer->items_count};
	}
	writer->items[writer->items_count++] = (wk_footer_item){(uint32_t)offset, size};
	run->count++;
	run->bytes += size;
	return put_bytes(writer, bytes, size);
}

int wk_entry_log_finish(wk_entry_log_writer *writer, wk_footer *footer, wk_file **handle) {
	const struct wk_io_operations *io = writer->engine->io->operations;
	uint64_t end = writer->flushed + writer->chunk_size;
	uint64_t size = wk_footer_size(writer->items_count, writer->runs_count, 0);
	uint8_t *bytes = aligned_alloc(WK_PAGE_SIZE, size);
	char *folder = wk_engine_path(writer->engine, "entries");
	if (bytes == NULL || folder == NULL) {
		free(bytes);
		free(folder);
		return -ENOMEM;
	}
	size_t padded = (writer->chunk_size + WK_PAGE_SIZE - 1) / WK_PAGE_SIZE * WK_PAGE_SIZE;
	memset(writer->chunk + writer->chunk_size, 0, padded - writer->chunk_size);
	int result = padded > 0 ? write_out(writer, writer->chunk, padded) : 0;
	if (result == 0) { /* else, on a full disk perhaps, what follows would stand in the wrong place */
		*footer = (wk_footer){.file_id = writer->id,
		                      .file_size = writer->flushed + size,
		                      .end_offset = end,
		                      .last_sequence = writer->last_sequence,
		                      .items_count = writer->items_count,
		                      .runs_count = writer->runs_count,
		                      .kind = WK_FILE_ENTRY_LOG};
		memcpy(footer->directory_id, writer->engine->superblock.directory_id, sizeof footer->directory_id);
		wk_footer_encode(footer, writer->items, writer->runs, NULL, bytes);
		result = write_out(writer, bytes, size);
	}
	free(bytes);
	if (result == 0 && writer->reserve > 0)
		result = io->truncate(writer->engine->io, writer->handle, writer->flushed);
	if (result == 0)
		result = io->sync(writer->engine->io, writer->handle);
	if (result == 0)
		result = io->rename(writer->engine->io, writer->temporary, writer->final);
	/* It has its name, and nobody knows it: whatever the reason is, no pass goes on behind that. */
	if (result == 0 && io->sync_directory(writer->engine->io, folder) < 0)
		result = -EIO;
	free(folder);
	if (result < 0)
		return result;
	*handle = writer->handle;
	writer->handle = NULL;
	writer->finished = true;
	return 0;
}

uint64_t wk_entry_log_free(wk_entry_log_writer *writer) {
	const struct wk_io_operations *io = writer->engine->io->operations;
	uint64_t left = 0;
	if (writer->handle != NULL)
		io->close(writer->engine->io, writer->handle);
	if (writer->reserve > 0 && !writer->finished)
		left = wk_reserve_file_return(writer->engine, WK_RESERVE_OUTPUT, writer->temporary, writer->reserve);
	else if (writer->handle != NULL)
		io->unlink(writer->engine->io, writer->temporary);
	free(writer->temporary);
	free(writer->final);
	free(writer->chunk);
	free(writer->items);
	free(writer->runs);
	return left;
}

typedef struct sweep {
	wk_engine *engine;
	char *names[64];
	uint32_t count;
} sweep;

static bool note_temporary(void *context, const char *name) {
	sweep *s = context;
	size_t size = strlen(name);
	if (size > 4 && strcmp(name + size - 4, ".tmp") == 0 && s->count < 64) {
		s->names[s->count] = wk_engine_path(s->engine, "entries/%.60s", name);
		s->count += s->names[s->count] != NULL;
	}
	return true;
}

void wk_entry_logs_sweep(wk_engine *engine) {
	sweep s = {.engine = engine};
	char *folder = wk_engine_path(engine, "entries");
	if (folder != NULL)
		engine->io->operations->list(engine->io, folder, note_temporary, &s);
	free(folder);
	for (uint32_t i = 0; i < s.count; i++) {
		engine->io->operations->unlink(engine->io, s.names[i]);
		free(s.names[i]);
	}
}
