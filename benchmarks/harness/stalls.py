"""
When the machine took its processors away.

A virtual machine's host stops it for milliseconds at a time, all the more where it uses much of what it may have. A
process on each CPU, with real-time priority, sleeps for a millisecond again and again: what it oversleeps, no other
process here took from it.
"""

from __future__ import annotations

import bisect
import contextlib
import multiprocessing
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection

STALL_NS = 2_000_000
"""Longer than that, it is a stall: a real-time process is otherwise there within a tenth of it."""
SLEEP_NS = 1_000_000

FORK = multiprocessing.get_context("fork")

Span = tuple[int, int]
"""From, to; ns of the monotonic clock."""


@dataclass
class Stalls:
    spans: list[Span]
    """In order, none touches another."""
    known: bool = True
    """False: nobody could watch, for it takes a privilege."""

    def clear(self, spans: Iterable[Span]) -> list[Span]:
        """Those during which no CPU was away."""
        return [span for span in spans if not self.overlap(*span)]

    def overlap(self, began: int, ended: int) -> bool:
        at = bisect.bisect_left(self.spans, (ended,)) - 1
        return at >= 0 and self.spans[at][1] > began

    def share(self, began: int, ended: int) -> float:
        """Of a time, how much of it at least one CPU was away."""
        away = sum(max(0, min(to, ended) - max(since, began)) for since, to in self.spans)
        return away / (ended - began)


def p99(spans: Iterable[Span]) -> float:
    """How long the slowest hundredth took at least, in ns; nan for none at all."""
    took = sorted(ended - began for began, ended in spans)
    return took[int(len(took) * 0.99)] if took else float("nan")


def union(spans: Iterable[Span]) -> list[Span]:
    joined: list[Span] = []
    for since, to in sorted(spans):
        if joined and since <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], to))
        else:
            joined.append((since, to))
    return joined


def _watch(cpu: int, end: Connection) -> None:
    found: list[Span] = []
    try:
        os.sched_setaffinity(0, {cpu})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    except OSError:
        end.send(False)
        return
    end.send(True)
    while not end.poll():
        before = time.monotonic_ns()
        time.sleep(SLEEP_NS / 1e9)
        after = time.monotonic_ns()
        if after - before - SLEEP_NS > STALL_NS:
            found.append((before + SLEEP_NS, after))
    end.send(found)


@contextlib.contextmanager
def watched() -> Iterator[Stalls]:
    """What is found stands in it once the block is left."""
    result = Stalls([])
    watchers = []
    for cpu in sorted(os.sched_getaffinity(0)):
        mine, its = FORK.Pipe()
        process = FORK.Process(target=_watch, args=(cpu, its), daemon=True)
        process.start()
        its.close()
        result.known = mine.recv() and result.known
        watchers.append((process, mine))
    try:
        yield result
    finally:
        found: list[Span] = []
        for process, mine in watchers:
            with contextlib.suppress(OSError, EOFError):
                mine.send(None)
                found += mine.recv()
            process.join()
        result.spans = union(found)
