/*
 * index_source.h: an index file that ranges are read from while the directory is open (range_pager.h). Private.
 *
 * It never changes, so nobody needs a lock to read; who reads counts in `readers` (under the engine's lock), and the
 * last one frees it when it was let go of meanwhile. Its name may be gone: the handle keeps it.
 */
#ifndef WK_ENGINE_INDEX_SOURCE_H
#define WK_ENGINE_INDEX_SOURCE_H
#include "engine/engine.h"

typedef struct wk_index_source {
	wk_index_header header;
	wk_file *handle;    /* NULL: not opened yet */
	uint64_t *file_ids; /* of its files, in their order */
	uint32_t readers;
	bool released;
} wk_index_source;

/* NULL: no memory. */
wk_index_source *wk_index_source_new(const wk_index_header *header, const wk_footer *files);
/* No lock held; the writer's of index files, before it is known to others or while nobody reads. 0 or -errno. */
int wk_index_source_open(wk_engine *engine, wk_index_source *source);
/* (locked) */
void wk_index_source_begin(wk_index_source *source);
void wk_index_source_end(wk_engine *engine, wk_index_source *source);
/* (locked, or closing) Nobody begins any more; NULL: nothing. */
void wk_index_source_release(wk_engine *engine, wk_index_source *source);
/*
 * `count` of its ranges from number `first` on, through the ledger cache. No lock held. WK_IO, WK_DAMAGED, WK_NO_MEMORY.
 */
wk_status wk_index_source_ranges(wk_engine *engine, const wk_index_source *source, uint32_t first, uint32_t count,
                                 wk_index_range *ranges, wk_error *error);

/* Its ranges one after the other, in pieces of many pages, past the ledger cache: for who goes through most of them. */
enum { WK_INDEX_STREAM_PAGES = 64 };
typedef struct wk_index_stream {
	const wk_index_source *source;
	uint8_t *bytes; /* NULL at first; wk_index_stream_free */
	uint64_t from;  /* what `bytes` holds */
	size_t size;
	uint64_t page; /* whose ranges are in `ranges`, 0: none */
	wk_index_range ranges[WK_INDEX_PAGE_RANGES];
} wk_index_stream;
wk_status wk_index_stream_at(wk_engine *engine, wk_index_stream *stream, uint32_t number, const wk_index_range **range,
                             wk_error *error);
void wk_index_stream_free(wk_index_stream *stream);
#endif
