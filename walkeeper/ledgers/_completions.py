"""Completions: the futures of submitted entries, and the one thread of a client that completes them.

The thread starts with the first submit. While futures wait, it waits in C, without the GIL, for a change of any handle;
then it completes everything up to each handle's LAC at one go. It is a daemon: it never keeps a process alive.

An entry is accepted, and its future noted, under one lock, which the thread takes before it looks at the handles. So no
entry is confirmed behind its back.
"""

from __future__ import annotations

import heapq
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from walkeeper._native import ffi, lib
from walkeeper._options import FOREVER, time_left
from walkeeper.errors import ClosedError, Error, TimeoutError, new_error
from walkeeper.ledgers._errors import explain, failure
from walkeeper.ledgers._native_handles import NativeClient, NativeHandle

__all__ = ["Completions"]

_WAIT_NS = 100_000_000
"""How long the thread stays in C at most, so that it notices that the client is closed."""


class Completions:
    """The futures of one client."""

    def __init__(self, client: NativeClient) -> None:
        self._client = client
        self._pending: dict[NativeHandle, list[tuple[int, Future[int]]]] = {}
        """Of each handle a heap by entry id."""
        self._closing: set[NativeHandle] = set()
        """Handles whose futures above the LAC are left to `settle`, which will know what became of them."""
        self._lock = threading.RLock()
        """C's, and not the condition around it: a signal handler that raises finds no moment to leave it locked."""
        self._changed = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._telling = False
        """Whether the thread is completing futures that are no longer in `_pending`."""
        self._stopping = False

    def submit(self, handle: NativeHandle, data: Any, timeout_ns: int) -> tuple[int, Future[int]]:
        """Accepts an entry, waiting for room: its id, and the future that is done, with the id, when it is confirmed.

        Raises where it was not accepted; WouldBlockError where there is no room and `timeout_ns` is 0.
        """
        entry_id, error, turn = ffi.new("int64_t *", -1), new_error(), ffi.new("uint32_t *")
        started = time.monotonic_ns()
        try:
            with handle:  # in a forked child the lock may be held, for ever, by a thread that is not there
                pass
            while True:
                with self._lock:
                    with handle as native:
                        status = lib.wk_handle_submit(native, data, len(data), 0, entry_id, error)
                    if status == lib.WK_OK:
                        return int(entry_id[0]), self._watch(handle, int(entry_id[0]))
                left = time_left(started, timeout_ns)
                if status != lib.WK_WOULD_BLOCK or timeout_ns == 0:
                    raise failure(status, error, handle.ledger_id, outcome="not_written")
                if left == 0:
                    text = f"there was no room for another entry of ledger {handle.ledger_id} in the time given"
                    raise TimeoutError(text, ledger_id=handle.ledger_id, outcome="not_written")
                with self._client as client:
                    lib.wk_client_wait(client, turn, left)  # what it answers, the next try finds out as well
        except BaseException as stop:
            explain(stop, handle.ledger_id, int(entry_id[0]))
            raise

    def leave(self, handle: NativeHandle) -> None:
        """Until `settle`, no future of the handle fails: its writer closes the ledger, and will know more."""
        with self._lock:
            self._closing.add(handle)

    def settle(self, handle: NativeHandle, last_entry: int, rest: Error, timeout_ns: int = FOREVER) -> None:
        """The LAC of the handle is final: its futures up to it are done, the others fail with `rest`.

        When this returns, all of them are done, unless a callback keeps the thread for longer than `timeout_ns`. In the
        thread itself, which a future's callback is in, there is nobody to wait for.
        """
        with self._lock:
            self._closing.discard(handle)
            waiting = sorted(self._pending.pop(handle, ()), key=lambda item: item[0])
            self._wait_for_the_thread(timeout_ns)
        for entry_id, future in waiting:
            if entry_id <= last_entry:
                _tell(future.set_result, entry_id)
            else:
                _tell(future.set_exception, _copy(rest, entry_id))

    def stop(self, timeout_ns: int) -> None:
        """After the client was stopped: what still waits is of unknown outcome. Waits for the end of the thread, as
        `settle` does."""
        with self._lock:
            self._stopping = True
            self._changed.notify_all()
            self._wait_for_the_thread(timeout_ns)
            handles = tuple(self._pending)
        for handle in handles:
            text = "the client was closed before the entry was known to be confirmed: it may or may not be written"
            rest = ClosedError(text, ledger_id=handle.ledger_id, outcome="unknown")
            self.settle(handle, handle.state().lac, rest, timeout_ns)

    def _watch(self, handle: NativeHandle, entry_id: int) -> Future[int]:
        future: Future[int] = Future()
        future.set_running_or_notify_cancel()
        heapq.heappush(self._pending.setdefault(handle, []), (entry_id, future))
        self._changed.notify_all()
        if self._thread is None:  # known once it runs: a signal handler that closes waits for it
            thread = threading.Thread(target=self._run, name="walkeeper-ledger-completions", daemon=True)
            thread.start()
            self._thread = thread
        return future

    def _wait_for_the_thread(self, timeout_ns: int) -> None:
        """Until it tells nobody of anything; with the lock."""
        if self._thread is not threading.current_thread():
            seconds = None if timeout_ns == FOREVER else min(timeout_ns / 1e9, threading.TIMEOUT_MAX)
            self._changed.wait_for(lambda: not self._telling, seconds)

    # ---- the thread ----

    def _run(self) -> None:
        turn = ffi.new("uint32_t *")
        while True:
            with self._lock:
                self._changed.wait_for(lambda: self._pending or self._stopping)
                if self._stopping:
                    return
            try:
                with self._client as native:
                    status = lib.wk_client_wait(native, turn, _WAIT_NS)
            except ClosedError:
                status = lib.WK_CLOSED
            self._look()
            if status == lib.WK_CLOSED:
                return

    def _look(self) -> None:
        """Completes what is confirmed by now, and what cannot be confirmed any more because its writer has failed."""
        confirmed: list[tuple[int, Future[int]]] = []
        failed: list[tuple[NativeHandle, list[tuple[int, Future[int]]]]] = []
        with self._lock:
            for handle, waiting in tuple(self._pending.items()):
                state = handle.state()
                while waiting and waiting[0][0] <= state.lac:
                    confirmed.append(heapq.heappop(waiting))
                if waiting and state.status != lib.WK_OK and handle not in self._closing:
                    failed.append((handle, sorted(waiting, key=lambda item: item[0])))
                    waiting = []
                if not waiting:
                    del self._pending[handle]
            self._telling = True
        try:
            for entry_id, future in confirmed:
                _tell(future.set_result, entry_id)
            for handle, waiting in failed:
                for entry_id, future in waiting:
                    _tell(self._tell_of_failure, handle, entry_id, future)
        finally:
            with self._lock:
                self._telling = False
                self._changed.notify_all()

    def _tell_of_failure(self, handle: NativeHandle, entry_id: int, future: Future[int]) -> None:
        error = new_error()
        try:
            with handle as native:
                status = lib.wk_handle_wait(native, entry_id, 0, error)
        except ClosedError:  # its writer was closed meanwhile
            status = lib.WK_OK if entry_id <= handle.state().lac else lib.WK_CLOSED
        if status == lib.WK_OK:
            future.set_result(entry_id)
        else:
            future.set_exception(failure(status, error, handle.ledger_id, outcome="unknown", entry_id=entry_id))


def _tell(set_it: Callable[..., None], *what: Any) -> None:
    """Completes a future. It catches an Exception of its callbacks, which SystemExit is not: others come behind."""
    try:
        set_it(*what)
    except BaseException:
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


def _copy(rest: Error, entry_id: int) -> Error:
    """An exception of its own for each future: they are raised, and get tracebacks."""
    made = type(rest)(str(rest), ledger_id=rest.ledger_id, entry_id=entry_id, hint=rest.hint)
    made.outcome = rest.outcome
    return made
