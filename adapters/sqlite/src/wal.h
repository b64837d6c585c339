/*
 * wal.h: what SQLite writes to its WAL, and when a transaction in it is complete.
 *
 * A transaction is complete once its commit frame is there, and the checksums of its frames go on from those of the last
 * committed frame. SQLite overwrites pages of frames that it wrote earlier in the transaction, leaves their checksums
 * zero, and corrects all of them at the end, beginning with a read of the checksum before the first one that is wrong.
 * Up to 3.50.1 it may begin too late, and lose the transaction in a recovery; all checksums are corrected here at that read.
 *
 * The header of the commit frame is held back until the commit is accepted: a file whose last transaction was not accepted
 * has no commit frame of it, whatever happens.
 *
 * One writer at a time: SQLite's lock WAL_WRITE_LOCK.
 */
#ifndef WK_SQLITE_WAL_H
#define WK_SQLITE_WAL_H
#include "page_map.h"
#include "wal_format.h"

/* The file; the answers are SQLite's, 0 being success. */
typedef struct wk_wal_file {
	void *context;
	int (*read)(void *context, uint8_t *bytes, size_t size, uint64_t offset);
	int (*write)(void *context, const uint8_t *bytes, size_t size, uint64_t offset);
} wk_wal_file;

typedef struct wk_wal wk_wal;
/*
 * Makes the frames behind wal->committed, up to `last`, durable, of which wal->frame has the last; `pages` is the size of the database behind them. What is not 0 fails the
 * write that completed the transaction, and SQLite rolls it back.
 */
typedef int (*wk_wal_commit_fn)(void *context, const wk_wal_file *file, uint32_t last, uint32_t pages);

struct wk_wal {
	wk_wal_commit_fn commit;
	void *context;
	bool known; /* a header was written */
	wk_wal_format format;
	uint32_t committed; /* the last frame of the last transaction */
	uint32_t checksum[2];
	wk_page_map pages;                   /* of the frames up to it */
	uint8_t header[WK_WAL_FRAME_HEADER]; /* of a frame, that comes in pieces */
	uint32_t header_frame;
	size_t header_size;
	uint8_t mark[WK_WAL_FRAME_HEADER]; /* the header that is held back */
	uint32_t mark_frame;               /* 0: none */
	bool mark_page;                    /* the page of that frame was written */
	uint8_t *mark_bytes;               /* that page */
	_Atomic uint64_t healed;           /* transactions whose checksums SQLite would have left wrong */
	uint8_t *frame;                    /* memory for one */
};

/* Whether frames were written behind the last commit. */
static inline bool wk_wal_has_begun(const wk_wal *wal) {
	return wal->known && wal->header_frame > wal->committed;
}

/* False: no memory. */
bool wk_wal_init(wk_wal *wal, wk_wal_commit_fn commit, void *context);
void wk_wal_free(wk_wal *wal);
/* A new header: frames begin anew. False: it is none. */
bool wk_wal_begin(wk_wal *wal, const uint8_t header[WK_WAL_HEADER]);
/* The file is gone, or empty: there are no frames until the next header. */
void wk_wal_forget(wk_wal *wal);
/* Bytes behind the header. */
int wk_wal_write(wk_wal *wal, const wk_wal_file *file, const uint8_t *bytes, size_t size, uint64_t offset);
/*
 * Before SQLite reads these bytes: corrects checksums, where that is what it is about to do. *answered: `bytes` has what the read must
 * give, which the file does not have: SQLite begins behind the last frame, and goes on from the checksum that it reads.
 */
int wk_wal_before_read(wk_wal *wal, const wk_wal_file *file, uint8_t *bytes, size_t size, uint64_t offset,
                       bool *answered);
/* Behind the read: what is held back is put into `bytes`. */
void wk_wal_after_read(const wk_wal *wal, uint8_t *bytes, size_t size, uint64_t offset);
/* The transaction that was being written is given up. */
void wk_wal_rollback(wk_wal *wal);
/* The frame, header and page; the header that is held back is in it. */
int wk_wal_frame(const wk_wal *wal, const wk_wal_file *file, uint32_t frame, uint8_t *bytes);
#endif
