"""The thread that does one thing now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bookie_runs import until

from walkeeper_bookie._worker import Worker

HOUR_S = 3600.0


class Work:
    """Counts; its interval may be set while it runs."""

    def __init__(self, interval: float) -> None:
        self.interval, self.done = interval, 0
        self.asked = threading.Event()
        self.failures: list[tuple[str, BaseException]] = []

    def __call__(self) -> None:
        self.done += 1

    def how_long(self) -> float:
        self.asked.set()
        return self.interval


@contextmanager
def worker_of(work: Work) -> Iterator[Worker]:
    worker = Worker("test", work, work.how_long, lambda name, error: work.failures.append((name, error)))
    try:
        yield worker
    finally:
        worker.stop()
        assert worker.join(60)
        assert work.failures == []


def test_it_works_once_when_it_is_woken() -> None:
    work = Work(HOUR_S)
    with worker_of(work) as worker:
        worker.wake()
        until(lambda: work.done, "it works")
        time.sleep(0.05)
        assert work.done == 1


def test_to_look_at_the_interval_is_no_reason_to_work() -> None:
    work = Work(HOUR_S)
    with worker_of(work) as worker:
        for _ in range(3):
            work.asked.clear()
            worker.look_at_interval()
            assert work.asked.wait(60)
            time.sleep(0.05)
        assert work.done == 0


def test_a_shorter_interval_counts_at_once() -> None:
    work = Work(HOUR_S)
    with worker_of(work) as worker:
        work.interval = 0.01
        worker.look_at_interval()
        until(lambda: work.done >= 3, "it works again and again")
