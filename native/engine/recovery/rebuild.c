/*
 * rebuild.c: a superblock for a directory that has lost its own. Its files tell whose they are, what they hold and how far
 * their numbers go; what only the superblock said is taken as it is safe (docs/operations.md).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/index_file.h"
#include "core/journal_block.h"
#include "core/owner.h"
#include "engine/check.h"
#include "engine/directory.h"
#include "engine/follower.h"
#include "engine/index.h"
#include "walkeeper/inspect.h"

enum { OWNERS_MAX = 16, IDS_SPARE = WK_FILE_ID_STEP };

/* What the files say of one directory. */
typedef struct claimant {
	uint8_t directory_id[WK_DIRECTORY_ID_SIZE];
	uint64_t pages; /* blocks and footers that name it */
	uint64_t incarnation, sequence;
	uint64_t entries, summed_entries; /* blocks with one of these, in its journal */
} claimant;

typedef struct rebuild {
	wk_io *io;
	wk_places places;
	claimant claimants[OWNERS_MAX]; /* of more than that none has the most */
	uint32_t count;
	uint64_t highest_id;   /* of any file */
	wk_index_header index; /* generation 0: none is whole */
	const claimant *owner;
	wk_error *error;
	wk_status status;
	bool named;
	const uint8_t *expected; /* the id that the superblock has, NULL: there is none */
} rebuild;

static claimant *claimant_of(rebuild *r, const uint8_t *directory_id) {
	for (uint32_t i = 0; i < r->count; i++)
		if (memcmp(r->claimants[i].directory_id, directory_id, WK_DIRECTORY_ID_SIZE) == 0)
			return &r->claimants[i];
	if (r->count == OWNERS_MAX)
		return NULL;
	claimant *one = &r->claimants[r->count++];
	memcpy(one->directory_id, directory_id, WK_DIRECTORY_ID_SIZE);
	return one;
}

static void note(rebuild *r, const uint8_t *directory_id, uint64_t incarnation, uint64_t sequence) {
	claimant *one = claimant_of(r, directory_id);
	if (one == NULL)
		return;
	one->pages++;
	one->incarnation = incarnation > one->incarnation ? incarnation : one->incarnation;
	one->sequence = sequence > one->sequence ? sequence : one->sequence;
}

static void note_block(rebuild *r, const uint8_t *bytes, const wk_block_header *header) {
	uint32_t cursor = WK_BLOCK_HEADER_SIZE;
	wk_block_record record;
	note(r, header->directory_id, header->incarnation, header->sequence);
	claimant *one = claimant_of(r, header->directory_id);
	while (one != NULL && wk_block_next(bytes, header, &cursor, &record) == WK_OK) {
		one->entries += record.type == WK_BLOCK_ENTRY;
		one->summed_entries += record.type != WK_BLOCK_ENTRY; /* state records are a ledger store's, too */
	}
}

/* ---- the files ---- */

static wk_status look_at_blocks(rebuild *r, wk_file_view *view, uint64_t id) {
	wk_status status = WK_OK;
	for (uint64_t at = 0; at + WK_BLOCK_ALIGNMENT <= view->size && status == WK_OK;) {
		const uint8_t *bytes;
		size_t available;
		wk_block_header header;
		uint64_t step = WK_BLOCK_ALIGNMENT;
		status = wk_file_view_block(view, at, &bytes, &available, r->error);
		if (status == WK_OK && wk_block_decode(bytes, available, &header) == WK_OK && header.epoch == id &&
		    header.offset == at) {
			note_block(r, bytes, &header);
			step = header.size;
		}
		at += step;
	}
	return status;
}

static wk_status look_at_store_file(rebuild *r, uint32_t kind, uint64_t id) {
	char *path = wk_places_path(r->places, wk_file_name_of(id, kind).text);
	wk_file_view view;
	wk_footer footer;
	if (path == NULL)
		return wk_fail(r->error, WK_NO_MEMORY, "rebuilding the superblock of %s: no memory", r->places.data);
	int result = wk_file_view_open(&view, r->io, path);
	if (result < 0) {
		wk_status status = wk_fail_io(r->error, result, "opening %s", path);
		free(path);
		return status;
	}
	free(path);
	wk_status status = wk_file_view_footer(&view, &footer, r->error);
	if (status == WK_OK && footer.file_id == id)
		note(r, footer.directory_id, footer.incarnation, footer.last_sequence);
	if (status == WK_OK || status == WK_CORRUPT || status == WK_END)
		status = kind == WK_FILE_JOURNAL ? look_at_blocks(r, &view, id) : WK_OK;
	wk_file_view_close(&view);
	return status;
}

/* The superblock's own directory is among those that the files name: no more need be looked at. */
static bool is_expected(const rebuild *r) {
	for (uint32_t i = 0; i < r->count && r->expected != NULL; i++)
		if (memcmp(r->claimants[i].directory_id, r->expected, WK_DIRECTORY_ID_SIZE) == 0)
			return true;
	return false;
}

static bool look_at_name(void *context, const char *name) {
	rebuild *r = context;
	uint32_t kind;
	uint64_t id;
	if (!wk_store_file_parse(name, &kind, &id))
		return true;
	r->highest_id = id > r->highest_id ? id : r->highest_id;
	r->status = look_at_store_file(r, kind, id);
	return r->status == WK_OK && !is_expected(r);
}

/* The newest index file that is whole, as far as its first page and its length tell. */
static bool look_at_index(void *context, const char *name) {
	rebuild *r = context;
	wk_file_view view;
	wk_index_header header;
	const uint8_t *page;
	size_t available;
	char below[80];
	if (strlen(name) != 20 || strcmp(name + 16, ".wki") != 0)
		return true;
	uint64_t generation = strtoull(name, NULL, 16);
	snprintf(below, sizeof below, "index/%s", name);
	char *path = wk_places_path(r->places, below);
	int result = path != NULL ? wk_file_view_open(&view, r->io, path) : -ENOMEM;
	if (result == 0 && wk_file_view_at(&view, 0, WK_PAGE_SIZE, &page, &available, NULL) == WK_OK &&
	    available >= WK_PAGE_SIZE && wk_index_decode(page, &header) == WK_OK && header.generation == generation &&
	    memcmp(header.directory_id, r->owner->directory_id, sizeof header.directory_id) == 0 &&
	    wk_index_size(header.files_count, header.ledgers_count, header.ranges_count) == view.size &&
	    generation > r->index.generation)
		r->index = header;
	if (result == 0)
		wk_file_view_close(&view);
	free(path);
	return true;
}

static wk_status list(rebuild *r, const char *folder, bool (*each)(void *, const char *)) {
	char *path = wk_places_path(r->places, folder);
	r->status = WK_OK;
	int result = path != NULL ? r->io->operations->list(r->io, path, each, r) : -ENOMEM;
	free(path);
	if (r->status != WK_OK)
		return r->status;
	return result < 0 && result != -ENOENT ? wk_fail_io(r->error, result, "listing %s of %s", folder, r->places.data)
	                                       : WK_OK;
}

static wk_status look_at_files(rebuild *r) {
	wk_status status = list(r, "journal", look_at_name);
	if (status == WK_OK)
		status = list(r, "entries", look_at_name);
	for (uint32_t i = 0; i < r->count; i++)
		if (r->owner == NULL || r->claimants[i].pages > r->owner->pages)
			r->owner = &r->claimants[i];
	return status;
}

/* ---- what the superblock says ---- */

/* 0, or -errno; all zeros behind what there is. */
static int64_t read_small(rebuild *r, const char *below, void *bytes, size_t size) {
	char *path = wk_places_path(r->places, below);
	wk_file *file = NULL;
	memset(bytes, 0, size);
	int64_t result = path != NULL ? r->io->operations->open(r->io, path, WK_IO_READ, &file) : -ENOMEM;
	if (result == 0) {
		result = r->io->operations->pread(r->io, file, bytes, size, 0);
		r->io->operations->close(r->io, file);
	}
	free(path);
	return result;
}

static bool look_if_named(void *context, const char *name) {
	rebuild *r = context;
	uint8_t page[WK_PAGE_SIZE];
	wk_index_header header;
	char below[80];
	snprintf(below, sizeof below, "index/%.60s", name);
	r->named |= read_small(r, below, page, sizeof page) == (int64_t)sizeof page &&
	            wk_index_decode(page, &header) == WK_OK &&
	            memcmp(header.directory_id, r->expected, sizeof header.directory_id) == 0;
	return !r->named;
}

/* The page or an index file names the superblock's directory: then it is the journal that is another's. */
static bool is_named_beside(rebuild *r) {
	wk_shared_page page;
	r->named = read_small(r, "shared", &page, sizeof page) == (int64_t)sizeof page &&
	           memcmp(page.directory_id, r->expected, sizeof page.directory_id) == 0;
	(void)list(r, "index", look_if_named);
	return r->named;
}

/* *lost: there is none, or it is not these files'. WK_UNSUPPORTED: a newer version's. */
static wk_status look_at_superblock(rebuild *r, bool *lost) {
	static const size_t SIZE = 2 * WK_SUPERBLOCK_SLOT_SIZE;
	wk_superblock found, one;
	uint8_t *slots = malloc(SIZE);
	*lost = false;
	if (slots == NULL)
		return wk_fail(r->error, WK_NO_MEMORY, "rebuilding the superblock of %s: no memory", r->places.data);
	int64_t size = read_small(r, "superblock", slots, SIZE);
	wk_status status = WK_OK;
	if (size < 0 && size != -ENOENT && size != -EIO)
		status = wk_fail_io(r->error, (int)size, "reading the superblock of %s", r->places.data);
	else if (wk_superblock_decode(slots, &one) == WK_UNSUPPORTED ||
	         wk_superblock_decode(slots + WK_SUPERBLOCK_SLOT_SIZE, &one) == WK_UNSUPPORTED)
		status = wk_fail(r->error, WK_UNSUPPORTED, "%s was written by a newer version of walkeeper: use that one",
		                 r->places.data);
	else if (size != (int64_t)SIZE || wk_superblock_choose(slots, &found) < 0)
		*lost = true;
	else {
		r->expected = found.directory_id;
		status = look_at_files(r);
		*lost = r->owner != NULL && !is_expected(r) && !is_named_beside(r);
		r->expected = NULL;
	}
	free(slots);
	return status == WK_OK && *lost && r->owner == NULL ? look_at_files(r) : status;
}

/* The highest incarnation that any file of the directory names: blocks, footers, the page and the owner of its journal. */
static uint64_t highest_incarnation(rebuild *r) {
	uint64_t incarnation = r->owner->incarnation;
	wk_shared_page page;
	uint8_t slots[WK_OWNER_SIZE];
	wk_owner owner;
	if (read_small(r, "shared", &page, sizeof page) == (int64_t)sizeof page &&
	    memcmp(page.directory_id, r->owner->directory_id, sizeof page.directory_id) == 0 &&
	    page.incarnation > incarnation && page.incarnation < INT64_MAX)
		incarnation = page.incarnation;
	if (r->places.journal != NULL && read_small(r, "owner", slots, sizeof slots) == (int64_t)sizeof slots &&
	    wk_owner_choose(slots, &owner) == WK_OK &&
	    memcmp(owner.directory_id, r->owner->directory_id, sizeof owner.directory_id) == 0 &&
	    owner.incarnation > incarnation)
		incarnation = owner.incarnation;
	return incarnation;
}

/* Both slots of a file, of which each says the same. */
static wk_status write_slots(rebuild *r, const char *below, const uint8_t *slots, size_t size) {
	char *path = wk_places_path(r->places, below);
	wk_file *file = NULL;
	const struct wk_io_operations *io = r->io->operations;
	int64_t result = path != NULL ? io->open(r->io, path, WK_IO_WRITE, &file) : -ENOMEM;
	if (result == -ENOENT)
		result = io->open(r->io, path, WK_IO_WRITE | WK_IO_CREATE, &file);
	if (result == 0)
		result = io->pwrite(r->io, file, slots, size, 0, 0);
	if (result >= 0)
		result = io->sync(r->io, file);
	if (file != NULL)
		io->close(r->io, file);
	wk_status status = result < 0 ? wk_fail_io(r->error, (int)result, "writing %s", path) : WK_OK;
	free(path);
	return status;
}

static wk_status write_owner(rebuild *r, uint64_t incarnation) {
	uint8_t slots[WK_OWNER_SIZE];
	wk_owner owner = {.incarnation = incarnation};
	memcpy(owner.directory_id, r->owner->directory_id, sizeof owner.directory_id);
	wk_owner_encode(&owner, slots);
	wk_owner_encode(&owner, slots + WK_OWNER_SLOT_SIZE);
	return write_slots(r, "owner", slots, sizeof slots);
}

static wk_status write_superblock(rebuild *r, wk_superblock *root) {
	uint8_t *slots = malloc(2 * WK_SUPERBLOCK_SLOT_SIZE);
	if (slots == NULL)
		return wk_fail(r->error, WK_NO_MEMORY, "rebuilding the superblock of %s: no memory", r->places.data);
	for (root->generation = 2; root->generation <= 3; root->generation++)
		wk_superblock_encode(root, slots + root->generation % 2 * WK_SUPERBLOCK_SLOT_SIZE);
	wk_status status = write_slots(r, "superblock", slots, 2 * WK_SUPERBLOCK_SLOT_SIZE);
	free(slots);
	return status;
}

static wk_status write_root(rebuild *r, const char *journal_name, wk_rebuild_report *report) {
	const claimant *owner = r->owner;
	bool ledgers = owner->summed_entries > owner->entries;
	if (owner->entries + owner->summed_entries == 0)
		return wk_fail(r->error, WK_DAMAGED,
		               "the superblock of %s is lost, and no journal file of it has a record: whether it holds logs or "
		               "ledgers is not known. Restore it from a backup",
		               r->places.data);
	if (journal_name != NULL && strlen(journal_name) >= WK_JOURNAL_PATH_SIZE)
		return wk_fail(r->error, WK_INVALID, "%s is too long for the path of a journal directory", journal_name);
	wk_superblock root = {.kind = ledgers ? WK_KIND_LEDGERS : WK_KIND_LOGS,
	                      .incarnation = highest_incarnation(r),
	                      .snapshots = {{-1, -1}, {-1, -1}}};
	memcpy(root.directory_id, owner->directory_id, sizeof root.directory_id);
	wk_status status = list(r, "index", look_at_index);
	/* Files may have gone that had higher ids. */
	root.file_id_ceiling = r->highest_id + 1 + IDS_SPARE;
	if (journal_name != NULL)
		memcpy(root.journal_path, journal_name, strlen(journal_name));
	if (ledgers) { /* fences and deletes below the mark are in the index alone */
		root.index_generation = r->index.generation;
		root.replay_epoch = r->index.replay_epoch;
		root.replay_sequence = r->index.replay_sequence;
		/* That its end is not known is damage: who goes on puts all ledgers into limbo. */
		root.clean = true;
		root.closed_sequence = (owner->sequence > root.replay_sequence ? owner->sequence : root.replay_sequence) + 1;
	}
	if (status == WK_OK && r->places.journal != NULL)
		status = write_owner(r, root.incarnation);
	if (status == WK_OK)
		status = write_superblock(r, &root);
	*report = (wk_rebuild_report){.rebuilt = true,
	                              .kind = root.kind,
	                              .incarnation = root.incarnation,
	                              .last_sequence = owner->sequence,
	                              .index_generation = root.index_generation,
	                              .other_directories = r->count - 1};
	return status;
}

wk_status wk_rebuild_superblock(const char *directory, const char *journal, const char *journal_name,
                                wk_rebuild_report *report, wk_error *error) {
	rebuild r = {.places = {directory, journal}, .error = error};
	bool lost;
	wk_error_clear(error);
	*report = (wk_rebuild_report){0};
	if (wk_io_psync_new(&r.io) < 0)
		return wk_fail(error, WK_NO_MEMORY, "rebuilding the superblock of %s: no memory", directory);
	wk_status status = look_at_superblock(&r, &lost);
	if (status == WK_OK && lost && r.owner == NULL)
		status = wk_fail(
		    error, WK_DAMAGED,
		    "the superblock of %s is lost, and no file in its folders `journal` and `entries` says whose it "
		    "is%s: there is nothing to rebuild it from",
		    directory, journal == NULL ? " (where its journal has a directory of its own, name that)" : "");
	if (status == WK_OK && lost)
		status = write_root(&r, journal_name, report);
	r.io->operations->destroy(r.io);
	return status;
}
