/*
 * record_writer.h: packs the images of a transaction, or of a snapshot, into records, and appends them. All but the last may be in the
 * log before it is: a group without its last part does not count.
 */
#ifndef WK_SQLITE_RECORD_WRITER_H
#define WK_SQLITE_RECORD_WRITER_H
#include "record.h"
#include "walkeeper/sqlite.h"

enum { WK_RECORDS_AT_ONCE = 8, WK_HELD_RECORD_MAX = 64 * 1024 };

typedef struct wk_record_writer {
	const wk_database_log *log;
	bool named;             /* the records are of a database beside the one whose the log is */
	wk_pages_record record; /* the one that is being built; `before` is the crc of the last sealed one */
	uint8_t *bytes;         /* the sealed records, and the one that is being built; kept for the next group */
	size_t room, sealed, used;
	uint32_t sizes[WK_RECORDS_AT_ONCE];
	size_t sealed_count;
	uint64_t payload_bytes; /* of the group */
	int64_t lsn;            /* of its last record that is durable */
	wk_error error;
} wk_record_writer;

/* A group of which `record` has kind, page size, database, transaction and before. WK_NO_MEMORY. */
wk_status wk_record_writer_begin(wk_record_writer *writer, const wk_database_log *log, const wk_pages_record *record);
/* As wk_pages_image_encode. What an append answers; writer->error then says whether a record may be durable. */
wk_status wk_record_writer_add(wk_record_writer *writer, uint32_t number, const uint8_t *page, const uint8_t *base);
/* What is there so far is a part, and is durable when it returns. */
wk_status wk_record_writer_flush(wk_record_writer *writer);
/*
 * The last part: the database has so many pages behind it, and the group is durable when it returns. With `ticket`, which may be
 * NULL: once the log's `wait` for it returns.
 */
wk_status wk_record_writer_end(wk_record_writer *writer, uint32_t pages, uint64_t *ticket);
/*
 * As wk_record_writer_end, and the last part is not appended, but stays sealed: writer->sealed bytes, WK_HELD_RECORD_MAX at most. What an
 * append of the parts before it answers.
 */
wk_status wk_record_writer_hold(wk_record_writer *writer, uint32_t pages);
/* What was held has been appended by somebody else. */
void wk_record_writer_let_go(wk_record_writer *writer, int64_t lsn);
/* A record of the name, from 1 to WK_DATABASE_NAME_MAX bytes, which is durable when it returns. */
wk_status wk_record_writer_name(wk_record_writer *writer, const wk_database_log *log, const wk_pages_record *record,
                                const char *name);
void wk_record_writer_free(wk_record_writer *writer);
#endif
