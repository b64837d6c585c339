/* inspect.c: which kind of file is this? Told by its bytes: names get lost. Only where nothing is left, the name tells. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lock_text.h"
#include "core/owner.h"
#include "core/superblock.h"
#include "engine/check/inspector.h"
#include "engine/follower.h"

static const uint64_t file_size_max = 2147483648u; /* of a journal file; entry logs are told by their footer */

wk_status wk_inspector_line(wk_inspector *inspector) {
	const char *line = wk_json_line(&inspector->json);
	if (line == NULL)
		return wk_fail(inspector->error, WK_NO_MEMORY, "inspecting %s: no memory", inspector->view.path);
	if (!inspector->fn(inspector->context, line))
		return wk_fail(inspector->error, WK_INTERRUPTED, "inspecting %s: stopped", inspector->view.path);
	return WK_OK;
}

void wk_inspector_damage(wk_inspector *inspector, const char *format, ...) {
	if (inspector->damage[0] != 0)
		return;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(inspector->damage, sizeof inspector->damage, format, arguments);
	va_end(arguments);
}

static bool only_zeros(const uint8_t *bytes, size_t size) {
	return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

static bool is_called(const wk_inspector *inspector, const char *ending) {
	size_t size = strlen(inspector->view.path), part = strlen(ending);
	return size >= part && strcmp(inspector->view.path + size - part, ending) == 0;
}

/* ---- superblock, lock file, shared page ---- */

static void put_superblock(wk_json *json, const wk_superblock *superblock) {
	wk_json_unsigned(json, "generation", superblock->generation);
	wk_json_hex(json, "directory_id", superblock->directory_id, sizeof superblock->directory_id);
	wk_json_unsigned(json, "incarnation", superblock->incarnation);
	wk_json_unsigned(json, "file_id_ceiling", superblock->file_id_ceiling);
	wk_json_unsigned(json, "replay_epoch", superblock->replay_epoch);
	wk_json_unsigned(json, "replay_sequence", superblock->replay_sequence);
	wk_json_unsigned(json, "index_generation", superblock->index_generation);
	wk_json_open(json, "snapshots", '[');
	for (int i = 0; i < 2; i++) {
		wk_json_open(json, NULL, '{');
		wk_json_integer(json, "first_entry", superblock->snapshots[i].first_entry);
		wk_json_integer(json, "last_entry", superblock->snapshots[i].last_entry);
		wk_json_close(json, '}');
	}
	wk_json_close(json, ']');
	wk_json_unsigned(json, "sync_method", superblock->sync_method);
	wk_json_unsigned(json, "probe_device", superblock->probe_device);
	wk_json_unsigned(json, "probe_dsync_ns", superblock->probe_dsync_ns);
	wk_json_unsigned(json, "probe_write_then_sync_ns", superblock->probe_write_then_sync_ns);
	wk_json_unsigned(json, "blocks_in_flight", superblock->blocks_in_flight);
	wk_json_open(json, "probe_grid_ns", '[');
	for (int cell = 0; cell < 16; cell++)
		wk_json_unsigned(json, NULL, (&superblock->grid.block_ns[0][0][0])[cell]);
	wk_json_close(json, ']');
	wk_json_boolean(json, "clean", superblock->clean);
	wk_json_unsigned(json, "closed_sequence", superblock->closed_sequence);
	wk_json_unsigned(json, "accepted_sequence", superblock->accepted_sequence);
	if (superblock->journal_path[0] != 0)
		wk_json_string(json, "journal_path", superblock->journal_path);
}

static wk_status inspect_superblock(wk_inspector *inspector, const uint8_t *slots) {
	wk_superblock superblock;
	int chosen = wk_superblock_choose(slots, &superblock);
	wk_json_begin(&inspector->json);
	wk_json_string(&inspector->json, "kind", "superblock");
	wk_json_unsigned(&inspector->json, "size", inspector->view.size);
	wk_json_integer(&inspector->json, "chosen", chosen);
	wk_status status = wk_inspector_line(inspector);
	for (int slot = 0; slot < 2 && status == WK_OK; slot++) {
		wk_status found = wk_superblock_decode(slots + slot * WK_SUPERBLOCK_SLOT_SIZE, &superblock);
		wk_json_begin(&inspector->json);
		wk_json_integer(&inspector->json, "slot", slot);
		wk_json_string(&inspector->json, "crc",
		               found == WK_OK            ? "ok"
		               : found == WK_UNSUPPORTED ? "newer version"
		                                         : "bad");
		if (found == WK_OK)
			put_superblock(&inspector->json, &superblock);
		if (found == WK_CORRUPT)
			wk_inspector_damage(inspector, "slot %d is not whole", slot);
		status = wk_inspector_line(inspector);
	}
	return status;
}

static wk_status inspect_owner(wk_inspector *inspector, const uint8_t *slots) {
	wk_owner owner;
	wk_json_begin(&inspector->json);
	wk_json_string(&inspector->json, "kind", "owner");
	wk_json_unsigned(&inspector->json, "size", inspector->view.size);
	wk_status status = wk_inspector_line(inspector);
	for (int slot = 0; slot < 2 && status == WK_OK; slot++) {
		wk_status found = wk_owner_decode(slots + slot * WK_OWNER_SLOT_SIZE, &owner);
		wk_json_begin(&inspector->json);
		wk_json_integer(&inspector->json, "slot", slot);
		wk_json_string(&inspector->json, "crc",
		               found == WK_OK            ? "ok"
		               : found == WK_UNSUPPORTED ? "newer version"
		                                         : "bad");
		if (found == WK_OK) {
			wk_json_hex(&inspector->json, "directory_id", owner.directory_id, sizeof owner.directory_id);
			wk_json_unsigned(&inspector->json, "incarnation", owner.incarnation);
		}
		if (found == WK_CORRUPT)
			wk_inspector_damage(inspector, "slot %d is not whole", slot);
		status = wk_inspector_line(inspector);
	}
	return status;
}

static wk_status inspect_lock(wk_inspector *inspector, const wk_lock_text *text) {
	wk_json_begin(&inspector->json);
	wk_json_string(&inspector->json, "kind", "lock");
	wk_json_unsigned(&inspector->json, "size", inspector->view.size);
	wk_json_integer(&inspector->json, "last_holder_pid", text->pid);
	if (text->boot_known)
		wk_json_hex(&inspector->json, "boot_id", text->boot, sizeof text->boot);
	return wk_inspector_line(inspector);
}

static bool is_shared_page(const uint8_t *bytes, size_t size) {
	return size >= sizeof(wk_shared_page) && memcmp(bytes, "WKSH", 4) == 0;
}

static wk_status inspect_shared_page(wk_inspector *inspector, const uint8_t *bytes) {
	wk_shared_page page;
	memcpy(&page, bytes, sizeof page);
	wk_json_begin(&inspector->json);
	wk_json_string(&inspector->json, "kind", "shared page");
	wk_json_unsigned(&inspector->json, "size", inspector->view.size);
	wk_json_unsigned(&inspector->json, "version", page.version);
	wk_json_hex(&inspector->json, "directory_id", page.directory_id, sizeof page.directory_id);
	wk_json_unsigned(&inspector->json, "durable", page.durable);
	wk_json_unsigned(&inspector->json, "incarnation", page.incarnation);
	return wk_inspector_line(inspector);
}

/* ---- journal files and entry logs ---- */

typedef struct first_look {
	bool found;             /* a block of its own in its place */
	bool zeros;             /* nothing but them */
	wk_block_header header; /* the first such block; without CRC where none is whole */
} first_look;

/* The first whole block that stands where it says, or one that only looks like it. */
static wk_status look(wk_inspector *inspector, first_look *seen) {
	wk_file_view *view = &inspector->view;
	*seen = (first_look){.zeros = true};
	bool suspected = false;
	for (uint64_t at = 0; at < view->size; at += WK_BLOCK_ALIGNMENT) {
		const uint8_t *bytes;
		size_t available;
		wk_status status = wk_file_view_block(view, at, &bytes, &available, inspector->error);
		if (status != WK_OK)
			return status;
		seen->zeros = seen->zeros && only_zeros(bytes, available < WK_BLOCK_ALIGNMENT ? available : WK_BLOCK_ALIGNMENT);
		wk_block_header header;
		if (wk_block_peek(bytes, available, &header) != WK_OK || header.offset != at)
			continue;
		seen->found = true;
		if (!suspected)
			seen->header = header;
		suspected = true;
		if (wk_block_decode(bytes, available, &header) == WK_OK) {
			seen->header = header;
			return WK_OK;
		}
	}
	return WK_OK;
}

/* Prepared files are, and the next journal file; an entry log and an index file get their names with all their bytes. */
static wk_status inspect_zeros(wk_inspector *inspector) {
	bool entry_log = is_called(inspector, ".wke"), index = is_called(inspector, ".wki");
	if (entry_log || index)
		wk_inspector_damage(inspector, "it holds nothing but zeros");
	wk_json_begin(&inspector->json);
	wk_json_string(&inspector->json, "kind", entry_log ? "entry log" : index ? "index" : "prepared");
	wk_json_unsigned(&inspector->json, "size", inspector->view.size);
	return wk_inspector_line(inspector);
}

static wk_status not_ours(wk_inspector *inspector) {
	return wk_fail(inspector->error, WK_UNSUPPORTED,
	               "%s is no file of a walkeeper directory, or nothing is left of it that could tell",
	               inspector->view.path);
}

static wk_status inspect_store_file(wk_inspector *inspector) {
	wk_footer footer;
	wk_status status = wk_file_view_footer(&inspector->view, &footer, inspector->error);
	if (status != WK_OK && status != WK_CORRUPT)
		return status == WK_UNSUPPORTED
		           ? wk_fail(inspector->error, status, "%s was written by a newer version of walkeeper: use that one",
		                     inspector->view.path)
		           : status;
	bool sealed = status == WK_OK;
	if (sealed && footer.kind == WK_FILE_ENTRY_LOG)
		return wk_inspect_entry_log(inspector, &footer);
	if (inspector->view.size > file_size_max || inspector->view.size % WK_BLOCK_ALIGNMENT != 0 ||
	    inspector->view.size == 0)
		return not_ours(inspector);
	first_look seen;
	status = look(inspector, &seen);
	if (status != WK_OK)
		return status;
	if (seen.found &&
	    !(sealed && footer.file_id > seen.header.epoch)) /* a footer of a lower id is of the file's earlier life */
		return wk_inspect_journal(inspector, seen.header.directory_id, seen.header.epoch,
		                          sealed && footer.file_id == seen.header.epoch ? &footer : NULL);
	if (sealed)
		return wk_inspect_journal(inspector, footer.directory_id, footer.file_id, &footer);
	return seen.zeros ? inspect_zeros(inspector) : not_ours(inspector);
}

/* ---- all together ---- */

static wk_status inspect(wk_inspector *inspector) {
	const uint8_t *bytes;
	size_t available;
	wk_status status = wk_file_view_at(&inspector->view, 0, 2 * WK_SUPERBLOCK_SLOT_SIZE, &bytes, &available,
	                                   inspector->error);
	if (status != WK_OK)
		return status;
	bool slots = available >= 2 * WK_SUPERBLOCK_SLOT_SIZE && inspector->view.size == 2 * WK_SUPERBLOCK_SLOT_SIZE;
	bool zeros = only_zeros(bytes, available) && is_called(inspector, "superblock");
	if (slots && (memcmp(bytes, "WKSB", 4) == 0 || memcmp(bytes + WK_SUPERBLOCK_SLOT_SIZE, "WKSB", 4) == 0 || zeros))
		return inspect_superblock(inspector, bytes);
	if (slots && (memcmp(bytes, "WKJO", 4) == 0 || memcmp(bytes + WK_OWNER_SLOT_SIZE, "WKJO", 4) == 0))
		return inspect_owner(inspector, bytes);
	wk_lock_text text;
	if (inspector->view.size <= WK_IO_ALIGNMENT && wk_lock_text_decode(bytes, available, &text) == WK_OK)
		return inspect_lock(inspector, &text);
	if (inspector->view.size <= WK_IO_ALIGNMENT && is_shared_page(bytes, available))
		return inspect_shared_page(inspector, bytes);
	if (available >= WK_PAGE_SIZE && memcmp(bytes, "WKIX", 4) == 0)
		return wk_inspect_index(inspector);
	return inspect_store_file(inspector);
}

wk_status wk_inspect_file(const char *path, bool entries, wk_inspect_fn fn, void *context, wk_error *error) {
	wk_error_clear(error);
	wk_io *io = NULL;
	int result = wk_io_psync_new(&io);
	if (result < 0)
		return wk_fail_io(error, result, "setting up I/O");
	wk_inspector inspector = {.fn = fn, .context = context, .error = error, .entries = entries};
	result = wk_file_view_open(&inspector.view, io, path);
	wk_status status = result == -ENOENT ? wk_fail(error, WK_NOT_FOUND, "%s does not exist", path)
	                   : result < 0      ? wk_fail_io(error, result, "opening %s", path)
	                                     : inspect(&inspector);
	if (status == WK_OK && inspector.damage[0] != 0)
		status = wk_fail(error, WK_CORRUPT, "%s is damaged: %s", path, inspector.damage);
	wk_json_free(&inspector.json);
	wk_file_view_close(&inspector.view);
	io->operations->destroy(io);
	return status;
}
