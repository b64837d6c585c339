"""DirectoryNamespace: the logs in one directory, by the engine; and its handle."""

from __future__ import annotations

import os
import time
import warnings
import weakref
from typing import TYPE_CHECKING, Any

from walkeeper._namespace import Namespace, RecoveryReport, Stats
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
from walkeeper.directory._log import DirectoryLog, names_of
from walkeeper.directory._paths import absolute, backup_places, directory_of, remove_empty, with_absolute_journal
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
    from walkeeper._options import NewLogOptions, OpenOptions

__all__ = ["DirectoryNamespace", "Handle", "open_at", "open_directory"]

_KINDS = {lib.WK_NOT_FOUND: LogNotFoundError}
_LOCK_WAIT_NS = 200_000_000
_AT_EXIT_NS = 5_000_000_000
"""A namespace that nobody closed is closed at the exit of the process, or as garbage, with this much patience."""


def open_directory(
    uri: str | os.PathLike[str], create: bool, read_only: bool, on_damage: OnDamage, options: OpenOptions
) -> DirectoryNamespace:
    """walkeeper.open() for a path, or a file: URI."""
    path = directory_of(uri)
    refuse_options(options, CLUSTER_ONLY, f"{path!r} is a directory")
    return open_at(absolute(os.fsencode(path)), path, create, read_only, on_damage, with_absolute_journal(options))


def open_at(
    place: bytes, path: str, create: bool, read_only: bool, on_damage: OnDamage, options: OpenOptions
) -> DirectoryNamespace:
    """open_directory(), of what its caller named `path`."""
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
    return DirectoryNamespace(path, out[0], read_only, before)


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


class DirectoryNamespace(Namespace):
    """The logs in one directory."""

    _has_eventfd = True

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
    def closed(self) -> bool:
        return self._handle.closed

    def log(self, name: str, *, create: bool = True, **options: Unpack[NewLogOptions]) -> DirectoryLog:
        encoded, native_options, made = name_bytes(name), log_options(options), flag("create", create)
        out, error = ffi.new("wk_log **"), new_error()
        with self._handle as native:
            status = uninterrupted(
                lambda _: lib.wk_log_open(native, encoded, len(encoded), made, native_options, out, error)
            )
        check(status, error, log=name, kinds=_KINDS)
        return DirectoryLog(self, name, out[0])

    def logs(self, prefix: str = "") -> list[str]:
        encoded = name_bytes(prefix)
        names, size, count = ffi.new("char **"), ffi.new("size_t *"), ffi.new("uint64_t *")
        error = new_error()
        with self._handle as native:
            status = uninterrupted(lambda _: lib.wk_log_names(native, encoded, len(encoded), names, size, count, error))
        check(status, error)
        return names_of(names[0], size[0])

    def delete_log(self, name: str) -> None:
        encoded, error = name_bytes(name), new_error()
        with self._handle as native:
            status = uninterrupted(lambda _: lib.wk_log_delete(native, encoded, len(encoded), error))
        check(status, error, log=name, kinds=_KINDS)

    def rename_log(self, old: str, new: str) -> None:
        source, target, error = name_bytes(old), name_bytes(new), new_error()
        with self._handle as native:
            status = uninterrupted(lambda _: lib.wk_log_rename(native, source, len(source), target, len(target), error))
        check(status, error, log=old, kinds=_KINDS)

    def backup(self, destination: str | os.PathLike[str], *, journal: str | os.PathLike[str] | None = None) -> None:
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
        native_stats = ffi.new("wk_stats *")
        with self._handle as native:
            lib.wk_namespace_stats(native, native_stats)
        self._handle.check()
        values = {name: getattr(native_stats, name) for name in Stats.__dataclass_fields__}
        values["backend"] = name_of(native_stats.backend, BACKENDS)
        values["sync_method"] = name_of(native_stats.sync_method, SYNC_METHODS)
        return Stats(**values)

    def recovery(self) -> RecoveryReport:
        report = ffi.new("wk_recovery_report *")
        with self._handle as native:
            lib.wk_namespace_recovery(native, report)
        self._handle.check()
        report.lock_wait_ns += self._lock_wait_ns
        return RecoveryReport(**{name: getattr(report, name) for name in RecoveryReport.__dataclass_fields__})

    def close(self, timeout: float | None = None) -> None:
        timeout_ns = nanoseconds(timeout)
        self._finalizer.detach()
        _close(self._handle, self._completing, self._pid, timeout_ns, report=True)

    def _look_at_the_clock(self) -> None:
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
