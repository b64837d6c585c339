"""Completions: the futures of submitted records, and the one thread that completes them.

The thread starts with the first submit. It waits in C, without the GIL, for the earliest outstanding ticket, and then
completes everything up to the durable point at one go. It is a daemon: it never keeps a process alive.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from walkeeper._native import lib
from walkeeper._position import Position
from walkeeper.errors import ClosedError, Error, JournalFailedError, exception_of, new_error

if TYPE_CHECKING:
    from walkeeper.directory._namespace import Handle

__all__ = ["Completions"]

_WAIT_NS = 100_000_000
"""How long the thread stays in C at most, so that closing on a stalled disk is not held up."""


class Completions:
    """The futures of one namespace that wait for a ticket."""

    def __init__(
        self,
        handle: Handle,
        wait: Callable[..., int] = lib.wk_namespace_wait,
        durable: Callable[[Any], int] = lib.wk_namespace_durable,
        failure: Callable[[int, Any, Position, str], Error] | None = None,
    ) -> None:
        self._handle = handle
        self._wait, self._durable = wait, durable
        self._failure = failure or failure_of
        self._pending: dict[int, list[tuple[Future[Position], Position, str]]] = {}
        self._lock = threading.RLock()
        """C's, and not the condition around it: a signal handler that raises finds no moment to leave it locked."""
        self._changed = threading.Condition(self._lock)
        self._wanted = 0
        """Up to this ticket they become durable by themselves; what is behind may wait for the close."""
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._ended = False
        self._abandoned: bool | None = None
        """None until the namespace was closed; then whether everything accepted is durable."""

    def watch(self, ticket: int, at: Position, log: str, deferred: bool = False) -> Future[Position]:
        """A future that is done, with `at`, when `ticket` is durable."""
        future: Future[Position] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            if self._abandoned is not None:  # another thread closed the namespace since the record was accepted
                _settle(future, at, log, self._abandoned)
                return future
            if not deferred and ticket > self._wanted:
                self._wanted = ticket
            self._changed.notify_all()  # first: a signal handler may raise behind any step, and a later call comes here
            waiting = self._pending.get(ticket)
            if waiting is not None:
                waiting.append((future, at, log))
            else:
                if self._thread is None:  # known once it runs: a signal handler that closes waits for it
                    thread = threading.Thread(target=self._run, name="walkeeper-completions", daemon=True)
                    thread.start()
                    self._thread = thread
                self._pending[ticket] = [(future, at, log)]
            if self._abandoned is not None and not future.done():  # a signal handler closed it since the look above
                _settle(future, at, log, self._abandoned)
        return future

    def stop(self, timeout_ns: int) -> None:
        """Waits up to `timeout_ns` for the futures to complete, and for the end of the thread.

        Deferred records may wait for long: those that nothing hurries are left to abandon(), behind the close that
        makes them durable. A callback that does not return keeps the thread, and nobody else.

        In the thread itself, which a future's callback is in, there is nobody to wait for: what is pending is left to
        abandon().
        """
        seconds = min(timeout_ns / 1e9, threading.TIMEOUT_MAX)
        deadline = time.monotonic() + seconds
        with self._lock:
            thread = self._thread
            itself = thread is threading.current_thread()
            if not itself:
                self._changed.notify_all()  # a signal handler may be here before watch() comes to that
                self._changed.wait_for(
                    lambda: min(self._pending, default=self._wanted + 1) > self._wanted or self._thread is None, seconds
                )
            self._stopping = True
            self._changed.notify_all()
            if not itself:  # not join(): a signal handler may be here while watch() has the lock, which this lets go of
                self._changed.wait_for(lambda: self._ended or self._thread is None, deadline - time.monotonic())

    def abandon(self, durable: bool) -> None:
        """What still waits after the namespace was closed: done where `durable`, else of unknown outcome."""
        with self._lock:
            self._abandoned = durable
            left = [item for items in self._pending.values() for item in items]
            self._pending.clear()
            self._changed.notify_all()
        for future, at, log in left:
            _tell(_settle, future, at, log, durable)

    def _run(self) -> None:
        try:
            self._complete_all()
        finally:
            with self._lock:
                self._ended = True
                self._changed.notify_all()

    def _complete_all(self) -> None:
        error = new_error()
        while True:
            with self._lock:
                self._changed.wait_for(lambda: self._pending or self._stopping)
                if self._stopping:
                    return
                ticket = min(self._pending)
            try:
                with self._handle as native:
                    status = self._wait(native, ticket, _WAIT_NS, error)
                    durable = self._durable(native)
            except ClosedError:
                status, durable = lib.WK_CLOSED, 0
            if status == lib.WK_CLOSED:  # before there were futures: nobody has told of them
                self.abandon(self._handle.all_durable)
                return
            self._complete(durable)
            if status not in (lib.WK_OK, lib.WK_TIMEOUT, lib.WK_INTERRUPTED):
                self._fail(ticket, status, error)
                error = new_error()

    def _complete(self, durable: int) -> None:
        with self._lock:
            tickets = sorted(ticket for ticket in self._pending if ticket <= durable)
            done = [item for ticket in tickets for item in self._pending.pop(ticket)]
            if min(self._pending, default=self._wanted + 1) > self._wanted:
                self._changed.notify_all()
        for future, at, _ in done:
            _tell(future.set_result, at)

    def _fail(self, ticket: int, status: int, error: Any) -> None:
        with self._lock:
            failed = self._pending.pop(ticket, [])
            if min(self._pending, default=self._wanted + 1) > self._wanted:
                self._changed.notify_all()
        for future, at, log in failed:
            _tell(future.set_exception, self._failure(status, error, at, log))


def _tell(set_it: Callable[..., None], *what: Any) -> None:
    """Completes a future. It catches an Exception of its callbacks, which SystemExit is not: others come behind."""
    try:
        set_it(*what)
    except BaseException:
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


def failure_of(status: int, error: Any, at: Position, log: str) -> Error:
    """What became of the accepted record at `at`, when waiting for its ticket answered `status`."""
    made = exception_of(status, error, log=log, write=True)
    if not isinstance(made, JournalFailedError):
        made.outcome = "unknown"
    made.sequence_id = at.sequence_id
    return made


def _settle(future: Future[Position], at: Position, log: str, durable: bool) -> None:
    if durable:
        future.set_result(at)
    else:
        text = "the namespace was closed before the record was known to be durable: it may or may not be"
        future.set_exception(ClosedError(text, log=log, sequence_id=at.sequence_id, outcome="unknown"))
