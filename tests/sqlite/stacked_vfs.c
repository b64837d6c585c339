/*
 * stacked_vfs.c: a loadable extension for a test: the VFS "stacked", which stands before the VFS "walkeeper", with files of
 * its own, and gives it copies of names of WALs, as APSW does. What lies between a file of its own and walkeeper's is nobody's: xClose ends the process where it was written to.
 */
#include <sqlite3ext.h>
#include <stdlib.h>
#include <string.h>

SQLITE_EXTENSION_INIT1

enum { GUARD = 512, GUARD_BYTE = 0xa5 };

typedef struct stacked_file {
	sqlite3_file base;
	unsigned char guard[GUARD];
	sqlite3_file *real;
} stacked_file;

static sqlite3_vfs *walkeeper;

static sqlite3_file *real_of(sqlite3_file *file) {
	return ((stacked_file *)file)->real;
}

static int file_close(sqlite3_file *file) {
	for (int i = 0; i < GUARD; i++)
		if (((stacked_file *)file)->guard[i] != GUARD_BYTE)
			abort();
	return real_of(file)->pMethods->xClose(real_of(file));
}
static int file_read(sqlite3_file *file, void *bytes, int size, sqlite3_int64 offset) {
	return real_of(file)->pMethods->xRead(real_of(file), bytes, size, offset);
}
static int file_write(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 offset) {
	return real_of(file)->pMethods->xWrite(real_of(file), bytes, size, offset);
}
static int file_truncate(sqlite3_file *file, sqlite3_int64 size) {
	return real_of(file)->pMethods->xTruncate(real_of(file), size);
}
static int file_sync(sqlite3_file *file, int flags) {
	return real_of(file)->pMethods->xSync(real_of(file), flags);
}
static int file_size(sqlite3_file *file, sqlite3_int64 *size) {
	return real_of(file)->pMethods->xFileSize(real_of(file), size);
}
static int file_lock(sqlite3_file *file, int level) {
	return real_of(file)->pMethods->xLock(real_of(file), level);
}
static int file_unlock(sqlite3_file *file, int level) {
	return real_of(file)->pMethods->xUnlock(real_of(file), level);
}
static int file_check_reserved_lock(sqlite3_file *file, int *taken) {
	return real_of(file)->pMethods->xCheckReservedLock(real_of(file), taken);
}
static int file_control(sqlite3_file *file, int operation, void *argument) {
	return real_of(file)->pMethods->xFileControl(real_of(file), operation, argument);
}
static int file_sector_size(sqlite3_file *file) {
	return real_of(file)->pMethods->xSectorSize(real_of(file));
}
static int file_characteristics(sqlite3_file *file) {
	return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}
static int file_shm_map(sqlite3_file *file, int region, int size, int extend, void volatile **mapped) {
	return real_of(file)->pMethods->xShmMap(real_of(file), region, size, extend, mapped);
}
static int file_shm_lock(sqlite3_file *file, int slot, int count, int flags) {
	return real_of(file)->pMethods->xShmLock(real_of(file), slot, count, flags);
}
static void file_shm_barrier(sqlite3_file *file) {
	real_of(file)->pMethods->xShmBarrier(real_of(file));
}
static int file_shm_unmap(sqlite3_file *file, int delete) {
	return real_of(file)->pMethods->xShmUnmap(real_of(file), delete);
}

static const sqlite3_io_methods METHODS = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_reserved_lock,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

/* Behind it is no name of the database. SQLite's own VFS keeps it, so it is never let go of. */
static const char *copy_of(const char *name) {
	size_t size = strlen(name) + 1;
	char *copy = calloc(1, size + 8);
	return memcpy(copy + 4, name, size);
}

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags, int *out_flags) {
	stacked_file *file = (stacked_file *)base;
	(void)vfs;
	*file = (stacked_file){.real = (sqlite3_file *)(file + 1)};
	if ((flags & SQLITE_OPEN_WAL) != 0)
		name = copy_of(name);
	memset(file->guard, GUARD_BYTE, GUARD);
	int rc = walkeeper->xOpen(walkeeper, name, file->real, flags, out_flags);
	if (rc == SQLITE_OK)
		file->base.pMethods = &METHODS;
	return rc;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync) {
	(void)vfs;
	return walkeeper->xDelete(walkeeper, name, sync);
}

static sqlite3_vfs stacked;

int sqlite3_stackedvfs_init(sqlite3 *connection, char **error, const sqlite3_api_routines *api) {
	SQLITE_EXTENSION_INIT2(api);
	(void)connection;
	walkeeper = sqlite3_vfs_find("walkeeper");
	if (walkeeper == NULL) {
		*error = sqlite3_mprintf("there is no VFS walkeeper");
		return SQLITE_ERROR;
	}
	stacked = *sqlite3_vfs_find(NULL); /* the rest is the host's */
	stacked.iVersion = 2;
	stacked.zName = "stacked";
	stacked.szOsFile = (int)sizeof(stacked_file) + walkeeper->szOsFile;
	stacked.xOpen = vfs_open;
	stacked.xDelete = vfs_delete;
	sqlite3_vfs_register(&stacked, 0);
	return SQLITE_OK_LOAD_PERMANENTLY;
}
