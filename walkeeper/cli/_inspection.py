"""walkeeper/inspect.h for Python: look at files and devices without opening a directory; nothing is locked."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from walkeeper._native import ffi, lib
from walkeeper.errors import check, new_error

__all__ = ["DoctorReport", "Finding", "VerifyReport", "inspect_file", "probe", "verify_directory"]


class _Callback:
    """A Python function behind C's context pointer; what it raises is kept, and raised when C has returned."""

    def __init__(self, function: Callable[..., bool]) -> None:
        self._function = function
        self._raised: BaseException | None = None
        self.context = ffi.new_handle(self)

    def call(self, *arguments: object) -> bool:
        try:
            return self._function(*arguments)
        except BaseException as raised:
            self._raised = raised
            return False

    def raise_again(self) -> None:
        if _early:
            raise _early.pop()
        if self._raised is not None:
            raise self._raised


_early: list[BaseException] = []
"""What was raised in one of the two functions below before its _Callback could keep it: Ctrl-C on the way in."""


def _keep(kind: object, raised: BaseException, traceback: object) -> None:
    _early.append(raised)


@ffi.def_extern(name="walkeeper_inspect_line", error=False, onerror=_keep)
def _line(context: Any, json: Any) -> bool:
    called: _Callback = ffi.from_handle(context)
    return called.call(ffi.string(json).decode("utf-8", "backslashreplace"))


@ffi.def_extern(name="walkeeper_verify_progress", error=False, onerror=_keep)
def _progress(context: Any, done: int, total: int) -> bool:
    called: _Callback = ffi.from_handle(context)
    return called.call(done, total)


def inspect_file(path: Path, entries: bool, take: Callable[[str], bool]) -> None:
    """Calls `take` with a line of JSON for the file, each block or page and, with `entries`, each entry.

    `take` answers False to have no more. Raises CorruptError behind the lines of what could be read; StorageError.
    """
    callback, error = _Callback(take), new_error()
    status = lib.wk_inspect_file(os.fsencode(path), entries, lib.walkeeper_inspect_line, callback.context, error)
    callback.raise_again()
    if status != lib.WK_INTERRUPTED:
        check(status, error)


@dataclass(frozen=True)
class Finding:
    """A file that is damaged: so many structures in it, and what is wrong with the first of them."""

    name: str
    """Below the directory; "log NAME" of what no file has."""
    damaged: int
    first: str


@dataclass(frozen=True)
class VerifyReport:
    """What wk_verify_directory found. `damaged` counts blocks, pages and entries that break their rule.

    `warnings` counts caches that cannot be used: nothing is lost with them. `findings` are as many of the damaged files
    as C has room for, in the order in which they were found; `damaged` counts what the others have, too.
    """

    files: int
    blocks: int
    entries: int
    bytes: int
    damaged: int
    torn_tail_bytes: int
    warnings: int
    first_damage: str
    first_warning: str
    findings: list[Finding]


def verify_directory(
    path: Path, bytes_per_second: int, advance: Callable[[int, int], bool], journal: Path | None = None
) -> VerifyReport:
    """Reads all of a directory and checks it; 0 bytes_per_second is no limit. Damage is in the report, not raised.
    Its journal directory, where it has one, is looked for where it was last unless it is told.

    `advance(bytes_done, bytes_total)` is called now and then, and answers False to stop (InterruptedError). Raises
    StorageError, UnsupportedError.
    """
    callback, error, native = _Callback(advance), new_error(), ffi.new("wk_verify_report *")
    progress = lib.walkeeper_verify_progress
    told = ffi.NULL if journal is None else os.fsencode(journal)
    status = lib.wk_verify_directories(
        os.fsencode(path), told, bytes_per_second, progress, callback.context, native, error
    )
    callback.raise_again()
    if status != lib.WK_DAMAGED:
        check(status, error)
    fields: dict[str, Any] = {name: getattr(native, name) for name in VerifyReport.__dataclass_fields__}
    for name in ("first_damage", "first_warning"):
        fields[name] = _text(fields[name])
    fields["findings"] = [
        Finding(_text(finding.name), finding.damaged, _text(finding.first))
        for finding in native.findings[0 : native.findings_count]
    ]
    return VerifyReport(**fields)


def _text(native: Any) -> str:
    return ffi.string(native).decode("utf-8", "replace")


@dataclass(frozen=True)
class DoctorReport:
    """What the engine would do in a directory, and what the probe measured. Times are nanoseconds, sizes bytes."""

    backend: int
    uring_error: int
    """0, or the errno that the ring was refused with."""
    sync_method: int
    write_error: int
    """0, or the errno that a file was refused with: then nothing was tried, and what a probe measures is 0."""
    direct: bool
    alignment: int
    file_system: int
    """f_type of statfs."""
    free_bytes: int
    total_bytes: int
    dsync_ns: int
    write_then_sync_ns: int
    blocks_in_flight: int
    """That the whole probe prefers."""
    grid_ns: list[int]
    """ns a block: RWF_DSYNC, then write and sync; each with 1, 2, 4 and 8 blocks at once; each of 4 KiB and 64 KiB."""


def probe(path: Path) -> DoctorReport:
    """Probes a directory, with a temporary file in it that is removed; where there can be none, `write_error` says why.

    Raises StorageError, UnsupportedError.
    """
    native, error = ffi.new("wk_doctor_report *"), new_error()
    check(lib.wk_doctor(os.fsencode(path), native, error), error)
    values = {name: getattr(native, name) for name in DoctorReport.__dataclass_fields__}
    values["grid_ns"] = list(native.grid_ns)
    return DoctorReport(**values)
