#include "new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"

enum { WRITE_SIZE = 256 * 1024 };

wk_status wk_new_file_make(wk_new_file *file, const char *path, const char *what, wk_error *error) {
	static atomic_uint numbers;
	size_t room = strlen(path) + strlen(what) + 48;
	*file = (wk_new_file){.fd = -1, .name = malloc(room), .bytes = malloc(WRITE_SIZE)};
	if (file->name == NULL || file->bytes == NULL)
		return wk_database_fail(error, WK_NO_MEMORY, "making a file beside %s: no memory", path);
	do { /* a process that was killed may have left one with this name */
		snprintf(file->name, room, "%s-%s-%ld-%u", path, what, (long)getpid(), atomic_fetch_add(&numbers, 1));
		file->fd = open(file->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	} while (file->fd < 0 && errno == EEXIST);
	return file->fd >= 0 ? WK_OK : wk_database_fail_system(error, "making", file->name, "");
}

void wk_new_file_free(wk_new_file *file) {
	if (file->fd >= 0) {
		close(file->fd);
		unlink(file->name);
	}
	free(file->name);
	free(file->bytes);
	*file = (wk_new_file){.fd = -1};
}

wk_status wk_new_file_flush(wk_new_file *file, wk_error *error) {
	for (size_t done = 0; done < file->size;) {
		ssize_t put = pwrite(file->fd, file->bytes + done, file->size - done, (off_t)(file->offset + done));
		if (put < 0 && errno != EINTR)
			return wk_database_fail_system(error, "writing", file->name, "");
		done += put > 0 ? (size_t)put : 0;
	}
	/* The disk begins with it while the log is read on; what is safe is up to the fsync at the end. */
	(void)sync_file_range(file->fd, (off64_t)file->offset, (off64_t)file->size, SYNC_FILE_RANGE_WRITE);
	file->size = 0;
	return WK_OK;
}

wk_status wk_new_file_read(void *context, uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	wk_new_file *file = context;
	wk_status status = wk_new_file_flush(file, error);
	for (size_t done = 0; status == WK_OK && done < size;) {
		ssize_t got = pread(file->fd, bytes + done, size - done, (off_t)(offset + done));
		if (got < 0 && errno != EINTR)
			return wk_database_fail_system(error, "reading", file->name, "");
		if (got == 0)
			memset(bytes + done, 0, size - done);
		done = got == 0 ? size : done + (got > 0 ? (size_t)got : 0);
	}
	return status;
}

wk_status wk_new_file_write(void *context, const uint8_t *bytes, size_t size, uint64_t offset, wk_error *error) {
	wk_new_file *file = context;
	bool follows = offset == file->offset + file->size && file->size + size <= WRITE_SIZE;
	wk_status status = follows ? WK_OK : wk_new_file_flush(file, error);
	if (status != WK_OK)
		return status;
	if (file->size == 0)
		file->offset = offset;
	memcpy(file->bytes + file->size, bytes, size);
	file->size += size;
	return WK_OK;
}
