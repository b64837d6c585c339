/*
 * core.h: what every walkeeper header shares: the status of a call, the checksum.
 *
 * Conventions of all public headers
 * 1. Names begin with wk_, enumerators with WK_. A type is a noun; a function is the noun, then a verb.
 * 2. A call that can fail returns wk_status, WK_OK being 0 and every failure negative. Results go
 *    through pointers behind the inputs and are written only on WK_OK, unless the comment says otherwise.
 * 3. Pointers are never NULL unless the comment says "may be NULL". Bytes are pointer and size.
 * 4. Sizes and offsets are bytes, times are nanoseconds; the unit is the last word of a name.
 * 5. A pure function (this header, and those that say so) makes no system call and keeps no state.
 * 6. Constants are enumerators, so that the cffi module sees them.
 */
#ifndef WALKEEPER_CORE_H
#define WALKEEPER_CORE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef WK_CDEF
#define WK_API
#else
#define WK_API __attribute__((visibility("default")))
#endif

typedef enum wk_status {
	WK_OK = 0,
	WK_CORRUPT = -1,        /* bytes that break the validity rule of their format */
	WK_INVALID = -2,        /* an argument that breaks the call's rules; nothing was done */
	WK_FENCED = -3,         /* another writer took over */
	WK_FULL = -4,           /* a named limit is reached */
	WK_END = -5,            /* nothing more, for now or for ever as the call says */
	WK_NOT_FOUND = -6,      /* certain: it does not exist */
	WK_IO = -7,             /* the kernel failed a call; wk_error.system_error has the errno */
	WK_LOCKED = -8,         /* another process holds the directory */
	WK_TIMEOUT = -9,        /* the time given has passed */
	WK_WOULD_BLOCK = -10,   /* no room now, and the caller asked not to wait */
	WK_INTERRUPTED = -11,   /* a signal arrived while waiting; call again to go on waiting */
	WK_CLOSED = -12,        /* the handle was closed */
	WK_FAILED = -13,        /* an earlier write or sync failed: this handle only reads and closes */
	WK_NO_SPACE = -14,      /* the disk is full; appends are refused until there is space */
	WK_TRUNCATED = -15,     /* the position lies before the truncation point */
	WK_DELETED = -16,       /* the log was deleted */
	WK_MISMATCH = -17,      /* expected= names another sequence id than the next */
	WK_TOO_LARGE = -18,     /* larger than the format allows; nothing was written */
	WK_EXISTS = -19,        /* the name is taken */
	WK_NO_MEMORY = -20,     /* malloc failed */
	WK_FORKED = -21,        /* the handle belongs to the parent process */
	WK_READ_ONLY = -22,     /* the directory was opened read-only */
	WK_TXID = -23,          /* the txid goes back, or two sources of txids are mixed */
	WK_END_OF_STREAM = -24, /* the log was ended for ever */
	WK_UNSUPPORTED = -25,   /* a format, codec or file system that this build refuses */
	WK_DAMAGED = -26,       /* acknowledged bytes that can no longer be read */
	WK_NO_LEDGER = -27,     /* certain: nothing was ever stored of the ledger, or it was deleted */
	WK_WRONG_KEY = -28,     /* not the ledger's master key; nothing was done */
	WK_UNAVAILABLE = -29,   /* too few bookies answer */
	WK_NEEDS_SEGMENT = -30, /* a log on a cluster needs another segment first; nothing was written */
} wk_status;

/* The sentence that explains a status; never NULL, never freed. Pure. */
WK_API const char *wk_status_text(wk_status status);

/*
 * CRC-32C (Castagnoli, reflected, init and xorout all ones; RFC 3720 appendix B.4): the checksum of
 * every walkeeper format. wk_crc32c("123456789", 9) == 0xE3069283. `size` may be 0. Pure.
 */
WK_API uint32_t wk_crc32c(const void *data, size_t size);

/* The checksum of A followed by B, where crc == wk_crc32c(A): wk_crc32c_extend(crc, B). Pure. */
WK_API uint32_t wk_crc32c_extend(uint32_t crc, const void *data, size_t size);

/* The checksum of A followed by B, from those of A and of B alone. Pure. */
WK_API uint32_t wk_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b);
/* From so many bytes of B on that is quicker than reading B again, on this processor. Pure. */
WK_API uint64_t wk_crc32c_combine_from(void);

/* The same answers without special instructions; for tests and for CPUs that have none. Pure. */
WK_API uint32_t wk_crc32c_extend_portable(uint32_t crc, const void *data, size_t size);

/* "sse4.2 three-way", "armv8" or "portable": what wk_crc32c runs on this CPU. Pure. */
WK_API const char *wk_crc32c_implementation(void);
#endif
