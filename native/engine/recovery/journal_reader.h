/* journal_reader.h: the blocks of one journal file, through a window of memory. Private. */
#ifndef WK_ENGINE_JOURNAL_READER_H
#define WK_ENGINE_JOURNAL_READER_H
#include "engine/engine.h"

typedef struct wk_journal_reader {
	wk_engine *engine;
	wk_store_file *file;
	uint8_t *bytes; /* the window */
	size_t capacity;
	uint64_t start; /* file offset of bytes[0] */
	size_t size;    /* valid bytes */
	uint64_t read_bytes;
} wk_journal_reader;

/* capacity: at least two of the largest blocks. */
wk_status wk_journal_reader_init(wk_journal_reader *reader, wk_engine *engine, wk_error *error);
void wk_journal_reader_file(wk_journal_reader *reader, wk_store_file *file);
/*
 * The bytes at `offset`, at least as many as the block that seems to start there (or the rest of the file);
 * *available says how many.
 */
wk_status wk_journal_reader_at(wk_journal_reader *reader, uint64_t offset, const uint8_t **bytes, size_t *available,
                               wk_error *error);
void wk_journal_reader_free(wk_journal_reader *reader);
#endif
