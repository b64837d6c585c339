/* verify_sealed.c: a journal file with a footer, which says how its blocks begin and end: it can be checked by itself.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/check/verifier.h"

/* A whole block of this file, later than the chain's last, stands here. */
static bool resumes(const wk_scan *chain, uint64_t at, const uint8_t *bytes, size_t available) {
	wk_block_header header;
	return wk_block_decode(bytes, available, &header) == WK_OK && header.epoch == chain->epoch && header.offset == at &&
	       header.sequence > chain->sequence &&
	       memcmp(header.directory_id, chain->directory_id, sizeof header.directory_id) == 0;
}

static wk_status walk(wk_verifier *verifier, const wk_verify_file *file, wk_file_view *view, const wk_footer *footer,
                      wk_scan *chain, wk_found *found) {
	wk_status status = WK_OK;
	bool lost = false; /* between a break and the next whole block */
	for (uint64_t at = 0; at < footer->end_offset && status == WK_OK;) {
		const uint8_t *bytes;
		size_t available;
		wk_block_header header;
		status = wk_file_view_block(view, at, &bytes, &available, verifier->error);
		if (status != WK_OK)
			break;
		available = available < footer->end_offset - at ? available : (size_t)(footer->end_offset - at);
		if (lost && resumes(chain, at, bytes, available)) {
			chain->anchored = false;
			lost = false;
		}
		chain->offset = at;
		if (!lost && wk_scan_block(chain, bytes, available, &header) == WK_SCAN_ACCEPTED) {
			status = wk_verify_block(verifier, file, bytes, &header, found);
			at += header.size;
			continue;
		}
		char name[40];
		if (!lost)
			wk_verifier_damage(verifier, wk_verify_file_name(file, name),
			                   "block %llu at offset %llu is not whole, or not the one that belongs there",
			                   (unsigned long long)chain->sequence + 1, (unsigned long long)at);
		found->damaged = lost = true;
		at += WK_BLOCK_ALIGNMENT;
	}
	return status;
}

static wk_status verify(wk_verifier *verifier, const wk_verify_file *file, wk_file_view *view, const wk_footer *footer,
                        wk_found *found) {
	wk_scan chain;
	wk_scan_init(&chain, verifier->superblock.directory_id);
	wk_scan_file(&chain, file->id);
	chain.anchored = true;
	chain.sequence = footer->first_sequence - 1;
	chain.crc = footer->first_previous_crc;
	wk_status status = walk(verifier, file, view, footer, &chain, found);
	if (status != WK_OK)
		return status;
	bool empty = footer->last_sequence < footer->first_sequence;
	char name[40];
	if (!found->damaged && !empty &&
	    (chain.sequence != footer->last_sequence || chain.crc != footer->last_crc ||
	     chain.incarnation != footer->incarnation))
		wk_verifier_damage(
		    verifier, wk_verify_file_name(file, name),
		    "the footer ends with block %llu, the blocks with block %llu, or with another one of that number",
		    (unsigned long long)footer->last_sequence, (unsigned long long)chain.sequence);
	return wk_verify_footer(verifier, file, view, footer, found);
}

wk_status wk_verify_sealed(wk_verifier *verifier, wk_verify_file *file, wk_file_view *view, const wk_footer *footer,
                           bool *gone) {
	wk_verify_report before = *verifier->report;
	wk_found found = {0};
	wk_status status = verify(verifier, file, view, footer, &found);
	free(found.entries);
	free(found.states);
	/* What was damage in the file of that name may be another file's blocks: then it was let go while it was read. */
	*gone = verifier->report->damaged > before.damaged && !wk_file_view_is_named(view);
	if (*gone)
		wk_verifier_take_back(verifier, &before);
	return status;
}
