#include "engine/recovery/journal_reader.h"

#include <stdlib.h>
#include <string.h>

#include "engine/index.h"

enum { WINDOW = 16 * 1024 * 1024, CHUNK = 1024 * 1024 };
static_assert(WINDOW >= 2 * WK_BLOCK_SIZE_MAX + CHUNK, "a block always fits behind what is kept");

wk_status wk_journal_reader_init(wk_journal_reader *reader, wk_engine *engine, wk_error *error) {
	*reader = (wk_journal_reader){.engine = engine, .capacity = WINDOW};
	reader->bytes = aligned_alloc(WK_IO_ALIGNMENT, WINDOW);
	return reader->bytes != NULL ? WK_OK : wk_fail(error, WK_NO_MEMORY, "scanning the journal: no memory");
}

void wk_journal_reader_free(wk_journal_reader *reader) {
	free(reader->bytes);
}

void wk_journal_reader_file(wk_journal_reader *reader, wk_store_file *file) {
	reader->file = file;
	reader->start = 0;
	reader->size = 0;
}

/* At least `need` bytes from `offset` on are in the window, or all that the file has. */
static wk_status fill(wk_journal_reader *reader, uint64_t offset, size_t need, wk_error *error) {
	if (offset < reader->start || offset > reader->start + reader->size) {
		reader->start = offset;
		reader->size = 0;
	}
	size_t skip = (size_t)(offset - reader->start);
	if (skip + need > reader->capacity) {
		memmove(reader->bytes, reader->bytes + skip, reader->size - skip);
		reader->start = offset;
		reader->size -= skip;
		skip = 0;
	}
	while (reader->size < skip + need && reader->start + reader->size < reader->file->size) {
		int opened = wk_store_file_use(reader->engine, reader->file);
		if (opened < 0)
			return wk_fail_io(error, opened, "opening %s of %s",
			                  wk_file_name_of(reader->file->id, reader->file->kind).text, reader->engine->path);
		uint64_t left = reader->file->size - reader->start - reader->size;
		size_t part = reader->capacity - reader->size < CHUNK ? reader->capacity - reader->size : CHUNK;
		part = left < part ? (size_t)left : part;
		int64_t result = reader->engine->io->operations->pread(
		    reader->engine->io, reader->file->handle, reader->bytes + reader->size, part, reader->start + reader->size);
		if (result != (int64_t)part)
			return wk_fail_io(error, result < 0 ? (int)result : -5, "reading %s of %s at offset %llu",
			                  wk_file_name_of(reader->file->id, reader->file->kind).text, reader->engine->path,
			                  (unsigned long long)(reader->start + reader->size));
		reader->size += part;
		reader->read_bytes += part;
	}
	return WK_OK;
}

wk_status wk_journal_reader_at(wk_journal_reader *reader, uint64_t offset, const uint8_t **bytes, size_t *available,
                               wk_error *error) {
	wk_status status = fill(reader, offset, WK_BLOCK_ALIGNMENT, error);
	if (status != WK_OK)
		return status;
	size_t skip = (size_t)(offset - reader->start);
	wk_block_header header;
	if (reader->size > skip && wk_block_peek(reader->bytes + skip, reader->size - skip, &header) == WK_OK &&
	    header.size > reader->size - skip) {
		status = fill(reader, offset, header.size, error);
		if (status != WK_OK)
			return status;
		skip = (size_t)(offset - reader->start);
	}
	*bytes = reader->bytes + skip;
	*available = reader->size > skip ? reader->size - skip : 0;
	return WK_OK;
}
