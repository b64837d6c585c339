"""EmergencySpace: a file of allocated bytes beside the bookie's own files, for when the disk has none left.

Ledgers are deleted once their tombstones are durable, and those are a new file: on a disk without a free byte nothing
would ever be deleted, and no space come back. There the spare becomes that file: what is written into it needs no more
space. Whoever else writes to the disk cannot take it meanwhile, as it could what a removed file gives back.
"""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from pathlib import Path

__all__ = ["EmergencySpace", "is_no_space"]

SIZE_MIN = 64 * 1024


def is_no_space(wrong: OSError) -> bool:
    """Whether the disk, or the quota of it, is full."""
    return wrong.errno in (errno.ENOSPC, errno.EDQUOT)


class EmergencySpace:
    """The file. Every method may be called from any thread."""

    def __init__(self, path: Path, *files: Path) -> None:
        """For these files, beside it. Nothing is made yet."""
        self.path, self._files = path, files
        self._lock = threading.Lock()

    def keep(self) -> bool:
        """There is one, twice as large as the largest of the files: made, or grown, where there is room. Whether there
        is; it raises nothing."""
        with self._lock:
            size = max(SIZE_MIN, *(2 * _size(file) for file in self._files))
            if _size(self.path) >= size:
                return True
            try:
                descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
                try:
                    os.posix_fallocate(descriptor, 0, size)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            except OSError:
                return False
            return True

    def give(self, path: Path) -> bool:
        """Takes the place of the file at `path`, with whatever bytes it has; False where there is none."""
        with self._lock, suppress(OSError):
            if _size(self.path) > 0:
                os.rename(self.path, path)
                return True
        return False


def _size(path: Path) -> int:
    """In allocated bytes, where the file has fewer of them than it says."""
    try:
        found = os.lstat(path)
    except OSError:
        return 0
    return min(found.st_size, found.st_blocks * 512)
