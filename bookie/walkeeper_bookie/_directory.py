"""Directory: the bookie's data as a ledger store of the engine; which ledgers there are, and letting go of them."""

from __future__ import annotations

import os
import stat
import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from walkeeper._native import ffi, lib
from walkeeper.errors import Error, InvalidError, check, new_error
from walkeeper_bookie._checked_lines import sync_directory
from walkeeper_bookie._histogram import Histogram
from walkeeper_bookie._native_options import set_fields

__all__ = [
    "Directory",
    "DirectoryStats",
    "JournalTimes",
    "Recovery",
    "holds_logs",
    "journal_field",
    "journal_of",
    "make_data_directory",
    "make_journal_directory",
    "refuse_file",
    "refuse_nested",
    "refuse_unnameable",
]

_PAGE = 65_536
_LOCK_SLICE_NS = 200_000_000
_FOREVER = 2**64 - 1


@dataclass(frozen=True)
class Recovery:
    """What opening the directory found; all zero after a clean start, but for elapsed_ns."""

    cut_bytes: int
    """A torn tail, never acknowledged: a crash leaves that, and nothing is lost."""
    damaged_blocks: int
    unknown_blocks: int
    lost_entries: int
    lost_files: int
    elapsed_ns: int

    @property
    def lost(self) -> bool:
        """Whether something that was acknowledged may be missing."""
        return (self.damaged_blocks, self.unknown_blocks, self.lost_entries, self.lost_files) != (0, 0, 0, 0)


@dataclass(frozen=True)
class DirectoryStats:
    """Counts of the engine; what is not a size or a state counts since the open."""

    journal_files: int
    entry_logs: int
    disk_bytes: int
    live_bytes: int
    appended_records: int
    appended_bytes: int
    written_bytes: int
    blocks_count: int
    syncs_count: int
    memory_logs: int
    memory_memtable: int
    memory_cache: int
    memory_in_flight: int
    memory_sort: int
    recycled_files: int
    compacted_bytes: int
    sorted_bytes: int
    scrubbed_bytes: int
    scrub_damaged: int
    backend: int
    """enum wk_backend"""
    disk_full: bool
    failed: bool


@dataclass(frozen=True)
class JournalTimes:
    """Of the journal's blocks, since the open; times are nanoseconds."""

    sync_ns: Histogram
    """A durable write, or a sync of what was written."""
    wait_ns: Histogram
    """From a block's first entry until it was closed, to be written."""
    block_records: Histogram
    block_bytes: Histogram


class Directory:
    """An open ledger store; the process holds its lock. Every method may be called from any thread until `close`."""

    def __init__(self, path: Path, native: Any) -> None:
        self.path = path
        self._native = native
        # Who came in before it was closed, and asks afterwards, is answered that it is closed: the memory stays.
        self._memory = ffi.gc(lib.wk_namespace_retain(native), lib.wk_namespace_release)

    @classmethod
    def open(
        cls,
        path: Path,
        options: Mapping[str, int] | None = None,
        *,
        journal: Path | None = None,
        skip_damage: bool = False,
        lock_timeout: float = 10.0,
        stop: Callable[[], bool] = lambda: False,
    ) -> Directory:
        """Opens the store, or makes it where there is none. `options` are fields of wk_open_options; `journal` is its
        journal directory. With `skip_damage` a damaged journal is gone on with behind what is lost: `recovery` says so
        this once, from then on the store is whole.

        Raises DirectoryLockedError where another process still has it after `lock_timeout` seconds, or as soon as
        `stop` says so; DamagedError; UnsupportedError; StorageError; InvalidError for a directory that others may
        write, for one that holds logs, and for options that cannot be.
        """
        refuse_writable_by_others(path)
        if journal is not None:
            refuse_writable_by_others(journal, "journal")
        native_options = ffi.new("wk_open_options *")
        lib.wk_open_options_init(native_options)
        native_options.kind, native_options.create = lib.WK_KIND_LEDGERS, True
        native_options.on_damage = lib.WK_ON_DAMAGE_SKIP if skip_damage else lib.WK_ON_DAMAGE_STOP
        native_options.journal = named = journal_field(journal)
        set_fields(native_options, options or {})
        out, error = ffi.new("wk_namespace **"), new_error()
        text = os.fsencode(path.absolute())
        until = time.monotonic_ns() + int(lock_timeout * 1e9)
        while True:
            left = until - time.monotonic_ns()
            # C waits for the lock in naps that no signal ends; between two slices Python runs its signal handlers.
            native_options.lock_timeout_ns = max(1, min(left, _LOCK_SLICE_NS))
            status = lib.wk_open(text, native_options, out, error)
            if status not in (lib.WK_LOCKED, lib.WK_INTERRUPTED) or left <= 0 or stop():
                break
        del named  # until here C looked at it
        check(status, error)
        return cls(path, out[0])

    @property
    def native(self) -> Any:
        """The wk_namespace, for the server."""
        if self._native is None:
            raise InvalidError(f"the directory {str(self.path)!r} was closed")
        return self._native

    def ledgers(self) -> array[int]:
        """The ids of all ledgers that the store knows, rising."""
        page, count, error = ffi.new("int64_t[]", _PAGE), ffi.new("size_t *"), new_error()
        found: array[int] = array("q")
        start = 0
        while True:
            check(_again(partial(lib.wk_ledger_list, self.native, start, page, _PAGE, count, error)), error)
            found.frombytes(bytes(ffi.buffer(page, 8 * count[0])))
            if count[0] < _PAGE or found[-1] == 2**63 - 1:
                return found
            start = found[-1] + 1

    def delete(self, ledger_ids: Iterable[int]) -> int:
        """Forgets these ledgers; how many there were. Durable when it returns; their space comes back later."""
        ticket, error, deleted = ffi.new("uint64_t *"), new_error(), 0
        for ledger_id in ledger_ids:
            status = _again(partial(lib.wk_ledger_delete, self.native, ledger_id, _FOREVER, ticket, error))
            if status in (lib.WK_NO_LEDGER, lib.WK_DELETED):
                continue
            check(status, error)
            deleted += 1
        if deleted:
            check(_again(lambda: lib.wk_namespace_wait(self.native, ticket[0], _FOREVER, error)), error)
        return deleted

    def bytes_of(self, ledger_ids: Iterable[int]) -> int:
        """About how many bytes of entries these ledgers have; those that are not there have none."""
        info, error, found = ffi.new("wk_ledger_info *"), new_error(), 0
        for ledger_id in ledger_ids:
            status = _again(partial(lib.wk_ledger_describe, self.native, ledger_id, info, error))
            if status not in (lib.WK_NO_LEDGER, lib.WK_DELETED):
                check(status, error)
                found += info.bytes
        return int(found)

    def fence(self, ledger_ids: Iterable[int]) -> None:
        """No ordinary add of these is accepted any more, known ledgers or not. Durable when it returns."""
        ticket, error = ffi.new("uint64_t *"), new_error()
        for ledger_id in ledger_ids:
            status = lib.WK_WRONG_KEY
            while status == lib.WK_WRONG_KEY:  # an add brought the key meanwhile
                status = self._fence_one(ledger_id, ticket, error)
            if status != lib.WK_DELETED:
                check(status, error)
        if ticket[0]:
            check(_again(lambda: lib.wk_namespace_wait(self.native, ticket[0], _FOREVER, error)), error)

    def _fence_one(self, ledger_id: int, ticket: Any, error: Any) -> int:
        info = ffi.new("wk_ledger_info *")
        status = lib.wk_ledger_describe_state(self.native, ledger_id, info, error)
        if status not in (lib.WK_OK, lib.WK_NO_LEDGER):
            return int(status)
        key_size = info.key_size if status == lib.WK_OK else 0
        last = ticket[0]
        status = _again(
            lambda: lib.wk_ledger_fence(self.native, ledger_id, info.key, key_size, _FOREVER, ticket, error)
        )
        ticket[0] = max(last, ticket[0])
        return status

    def stats(self) -> DirectoryStats:
        """Counts and sizes, now."""
        stats = ffi.new("wk_stats *")
        lib.wk_namespace_stats(self.native, stats)
        return DirectoryStats(**{name: getattr(stats, name) for name in DirectoryStats.__dataclass_fields__})

    def journal_times(self) -> JournalTimes:
        """Syncs and blocks of the journal, now."""
        times = ffi.new("wk_journal_times *")
        lib.wk_namespace_journal_times(self.native, times)
        fields = JournalTimes.__dataclass_fields__
        return JournalTimes(**{name: Histogram.of(getattr(times, name)) for name in fields})

    def recovery(self) -> Recovery:
        """What opening it found."""
        report = ffi.new("wk_recovery_report *")
        lib.wk_namespace_recovery(self.native, report)
        return Recovery(**{name: getattr(report, name) for name in Recovery.__dataclass_fields__})

    def close(self, timeout: float = 30.0) -> Error | None:
        """Lets go of the directory, once what was accepted is durable. It is closed anyhow; returns what went wrong."""
        native, self._native = self._native, None
        if native is None:
            return None
        error = new_error()
        status = lib.wk_close(native, int(timeout * 1e9), error)
        try:
            check(status, error)
        except Error as wrong:
            return wrong
        return None


def journal_field(journal: Path | None) -> Any:
    """wk_open_options.journal, which must live as long as the options are used."""
    return ffi.NULL if journal is None else ffi.new("char[]", os.fsencode(os.path.abspath(journal)))


def journal_of(store: Path) -> Path | None:
    """Where the store's journal directory was when it was last opened; None where it has none, or where that cannot be
    told (what hinders it hinders an open)."""
    out, error = ffi.new("char **"), new_error()
    check(lib.wk_journal_of(os.fsencode(store), out, error), error)
    if out[0] == ffi.NULL:
        return None
    return Path(os.fsdecode(bytes(ffi.string(ffi.gc(out[0], lib.wk_free)))))


def holds_logs(store: Path) -> bool:
    """Whether the store is a namespace of logs, and no ledger store. Raises walkeeper.Error where its superblock cannot
    be read."""
    kind, error = ffi.new("uint32_t *"), new_error()
    check(lib.wk_kind_of(os.fsencode(store), kind, error), error)
    return bool(kind[0] != lib.WK_KIND_LEDGERS)


def make_data_directory(path: Path) -> None:
    """There is a data directory, nobody else's to write. Its parent must be there: a path that is mistyped, or a disk
    that is not mounted, must not become a tree of new directories. Raises InvalidError, OSError."""
    _make(path, "data")


def make_journal_directory(path: Path) -> None:
    """The same of a journal directory. For a new bookie only: where an old one's is missing its disk is not mounted."""
    _make(path, "journal")


def _make(path: Path, what: str) -> None:
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        refuse_writable_by_others(path, what)
        return
    except FileNotFoundError:
        raise InvalidError(
            f"the {what} directory {str(path)!r} cannot be made: there is no {str(path.parent)!r}",
            hint="is the disk mounted? The directory itself is made at the first start, those above it are not",
        ) from None
    sync_directory(path.parent)


def refuse_file(path: Path, what: str = "data") -> None:
    """Raises InvalidError where something is there, and no directory."""
    if path.exists() and not path.is_dir():
        raise InvalidError(f"{str(path)!r} is no directory, which the {what} directory must be")


def refuse_unnameable(path: Path, what: str = "data") -> None:
    """Raises InvalidError for a directory that a cookie cannot name: it lists directories, behind commas and tabs."""
    text = os.path.abspath(path)
    if strange := next((c for c in text if c == "," or c < " " or "\ud800" <= c <= "\udfff"), None):
        shown = "a byte that is no UTF-8" if strange > "~" else repr(strange)
        raise InvalidError(
            f"the path of the {what} directory, {text!r}, has {shown} in it: the bookie's cookie cannot name it",
            hint="name a directory whose path, from the root on, is UTF-8 without commas, tabs and newlines",
        )


def refuse_nested(data: Path, journal: Path) -> None:
    """Raises InvalidError where one of the two is the other, or lies in it."""
    ours, other = Path(os.path.realpath(data)), Path(os.path.realpath(journal))
    if ours == other or ours in other.parents or other in ours.parents:
        raise InvalidError(
            f"the journal directory {str(journal)!r} and the data directory {str(data)!r} are one, or one lies in the "
            "other",
            hint="name two that lie beside each other; without --journal the journal is in the data directory",
        )


def refuse_writable_by_others(path: Path, what: str = "data") -> None:
    """Raises InvalidError for a directory that somebody else could write into: a bookie believes what it reads."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as wrong:
        raise InvalidError(f"the {what} directory {str(path)!r} cannot be looked at: {wrong.strerror}") from None
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise InvalidError(
            f"the {what} directory {str(path)!r} can be written by its group or by others (mode {mode & 0o777:04o})",
            hint=f"chmod go-w {path}",
        )


def _again(call: Callable[[], int]) -> int:
    """The status of a call that is repeated as long as a signal cuts it short."""
    while (status := int(call())) == lib.WK_INTERRUPTED:
        pass
    return status
