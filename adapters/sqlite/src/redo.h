/*
 * redo.h: carries out the records of a log on a database file. A commit is carried out when its last part has come; a
 * commit that its writer did not finish is passed over. The same file may be redone twice: the first image of a page behind the point
 * where redo begins is against zeros.
 */
#ifndef WK_SQLITE_REDO_H
#define WK_SQLITE_REDO_H
#include <stdio.h>

#include "record.h"
#include "walkeeper/log.h"

/* The database file. Bytes that it does not have are read as zeros. */
typedef struct wk_redo_file {
	void *context;
	wk_status (*read)(void *context, uint8_t *bytes, size_t size, uint64_t offset, wk_error *error);
	wk_status (*write)(void *context, const uint8_t *bytes, size_t size, uint64_t offset, wk_error *error);
	/* May be NULL. Before the first write of a commit, and behind its last one: it has so many pages, and is shown whole. */
	wk_status (*begin)(void *context, uint32_t page_size, wk_error *error);
	wk_status (*commit)(void *context, uint32_t pages, wk_error *error);
} wk_redo_file;

/* What the file holds. */
typedef struct wk_redo_point {
	uint64_t database; /* 0: not known yet */
	bool named;        /* it is beside the one whose the log is */
	uint64_t transaction;
	uint32_t crc; /* of the last record of that transaction */
	uint32_t page_size, pages;
	int64_t lsn, txid; /* of that record; -1: none */
} wk_redo_point;

typedef struct wk_redo {
	wk_redo_file file;
	wk_redo_point at;
	uint32_t kind;       /* WK_PAGES_*: the records that are carried out; others are passed over */
	int64_t lsn, txid;   /* commits behind them are not carried out; -1: no such end */
	wk_redo_point group; /* of the parts that came: transaction and crc */
	uint32_t parts;
	uint8_t *pending; /* these parts, each behind its size */
	size_t pending_size, pending_room;
	FILE *spilled; /* or in a file, where they are many */
	uint8_t *page;
} wk_redo;

/* The file holds `at`. WK_NO_MEMORY. */
wk_status wk_redo_begin(wk_redo *redo, const wk_redo_file *file, const wk_redo_point *at, uint32_t kind,
                        wk_error *error);
/*
 * The next record of the log. WK_END: it is behind the end that was set. WK_CORRUPT: it is none of this database's, or a record
 * before it is missing.
 */
wk_status wk_redo_record(wk_redo *redo, const uint8_t *payload, size_t size, int64_t sequence_id, int64_t txid,
                         wk_error *error);
void wk_redo_free(wk_redo *redo);
#endif
