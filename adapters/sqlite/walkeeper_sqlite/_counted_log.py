"""CountedLog: a log that tells how far it was read, for progress bars."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, cast

from walkeeper import Log, Reader, Record

__all__ = ["Told", "counted_log"]

Told = Callable[[int, int], object]
"""Is called with the records read by one reader, and all that it has to read."""


def counted_log(log: Log, told: Told) -> Log:
    """The same log, for attach and restore. They read it more than once: to find a snapshot, and to apply it."""
    return cast("Log", _CountedLog(log, told))


class _CountedLog:
    def __init__(self, log: Log, told: Told) -> None:
        self._log = log
        self._told = told
        self.namespace = object()  # not that of a directory, whose log C reads without asking Python

    def reader(self, *, sequence_id: int) -> _CountedReader:
        end = self._log.info().next.sequence_id
        return _CountedReader(self._log.reader(sequence_id=sequence_id), sequence_id, end, self._told)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


class _CountedReader:
    def __init__(self, reader: Reader[Record], start: int, end: int, told: Told) -> None:
        self._reader = reader
        self._start = start
        self._end = end
        self._told = told

    def read(self) -> list[Record]:
        records = self._reader.read()
        if records:
            self._told(records[-1].sequence_id + 1 - self._start, self._end - self._start)
        return records

    def __enter__(self) -> _CountedReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._reader.__exit__(kind, error, traceback)
