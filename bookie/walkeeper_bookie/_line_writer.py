"""LineWriter: writes lines to a descriptor from a thread of its own, so that nobody waits for whoever reads them."""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["LineWriter"]

QUEUE_BYTES = 256 * 1024
URGENT_BYTES = 64 * 1024
"""Room beyond QUEUE_BYTES that only urgent lines take."""
RETRY_S = 5.0
"""How often it tries to say how many lines were dropped, after a write failed and while no line follows."""


class _Line(NamedTuple):
    data: bytes
    missing: int
    """How many lines were dropped before this one."""


class LineWriter:
    """`put` never waits: a line that finds QUEUE_BYTES queued is dropped and counted.

    As soon as lines can be written again, `note(count)` is written where the dropped lines are missing. A line that the
    descriptor refuses (the disk is full, the reader is gone) is dropped and counted as well. From any thread.
    """

    def __init__(self, descriptor: int, note: Callable[[int], str] | None = None, retry: float = RETRY_S) -> None:
        self._descriptor, self._note, self._retry = descriptor, note, retry
        self._changed = threading.Condition()  # of an RLock: a finalizer may log in the middle of `put`
        self._queue: deque[_Line] = deque()
        self._queued_bytes = 0
        self._missing = 0
        """Dropped lines that no note counts yet."""
        self._refused = False
        """The last write failed."""
        self._writing = self._torn = False
        self._thread: threading.Thread | None = None
        self.dropped = 0
        """Lines that were dropped so far."""

    def put(self, line: str, urgent: bool = False) -> None:
        """Queues a line, without its end."""
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        limit = QUEUE_BYTES + (URGENT_BYTES if urgent else 0)
        with self._changed:
            if self._queued_bytes + len(data) > limit or not self._has_thread():
                self._miss(1)
                return
            self._queue.append(_Line(data, self._missing))
            self._missing = 0
            self._queued_bytes += len(data)
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Waits at most so long until all that is queued was written or refused; whether it was."""
        until = time.monotonic() + seconds
        with self._changed:
            while not self._is_idle():
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def _is_idle(self) -> bool:
        """Nothing is queued or being written, and no note can be written now. The caller holds the lock."""
        return not self._queue and not self._writing and (self._missing == 0 or self._refused or self._note is None)

    def _has_thread(self) -> bool:
        """Starts the thread for the first line. False: the process is given none. The caller holds the lock."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="line writer", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return True

    def _miss(self, count: int) -> None:
        """The caller holds the lock."""
        self.dropped += count
        self._missing += count

    # ---- the thread ----

    def _run(self) -> None:
        while True:
            line = self._next()
            missing = line.missing
            if missing and self._note is not None and self._write(self._note(missing).encode() + b"\n"):
                missing = 0
            written = (missing == 0 or self._note is None) and self._write(line.data)
            with self._changed:
                self._writing, self._refused = False, not written
                if not written:
                    self._missing += missing
                    self._miss(1 if line.data else 0)
                self._changed.notify_all()

    def _next(self) -> _Line:
        """Waits for a line, or for the moment to say how many are missing: then a line without data."""
        with self._changed:
            while not self._queue:
                untold = self._missing > 0 and self._note is not None
                if untold and not self._refused:
                    break
                if not self._changed.wait(self._retry if untold else None):
                    self._refused = False
            line = self._queue.popleft() if self._queue else _Line(b"", self._missing)
            if not line.data:
                self._missing = 0
            self._queued_bytes -= len(line.data)
            self._writing = True
        return line

    def _write(self, data: bytes) -> bool:
        """False: the descriptor refuses it."""
        left = memoryview(b"\n" + data if self._torn and data else data)
        while left:
            try:
                written = os.write(self._descriptor, left)
            except BlockingIOError:  # noqa: PERF203 - another process made the pipe non-blocking
                poll = select.poll()
                poll.register(self._descriptor, select.POLLOUT)
                poll.poll()
            except OSError:
                return False
            else:
                self._torn = written < len(left)  # what follows a line of which only a part was written begins anew
                left = left[written:]
        return True
