"""A copy of a directory that nobody writes: its files as they are, holes included."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from walkeeper.cli._main import Refusal
from walkeeper.errors import DirectoryLockedError

CHUNK = 1 << 20


@contextmanager
def lock_held(path: Path) -> Iterator[None]:
    """Keeps writers away while the files are copied; nothing is written. Raises DirectoryLockedError for one in use.

    A copy of a directory that is being written would be neither the one state nor the other.
    """
    file = path / "lock"
    if not file.is_file():
        yield
        return
    with file.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            error = DirectoryLockedError(f"{path} is open for writing")
            said = opened.read(32).split(b"\n")[0]
            error.holder_pid = int(said) if said.isdigit() else None
            raise error from None
        yield


def copy(source: Path, destination: Path) -> int:
    """Copies the files to a directory that it makes; returns their bytes. Refuses what cannot be read or written."""
    destination.mkdir(parents=True)
    total = 0
    for file in sorted(source.rglob("*")):
        target = destination / file.relative_to(source)
        if file.name in ("lock", "shared") or file.name.startswith("prepared-"):
            continue  # of the processes that have the original open; and space that holds nothing
        if file.is_dir():
            target.mkdir(exist_ok=True)
        elif file.is_file():
            try:
                total += copy_file(file, target)
            except OSError as error:
                raise Refusal(f"copying {file}: {error.strerror}") from error
    return total


def copy_file(source: Path, target: Path) -> int:
    """Contents, holes and times; not the mode, as the copy is written to. Returns the size."""
    with source.open("rb") as given, target.open("xb") as made:
        of = os.fstat(given.fileno())
        for begin, end in stretches(given.fileno(), of.st_size):
            at = begin
            while at < end and (some := os.pread(given.fileno(), min(CHUNK, end - at), at)):
                made.seek(at)
                made.write(some)
                at += len(some)
        made.truncate(of.st_size)
    os.utime(target, ns=(of.st_atime_ns, of.st_mtime_ns))
    return of.st_size


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
