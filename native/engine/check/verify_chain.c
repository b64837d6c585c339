/* verify_chain.c: reading along the chain of blocks, and what stands behind its end. */
#include "engine/check/verify_chain.h"

#include <string.h>

/* ---- reading on ---- */

wk_status wk_verify_chain_follow(wk_verify_chain *c, uint32_t file, wk_file_view *view, uint64_t from,
                                 uint64_t *accepted, wk_scan_verdict *end) {
	c->scan.epoch = c->verifier->files[file].id;
	c->scan.offset = from;
	*accepted = 0;
	*end = WK_SCAN_ABSENT;
	while (c->scan.offset < view->size) {
		const uint8_t *bytes;
		size_t available;
		wk_block_header header;
		wk_status status = wk_file_view_block(view, c->scan.offset, &bytes, &available, c->verifier->error);
		if (status != WK_OK)
			return status;
		*end = wk_scan_block(&c->scan, bytes, available, &header);
		if (*end != WK_SCAN_ACCEPTED)
			return WK_OK;
		++*accepted;
		c->verifier->files[file].has_blocks = true;
		status = wk_verify_block(c->verifier, &c->verifier->files[file], bytes, &header, NULL);
		if (status != WK_OK)
			return status;
	}
	return WK_OK;
}

/* The open file is not there any more: it was sealed, let go and recycled meanwhile. */
static void lose(wk_verify_chain *c, bool *progress) {
	c->open = WK_VERIFY_NO_FILE;
	c->gap = true;
	*progress = true;
}

wk_status wk_verify_chain_decide(wk_verify_chain *c, bool *progress, wk_scan_verdict *end) {
	wk_file_view view;
	*progress = false;
	*end = WK_SCAN_ABSENT;
	wk_status status = wk_verifier_open(c->verifier, &c->verifier->files[c->open], &view);
	if (status == WK_NOT_FOUND)
		lose(c, progress);
	if (status != WK_OK)
		return status == WK_NOT_FOUND ? WK_OK : status;
	uint64_t accepted;
	status = wk_verify_chain_follow(c, c->open, &view, c->end, &accepted, end);
	c->end = c->scan.offset;
	*progress = accepted > 0;
	if (accepted == 0 && !wk_file_view_is_named(&view))
		lose(c, progress);
	wk_file_view_close(&view);
	return status;
}

/* ---- what stands behind the end ---- */

wk_status wk_verify_chain_gather(wk_verify_chain *c, uint32_t file, uint64_t offset, wk_verify_behind *b) {
	wk_file_view view;
	wk_status status = wk_verifier_open(c->verifier, &c->verifier->files[file], &view);
	if (status != WK_OK)
		return status == WK_NOT_FOUND ? WK_OK : status;
	for (uint64_t at = offset; at < view.size && status == WK_OK;) {
		const uint8_t *bytes;
		size_t available;
		wk_block_header header;
		status = wk_file_view_block(&view, at, &bytes, &available, c->verifier->error);
		if (status == WK_OK && wk_block_decode(bytes, available, &header) == WK_OK &&
		    header.epoch == c->verifier->files[file].id && header.offset == at) {
			wk_scan_later(&b->scan, &header);
			bool later = header.sequence > c->scan.sequence &&
			             memcmp(header.directory_id, c->scan.directory_id, sizeof header.directory_id) == 0;
			if (later && b->first_file == WK_VERIFY_NO_FILE) {
				b->first_file = file;
				b->first_offset = at;
			}
			if (later && file == c->open && header.incarnation >= c->scan.incarnation)
				b->bytes += header.size;
			at += header.size;
		} else {
			at += WK_BLOCK_ALIGNMENT;
		}
	}
	wk_file_view_close(&view);
	return status;
}

wk_status wk_verify_chain_look_behind(wk_verify_chain *c, wk_verify_behind *b) {
	*b = (wk_verify_behind){.scan = c->scan, .first_file = WK_VERIFY_NO_FILE};
	b->scan.witness = b->scan.rival = 0;
	wk_status status = wk_verify_chain_gather(c, c->open, c->end, b);
	for (uint32_t i = c->open + 1; i < c->verifier->files_count && status == WK_OK; i++)
		if (c->verifier->files[i].kind == WK_FILE_JOURNAL)
			status = wk_verify_chain_gather(c, i, 0, b);
	return status;
}

wk_status wk_verify_chain_broken_size(wk_verify_chain *c, uint64_t *size) {
	wk_file_view view;
	*size = WK_BLOCK_ALIGNMENT;
	wk_status status = wk_verifier_open(c->verifier, &c->verifier->files[c->open], &view);
	if (status != WK_OK)
		return status == WK_NOT_FOUND ? WK_OK : status;
	const uint8_t *bytes;
	size_t available;
	wk_block_header header;
	status = wk_file_view_block(&view, c->end, &bytes, &available, c->verifier->error);
	if (status == WK_OK && wk_block_peek(bytes, available, &header) == WK_OK)
		*size = header.size;
	wk_file_view_close(&view);
	return status;
}

void wk_verify_chain_resume(wk_verify_chain *c, const wk_verify_behind *b) {
	c->scan.anchored = false;
	if (b->first_file == c->open) {
		c->end = b->first_offset;
		return;
	}
	c->open = WK_VERIFY_NO_FILE;
	c->gap = true;
}
