"""A copy of a directory that nobody writes: its files as they are, holes included."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from walkeeper.cli._main import Refusal
from walkeeper.errors import DirectoryLockedError

CHUNK = 1 << 20
SECTOR = 4096  # bytes: how finely what a disk cannot read is told from what it can
LOOKED_AT = 0.5  # seconds: how long those who only look at a lock are waited for
Unreadable = dict[Path, int]  # bytes of each file that the disk could not read


@contextmanager
def lock_held(path: Path) -> Iterator[None]:
    """Keeps writers away while the files are copied; nothing is written. Raises DirectoryLockedError for one in use.

    A copy of a directory that is being written would be neither the one state nor the other.
    """
    with ExitStack() as held:
        for name in ("superblock", "lock"):  # a writer holds both, as somebody may remove the second
            if (path / name).is_file():
                _take(path, held.enter_context((path / name).open("rb")))
        yield


def _take(path: Path, opened: BinaryIO) -> None:
    until = time.monotonic() + LOOKED_AT
    while not _taken(opened, fcntl.LOCK_EX):
        looked_at = _taken(opened, fcntl.LOCK_SH)  # who looks whether somebody writes has it so, for a moment
        if looked_at:
            fcntl.flock(opened, fcntl.LOCK_UN)
        if not looked_at:
            error = DirectoryLockedError(f"{path} is open for writing")
            error.holder_pid = _holder(path / "lock")
            raise error
        if time.monotonic() > until:
            raise DirectoryLockedError(f"{path}: another process has kept its lock for {LOOKED_AT} s, to look at it")
        time.sleep(0.002)


def _holder(file: Path) -> int | None:
    """Who holds the file `lock`, as it stands there; None where nobody holds the one that is there now."""
    try:
        with file.open("rb") as opened:
            if _taken(opened, fcntl.LOCK_SH):
                return None
            said = opened.read(32).split(b"\n")[0]
    except OSError:
        return None
    return int(said) if said.isdigit() else None


def _taken(opened: BinaryIO, way: int) -> bool:
    try:
        fcntl.flock(opened, way | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def copy(source: Path, destination: Path, unreadable: Unreadable | None = None) -> int:
    """Copies the files to a directory that it makes; returns their bytes. Refuses what cannot be read or written.

    With `unreadable`, sectors that the disk fails to read are zeros in the copy, and are counted there.
    """
    destination.mkdir(parents=True)
    total = 0
    for file in sorted(source.rglob("*")):
        target = destination / file.relative_to(source)
        if file.name == "lock" or file.name.startswith("prepared-"):
            continue  # of the process that has the original open; and space that holds nothing
        if file.is_dir():
            target.mkdir(exist_ok=True)
        elif file.is_file():
            try:
                total += copy_file(file, target, unreadable)
            except OSError as error:
                raise Refusal(f"copying {file}: {error.strerror}") from error
    return total


def copy_file(source: Path, target: Path, unreadable: Unreadable | None = None) -> int:
    """Contents, holes and times; not the mode, as the copy is written to. Returns the size."""
    with source.open("rb") as given, target.open("xb") as made:
        of = os.fstat(given.fileno())
        missing = 0
        for begin, end in stretches(given.fileno(), of.st_size):
            missing += end - begin
            for at, some in pieces(given.fileno(), begin, end, skip=unreadable is not None):
                made.seek(at)
                made.write(some)
                missing -= len(some)
        made.truncate(of.st_size)
    if unreadable is not None and missing > 0:
        unreadable[source] = missing
    os.utime(target, ns=(of.st_atime_ns, of.st_mtime_ns))
    return of.st_size


def pieces(descriptor: int, begin: int, end: int, *, skip: bool) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of all that can be read; `skip` leaves out sectors that the disk fails to read."""
    at, size = begin, CHUNK
    while at < end:
        try:
            some = os.pread(descriptor, min(size, end - at), at)
        except OSError as error:
            if not skip or error.errno != errno.EIO:
                raise
            at += 0 if size > SECTOR else SECTOR - at % SECTOR
            size = SECTOR
            continue
        if not some:
            return
        yield at, some
        at += len(some)
        if at % CHUNK == 0:
            size = CHUNK


def stretches(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Begin and end of what is no hole."""
    end = 0
    while end < size:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # the rest is a hole
            raise
        end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        yield begin, end
