/*
 * store_footer.h: the footer that a store file ends with. Private.
 *
 * What cannot be read for want of memory, a descriptor, or because the disk refuses, is WK_NO_MEMORY or WK_IO, with a
 * text: nothing is known of such a footer, and least of all that there is none. WK_CORRUPT, without a text: there is
 * none of this directory and file, or it is damaged.
 */
#ifndef WK_ENGINE_STORE_FOOTER_H
#define WK_ENGINE_STORE_FOOTER_H
#include "engine/engine.h"

/* Reads the trailer, and takes from it what it says of the file. */
wk_status wk_store_footer_read(wk_engine *engine, wk_store_file *file, wk_error *error);
/* The same, and nothing is taken from it. */
wk_status wk_store_footer_peek(wk_engine *engine, wk_store_file *file, wk_footer *footer, wk_error *error);
/* Writes the trailer that stands there once more, and syncs: durable when it returns 0, else -errno. */
int wk_store_footer_rewrite(wk_engine *engine, wk_store_file *file);
/* What this footer says of the file's blocks, as if it had been read from it. */
void wk_store_footer_take(wk_store_file *file, const wk_footer *footer);
/* Whether its items, runs and states can be read and are whole. */
wk_status wk_store_footer_check(wk_engine *engine, wk_store_file *file, wk_error *error);
/* All runs (and states) of the footer into the index. (locked or opening) */
wk_status wk_store_footer_load(wk_engine *engine, wk_store_file *file, wk_error *error);
#endif
