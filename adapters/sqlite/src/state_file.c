#include "state_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "little_endian.h"

/*
 * Two slots, written in turn: a slot that a power cut tore leaves the other.
 *
 *  0 "wksqlite"   8 u32 format 1   12 u32 page size   16 u64 generation   24 u64 log   32 u64 database   40 u64 transaction
 * 48 i64 sequence id   56 i64 txid   64 u32 crc of the record   68 u32 pages   72 u64 size   80 i64 mtime
 * 88 u32 CRC-32C of all before it
 *
 * Behind them what is not synced:
 *  0 "wksqlive"   8 u32 format 1   12 u32 state   16 boot id   32 u64 size   40 i64 mtime   48 u32 acknowledge   52 salt of the WAL   60 of the WAL before
 * 68 u32 CRC-32C of all before it
 */
enum {
	SLOT = 4096,
	CRC_AT = 88,
	LIVE_AT = 2 * SLOT,
	BOOT_ID_AT = 16,
	SALT_AT = 52,
	EARLIER_AT = 60,
	LIVE_CRC_AT = 68,
	LIVE = 72
};
static const char MAGIC[8] = {'w', 'k', 's', 'q', 'l', 'i', 't', 'e'};
static const char LIVE_MAGIC[8] = {'w', 'k', 's', 'q', 'l', 'i', 'v', 'e'};

static bool slot_decode(const uint8_t *slot, wk_state_file *file) {
	if (memcmp(slot, MAGIC, sizeof MAGIC) != 0 || wk_get32(slot + CRC_AT) != wk_crc32c(slot, CRC_AT))
		return false;
	if (wk_get32(slot + 8) != 1 || wk_get64(slot + 16) <= file->generation)
		return false;
	file->generation = wk_get64(slot + 16);
	file->log_id = wk_get64(slot + 24);
	file->at = (wk_redo_point){
	    .database = wk_get64(slot + 32),
	    .transaction = wk_get64(slot + 40),
	    .crc = wk_get32(slot + 64),
	    .page_size = wk_get32(slot + 12),
	    .pages = wk_get32(slot + 68),
	    .lsn = (int64_t)wk_get64(slot + 48),
	    .txid = (int64_t)wk_get64(slot + 56),
	};
	file->closed = (wk_file_stamp){.size = wk_get64(slot + 72), .changed_ns = (int64_t)wk_get64(slot + 80)};
	return true;
}

static void read_boot_id(uint8_t id[WK_BOOT_ID]) {
	char text[40] = {0}; /* of a UUID */
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t size = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
	if (fd >= 0)
		close(fd);
	size_t digits = 0;
	for (ssize_t i = 0; i < size && digits < 2 * WK_BOOT_ID; i++)
		if (isxdigit((unsigned char)text[i]))
			text[digits++] = text[i];
	for (size_t i = 0; i < WK_BOOT_ID && digits == 2 * WK_BOOT_ID; i++) {
		const char byte[3] = {text[2 * i], text[2 * i + 1], 0};
		id[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
}

/* Of a system whose id is not known, too. */
static bool is_of_another_boot(const wk_state_file *file, const uint8_t *live) {
	static const uint8_t NOT_KNOWN[WK_BOOT_ID];
	return memcmp(file->boot_id, NOT_KNOWN, WK_BOOT_ID) == 0 ||
	       memcmp(file->boot_id, live + BOOT_ID_AT, WK_BOOT_ID) != 0;
}

static void load_live(wk_state_file *file) {
	uint8_t live[LIVE];
	read_boot_id(file->boot_id);
	if (pread(file->fd, live, sizeof live, LIVE_AT) != (ssize_t)sizeof live ||
	    memcmp(live, LIVE_MAGIC, sizeof LIVE_MAGIC) != 0 || wk_get32(live + 8) != 1 ||
	    wk_get32(live + LIVE_CRC_AT) != wk_crc32c(live, LIVE_CRC_AT) || is_of_another_boot(file, live))
		return;
	file->live = (wk_live_file){
	    .state = wk_get32(live + 12),
	    .acknowledge = wk_get32(live + 48),
	    .stamp = {.size = wk_get64(live + 32), .changed_ns = (int64_t)wk_get64(live + 40)},
	};
	memcpy(file->live.salt, live + SALT_AT, sizeof file->live.salt);
	memcpy(file->live.earlier, live + EARLIER_AT, sizeof file->live.earlier);
}

wk_status wk_state_file_note(const wk_state_file *file, wk_live_file live, wk_error *error) {
	uint8_t bytes[LIVE] = {0};
	memcpy(bytes, LIVE_MAGIC, sizeof LIVE_MAGIC);
	wk_put32(bytes + 8, 1);
	wk_put32(bytes + 12, live.state);
	memcpy(bytes + BOOT_ID_AT, file->boot_id, WK_BOOT_ID);
	wk_put64(bytes + 32, live.stamp.size);
	wk_put64(bytes + 40, (uint64_t)live.stamp.changed_ns);
	wk_put32(bytes + 48, live.acknowledge);
	memcpy(bytes + SALT_AT, live.salt, sizeof live.salt);
	memcpy(bytes + EARLIER_AT, live.earlier, sizeof live.earlier);
	wk_put32(bytes + LIVE_CRC_AT, wk_crc32c(bytes, LIVE_CRC_AT));
	ssize_t put = pwrite(file->fd, bytes, sizeof bytes, LIVE_AT);
	return put == (ssize_t)sizeof bytes ? WK_OK
	                                    : wk_database_fail_system(error, "writing", "the state of the database", "");
}

static wk_status load(wk_state_file *file, const char *path, wk_error *error) {
	uint8_t slots[2 * SLOT] = {0};
	ssize_t size = pread(file->fd, slots, sizeof slots, 0);
	if (size < 0)
		return wk_database_fail_system(error, "reading", path, "-wk");
	bool first = slot_decode(slots, file), second = slot_decode(slots + SLOT, file);
	load_live(file);
	if (first || second || size == 0)
		return WK_OK;
	for (size_t at = 0; at < sizeof slots; at += SLOT)
		if (memcmp(slots + at, MAGIC, sizeof MAGIC) == 0 && wk_get32(slots + at + 8) > 1)
			return wk_database_fail(error, WK_UNSUPPORTED, "%s-wk has format %u, which a newer walkeeper wrote", path,
			                        (unsigned)wk_get32(slots + at + 8));
	for (size_t at = 0; at < sizeof slots; at++)
		if (slots[at] != 0)
			return wk_database_fail(
			    error, WK_CORRUPT,
			    "%s-wk is damaged, or no file of walkeeper: move it and %s away, and the database is made from its log",
			    path, path);
	return WK_OK;
}

wk_status wk_state_file_open(const char *database, wk_state_file *file, wk_error *error) {
	*file = (wk_state_file){.fd = -1, .at = {.lsn = -1, .txid = -1}};
	size_t length = strlen(database);
	char *path = malloc(length + 4);
	if (path == NULL)
		return wk_database_fail(error, WK_NO_MEMORY, "opening %s: no memory", database);
	memcpy(path, database, length);
	memcpy(path + length, "-wk", 4);
	file->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	free(path);
	if (file->fd < 0)
		return wk_database_fail_system(error, "opening", database, "-wk");
	wk_status status;
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	if (fcntl(file->fd, F_OFD_SETLK, &lock) == 0)
		status = load(file, database, error);
	else if (errno == EAGAIN || errno == EACCES)
		status = wk_database_fail(error, WK_LOCKED, "another process has the database %s open on its log", database);
	else
		status = wk_database_fail_system(error, "locking", database, "-wk");
	if (status != WK_OK)
		wk_state_file_close(file);
	return status;
}

wk_status wk_state_file_store(wk_state_file *file, const wk_redo_point *at, wk_file_stamp closed, wk_error *error) {
	uint8_t slot[SLOT] = {0};
	memcpy(slot, MAGIC, sizeof MAGIC);
	wk_put32(slot + 8, 1);
	wk_put32(slot + 12, at->page_size);
	wk_put64(slot + 16, file->generation + 1);
	wk_put64(slot + 24, file->log_id);
	wk_put64(slot + 32, at->database);
	wk_put64(slot + 40, at->transaction);
	wk_put64(slot + 48, (uint64_t)at->lsn);
	wk_put64(slot + 56, (uint64_t)at->txid);
	wk_put32(slot + 64, at->crc);
	wk_put32(slot + 68, at->pages);
	wk_put64(slot + 72, closed.size);
	wk_put64(slot + 80, (uint64_t)closed.changed_ns);
	wk_put32(slot + CRC_AT, wk_crc32c(slot, CRC_AT));
	off_t offset = (off_t)((file->generation + 1) % 2 * SLOT);
	if (pwrite(file->fd, slot, sizeof slot, offset) != (ssize_t)sizeof slot || fdatasync(file->fd) != 0)
		return wk_database_fail_system(error, "writing", "the state of the database", "");
	file->generation++;
	file->at = *at;
	file->closed = closed;
	return WK_OK;
}

wk_file_stamp wk_file_stamp_of(const char *path) {
	struct stat file;
	if (stat(path, &file) != 0 || file.st_size <= 0)
		return (wk_file_stamp){0};
	return (wk_file_stamp){
	    .size = (uint64_t)file.st_size,
	    .changed_ns = (int64_t)file.st_mtim.tv_sec * 1000000000 + file.st_mtim.tv_nsec,
	};
}

void wk_state_file_close(wk_state_file *file) {
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}
