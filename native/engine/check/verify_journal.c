/*
 * verify_journal.c: the chain of blocks through all journal files; where it ends, a torn tail is told from damage as
 * recovery tells it (journal_scan.h).
 */
#include <string.h>

#include "engine/check/verify_chain.h"

static const char *name_of(const wk_verify_chain *c, uint32_t file, char name[40]) {
	return wk_verify_file_name(&c->verifier->files[file], name);
}

/* ---- one file after another ---- */

/* A file may start behind a gap only where the files between were sealed, thus whole, and then recycled. */
static wk_status allow_jump(wk_verify_chain *c, wk_file_view *view) {
	const uint8_t *bytes;
	size_t available;
	wk_block_header header;
	wk_status status = wk_file_view_block(view, 0, &bytes, &available, c->verifier->error);
	if (status == WK_OK && (c->open == WK_VERIFY_NO_FILE || c->gap) &&
	    wk_block_decode(bytes, available, &header) == WK_OK && header.sequence > c->scan.sequence + 1 &&
	    header.incarnation >= c->scan.incarnation)
		c->scan.anchored = false;
	return status;
}

static bool accounts_for(const wk_superblock *root, uint64_t last, uint64_t first) {
	uint64_t accounted = wk_superblock_accounted(root);
	return root->kind != WK_KIND_LEDGERS || first <= (accounted > last ? accounted : last) + 1;
}

/* A ledger store's files go only below the mark, which a directory in use may have raised meanwhile. */
static wk_status check_gap(wk_verify_chain *c, uint32_t file, uint64_t last, uint64_t first) {
	wk_superblock now;
	char name[40];
	if (c->gap || accounts_for(&c->verifier->superblock, last, first))
		return WK_OK;
	wk_status status = wk_verifier_superblock(c->verifier, &now);
	if (status == WK_OK && !accounts_for(&now, last, first))
		wk_verifier_damage(c->verifier, name_of(c, file, name),
		                   "it begins with block %llu, but no file has the one before: a journal file is missing",
		                   (unsigned long long)first);
	return status == WK_DAMAGED ? WK_OK : status; /* that was told */
}

static wk_status visit_open(wk_verify_chain *c, uint32_t file, wk_file_view *view) {
	wk_scan before = c->scan;
	uint64_t accepted = 0;
	wk_scan_verdict end = WK_SCAN_ABSENT;
	bool progress = true;
	wk_status status = WK_OK;
	while (progress && accepted == 0 && status == WK_OK) {
		status = allow_jump(c, view);
		if (status == WK_OK)
			status = wk_verify_chain_follow(c, file, view, 0, &accepted, &end);
		progress = false;
		if (status == WK_OK && accepted == 0) {
			c->scan = before;
			wk_scan_verdict ignored;
			if (c->open != WK_VERIFY_NO_FILE)
				status = wk_verify_chain_decide(c, &progress, &ignored);
			before = c->scan;
			wk_file_view_forget(view);
		}
	}
	if (status != WK_OK)
		return status;
	if (accepted > 0) {
		c->open = file;
		c->end = c->scan.offset;
		status = check_gap(c, file, before.sequence, c->scan.sequence - accepted + 1);
		c->gap = false;
		return status;
	}
	if (c->open != WK_VERIFY_NO_FILE)
		return WK_OK;
	wk_verify_behind b = {.scan = c->scan, .first_file = WK_VERIFY_NO_FILE};
	status = wk_verify_chain_gather(c, file, 0, &b);
	if (b.first_file != WK_VERIFY_NO_FILE || end == WK_SCAN_BROKEN) { /* its first block is torn, or damaged */
		c->open = file;
		c->end = 0;
	}
	return status;
}

static wk_status check_link(wk_verify_chain *c, uint32_t file, const wk_footer *footer) {
	wk_status status = WK_OK;
	bool progress = false;
	wk_scan_verdict end = WK_SCAN_ABSENT;
	char name[40], other[40];
	if (!c->scan.anchored || c->gap)
		return WK_OK;
	if (c->open != WK_VERIFY_NO_FILE && footer->first_sequence != c->scan.sequence + 1)
		status = wk_verify_chain_decide(c, &progress, &end);
	if (status != WK_OK || c->gap)
		return status;
	if (footer->first_sequence <= c->scan.sequence)
		wk_verifier_damage(c->verifier, name_of(c, file, name),
		                   "it starts with block %llu, but earlier files go up to block %llu",
		                   (unsigned long long)footer->first_sequence, (unsigned long long)c->scan.sequence);
	else if (footer->first_sequence == c->scan.sequence + 1 && footer->first_previous_crc != c->scan.crc)
		wk_verifier_damage(c->verifier, name_of(c, file, name),
		                   "its first block follows another block %llu than the one in the file before",
		                   (unsigned long long)c->scan.sequence);
	else if (footer->first_sequence > c->scan.sequence + 1 && c->open != WK_VERIFY_NO_FILE)
		wk_verifier_damage(c->verifier, name_of(c, c->open, name),
		                   "block %llu at offset %llu is not whole, but the footer of %s shows that it was durable",
		                   (unsigned long long)c->scan.sequence + 1, (unsigned long long)c->end,
		                   name_of(c, file, other));
	else
		return WK_OK;
	/* What is whole behind the damage is looked at all the same. */
	for (bool more = c->open != WK_VERIFY_NO_FILE; more && status == WK_OK;) {
		wk_verify_behind b = {.scan = c->scan, .first_file = WK_VERIFY_NO_FILE};
		status = wk_verify_chain_gather(c, c->open, c->end, &b);
		more = status == WK_OK && b.first_file != WK_VERIFY_NO_FILE;
		if (more) {
			wk_verify_chain_resume(c, &b);
			status = wk_verify_chain_decide(c, &progress, &end);
			more = c->open != WK_VERIFY_NO_FILE;
		}
	}
	return status;
}

static wk_status visit_sealed(wk_verify_chain *c, uint32_t file, wk_file_view *view, const wk_footer *footer) {
	wk_verify_file *sealed = &c->verifier->files[file];
	bool gone;
	wk_status status = check_link(c, file, footer);
	if (status == WK_OK)
		status = check_gap(c, file, c->scan.sequence, footer->first_sequence);
	if (status == WK_OK)
		status = wk_verify_sealed(c->verifier, sealed, view, footer, &gone);
	if (status != WK_OK)
		return status;
	c->gap = gone;
	if (gone)
		return WK_OK;
	sealed->sealed = true;
	sealed->has_blocks = footer->last_sequence >= footer->first_sequence;
	c->open = WK_VERIFY_NO_FILE;
	c->scan.anchored = true;
	c->scan.sequence = footer->last_sequence;
	c->scan.crc = footer->last_crc;
	if (c->scan.incarnation != footer->incarnation)
		c->scan.incarnation_from = footer->last_sequence;
	c->scan.incarnation = footer->incarnation;
	return WK_OK;
}

/* A footer counts as a whole or not at all, as for recovery: with one bad page the file is scanned. */
static wk_status find_footer(wk_verify_chain *c, uint32_t number, wk_file_view *view, wk_footer *footer, bool *found) {
	wk_verify_file *file = &c->verifier->files[number];
	wk_status status = wk_file_view_footer(view, footer, c->verifier->error);
	*found = status == WK_OK && footer->kind == WK_FILE_JOURNAL && footer->file_id == file->id &&
	         memcmp(footer->directory_id, c->verifier->superblock.directory_id, sizeof footer->directory_id) == 0;
	if (*found) {
		wk_found nothing = {.damaged = true};
		wk_verify_report before = *c->verifier->report;
		status = wk_verify_footer(c->verifier, file, view, footer, &nothing);
		*found = c->verifier->report->damaged == before.damaged;
		wk_verifier_take_back(c->verifier, &before);
		file->broken_footer = !*found;
		return status;
	}
	file->broken_footer = wk_file_view_has_broken_footer(view, c->verifier->superblock.directory_id, file->id);
	return status == WK_IO || status == WK_NO_MEMORY || status == WK_INTERRUPTED ? status : WK_OK;
}

static wk_status visit(wk_verify_chain *c, uint32_t file) {
	wk_file_view view;
	wk_status status = wk_verifier_open(c->verifier, &c->verifier->files[file], &view);
	if (status == WK_NOT_FOUND) {
		c->gap = true;
		return WK_OK;
	}
	if (status != WK_OK)
		return status;
	wk_footer footer;
	bool found;
	status = find_footer(c, file, &view, &footer, &found);
	if (status == WK_OK)
		status = found ? visit_sealed(c, file, &view, &footer) : visit_open(c, file, &view);
	wk_file_view_close(&view);
	if (status == WK_IO) { /* the device gives no more of this file: that is damage, and the others may be whole */
		char name[40];
		wk_verifier_damage(c->verifier, name_of(c, file, name), "%s", c->verifier->error->text);
		c->open = WK_VERIFY_NO_FILE;
		c->gap = true;
		status = WK_OK;
	}
	return status;
}

/* ---- where it ends ---- */

/* The chain may have gone on in a file that was empty when it was visited. *next is the one behind it then. */
static wk_status visit_later(wk_verify_chain *c, bool *progress, uint32_t *next) {
	uint64_t sequence = c->scan.sequence;
	wk_status status = WK_OK;
	uint32_t i = c->open + 1;
	for (; i < c->verifier->files_count && status == WK_OK && c->scan.sequence == sequence; i++)
		if (c->verifier->files[i].kind == WK_FILE_JOURNAL)
			status = visit(c, i);
	*progress = c->scan.sequence != sequence;
	if (*progress)
		*next = i;
	return status;
}

/*
 * Records of one of two writers are in no log. Of a directory in use a block may have been read that the writer has since
 * written over: the chain was read on behind it.
 */
static void tell_rival(wk_verify_chain *c, const wk_scan *scan) {
	if (scan->rival != 0)
		wk_verifier_damage(
		    c->verifier, "journal",
		    "block %llu of another writer contradicts the chain that ends with block %llu: two processes "
		    "wrote the directory at once, and what one of them acknowledged is lost",
		    (unsigned long long)scan->rival, (unsigned long long)scan->sequence);
}

/* The end of the chain is open: torn, or damaged? *more: it goes on behind the damage, from file *next on. */
static wk_status judge(wk_verify_chain *c, bool *more, uint32_t *next) {
	*more = false;
	while (c->open != WK_VERIFY_NO_FILE) {
		*next = c->open + 1;
		wk_verify_behind b;
		bool progress;
		wk_scan_verdict end;
		wk_status status = wk_verify_chain_look_behind(c, &b);
		if (status == WK_OK) /* after the evidence: what it proves durable must be there now */
			status = wk_verify_chain_decide(c, &progress, &end);
		if (status == WK_OK && !progress && wk_scan_damaged(&b.scan))
			status = visit_later(c, &progress, next);
		if (status != WK_OK)
			return status;
		*more = c->open == WK_VERIFY_NO_FILE;
		if (progress)
			continue;
		tell_rival(c, &b.scan);
		if (!wk_scan_damaged(&b.scan)) {
			uint64_t size = 0;
			if (end == WK_SCAN_BROKEN)
				status = wk_verify_chain_broken_size(c, &size);
			c->verifier->report->torn_tail_bytes += size + b.bytes;
			return status;
		}
		if (end == WK_SCAN_ABSENT && b.first_file != WK_VERIFY_NO_FILE && b.first_file != c->open &&
		    b.first_offset > 0) {
			c->open = b.first_file; /* nothing is missing in this file: the bad block was the first of the later one */
			c->end = 0;
			continue;
		}
		char name[40];
		wk_verifier_damage(c->verifier, name_of(c, c->open, name),
		                   "block %llu at offset %llu is not whole, but block %llu shows that it was durable",
		                   (unsigned long long)c->scan.sequence + 1, (unsigned long long)c->end,
		                   (unsigned long long)b.scan.witness);
		wk_verify_chain_resume(c, &b);
		if (c->open != WK_VERIFY_NO_FILE)
			status = wk_verify_chain_decide(c, &progress, &end);
		*more = true;
		return status;
	}
	return WK_OK;
}

/*
 * Footers that are not whole. The newest may have been under the pen when the power went, and is then written again;
 * what a directory that was closed in order, or a later footer, leaves behind it was whole once.
 */
static wk_status verify_broken_footers(wk_verifier *verifier) {
	uint32_t later_files = 0;
	bool later_footer = verifier->superblock.clean;
	wk_status status = WK_OK;
	for (uint32_t i = verifier->files_count; i-- > 0 && status == WK_OK;) {
		wk_verify_file *file = &verifier->files[i];
		bool damaged = file->broken_footer && (later_footer || later_files > 1);
		later_footer |= file->sealed;
		later_files += file->has_blocks && file->kind == WK_FILE_JOURNAL;
		wk_file_view view;
		if (!damaged || wk_verifier_open(verifier, file, &view) != WK_OK)
			continue;
		wk_footer footer;
		wk_found nothing = {.damaged = true};
		char name[40];
		file->footer_told = true;
		if (wk_file_view_footer(&view, &footer, verifier->error) == WK_OK)
			status = wk_verify_footer(verifier, file, &view, &footer, &nothing);
		else if (wk_file_view_is_named(&view))
			wk_verifier_damage(verifier, wk_verify_file_name(file, name),
			                   "the footer's last page, at offset %llu, is not whole",
			                   (unsigned long long)(view.size - WK_PAGE_SIZE));
		wk_file_view_close(&view);
	}
	return status;
}

/* A directory that was closed in order says behind which block; one in use does not, by now. */
static wk_status check_end(wk_verify_chain *c, uint64_t damaged_before) {
	const wk_superblock *root = &c->verifier->superblock;
	wk_superblock now;
	if (!root->clean || root->closed_sequence <= c->scan.sequence || c->verifier->report->damaged > damaged_before)
		return WK_OK;
	wk_status status = wk_verifier_superblock(c->verifier, &now);
	if (status == WK_OK && now.clean && now.closed_sequence == root->closed_sequence)
		wk_verifier_damage(
		    c->verifier, "journal",
		    "it ends behind block %llu, but the directory was closed in order behind block %llu: a file is "
		    "missing or damaged",
		    (unsigned long long)c->scan.sequence, (unsigned long long)root->closed_sequence);
	return status == WK_DAMAGED ? WK_OK : status; /* that was told */
}

wk_status wk_verify_journal(wk_verifier *verifier) {
	uint64_t damaged_before = verifier->report->damaged;
	wk_verify_chain c = {.verifier = verifier, .open = WK_VERIFY_NO_FILE};
	wk_scan_init(&c.scan, verifier->superblock.directory_id);
	wk_status status = WK_OK;
	uint32_t next = 0;
	for (bool more = true; more && status == WK_OK;) {
		for (uint32_t i = next; i < verifier->files_count && status == WK_OK; i++)
			if (verifier->files[i].kind == WK_FILE_JOURNAL)
				status = visit(&c, i);
		if (status == WK_OK)
			status = judge(&c, &more, &next);
	}
	if (status == WK_OK)
		status = check_end(&c, damaged_before);
	return status == WK_OK ? verify_broken_footers(verifier) : status;
}
