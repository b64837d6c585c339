"""Retention: snapshots and truncation of a log by themselves, while its database is attached."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from walkeeper import Log
from walkeeper.errors import InvalidError
from walkeeper_sqlite._snapshots import Snapshot, snapshots, truncate

if TYPE_CHECKING:
    from walkeeper_sqlite._database import Database

__all__ = ["Retainer", "Retention"]

_LOOK_S = 1.0
_RETRY_FIRST_S = 5.0
_RETRY_MAX_S = 300.0
"""A snapshot that fails may leave a part of its pages in the log each time: it is tried again less and less often."""
_PAUSE_MAX_S = 1.0
_SNAPSHOT_BYTES_MIN = 64 * 1024 * 1024

logger = logging.getLogger("walkeeper.sqlite")
logger.addHandler(logging.NullHandler())  # else Python writes warnings to stderr, bare


@dataclass(frozen=True)
class Retention:
    """How long commits can be restored, and how often snapshots are taken.

    A snapshot is taken where something was committed since the last one, and that is `snapshot_interval` old, or the
    commits behind it have `snapshot_bytes` in the log. Then the log is truncated as Database.truncate(keep) does.
    """

    keep: timedelta
    """Every commit that is younger can be restored."""
    snapshot_interval: timedelta = timedelta(days=1)
    snapshot_bytes: int | None = None
    """None: as many as the database has, and 64 MiB at least."""
    connect: Callable[[str], Any] | None = None
    """Makes a connection to the URI of the database, where the program has connections of another SQLite than that of
    the module sqlite3."""

    def __post_init__(self) -> None:
        if self.keep < timedelta(0):
            raise InvalidError(f"keep={self.keep!r} is negative")
        if self.snapshot_interval <= timedelta(0):
            raise InvalidError(f"snapshot_interval={self.snapshot_interval!r} is not positive")
        if self.snapshot_bytes is not None and self.snapshot_bytes <= 0:
            raise InvalidError(f"snapshot_bytes={self.snapshot_bytes!r} is not positive")


class _Stopped(Exception):
    """Raised in the middle of a snapshot when the database is closed."""


class Retainer:
    """Does for a database what its retention says. A thread of its own calls `look`, from `start` to `close`."""

    def __init__(self, database: Database, retention: Retention) -> None:
        self._database = database
        self._retention = retention
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._snapshots: list[Snapshot] | None = None
        """None: it has not looked yet."""
        self._first = -1
        """The first record of the log."""
        self._bytes_before = 0
        """Of commits behind the last snapshot: those of earlier attachments,"""
        self._bytes_counted = 0
        """and what status().log_bytes was at the snapshot."""
        self._done_at = 0.0
        self.error: str | None = None
        """What the last look ended with."""

    def start(self) -> None:
        name = f"walkeeper-retention-{self._database.log.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        """Until the database is closed, or another writer has the log. What fails is tried again."""
        wait_s = _LOOK_S
        while not self._stop.wait(wait_s) and self._database.status().state == "open":
            wait_s = self._look_now(wait_s)

    def _look_now(self, waited_s: float) -> float:
        """When it is to look again."""
        try:
            self.look(datetime.now(timezone.utc))
        except _Stopped:
            return 0
        except Exception as error:
            wait_s = _RETRY_FIRST_S if self.error is None else min(2 * waited_s, _RETRY_MAX_S)
            self.error = str(error) or type(error).__name__
            said = "retention of %s failed, and is tried again in %g s: %s"
            logger.warning(said, self._database.path, wait_s, self.error)
            return wait_s
        self.error = None
        return _LOOK_S

    def look(self, now: datetime) -> None:
        """Takes a snapshot where one is due at that time, and truncates the log where there is something to let go."""
        if self._snapshots is None:
            self._begin()
        if self._is_due(now) and not self._has_another():
            self._take()
        limit_ms = (now - self._retention.keep).timestamp() * 1000
        old = [snapshot for snapshot in self._snapshots or [] if snapshot.end_time_ms <= limit_ms]
        if old and old[-1].lsn > self._first:
            truncate(self._database.log, self._retention.keep, now)
            self._first = old[-1].lsn
            self._snapshots = snapshots(self._database.log, self._database.name)

    def _begin(self) -> None:
        log = self._database.log
        counted = self._database.status().log_bytes
        self._snapshots = snapshots(log, self._database.name)
        self._first = log.info().first.sequence_id
        if self._snapshots:
            self._bytes_before = max(0, _bytes_behind(log, self._snapshots[-1]) - counted)

    def _is_due(self, now: datetime) -> bool:
        if not self._snapshots:
            return True
        status, last = self._database.status(), self._snapshots[-1]
        if status.lsn <= last.end_lsn:
            return False  # nothing was committed since
        if now.timestamp() * 1000 - last.time_ms >= self._retention.snapshot_interval / timedelta(milliseconds=1):
            return True
        size = max(_SNAPSHOT_BYTES_MIN, status.pages * status.page_size)
        behind = self._bytes_before + status.log_bytes - self._bytes_counted
        return behind >= (size if self._retention.snapshot_bytes is None else self._retention.snapshot_bytes)

    def _has_another(self) -> bool:
        """Whether the program took one itself since."""
        counted = self._database.status().log_bytes
        found = snapshots(self._database.log, self._database.name)
        if found[-1:] == (self._snapshots or [])[-1:]:
            return False
        self._note(found, counted)
        return True

    def _take(self) -> None:
        counted = self._database.status().log_bytes
        connect, uri = self._retention.connect, self._database.uri
        self._done_at = time.monotonic()
        self._database.snapshot(progress=self._pause, connect=None if connect is None else lambda: connect(uri))
        self._note(snapshots(self._database.log, self._database.name), counted)

    def _note(self, found: list[Snapshot], counted: int) -> None:
        self._snapshots = found
        self._bytes_before, self._bytes_counted = 0, counted

    def _pause(self, done: int, all_of_them: int) -> None:
        """Between appends of pages for as long as the last one took: half of the time the log is the writers' alone."""
        if self._stop.wait(min(time.monotonic() - self._done_at, _PAUSE_MAX_S)):
            raise _Stopped
        self._done_at = time.monotonic()


def _bytes_behind(log: Log, snapshot: Snapshot) -> int:
    """Payload of the records behind it: in its segment they are read, of later segments it is known."""
    start = snapshot.end_lsn + 1
    later = [segment for segment in log.segments() if segment.first_sequence_id >= start]
    count = sum(segment.payload_bytes for segment in later)
    end = log.find(sequence_id=later[0].first_sequence_id) if later else None
    with log.reader(sequence_id=start, end=end) as reader:
        while records := reader.read():
            count += sum(len(record.payload) for record in records)
    return count
