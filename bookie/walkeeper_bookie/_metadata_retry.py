"""MetadataRetry: what a start asks of the metadata store, again and again until the store answers, the time is over, or
the bookie is told to stop.

A store's calls wait in their own time, longer than a start may take and longer than who told it to stop waits. So each
is made by a thread of its own, and given up where it must be: closing the store ends it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from walkeeper.metadata import ClosedError, UnavailableError, UnknownOutcomeError
from walkeeper_bookie._log import Log

__all__ = ["MetadataUnreachableError", "MetadataRetry", "StoppedError"]

Result = TypeVar("Result")
RETRY_S = 0.2
LOOK_S = 0.05
"""How often it looks whether to give up."""
GIVE_UP_S = 3.0
"""How long it waits for the end of what was given up: the directory is closed next."""


class MetadataUnreachableError(Exception):
    """The metadata store did not answer within start_timeout."""


class StoppedError(Exception):
    """It was told to stop while it started."""


class MetadataRetry:
    """Lasts `seconds` from its making on. `close_store` ends the calls that wait, from another thread than theirs, and
    returns whether there was a store to close: one that is being opened is left to itself."""

    def __init__(
        self, seconds: float, told_to_stop: Callable[[], bool], close_store: Callable[[], bool], name: str, log: Log
    ) -> None:
        self._seconds, self._deadline = seconds, time.monotonic() + seconds
        self._told_to_stop, self._close_store, self._name, self._log = told_to_stop, close_store, name, log
        self._said = False

    def call(self, call: Callable[[], Result], undo: Callable[[Result], object] = lambda _: None) -> Result:
        """What it returns. `undo`: of what it returned after it was given up. Raises StoppedError,
        MetadataUnreachableError, and what the call raises where the store did answer."""
        wrong: Exception | None = None
        while True:
            self._check(wrong)
            attempt = _Attempt(call, undo)
            try:
                while not attempt.ended.wait(LOOK_S):
                    self._check(wrong)
            except BaseException:
                attempt.give_up()
                if self._close_store():
                    attempt.ended.wait(GIVE_UP_S)
                raise
            try:
                return attempt.result()
            except (UnavailableError, UnknownOutcomeError, ClosedError) as error:
                wrong = error
            if not self._said:
                self._log.warning("the metadata store does not answer, trying again", error=wrong)
                self._said = True
            time.sleep(max(0.0, min(RETRY_S, self._deadline - time.monotonic())))

    def _check(self, wrong: Exception | None) -> None:
        if self._told_to_stop():
            raise StoppedError
        if time.monotonic() >= self._deadline:
            why = wrong or f"no answer within {self._seconds:g} s"
            raise MetadataUnreachableError(f"{self._name}: {why}") from wrong


class _Attempt(Generic[Result]):
    """A call on a thread of its own."""

    def __init__(self, call: Callable[[], Result], undo: Callable[[Result], object]) -> None:
        self.ended = threading.Event()
        self._call, self._undo = call, undo
        self._given_up = threading.Lock()  # held by whoever came first: who gave up, or the end
        self._result: list[Result] = []
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="start", daemon=True).start()

    def give_up(self) -> None:
        """Nobody asks for its result any more."""
        if not self._given_up.acquire(blocking=False):
            self._undo_result()

    def result(self) -> Result:
        if self._error is not None:
            raise self._error
        return self._result[0]

    def _run(self) -> None:
        try:
            self._result.append(self._call())
        except BaseException as error:
            self._error = error
        if not self._given_up.acquire(blocking=False):
            self._undo_result()
        self.ended.set()

    def _undo_result(self) -> None:
        for result in self._result:
            self._undo(result)
