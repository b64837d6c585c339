"""Worker: a thread that does one thing now and then, until it is told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

__all__ = ["Worker"]


class Worker:
    """Calls `work` every `interval()` seconds, first after one interval, and sooner when woken.

    What `work` raises goes to `failed`, once: the thread has ended then, and the process must not live on without it.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], object],
        interval: Callable[[], float],
        failed: Callable[[str, BaseException], None],
    ) -> None:
        self._work, self._interval, self._failed = work, interval, failed
        self._told = threading.Event()
        self._asked = self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """It works soon, once."""
        self._asked = True
        self._told.set()

    def look_at_interval(self) -> None:
        """The interval may be another one: it works when that one has passed since it last did, and not sooner."""
        self._told.set()

    def stop(self) -> None:
        """It begins nothing more; `join` waits for what it has begun."""
        self._stopping = True
        self._told.set()

    def join(self, timeout: float) -> bool:
        """Whether it ended in time."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        since = time.monotonic()
        while True:
            self._told.wait(max(0.0, since + self._interval() - time.monotonic()))
            self._told.clear()
            if self._stopping:
                return
            if not self._asked and time.monotonic() < since + self._interval():
                continue
            self._asked = False
            try:
                self._work()
            except BaseException as error:
                self._failed(self._thread.name, error)
                return
            since = time.monotonic()
