/*
 * unreadable_sector.h: a simulated disk that cannot read a stretch of one of its files, while a test says so.
 */
#ifndef UNREADABLE_SECTOR_H
#define UNREADABLE_SECTOR_H
#include "manual_directory.h"
#include <errno.h>

static struct {
	const struct wk_io_operations *plain;
	struct wk_io_operations operations;
	const char *name;   /* whose path ends with it */
	wk_file *files[32]; /* every handle of that file */
	size_t count;
	uint64_t from, to; /* the stretch; empty: all is read */
	int result;        /* of such a read */
} sector;

static inline int sector_open(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	int result = sector.plain->open(io, path, flags, file);
	if (result == 0 && strstr(path, sector.name) != NULL && sector.count < 32)
		sector.files[sector.count++] = *file;
	return result;
}

static inline void sector_close(wk_io *io, wk_file *file) {
	for (size_t i = 0; i < sector.count; i++)
		if (sector.files[i] == file)
			sector.files[i--] = sector.files[--sector.count];
	sector.plain->close(io, file);
}

static inline int64_t sector_pread(wk_io *io, wk_file *file, void *buffer, size_t size, uint64_t offset) {
	for (size_t i = 0; i < sector.count; i++)
		if (sector.files[i] == file && offset < sector.to && offset + size > sector.from)
			return sector.result;
	return sector.plain->pread(io, file, buffer, size, offset);
}

static inline void watch_file(wk_io *io, const char *name) {
	memset(&sector, 0, sizeof sector);
	sector.plain = io->operations;
	sector.operations = *sector.plain;
	sector.operations.open = sector_open;
	sector.operations.close = sector_close;
	sector.operations.pread = sector_pread;
	sector.name = name;
	sector.result = -EIO;
	io->operations = &sector.operations;
}

static inline void spoil(uint64_t from, uint64_t size) {
	sector.from = from;
	sector.to = from + size;
}
#endif
