/* status.c: one sentence for each status. What was being done, and to what, is the caller's to add. */
#include "walkeeper/core.h"

const char *wk_status_text(wk_status status) {
	switch (status) { /* no default: the compiler names the status that has no sentence yet */
	case WK_OK:
		return "success";
	case WK_CORRUPT:
		return "the bytes break the validity rule of their format";
	case WK_INVALID:
		return "an argument breaks the rules of the call; nothing was done";
	case WK_FENCED:
		return "another writer took over";
	case WK_FULL:
		return "a limit is reached";
	case WK_END:
		return "there is nothing more";
	case WK_NOT_FOUND:
		return "it does not exist";
	case WK_IO:
		return "the kernel failed a call";
	case WK_LOCKED:
		return "another process holds the directory";
	case WK_TIMEOUT:
		return "the time given has passed";
	case WK_WOULD_BLOCK:
		return "there is no room now, and the caller asked not to wait";
	case WK_INTERRUPTED:
		return "a signal arrived while waiting";
	case WK_CLOSED:
		return "the handle was closed";
	case WK_FAILED:
		return "an earlier write or sync failed: this handle only reads and closes";
	case WK_NO_SPACE:
		return "the disk is full; appends are refused until there is space";
	case WK_TRUNCATED:
		return "the position lies before the truncation point";
	case WK_DELETED:
		return "the log was deleted";
	case WK_MISMATCH:
		return "the expected sequence id is not the next one";
	case WK_TOO_LARGE:
		return "larger than the format allows; nothing was written";
	case WK_EXISTS:
		return "the name is taken";
	case WK_NO_MEMORY:
		return "out of memory";
	case WK_FORKED:
		return "the handle belongs to the parent process";
	case WK_READ_ONLY:
		return "the directory was opened read-only";
	case WK_TXID:
		return "the txid goes back, or two sources of txids are mixed";
	case WK_END_OF_STREAM:
		return "the log was ended for ever";
	case WK_UNSUPPORTED:
		return "a format, codec or file system that this build refuses";
	case WK_DAMAGED:
		return "acknowledged bytes can no longer be read";
	case WK_NO_LEDGER:
		return "nothing is stored of the ledger";
	case WK_WRONG_KEY:
		return "not the ledger's master key";
	case WK_UNAVAILABLE:
		return "too few bookies answer";
	case WK_NEEDS_SEGMENT:
		return "the log needs another segment first; nothing was written";
	}
	return "unknown status";
}
