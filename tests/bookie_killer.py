"""Killer: kills one of some bookies every few seconds, and starts it again."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from walkeeper_bookie.cluster import BookieProcess, LocalCluster

__all__ = ["Killer"]

IDLE_S = 1.0
"""Behind the last test that used the bookies; then they are left alone."""
READY_S = 60.0


class Killer:
    """One bookie is down at a time, and all are up in between, as long as tests use them."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._ends = threading.Event()
        self._users, self._last_use = 0, time.monotonic()
        self.kills = 0
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @contextmanager
    def used(self) -> Iterator[None]:
        """By one test. Raises where a bookie did not come up again."""
        self.check()
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._last_use = time.monotonic()
        self.check()

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()
        self.check()

    def _run(self) -> None:
        source = random.Random()
        try:
            while not self._ends.wait(source.uniform(0.1, 1.5)):
                if self._users or time.monotonic() < self._last_use + IDLE_S:
                    self._kill(source.choice(self._cluster.bookies), source.uniform(0.05, 1))
        except BaseException as failure:
            self._failure = failure

    def _kill(self, bookie: BookieProcess, seconds: float) -> None:
        assert bookie.process is not None
        assert bookie.exit_status is None, bookie.last_words
        bookie.process.kill()
        bookie.process.wait()
        self._ends.wait(seconds)
        self._cluster.launch_one(bookie)
        until = time.monotonic() + READY_S
        while not bookie.ready:
            assert not bookie.died, bookie.last_words
            assert time.monotonic() < until, bookie.last_words
            time.sleep(0.02)
        self.kills += 1
