"""The state file PATH-wk of a database, and its locks, looked at from outside (docs/formats/sqlite_state.md)."""

from __future__ import annotations

import fcntl
import os
import struct
from dataclasses import dataclass

from walkeeper.errors import CorruptError, UnsupportedError
from walkeeper_sqlite._native import lib

__all__ = ["StateFile", "holder_of", "state_of"]

_SLOT = 4096
_MAGIC = b"wksqlite"
_FORMAT = 1
_STATE = struct.Struct("<8sIIQQQQqq4xIQq")
_CHECKSUM = struct.Struct("<I")
_FLOCK = struct.Struct("hhqqi4x")
"""struct flock: l_type, l_whence, l_start, l_len, l_pid."""
_SQLITE_LOCKS = (0x40000000, 512)
"""Where SQLite locks a database file: offset and bytes."""


@dataclass(frozen=True)
class StateFile:
    """Of which log a database file is, and what it has for certain."""

    generation: int
    log_id: int
    database: int
    transaction: int
    """The last commit that the file has."""
    lsn: int
    """The sequence id of its last record; -1: none."""
    time_ms: int
    page_size: int
    pages: int
    """0: the file was being taken over."""
    closed_size: int
    """Of the file when it was closed with all commits in it; 0: it is open, or was not closed so."""
    closed_ns: int
    """Its mtime then."""

    def was_changed(self, path: str | os.PathLike[str]) -> bool:
        """Whether another program changed the file since it was closed."""
        if self.closed_size == 0:
            return False
        found = os.stat(path)
        return (found.st_size, found.st_mtime_ns) != (self.closed_size, self.closed_ns)


def state_of(path: str | os.PathLike[str]) -> StateFile | None:
    """Of the database `path`; None where walkeeper had nothing to do with it yet.

    CorruptError where PATH-wk is damaged, UnsupportedError where a newer walkeeper wrote it.
    """
    name = os.fspath(path) + "-wk"
    try:
        with open(name, "rb") as file:
            content = file.read(2 * _SLOT)
    except FileNotFoundError:
        return None
    slots = content[:_SLOT], content[_SLOT:]
    found = [state for slot in slots if (state := _slot_of(slot)) is not None]
    if found:
        return max(found, key=lambda state: state.generation)
    for slot in slots:
        if slot.startswith(_MAGIC) and (number := int.from_bytes(slot[8:12], "little")) > _FORMAT:
            raise UnsupportedError(f"{name} has format {number}, which a newer walkeeper wrote")
    if content.strip(b"\0"):
        raise CorruptError(
            f"{name} is damaged, or no file of walkeeper: move it and {os.fspath(path)} away, "
            "and attach makes the database from its log"
        )
    return None


def _slot_of(slot: bytes) -> StateFile | None:
    if len(slot) < _STATE.size + _CHECKSUM.size or not slot.startswith(_MAGIC):
        return None
    if _CHECKSUM.unpack_from(slot, _STATE.size) != (lib.wk_crc32c(slot, _STATE.size),):
        return None
    _, number, page_size, generation, log_id, database, transaction, lsn, txid, pages, size, mtime = _STATE.unpack_from(
        slot
    )
    if number != _FORMAT:
        return None
    return StateFile(generation, log_id, database, transaction, lsn, txid, page_size, pages, size, mtime)


def holder_of(path: str | os.PathLike[str]) -> tuple[str, int | None] | None:
    """How a process has the database `path` open, and its id where the kernel tells; None: no process has.

    No lock is taken. Not for a process that has the file open by SQLite itself: it would lose its locks.
    """
    if (pid := _locked_by(os.fspath(path) + "-wk", 0, 0)) is not None:
        return "open on its log", pid if pid > 0 else None
    if (pid := _locked_by(os.fspath(path), *_SQLITE_LOCKS)) is not None:
        return "open without the VFS walkeeper", pid if pid > 0 else None
    return None


def _locked_by(name: str, offset: int, size: int) -> int | None:
    """The process with a lock there; -1: the kernel does not tell which. None: there is none."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, offset, size, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked))
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else int(pid)
