"""Namespace: the logs under one URI; and `open`, the one way in."""

from __future__ import annotations

import os
import re
import time
import warnings
import weakref
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from walkeeper._directory import absolute, backup_places, directory_of, remove_empty, with_absolute_journal
from walkeeper._log import Log, names_of
from walkeeper._native import ffi, lib
from walkeeper._options import (
    BACKENDS,
    CLUSTER_ONLY,
    FOREVER,
    SYNC_METHODS,
    OnDamage,
    flag,
    log_options,
    name_bytes,
    name_of,
    nanoseconds,
    open_options,
    refuse_options,
    time_left,
    uninterrupted,
)
from walkeeper.errors import (
    ClockJumpWarning,
    ClosedError,
    ForkedError,
    LogNotFoundError,
    check,
    new_error,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from walkeeper._completions import Completions
    from walkeeper._options import AnyOpenOptions, NewLogOptions, OpenOptions

__all__ = ["Namespace", "RecoveryReport", "Stats", "open"]

_KINDS = {lib.WK_NOT_FOUND: LogNotFoundError}
_CLUSTER = re.compile(r"(sqlite|memory|etcd|zk|zk\+[a-z]*):", re.IGNORECASE)
"""What the URI of a metadata store begins with."""
_LOCK_WAIT_NS = 200_000_000
_AT_EXIT_NS = 5_000_000_000
"""A namespace that nobody closed is closed at the exit of the process, or as garbage, with this much patience."""


def open(
    uri: str | os.PathLike[str],
    *,
    create: bool = True,
    read_only: bool = False,
    on_damage: OnDamage = "stop",
    **options: Unpack[AnyOpenOptions],
) -> Namespace:
    """Opens the namespace at `uri`: a directory, as a path or a file: URI, or a namespace of a cluster, by the URI of
    its metadata store ("zk://HOST:PORT/ledgers", "sqlite:PATH"). It is made where there is none.

    Of a cluster nothing is locked: each log has one writer, in whichever process. `create` makes the namespace, never
    the cluster: bookies do that. For the further options see ClusterOptions. What follows is of a directory.

    When it returns, everything an earlier process was told is durable can be read again, and a torn tail was cut.
    One process writes a directory; `read_only` opens follow it live. `on_damage` says what becomes of acknowledged
    records that cannot be read: "stop" raises DamagedError, "point_in_time" cuts each affected log at its first loss,
    "skip" leaves gaps; with `read_only` the directory is left as it is, and the repair takes place in memory: a look at
    one moment, whose reads raise DirectoryLockedError once somebody has opened the directory for writing. For the
    further options see OpenOptions. Where this process has the directory open for writing, a second open shares that:
    its options are checked and otherwise ignored (but `read_only` makes a handle that only reads).

    Raises DirectoryLockedError, NotFoundError (without `create`; there is no cluster), DamagedError, UnsupportedError,
    StorageError, UnavailableError (the metadata store does not answer), and InvalidError for an option or a path that
    cannot be, or an option of the other kind.
    A str that begins like a URI is one; write "./etcd:1" for a directory that looks like that. A relative path means
    what it means when open is called, wherever the process goes while it waits.
    """
    if isinstance(uri, str) and is_cluster(uri):
        from walkeeper.cluster._namespace import open_cluster

        return open_cluster(uri, create, read_only, on_damage, dict(options))
    path = directory_of(uri)
    refuse_options(options, CLUSTER_ONLY, f"{path!r} is a directory")
    return open_at(absolute(os.fsencode(path)), path, create, read_only, on_damage, with_absolute_journal(options))


def is_cluster(uri: str) -> bool:
    """Whether this is the URI of a metadata store, and so of a cluster."""
    return _CLUSTER.match(uri) is not None


def open_at(
    place: bytes, path: str, create: bool, read_only: bool, on_damage: OnDamage, options: OpenOptions
) -> Namespace:
    """open(), of what its caller named `path`."""
    native_options = open_options(create, read_only, on_damage, options)
    out, error, started = ffi.new("wk_namespace **"), new_error(), time.monotonic_ns()
    lock_timeout_ns = left = native_options.lock_timeout_ns
    while True:
        # C waits for the lock in short naps that no signal ends: between two slices Python runs its signal handlers.
        native_options.lock_timeout_ns = max(1, min(left, _LOCK_WAIT_NS))
        before = time.monotonic_ns() - started
        status = lib.wk_open(place, native_options, out, error)
        left = time_left(started, lock_timeout_ns)
        if status == lib.WK_OK or left == 0 or status not in (lib.WK_LOCKED, lib.WK_INTERRUPTED):
            break
    check(status, error)
    return Namespace(path, out[0], read_only, before)


@dataclass(frozen=True)
class RecoveryReport:
    """What an open had to do; all zero after a clean start, but for the times and files_scanned, footers_read."""

    files_scanned: int
    footers_read: int
    bytes_scanned: int
    blocks_accepted: int
    cut_bytes: int
    """Bytes of a torn tail that were cut: never acknowledged."""
    cut_file: int
    """The number of the journal file with the torn tail, in hexadecimal its name; 0 for none."""
    cut_offset: int
    damaged_blocks: int
    """Accepted loss: so many blocks of the journal were not whole. Entries in them that were intact are kept."""
    unknown_blocks: int
    """Of these, it cannot be told which ledgers they held entries of: a log may have lost its end without a gap."""
    lost_entries: int
    """Entries of damaged blocks that could be named, but not kept."""
    lost_records: int
    """Sequence ids that this open recorded as gaps: readers tell of them for ever, nobody gets them again."""
    lost_files: int
    """Entry logs whose index cannot be read: set aside, as entries/<id>.damaged."""
    catalogue_fallbacks: int
    """1 where the newest snapshot of the catalogue cannot be read: the one before it was used, nothing is lost."""
    catalogue_lost: int
    """Entries of the catalogue that cannot be read: what they changed (logs, segments, truncations) is not known."""
    unconfirmed_blocks: int
    """Read-only, without a writer: so many blocks at the end are whole but not known durable, and are not shown.

    No call that wrote them returned success; the next open for writing decides about them."""
    adopted_ledgers: int
    """Ledgers that no log names any more: each is a log now, "recovered-ledger-<id>"."""
    lock_wait_ns: int
    elapsed_ns: int
    """Without the wait for the lock."""


@dataclass(frozen=True)
class Stats:
    """Counts of a namespace. Sizes are bytes; what is marked so counts since open."""

    logs_count: int
    journal_files: int
    prepared_files: int
    entry_logs: int
    disk_bytes: int
    """All files of the directory."""
    live_bytes: int
    """Entries that are not truncated or deleted."""
    appended_records: int
    """Since open."""
    appended_bytes: int
    """Payload, since open."""
    written_bytes: int
    """To the disk, of all kinds, since open."""
    blocks_count: int
    """Since open."""
    syncs_count: int
    """Durable points, since open."""
    durable_block: int
    memory_logs: int
    memory_ranges: int
    """Of that, what range_bytes limits."""
    range_reads: int
    """Ledgers whose ranges were read again from the index file, since open."""
    memory_memtable: int
    memory_cache: int
    memory_in_flight: int
    memory_readers: int
    """Records that were read and are still held, and what readers read ahead."""
    recycled_files: int
    """Since open."""
    memory_sort: int
    """A bookie's; of a namespace of logs 0."""
    compacted_bytes: int
    """Since open."""
    sorted_bytes: int
    """Since open; a bookie's, of a namespace of logs 0."""
    scrubbed_bytes: int
    """Read again by the background scrub, since open."""
    scrub_damaged: int
    """Entries that the background scrub found damaged, since open."""
    clock_jumps: int
    """Jumps of the wall clock by more than an hour, noticed where it stamped txids, since open (ClockJumpWarning)."""
    clock_jump_ms: int
    """The last of them: above 0 forwards, below 0 backwards."""
    oldest_file: int
    """The number of the file that pins space longest, in hexadecimal its name; 0 for none."""
    oldest_ledger: int
    """A ledger that pins it, -1 for none."""
    backend: str
    """"uring" or "psync"."""
    sync_method: str
    """"dsync" or "write_then_sync"; "probe" where a read-only open finds that this device was never measured."""
    blocks_in_flight: int
    disk_full: bool
    failed: bool
    """A write or sync failed: this namespace only reads and closes."""
    probed: bool
    """This device was measured with several blocks in flight too, in idle time: that chose the method and how many."""


class Handle:
    """A wk_namespace: `with handle as native:` for each call.

    It may be closed before the call comes to C, by another thread or by a signal handler in this one. Its memory stays
    for as long as the handle, and C answers WK_CLOSED. Who asks what answers no status asks check() afterwards.
    """

    __slots__ = ("_memory", "_native", "_path", "_pid", "all_durable")

    _has_eventfd = True
    """Whether an event loop can listen for what becomes durable."""

    def __init__(self, path: str, native: Any) -> None:
        self._path = path
        self._native = native
        self._memory = ffi.gc(lib.wk_namespace_retain(native), lib.wk_namespace_release)
        self._pid = os.getpid()
        self.all_durable = False
        """Known to be, of what was accepted, since it was closed."""

    def __enter__(self) -> Any:
        native = self._native
        if native is None:
            raise self._closed_error()
        if self._pid != os.getpid():  # C knows, too, but what answers no status there would answer nothing here
            raise ForkedError(f"{self._path!r} was opened before this process was forked: open it again here")
        return native

    def __exit__(self, *_: object) -> None:
        pass

    def check(self) -> None:
        """After a call that answers no status: was it one of an open namespace?"""
        if self._native is None:
            raise self._closed_error()

    @property
    def closed(self) -> bool:
        return self._native is None

    def forget(self) -> None:
        """In a forked child: closed, and the parent's engine left alone."""
        self._native = None

    def take(self) -> Any:
        """The wk_namespace, to close it: nobody gets in again. C waits for those inside. None where that was done."""
        native, self._native = self._native, None
        return native

    def _closed_error(self) -> ClosedError:
        return ClosedError(f"the namespace {self._path!r} was closed")


class Namespace:
    """The logs in one directory; made by walkeeper.open().

    Every method may be called from any thread. A context manager: leaving it closes the namespace. One that nobody
    closes is closed as garbage or at the exit of the process, so that deferred records become durable.
    """

    _has_eventfd = True
    """Whether an event loop can listen for what becomes durable."""

    def __init__(self, path: str, native: Any, read_only: bool, lock_wait_ns: int = 0) -> None:
        self._path = path
        self._read_only = read_only
        self._lock_wait_ns = lock_wait_ns
        self._pid = os.getpid()
        self._handle = Handle(path, native)
        self._completing: list[Completions] = []  # none, or the one
        self._clock_jumps = 0
        """How many of them were told of."""
        self._finalizer = weakref.finalize(self, _close, self._handle, self._completing, self._pid, _AT_EXIT_NS)

    @property
    def path(self) -> str:
        """The directory."""
        return self._path

    @property
    def read_only(self) -> bool:
        """Whether it was opened to read only."""
        return self._read_only

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._handle.closed

    def log(self, name: str, *, create: bool = True, **options: Unpack[NewLogOptions]) -> Log:
        """The log of that name; created, with `options`, where there is none. An existing log keeps its own options.

        Raises LogNotFoundError without `create`, and of a namespace that was opened read-only; InvalidError for a name
        that is empty, longer than 255 bytes of UTF-8, begins with ".", ends with "/", or holds a space, a control
        character, "<" or ">".
        """
        encoded, native_options, made = name_bytes(name), log_options(options), flag("create", create)
        out, error = ffi.new("wk_log **"), new_error()
        with self._handle as native:
            status = uninterrupted(
                lambda _: lib.wk_log_open(native, encoded, len(encoded), made, native_options, out, error)
            )
        check(status, error, log=name, kinds=_KINDS)
        return Log(self, name, out[0])

    def logs(self, prefix: str = "") -> list[str]:
        """The names of the logs that begin with `prefix`, in byte order."""
        encoded = name_bytes(prefix)
        names, size, count = ffi.new("char **"), ffi.new("size_t *"), ffi.new("uint64_t *")
        error = new_error()
        with self._handle as native:
            status = uninterrupted(lambda _: lib.wk_log_names(native, encoded, len(encoded), names, size, count, error))
        check(status, error)
        return names_of(names[0], size[0])

    def delete_log(self, name: str) -> None:
        """Deletes a log with its cursors; durable when it returns. Its space is given back in the background.

        Handles on it raise LogDeletedError from now on. Raises LogNotFoundError.
        """
        encoded, error = name_bytes(name), new_error()
        with self._handle as native:
            status = uninterrupted(lambda _: lib.wk_log_delete(native, encoded, len(encoded), error))
        check(status, error, log=name, kinds=_KINDS)

    def rename_log(self, old: str, new: str) -> None:
        """Renames a log; durable when it returns. Raises LogNotFoundError, and ExistsError where `new` is taken.

        The log keeps its positions: one of an earlier log with the new name may mean another record in it.
        """
        source, target, error = name_bytes(old), name_bytes(new), new_error()
        with self._handle as native:
            status = uninterrupted(lambda _: lib.wk_log_rename(native, source, len(source), target, len(target), error))
        check(status, error, log=old, kinds=_KINDS)

    def backup(self, destination: str | os.PathLike[str], *, journal: str | os.PathLike[str] | None = None) -> None:
        """Makes a consistent copy of the live directory, by hard links. Appends go on meanwhile.

        `destination` must not exist; it lies on the same file system, outside the directory itself. The copy is a
        namespace of its own; an unfinished one is removed. With `journal`, which must not exist either, the copy has
        that journal directory; without it none, also where this one has one, whose files are then copied byte by byte.

        Raises ExistsError, InvalidError, ReadOnlyError, StorageError.
        """
        self._back_up(*backup_places(destination, journal))

    def _back_up(self, path: bytes, journal: bytes | None) -> None:
        error = new_error()
        was_there = os.path.lexists(path)
        journal_was_there = journal is not None and os.path.lexists(journal)
        with self._handle as native:
            native_journal = ffi.NULL if journal is None else journal
            status = uninterrupted(lambda _: lib.wk_namespace_backup_apart(native, path, native_journal, error))
        if status != lib.WK_OK and not was_there and not journal_was_there:
            remove_empty(path, journal)
        check(status, error)

    def stats(self) -> Stats:
        """Counts and sizes, now."""
        native_stats = ffi.new("wk_stats *")
        with self._handle as native:
            lib.wk_namespace_stats(native, native_stats)
        self._handle.check()
        values = {name: getattr(native_stats, name) for name in Stats.__dataclass_fields__}
        values["backend"] = name_of(native_stats.backend, BACKENDS)
        values["sync_method"] = name_of(native_stats.sync_method, SYNC_METHODS)
        return Stats(**values)

    def recovery(self) -> RecoveryReport:
        """What opening the directory had to do."""
        report = ffi.new("wk_recovery_report *")
        with self._handle as native:
            lib.wk_namespace_recovery(native, report)
        self._handle.check()
        report.lock_wait_ns += self._lock_wait_ns
        return RecoveryReport(**{name: getattr(report, name) for name in RecoveryReport.__dataclass_fields__})

    def close(self, timeout: float | None = None) -> None:
        """Waits (up to `timeout` seconds; None: for ever) until everything accepted is durable, and closes.

        The namespace is closed whatever comes of it; where it raises TimeoutError or JournalFailedError, what was not
        durable has an unknown outcome. After a TimeoutError a write may still be under way, and the directory stays
        locked until the process ends: give seconds, for a disk that stalls, and not 0. Records that were read stay
        valid. Closing twice is fine. In a forked child it only forgets the handle: the namespace is the parent's.

        A signal handler may call it, and a future's callback: the call that the handler interrupted, and what other
        threads call later, raises ClosedError.
        """
        timeout_ns = nanoseconds(timeout)
        self._finalizer.detach()
        _close(self._handle, self._completing, self._pid, timeout_ns, report=True)

    def __enter__(self) -> Namespace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "read-only" if self._read_only else "open"
        return f"<walkeeper.Namespace {self._path!r}, {state}>"

    def _look_at_the_clock(self) -> None:
        """Warns of jumps of the clock since the last look."""
        by = ffi.new("int64_t *")
        try:
            with self._handle as native:
                jumps = lib.wk_namespace_clock_jumps(native, by)
        except ClosedError:
            return
        if jumps > self._clock_jumps:
            self._clock_jumps = jumps
            minutes = abs(by[0]) // 60_000
            text = f"{self._path}: the clock that stamps txids jumped "
            if by[0] < 0:
                text += (
                    f"backwards by {minutes // 60} h {minutes % 60} min. Txids do not fall: until the clock has caught "
                    "up, records get the last txid again"
                )
            else:
                text += (
                    f"forwards by {minutes // 60} h {minutes % 60} min, or the machine slept. If the clock is wrong, "
                    "set it right soon: txids do not fall, records keep its time until it has caught up"
                )
            warnings.warn(text, ClockJumpWarning, stacklevel=3)

    @property
    def _completions(self) -> Completions:
        """The futures of this namespace; made with the first."""
        if not self._completing:
            from walkeeper._completions import Completions

            self._completing.append(Completions(self._handle))
        return self._completing[0]


def _close(handle: Handle, completing: list[Completions], pid: int, timeout_ns: int, *, report: bool = False) -> None:
    if os.getpid() != pid:
        handle.forget()
        return
    started = time.monotonic_ns()
    for completions in completing:
        completions.stop(timeout_ns if timeout_ns == FOREVER else timeout_ns * 3 // 4)  # the rest is for the disk
    native = handle.take()
    if native is None:
        return
    error = new_error()
    # Not called again on WK_INTERRUPTED: the handle is gone whatever the answer is.
    status = lib.wk_close(native, FOREVER if timeout_ns == FOREVER else time_left(started, timeout_ns), error)
    handle.all_durable = status == 0
    for completions in completing:
        completions.abandon(handle.all_durable)
    if report:  # where no outcome is unknown everything is durable: "not_written" would be the contrary
        check(status, error, write=bool(error.outcome_unknown))
