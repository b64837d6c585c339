/*
 * verify_chain.h: the chain of blocks as wk_verify_directory follows it through the journal files. Private.
 *
 * Files are numbered as in verifier->files.
 */
#ifndef WK_ENGINE_VERIFY_CHAIN_H
#define WK_ENGINE_VERIFY_CHAIN_H
#include "engine/check/verifier.h"

#define WK_VERIFY_NO_FILE UINT32_MAX

typedef struct wk_verify_chain {
	wk_verifier *verifier;
	wk_scan scan;
	uint32_t open; /* the file without footer in which the chain ends so far; WK_VERIFY_NO_FILE: behind a sealed one */
	uint64_t end;  /* its offset there */
	bool gap;      /* what lies between was recycled, or is lost and counted: the next file may start at any block */
} wk_verify_chain;

typedef struct wk_verify_behind {
	wk_scan scan;        /* with its witness */
	uint32_t first_file; /* where the first whole block behind the end stands; WK_VERIFY_NO_FILE: there is none */
	uint64_t first_offset;
	uint64_t bytes; /* of those that the writer of the last block, or a later one, left in the open file */
} wk_verify_behind;

/* Follows the chain in one file from `from` on. *accepted counts blocks, *end is why it stopped. */
wk_status wk_verify_chain_follow(wk_verify_chain *c, uint32_t file, wk_file_view *view, uint64_t from,
                                 uint64_t *accepted, wk_scan_verdict *end);
/* Reads on where the chain is open: in a directory in use there may be more by now, or the file is gone. *progress:
 * either. */
wk_status wk_verify_chain_decide(wk_verify_chain *c, bool *progress, wk_scan_verdict *end);
/* Shows every whole block of a file from `offset` on to b->scan. */
wk_status wk_verify_chain_gather(wk_verify_chain *c, uint32_t file, uint64_t offset, wk_verify_behind *b);
/* The same behind the open end, in its file and all later ones. */
wk_status wk_verify_chain_look_behind(wk_verify_chain *c, wk_verify_behind *b);
/* What the block at the open end, which is not whole, seems to take. */
wk_status wk_verify_chain_broken_size(wk_verify_chain *c, uint64_t *size);
/* The chain goes on at the first whole block behind the damage. */
void wk_verify_chain_resume(wk_verify_chain *c, const wk_verify_behind *b);
#endif
