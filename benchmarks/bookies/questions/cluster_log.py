"""
Rows 23 to 28. What does a log on three bookies cost in Python, and what is noticed when a bookie or its writer is lost?

E 3, Qw 3, Qa 2, metadata in sqlite, everything on one machine and one disk. The bare loop is that of row 21. A follower
stands in a process of its own; its figure is the time from the return of the append to the arrival of the record there.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from harness.result import Answer, Round, at_least, at_most

from bookies.bench import BookieBench
from bookies.servers import Server
from walkeeper_bookie.cluster import LocalCluster

ROWS = (23, 24, 25, 26, 27, 28)
WHY: dict[int, str] = {
    23: (
        "Not profiled yet. The C client's p50 is 1.26 times the bare loop's (row 21); what Python adds is a call into "
        "C and a wake-up of the caller. The bookies of this question were just started, so that their journals still "
        "grow; those of row 21 had grown to their full size."
    )
}
MEGABYTES, MEGABYTES_QUICK = 256, 64


def measure(bench: BookieBench) -> list[Answer]:
    bare: list[Server] = [bench.bare() for _ in range(3)]
    megabytes = MEGABYTES_QUICK if bench.quick else MEGABYTES

    @contextmanager
    def cluster() -> Iterator[tuple[Path, list[int]]]:
        """The URI of one that was just started, and its processes."""
        with bench.directory() as place, LocalCluster(place / "cluster", 3) as made:
            made.start()
            yield Path(made.metadata), [one.process.pid for one in made.bookies if one.process is not None]

    def native(servers: list[Server], client: str, window: int) -> dict[str, Any]:
        bench.settled(*servers, at_most=3.0)
        return bench.cluster_adds(servers, client, window)

    def appends(mode: str, stopped: bool = False) -> dict[str, Any]:
        with cluster() as (uri, processes):
            if stopped:
                os.kill(processes[1], signal.SIGSTOP)
            return bench.python("append_walkeeper", uri, mode=mode, seconds=bench.seconds, trim=0)

    def at(mode: str, **arguments: object) -> dict[str, Any]:
        with cluster() as (uri, processes):
            return bench.python("cluster_log", uri, mode=mode, bookie=processes[1], seconds=bench.seconds, **arguments)

    ours: list[Server] = [bench.grown(bench.ours()) for _ in range(3)]
    rounds = bench.rounds(
        {
            "bare loop": partial(native, bare, "bare", 1),
            "C": partial(native, ours, "ours", 1024),
            "Python": partial(appends, "lone"),
            "asyncio": partial(appends, "asyncio"),
            "append_many": partial(appends, "many"),
            "one stopped": partial(appends, "lone", True),
            "kill -9": partial(at, "pause", signal="KILL"),
            "SIGSTOP": partial(at, "pause", signal="STOP"),
            "arrow": partial(at, "arrow", megabytes=megabytes),
            "arrow, directory": lambda: bench.python("cluster_log", mode="arrow", megabytes=megabytes),
            "tail": partial(at, "tail"),
            "takeover": partial(at, "takeover"),
        }
    )
    us: dict[str, Any] = {"unit": "us", "scale": 1e-3}

    def value(cell: str, field: str, scale: float) -> Any:
        def of(each: Round) -> float:
            return float(each.cells[cell][field]) * scale

        return of

    return [
        bench.compare(
            23,
            "one in flight, p50: blocking Python / bare loop",
            rounds,
            "Python",
            "bare loop",
            "p50_ns",
            at_most(1.6, 1.3),
            **us,
        ),
        bench.compare(
            23,
            "one in flight, p50: asyncio / bare loop",
            rounds,
            "asyncio",
            "bare loop",
            "p50_ns",
            at_most(2.2, 1.6),
            **us,
        ),
        bench.compare(
            24,
            "p50 with one of three bookies stopped / all well",
            rounds,
            "one stopped",
            "Python",
            "p50_ns",
            at_most(1.5, 1.1),
            **us,
        ),
        bench.bound(
            24,
            "longest append at kill -9 of a bookie",
            rounds,
            value("kill -9", "longest_ns", 1e-6),
            at_most(200, 50),
            unit="ms",
        ),
        bench.bound(
            24,
            "longest append at SIGSTOP of a bookie",
            rounds,
            value("SIGSTOP", "longest_ns", 1e-6),
            at_most(5100, 50),
            unit="ms",
        ),
        bench.compare(
            25,
            "records/s: append_many of 1,024 in Python / C client, 1024 in flight",
            rounds,
            "append_many",
            "C",
            ("rate", "entries_per_s"),
            at_least(0.4, 0.7),
            unit="/s",
        ),
        bench.compare(
            26,
            "read_arrow: of a log on the cluster / of one in a directory",
            rounds,
            "arrow",
            "arrow, directory",
            "mb_per_s",
            at_least(0.5, 0.8),
            unit="MB/s",
        ),
        bench.bound(
            27,
            "tail: from the append's return to the follower's, p50",
            rounds,
            value("tail", "p50_ns", 1e-3),
            None,
            unit="us",
        ),
        bench.bound(
            28,
            "writer killed behind 1,000 records, one bookie down: from open to the first append",
            rounds,
            value("takeover", "seconds", 1.0),
            at_most(1, 0.2),
            unit="s",
        ),
    ]
