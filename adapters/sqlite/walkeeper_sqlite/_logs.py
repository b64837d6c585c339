"""A log of Python's as C's wk_database_log."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

from walkeeper import Log, Position, Writer, is_cluster
from walkeeper.errors import (
    ClosedError,
    Error,
    FencedError,
    NoSpaceError,
    TimeoutError,
    TruncatedError,
    UnavailableError,
    check,
)
from walkeeper_sqlite._native import ffi, lib

__all__ = ["log_to_read", "new_error", "open_log"]

_STATUSES: tuple[tuple[type[BaseException], int], ...] = (
    (FencedError, lib.WK_FENCED),
    (NoSpaceError, lib.WK_NO_SPACE),
    (TruncatedError, lib.WK_TRUNCATED),
    (UnavailableError, lib.WK_UNAVAILABLE),
    (TimeoutError, lib.WK_TIMEOUT),
    (ClosedError, lib.WK_CLOSED),
)

_open: set[Any] = set()
"""Handles that C has, until it closes them."""


def new_error() -> Any:
    error = ffi.new("wk_error *")
    error.ledger_id = error.entry_id = error.sequence_id = error.txid = error.holder_pid = -1
    return error


def open_log(log: Log, *, write: bool, group: bool = False) -> Any:
    """A wk_database_log. With `write` C opens its writer when it has the file. `group`: how commits are acknowledged.

    A log in a directory is C's alone. Of one on bookies C appends, and asks Python where another segment is due. Any
    other is asked through Python once for each commit.
    """
    native = ffi.new("wk_database_log *")
    root = getattr(log.namespace, "path", None)
    if root is None:
        _open_in_python(log, write, group, native)
    elif is_cluster(root):
        _open_on_bookies(log, write, native)
    else:
        error, name = new_error(), log.name.encode()
        check(lib.wk_database_log_open(os.fsencode(root), name, write, native, error), error, log=log.name)
    return native


@contextmanager
def log_to_read(log: Log) -> Iterator[Any]:
    """A wk_database_log to read within a block: the open log itself, where it is in a directory."""
    path = getattr(log.namespace, "path", None)  # that of a log that stands before another one has none
    if path is None or log.in_c is None:
        native = open_log(log, write=False)
    else:
        native, error = ffi.new("wk_database_log *"), new_error()
        status = lib.wk_database_log_of(ffi.cast("wk_log *", log.in_c), native, error)
        check(status, error, log=log.name)
    try:
        yield native
    finally:
        native.close(native.context)


def _new_handle(log: Log, group: bool) -> Any:
    handle = ffi.new_handle(_PythonLog(log, group))
    _open.add(handle)
    return handle


def _open_on_bookies(log: Log, write: bool, native: Any) -> None:
    control, log_id, error = ffi.new("wk_cluster_log_control *"), log.info().log_id % 2**64, new_error()
    control.context = handle = _new_handle(log, False)
    if write:
        control.take_over = lib.walkeeper_sqlite_take_over_bookies
    control.next_segment = lib.walkeeper_sqlite_next_segment
    control.explain = lib.walkeeper_sqlite_explain
    control.read = lib.walkeeper_sqlite_read
    control.range = lib.walkeeper_sqlite_range
    control.close = lib.walkeeper_sqlite_close
    status = lib.wk_database_log_on_bookies(control, log_id, native, error)
    if status != lib.WK_OK:
        _open.discard(handle)
    check(status, error, log=log.name)


def _open_in_python(log: Log, write: bool, group: bool, native: Any) -> None:
    native.log_id = log.info().log_id % 2**64
    native.context = _new_handle(log, group)
    if write:
        native.take_over = lib.walkeeper_sqlite_take_over
        native.append = lib.walkeeper_sqlite_append
        native.submit = lib.walkeeper_sqlite_submit
        native.wait = lib.walkeeper_sqlite_wait
    native.read = lib.walkeeper_sqlite_read
    native.range = lib.walkeeper_sqlite_range
    native.close = lib.walkeeper_sqlite_close


class _PythonLog:
    __slots__ = ("accepting", "group", "log", "submitted", "tickets", "writer")

    def __init__(self, log: Log, group: bool) -> None:
        self.log = log
        self.group = group
        self.writer: Writer | None = None
        self.accepting = threading.Lock()
        """A commit and a part of a snapshot are accepted one after the other, so that each knows its sequence ids."""
        self.tickets = 0
        self.submitted: dict[int, Future[Position]] = {}
        """By ticket, until they are done."""

    def append(self, payloads: list[bytes]) -> int:
        """The sequence id of the last one."""
        assert self.writer is not None
        if not self.group:
            last = self.writer.append_many(payloads).last if len(payloads) > 1 else self.writer.append(payloads[0])
            return last.sequence_id
        return self._accept(payloads)[0].result().sequence_id

    def submit(self, payloads: list[bytes]) -> int:
        """The sequence id that the last one gets."""
        future, last = self._accept(payloads)
        self.tickets += 1
        self.submitted[self.tickets] = future
        return last

    def _accept(self, payloads: list[bytes]) -> tuple[Future[Position], int]:
        assert self.writer is not None
        with self.accepting:
            futures = [self.writer.submit(payload) for payload in payloads]
            return futures[-1], self.writer.next_sequence_id - 1

    def wait(self, ticket: int) -> None:
        """Records become durable in the order of their tickets, and one that does not stays here."""
        for earlier in [known for known in tuple(self.submitted) if known <= ticket]:
            future = self.submitted.get(earlier)
            if future is not None:
                future.result()
                self.submitted.pop(earlier, None)


def _fill(error: Any, failure: BaseException) -> int:
    """What C is told of an exception. One that is not ours leaves it open whether a record was written."""
    status: int = next((status for kind, status in _STATUSES if isinstance(failure, kind)), lib.WK_IO)
    text = (str(failure) or type(failure).__name__).encode("utf-8", "replace")[: lib.WK_ERROR_TEXT_MAX - 1]
    if error != ffi.NULL:
        error.status = status
        error.outcome_unknown = not (isinstance(failure, Error) and failure.outcome == "not_written")
        error.text = text
    return status


def _payloads(data: Any, sizes: Any, count: int) -> list[bytes]:
    payloads, at = [], 0
    for size in ffi.unpack(sizes, count):
        payloads.append(bytes(ffi.buffer(data + at, size)))
        at += size
    return payloads


@ffi.def_extern(error=lib.WK_IO)
def walkeeper_sqlite_take_over(context: Any, error: Any) -> int:
    python_log = ffi.from_handle(context)
    try:
        python_log.writer = python_log.log.writer()
    except BaseException as failure:
        return _fill(error, failure)
    return 0


@ffi.def_extern(error=lib.WK_IO)
def walkeeper_sqlite_take_over_bookies(context: Any, writer: Any, error: Any) -> int:
    python_log = ffi.from_handle(context)
    try:
        python_log.writer = python_log.log.writer()
        writer[0] = ffi.cast("wk_cluster_writer *", python_log.writer.in_c.address)
    except BaseException as failure:
        return _fill(error, failure)
    return 0


@ffi.def_extern(error=lib.WK_IO)
def walkeeper_sqlite_next_segment(context: Any, txid: int, error: Any) -> int:
    try:
        ffi.from_handle(context).writer.in_c.next_segment(txid)
    except BaseException as failure:
        return _fill(error, failure)
    return 0


@ffi.def_extern(error=lib.WK_IO)
def walkeeper_sqlite_explain(context: Any, status: int, error: Any) -> int:
    try:
        known: int = ffi.from_handle(context).writer.in_c.explain(status, int(ffi.cast("uintptr_t", error)))
    except BaseException:
        return status  # what became of the record stays as C said
    return known


@ffi.def_extern(error=lib.WK_IO)
def walkeeper_sqlite_submit(context: Any, data: Any, sizes: Any, count: int, last: Any, ticket: Any, error: Any) -> int:
    python_log = ffi.from_handle(context)
    try:
        last[0] = python_log.submit(_payloads(data, sizes, count))
        ticket[0] = python_log.tickets
    except BaseException as failure:
        return _fill(error, failure)
    return 0


@ffi.def_extern(error=lib.WK_IO)
def walkeeper_sqlite_wait(context: Any, ticket: int, error: Any) -> int:
    try:
        ffi.from_handle(context).wait(ticket)
    except BaseException as failure:
        return _fill(error, failure)
    return 0


@ffi.def_extern(error=lib.WK_IO)
def walkeeper_sqlite_append(context: Any, data: Any, sizes: Any, count: int, last: Any, error: Any) -> int:
    try:
        last[0] = ffi.from_handle(context).append(_payloads(data, sizes, count))
    except BaseException as failure:
        return _fill(error, failure)
    return 0


@ffi.def_extern(error=lib.WK_IO)
def walkeeper_sqlite_read(context: Any, start: int, record: Any, record_context: Any, error: Any) -> int:
    log = ffi.from_handle(context).log
    try:
        with log.reader(sequence_id=start) as reader:
            while records := reader.read():
                for item in records:
                    payload = ffi.from_buffer(item.payload)
                    status: int = record(record_context, payload, len(payload), item.sequence_id, item.txid)
                    if status != 0:
                        return status
    except BaseException as failure:
        return _fill(error, failure)
    return 0


@ffi.def_extern(error=lib.WK_IO)
def walkeeper_sqlite_range(context: Any, first: Any, next_one: Any, error: Any) -> int:
    try:
        info = ffi.from_handle(context).log.info()
        first[0] = info.first.sequence_id
        next_one[0] = info.next.sequence_id
    except BaseException as failure:
        return _fill(error, failure)
    return 0


@ffi.def_extern()
def walkeeper_sqlite_close(context: Any) -> None:
    python_log = ffi.from_handle(context)
    _open.discard(context)
    if python_log.writer is not None:
        with suppress(Error):  # of which every commit was told
            python_log.writer.close()
