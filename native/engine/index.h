/*
 * index.h: what the other rooms of the engine may use of engine/index/. Private.
 *
 * Where every entry stands: files, ledgers, ranges, the index file, caches, reading by (ledger, entry).
 */
#ifndef WK_ENGINE_ROOM_INDEX_H
#define WK_ENGINE_ROOM_INDEX_H
#include "engine/index/block_cache.h"  /* the memtable */
#include "engine/index/hole.h"         /* entries that a log needs and no file has */
#include "engine/index/index_file.h"   /* the index file and LastLogMark */
#include "engine/index/ledger.h"       /* ledgers, their entries, live counts */
#include "engine/index/lookup.h"       /* where entries of a ledger stand */
#include "engine/index/page_cache.h"   /* the ledger cache */
#include "engine/index/place_list.h"   /* places of entries in a file that is not sealed */
#include "engine/index/range.h"        /* ranges of a ledger, by file */
#include "engine/index/range_live.h"   /* what of a range somebody needs */
#include "engine/index/range_pager.h"  /* ranges that are read from the index file */
#include "engine/index/read.h"         /* reads entries by (ledger, entry) */
#include "engine/index/read_ahead.h"   /* windows of sealed files */
#include "engine/index/recount.h"      /* counts dead entries again; the keeper's */
#include "engine/index/store_file.h"   /* the files that hold entries */
#include "engine/index/store_footer.h" /* the footer of such a file */
#endif
