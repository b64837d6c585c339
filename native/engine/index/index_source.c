#include "engine/index/index_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/index/page_cache.h"

static_assert(WK_INDEX_PAGE_RANGES * sizeof(wk_index_range) <= WK_PAGE_SIZE, "a page of the ledger cache holds them");

/* Index files are in the ledger cache beside files of entries, whose ids are far below. */
static uint64_t cache_id(const wk_index_source *source) {
	return (uint64_t)1 << 63 | source->header.generation;
}

wk_index_source *wk_index_source_new(const wk_index_header *header, const wk_footer *files) {
	wk_index_source *source = calloc(1, sizeof *source);
	uint64_t *file_ids = malloc((header->files_count + (size_t)1) * sizeof *file_ids);
	if (source == NULL || file_ids == NULL) {
		free(source);
		free(file_ids);
		return NULL;
	}
	source->header = *header;
	source->file_ids = file_ids;
	for (uint32_t i = 0; i < header->files_count; i++)
		file_ids[i] = files[i].file_id;
	return source;
}

int wk_index_source_open(wk_engine *engine, wk_index_source *source) {
	if (source->handle != NULL)
		return 0;
	char *path = wk_engine_path(engine, "index/%016llx.wki", (unsigned long long)source->header.generation);
	int result = path != NULL
	                 ? engine->io->operations->open(engine->io, path, WK_IO_READ | WK_IO_DIRECT, &source->handle)
	                 : -ENOMEM;
	free(path);
	return result;
}

static void free_source(wk_engine *engine, wk_index_source *source) {
	if (source->handle != NULL)
		engine->io->operations->close(engine->io, source->handle);
	free(source->file_ids);
	free(source);
}

void wk_index_source_begin(wk_index_source *source) {
	source->readers++;
}

void wk_index_source_end(wk_engine *engine, wk_index_source *source) {
	if (--source->readers == 0 && source->released)
		free_source(engine, source);
}

void wk_index_source_release(wk_engine *engine, wk_index_source *source) {
	if (source == NULL)
		return;
	wk_page_cache_drop_file(engine->pages, cache_id(source));
	source->released = true;
	if (source->readers == 0)
		free_source(engine, source);
}

/* ---- pages ---- */

static wk_status not_read(const wk_engine *engine, const wk_index_source *source, uint64_t offset, int64_t result,
                          wk_error *error) {
	unsigned long long generation = source->header.generation, at = offset;
	if (result < 0)
		return wk_fail_io(error, (int)result, "reading the index file %016llx of %s at offset %llu", generation,
		                  engine->path, at);
	return wk_fail(error, WK_DAMAGED,
	               "index file %016llx of %s: the page at offset %llu is damaged, and with it where entries of its "
	               "ledgers stand; `walkeeper verify` lists what is affected, %s",
	               generation, engine->path, at,
	               wk_engine_holds_ledgers(engine) ? WK_LEDGERS_REMEDY : "the next open reads the footers instead");
}

static wk_status load_page(wk_engine *engine, const wk_index_source *source, uint32_t number,
                           wk_index_range ranges[WK_INDEX_PAGE_RANGES], uint32_t *count, wk_error *error) {
	uint64_t offset = wk_index_range_page(&source->header, number);
	if (wk_page_cache_get(engine->pages, cache_id(source), offset, ranges, sizeof *ranges, count))
		return WK_OK;
	uint8_t *page = aligned_alloc(WK_PAGE_SIZE, WK_PAGE_SIZE);
	if (page == NULL)
		return wk_fail(error, WK_NO_MEMORY, "reading the index file of %s: no memory", engine->path);
	int64_t result = engine->io->operations->pread(engine->io, source->handle, page, WK_PAGE_SIZE, offset);
	bool good = result == WK_PAGE_SIZE && wk_index_ranges(&source->header, page, offset, ranges, count) == WK_OK;
	free(page);
	if (!good)
		return not_read(engine, source, offset, result, error);
	wk_page_cache_put(engine->pages, cache_id(source), offset, ranges, sizeof *ranges, *count);
	return WK_OK;
}

wk_status wk_index_source_ranges(wk_engine *engine, const wk_index_source *source, uint32_t first, uint32_t count,
                                 wk_index_range *ranges, wk_error *error) {
	wk_index_range page[WK_INDEX_PAGE_RANGES];
	for (uint32_t done = 0; done < count;) {
		uint32_t at = (first + done) % WK_INDEX_PAGE_RANGES, found = 0;
		wk_status status = load_page(engine, source, first + done, page, &found, error);
		if (status != WK_OK)
			return status;
		uint32_t take = found - at < count - done ? found - at : count - done;
		memcpy(ranges + done, page + at, take * sizeof *ranges);
		done += take;
	}
	return WK_OK;
}

/* ---- many of them ---- */

static wk_status load_piece(wk_engine *engine, wk_index_stream *stream, uint64_t offset, wk_error *error) {
	const wk_index_header *header = &stream->source->header;
	uint64_t end = wk_index_size(header->files_count, header->ledgers_count, header->ranges_count);
	size_t size = WK_INDEX_STREAM_PAGES * WK_PAGE_SIZE;
	if (stream->bytes == NULL)
		stream->bytes = aligned_alloc(WK_PAGE_SIZE, size);
	if (stream->bytes == NULL)
		return wk_fail(error, WK_NO_MEMORY, "reading the index file of %s: no memory", engine->path);
	size = end - offset < size ? (size_t)(end - offset) : size;
	int64_t result = engine->io->operations->pread(engine->io, stream->source->handle, stream->bytes, size, offset);
	stream->size = 0;
	if (result != (int64_t)size)
		return not_read(engine, stream->source, offset, result, error);
	stream->from = offset;
	stream->size = size;
	return WK_OK;
}

wk_status wk_index_stream_at(wk_engine *engine, wk_index_stream *stream, uint32_t number, const wk_index_range **range,
                             wk_error *error) {
	const wk_index_header *header = &stream->source->header;
	uint64_t offset = wk_index_range_page(header, number);
	if (stream->page != offset) {
		wk_status status = WK_OK;
		if (stream->size == 0 || offset < stream->from || offset >= stream->from + stream->size)
			status = load_piece(engine, stream, offset, error);
		if (status != WK_OK)
			return status;
		uint32_t count;
		stream->page = 0;
		if (wk_index_ranges(header, stream->bytes + (offset - stream->from), offset, stream->ranges, &count) != WK_OK)
			return not_read(engine, stream->source, offset, 0, error);
		stream->page = offset;
	}
	*range = &stream->ranges[number % WK_INDEX_PAGE_RANGES];
	return WK_OK;
}

void wk_index_stream_free(wk_index_stream *stream) {
	free(stream->bytes);
	stream->bytes = NULL;
}
