"""
Rows 21 and 22. What does our client of ledgers cost over bare sockets, on three bookies?

Adds of 1 KiB to one ledger, E 3, Qw 3, Qa 2, closed loop. The bare loop is three bare servers (a socket, a CRC and a
durable write each) behind a bare client: one thread, one epoll, a socket for each server, a quorum that is counted and
nothing else. Ours is three bookies behind libwalkeeper's client, whose caller and driver are two threads. All of them
are on one machine and one disk: what is compared is software, and not what three machines would do.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from harness.ratio import Goal
from harness.result import Answer, at_least, at_most

from bookies.bench import BookieBench
from bookies.servers import Server

ROWS = (21, 22)
WHY: dict[int, str] = {
    22: (
        "With 1024 in flight the processors are the limit: three bookies, the driver and its caller share two. By "
        "their own accounts an entry costs our client 2.0 us of processor time and the bare client 1.2 us (in the "
        "kernel 1.1 and 0.7 us), and each bookie 1.5 us by protocol v3 and 1.1 us by v2, which the bare client "
        "speaks. Protocol v2 for adds, which the client does not speak yet, is what is left."
    )
}
WINDOWS = (1, 64, 1024)
OF_BARE: dict[int, Goal] = {1: at_least(0.6, 0.8), 64: at_least(0.5, 0.8), 1024: at_least(0.5, 0.8)}


def measure(bench: BookieBench) -> list[Answer]:
    bare: list[Server] = [bench.bare() for _ in range(3)]
    ours: list[Server] = [bench.grown(bench.ours()) for _ in range(3)]

    def cell(servers: list[Server], client: str, window: int) -> dict[str, Any]:
        bench.settled(*bare, *ours, at_most=3.0)
        return bench.cluster_adds(servers, client, window)

    cells = {}
    for window in WINDOWS:
        cells[f"bare {window}"] = partial(cell, bare, "bare", window)
        cells[f"ours {window}"] = partial(cell, ours, "ours", window)
        cells[f"bare client {window}"] = partial(cell, ours, "bare", window)
    rounds = bench.rounds(cells)
    us: dict[str, Any] = {"unit": "us", "scale": 1e-3}
    rate: dict[str, Any] = {"unit": "/s", "scale": 1}
    answers = [
        bench.compare(
            21, "one in flight, p50: ours / bare loop", rounds, "ours 1", "bare 1", "p50_ns", at_most(1.4, 1.2), **us
        ),
        bench.compare(
            21, "the same: ours / bare client on our bookies", rounds, "ours 1", "bare client 1", "p50_ns", None, **us
        ),
    ]
    for window in WINDOWS:
        answers.append(
            bench.compare(
                22,
                f"{window} in flight, entries a second: ours / bare loop",
                rounds,
                f"ours {window}",
                f"bare {window}",
                "entries_per_s",
                OF_BARE[window],
                **rate,
            )
        )
        answers.append(
            bench.compare(
                22,
                f"{window} in flight: ours / bare client on our bookies",
                rounds,
                f"ours {window}",
                f"bare client {window}",
                "entries_per_s",
                None,
                **rate,
            )
        )
    return answers
