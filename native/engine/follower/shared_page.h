/*
 * shared_page.h: the page through which a writer tells followers in other processes how far it is durable: the file
 * `shared`. Private.
 *
 * A hint for speed, not for truth: every block a follower uses is checked by itself. What the page says is never
 * ahead of the disk, as it is raised only after a sync.
 */
#ifndef WK_ENGINE_SHARED_PAGE_H
#define WK_ENGINE_SHARED_PAGE_H
#include "engine/engine.h"

typedef struct wk_shared_page { /* native byte order: it never leaves the machine */
	uint32_t magic;             /* "WKSH" */
	uint32_t version;
	uint8_t directory_id[16];
	uint64_t durable; /* sequence of the last durable block */
	uint64_t incarnation;
} wk_shared_page;

/*
 * For a writer, behind recovery: maps `shared`, made where it is missing. On a disk without room for it there is none:
 * engine->shared is NULL. WK_LOCKED: a block became durable since recovery looked, so another process writes the directory.
 */
wk_status wk_shared_page_open(wk_engine *engine, wk_error *error);
/*
 * For a follower, from time to time: maps the file that has the name now. It may be another than the last time: one that
 * was removed is made again by the next writer, and an overlay copies one up for who writes it. Where there is none
 * (-ENOENT) engine->shared is NULL, and a follower goes by the blocks alone; where that cannot be told it stays what it was.
 * (catalogue_lock, locked; who reads it holds one of them.) -errno.
 */
int wk_shared_page_renew(wk_engine *engine);
void wk_shared_page_close(wk_engine *engine);
/*
 * What the page of the last writer says was durable, or 0: there is no page of this directory, or it cannot be read, or
 * another name shares it (so that it may be another copy's), or a later writer than the superblock knows left it. A power cut
 * may leave an older page than the last one, never a newer one. WK_IO: for want of a descriptor, say, it cannot be told.
 */
wk_status wk_shared_page_look(wk_engine *engine, uint64_t *durable, wk_error *error);
#endif
