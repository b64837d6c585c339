"""follow: a file that any SQLite reads, a moment behind the database that another process writes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from walkeeper import Log, Record
from walkeeper.errors import ClosedError, Error, TimeoutError, UnavailableError, check
from walkeeper_sqlite._counted_log import counted_log
from walkeeper_sqlite._host import load
from walkeeper_sqlite._logs import new_error, open_log
from walkeeper_sqlite._native import ffi, lib
from walkeeper_sqlite._paths import real_path

__all__ = ["Follower", "follow"]

_POLL_S = 0.5
_RETRY_S = 0.2


class Follower:
    """A file that follows a log, by a thread of its own, until it is closed."""

    def __init__(self, path: str, log: Log, native: Any) -> None:
        self._path = path
        self._log = log
        self._native = native
        self._changed = threading.Condition()
        self._lsn = int(lib.wk_follower_lsn(native))
        self._time_ms = -1
        self._read_id = self._lsn
        self._commits = 0
        self._closing = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"walkeeper-follow-{log.name}", daemon=True)
        self._thread.start()

    @property
    def path(self) -> str:
        return self._path

    @property
    def lsn(self) -> int:
        """The sequence id of the last commit that readers of the file see."""
        return self._lsn

    @property
    def time_ms(self) -> int:
        """When that was written, in milliseconds since 1970. -1: nothing has come since the follower was made."""
        return self._time_ms

    @property
    def read_id(self) -> int:
        """The sequence id of the last record that it has: of that commit, or of one behind it that is not whole yet, or
        of a snapshot."""
        return self._read_id

    @property
    def commits(self) -> int:
        """That have come since the follower was made."""
        return self._commits

    @property
    def failure(self) -> BaseException | None:
        """What ended it; `close` raises it."""
        return self._failure

    def wait_for(self, lsn: int, timeout: float | None = None) -> None:
        """Returns once readers see the commit that `last_lsn` told on the writer's side: then they read what it wrote.

        TimeoutError behind so many seconds; what ended the follower, where something did; ClosedError.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._lsn >= lsn or self._closing or self._failure, timeout)
            if self._lsn >= lsn:
                return
            if self._failure is not None:
                raise self._failure
            if self._closing:
                raise ClosedError(f"the follower {self._path} was closed")
            raise TimeoutError(f"{self._path} has commits up to {self._lsn}, and not {lsn} yet")

    def close(self) -> None:
        """Ends it. The file stays, with what it has; `follow` goes on with it. Raises what ended it before."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        if self._native is not None:
            native, self._native = self._native, None
            lib.wk_follower_close(native)
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Follower:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        try:
            while not self._closing:
                self._follow()
        except BaseException as failure:
            with self._changed:
                self._failure = failure
                self._changed.notify_all()

    def _follow(self) -> None:
        """From the last commit on: an unfinished one is read again. Bookies that are not there may come back."""
        try:
            with self._log.reader(sequence_id=self._lsn + 1, follow=True) as reader:
                while not self._closing:
                    for record in reader.read(timeout=_POLL_S):
                        self._take(record)
        except UnavailableError:
            time.sleep(_RETRY_S)

    def _take(self, record: Record) -> None:
        error, size = new_error(), len(record.payload)
        # no more than an address: a buffer in the frame of an exception that is kept would be collected with it, of
        # which CPython dies
        start = ffi.cast("uint8_t *", ffi.from_buffer(record.payload))
        while True:
            status = lib.wk_follower_record(self._native, start, size, record.sequence_id, record.txid, error)
            if status != lib.WK_LOCKED:
                break
            if self._closing:
                return
        check(status, error, log=self._log.name)
        lsn = int(lib.wk_follower_lsn(self._native))
        if lsn != self._lsn:
            with self._changed:
                self._lsn, self._time_ms = lsn, record.txid
                self._commits += 1
                self._changed.notify_all()
        self._read_id = record.sequence_id


def follow(
    path: str | os.PathLike[str],
    log: Log,
    *,
    name: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Follower:
    """Makes `path` from the log, or goes on with it, and keeps it a moment behind the writer of the log.

    Any SQLite reads the file while it is followed, with the ordinary drivers, and without walkeeper: in other
    processes; in this one by the module sqlite3. Each commit is seen whole. Nobody may write to it. When it begins, no
    program may have it open. `progress` is called while the file is made, or brought to the end of the log: with the
    records read, and all; both may begin anew. With `name` it is the database that Database.attach opened so.

    Raises NotFoundError where no database was attached to the log yet, DirectoryLockedError where a program has the
    file open, InvalidError where the file is not known to be of this log.
    """
    load()
    full = real_path(path)
    out, error = ffi.new("wk_follower **"), new_error()
    read = log if progress is None else counted_log(log, progress)
    which = ffi.NULL if name is None else ffi.new("char[]", name.encode())
    status = lib.wk_follower_open(os.fsencode(full), which, open_log(read, write=False), out, error)
    check(status, error, log=log.name)
    try:
        return Follower(full, log, out[0])
    except Error:
        lib.wk_follower_close(out[0])
        raise
