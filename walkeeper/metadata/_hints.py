"""Hints: calls of callbacks on one thread, which starts with the first call and sleeps while there is none."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from walkeeper.metadata._log import log


class Hint:
    """A callback that somebody registered: a Watch. `close`: no call begins any more."""

    def __init__(self, hints: Hints, callback: Callable[..., None], forget: Callable[[Hint], None]) -> None:
        self.closed = False
        self.hints = hints
        self._callback = callback
        self._forget = forget
        self._waits = False  # a call is in the queue: another change before it begins needs no call of its own

    def post(self, *arguments: Any) -> None:
        """Has it called soon. Calls without arguments that wait together are one."""
        self.hints.put(self, arguments)

    def close(self) -> None:
        """No call begins any more; one that has begun is not waited for. From any thread, also from the callback."""
        if not self.closed:
            self.closed = True
            self._forget(self)

    # What follows is called by Hints, under its lock.

    def wait(self, arguments: tuple[Any, ...]) -> bool:
        """Whether it must be put into the queue."""
        if self.closed or (self._waits and not arguments):
            return False
        self._waits = True
        return True

    def begin(self) -> Callable[..., None] | None:
        """What is to be called now, if anything."""
        self._waits = False
        return None if self.closed else self._callback


class Hints:
    """The queue of calls of one store, and its thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._queue: deque[tuple[Hint, tuple[Any, ...]]] = deque()
        self._thread: threading.Thread | None = None
        self._closed = False

    def hint(self, callback: Callable[..., None], forget: Callable[[Hint], None]) -> Hint:
        """A new registration; `forget` is called once, when it is closed."""
        return Hint(self, callback, forget)

    def put(self, hint: Hint, arguments: tuple[Any, ...]) -> None:
        with self._changed:
            if self._closed or not hint.wait(arguments):
                return
            self._queue.append((hint, arguments))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """No call begins any more. Does not wait for one that has begun: it may wait for who closes."""
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if self._closed:
                    return
                hint, arguments = self._queue.popleft()
                callback = hint.begin()
            if callback is not None:
                try:
                    callback(*arguments)
                except Exception:
                    log.exception("a callback of a metadata store failed")
            del hint, arguments, callback  # nothing of it is held while the thread sleeps
