/* verify_places.c: where the journal of the directory is, and whether it is this directory's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/owner.h"
#include "engine/check/verifier.h"
#include "engine/directory.h"

char *wk_verifier_path(const wk_verifier *verifier, const char *below) {
	const char *journal = verifier->journal[0] != 0 ? verifier->journal : NULL;
	return wk_places_path((wk_places){verifier->path, journal}, below);
}

static wk_status check_owner(wk_verifier *verifier, const uint8_t *slots) {
	wk_owner owner;
	wk_status status = wk_owner_choose(slots, &owner);
	if (status == WK_UNSUPPORTED)
		return wk_fail(verifier->error, status, "%s was written by a newer version of walkeeper: use that one",
		               verifier->journal);
	const wk_superblock *superblock = &verifier->superblock;
	if (status != WK_OK)
		wk_verifier_damage(verifier, "owner", "neither slot says whole whose journal this is");
	else if (memcmp(owner.directory_id, superblock->directory_id, sizeof owner.directory_id) != 0)
		wk_verifier_damage(verifier, "owner", "the journal in %s is another directory's", verifier->journal);
	else if (owner.incarnation < superblock->incarnation)
		wk_verifier_damage(verifier, "owner", "the journal in %s is an older copy: of open %llu for writing, not %llu",
		                   verifier->journal, (unsigned long long)owner.incarnation,
		                   (unsigned long long)superblock->incarnation);
	return WK_OK;
}

static wk_status verify_owner(wk_verifier *verifier) {
	wk_file_view view;
	wk_status status = wk_verifier_open_below(verifier, "owner", &view);
	if (status == WK_NOT_FOUND) {
		wk_verifier_damage(verifier, "owner", "it is missing: nothing says whose journal is in %s", verifier->journal);
		return WK_OK;
	}
	if (status != WK_OK)
		return status;
	const uint8_t *slots;
	size_t available;
	status = wk_file_view_at(&view, 0, WK_OWNER_SIZE, &slots, &available, verifier->error);
	if (status == WK_OK && available < WK_OWNER_SIZE)
		wk_verifier_damage(verifier, "owner", "it is cut short");
	else if (status == WK_OK)
		status = check_owner(verifier, slots);
	wk_file_view_close(&view);
	verifier->report->files++;
	return status;
}

wk_status wk_verify_places(wk_verifier *verifier, const char *told) {
	const char *known = verifier->superblock.journal_path;
	const struct wk_io_operations *io = verifier->io->operations;
	if (known[0] == 0)
		return told == NULL ? WK_OK
		                    : wk_fail(verifier->error, WK_INVALID, "%s has its journal in it, and not in %s",
		                              verifier->path, told);
	if (strlen(told != NULL ? told : known) >= sizeof verifier->journal)
		return wk_fail(verifier->error, WK_INVALID, "the path of the journal directory is too long");
	strcpy(verifier->journal, told != NULL ? told : known);
	wk_io_space space;
	(void)io->hold(verifier->io, verifier->journal); /* what is wrong with it the next call says */
	int result = io->space(verifier->io, verifier->journal, &space);
	if (result == -ENOENT)
		return wk_fail(verifier->error, WK_NOT_FOUND,
		               "the journal directory %s of %s does not exist: say where it is now (--journal)",
		               verifier->journal, verifier->path);
	return result < 0 ? wk_fail_io(verifier->error, result, "looking at %s", verifier->journal)
	                  : verify_owner(verifier);
}
