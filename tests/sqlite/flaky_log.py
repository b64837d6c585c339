"""A log whose appends fail as a test says: what databases see of bookies that cannot be reached."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, cast

import walkeeper


class FlakyLog:
    """The log, and `before` and `behind` an append a call that may raise or wait; and where its writer is opened and
    closed."""

    def __init__(self, log: walkeeper.Log) -> None:
        self.log = log
        self.name = log.name
        self.namespace = object()  # not a directory's: C asks Python
        self.before: Callable[[], object] = bool
        self.behind: Callable[[], object] = bool
        self.refuse: Callable[[], object] = bool
        """Before a submitted record is accepted."""
        self.at_next: Callable[[], object] = bool
        """Before it is asked for the next sequence id."""
        self.at_open: Callable[[], object] = bool
        self.at_close: Callable[[], object] = bool
        self.appends = 0

    def as_log(self) -> walkeeper.Log:
        return cast("walkeeper.Log", self)

    def info(self) -> walkeeper.LogInfo:
        return self.log.info()

    def reader(self, **options: Any) -> Any:
        return self.log.reader(**options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)

    def writer(self) -> FlakyWriter:
        self.at_open()
        return FlakyWriter(self, self.log.writer())


class FlakyWriter:
    def __init__(self, log: FlakyLog, writer: walkeeper.Writer) -> None:
        self._log = log
        self._writer = writer

    def append(self, payload: bytes) -> walkeeper.Position:
        return self._around(lambda: self._writer.append(payload))

    def append_many(self, payloads: Sequence[bytes]) -> walkeeper.AppendRange:
        return self._around(lambda: self._writer.append_many(payloads))

    def submit(self, payload: bytes) -> Future[walkeeper.Position]:
        """Before the future's result comes what the log has for before an append; the record is written at once."""
        self._log.refuse()
        done = self._writer.append(payload)
        waits: Future[walkeeper.Position] = Future()
        threading.Thread(target=self._finish, args=(waits, done)).start()
        return waits

    def _finish(self, waits: Future[walkeeper.Position], done: walkeeper.Position) -> None:
        try:
            self._log.before()
        except Exception as error:
            waits.set_exception(error)
        else:
            waits.set_result(done)

    @property
    def next_sequence_id(self) -> int:
        self._log.at_next()
        return self._writer.next_sequence_id

    def _around(self, append: Callable[[], Any]) -> Any:
        self._log.appends += 1
        self._log.before()
        done = append()
        self._log.behind()
        return done

    def close(self) -> None:
        self._log.at_close()
        self._writer.close()
