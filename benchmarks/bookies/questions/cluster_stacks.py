"""
Row 29. Three bookies, each stack with its own client: libwalkeeper's on ours, BookKeeper's on Java's tuned bookies.
Adds of 1 KiB to one ledger, E 3, Qw 3, Qa 2, protocol v3, closed loop, all on one machine and one disk.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from harness.ratio import Goal
from harness.result import Answer, at_least

from bookies.bench import BookieBench
from bookies.servers import Server

ROWS = (29,)
WHY: dict[int, str] = {
    29: (
        "Three bookies of either kind share two processors and one disk with the client. One in flight is mostly three "
        "durable writes on one disk, which both stacks wait for alike. With more, our client is held by the processors "
        "(see row 22), and Java's by its own."
    )
}
WINDOWS = (1, 64, 1024)
OF_JAVA: dict[int, Goal] = {1: at_least(2, 2.5), 64: at_least(3.5, 5), 1024: at_least(5, 9)}


def measure(bench: BookieBench) -> list[Answer]:
    java: list[Server] = [bench.java("tuned") for _ in range(3)]
    ours: list[Server] = [bench.grown(bench.ours()) for _ in range(3)]
    client = bench.java_client(bench.zookeeper().uri)
    for window, seconds in ((64, 8), (1024, 8), (1, 4)):
        client.do("add", "v3", window, 500 if bench.quick else 1000 * seconds, 3, 3, 2)

    def by_java(window: int) -> dict[str, Any]:
        bench.settled(*java, *ours, at_most=3.0)
        return client.do("add", "v3", window, bench.ms, 3, 3, 2)

    def by_ours(window: int) -> dict[str, Any]:
        bench.settled(*java, *ours, at_most=3.0)
        return bench.cluster_adds(ours, "ours", window)

    cells = {}
    for window in WINDOWS:
        cells[f"ours {window}"] = partial(by_ours, window)
        cells[f"Java's {window}"] = partial(by_java, window)
    rounds = bench.rounds(cells)
    answers = []
    for window in WINDOWS:
        for what, fields, unit, scale, goal in (
            ("entries/s", ("entries_per_s", "entries_per_second"), "/s", 1.0, OF_JAVA[window]),
            ("p50", ("p50_ns", "p50_ns"), "us", 1e-3, None),
        ):
            answers.append(
                bench.compare(
                    29,
                    f"{what}, {window} in flight: our stack / Java's, tuned",
                    rounds,
                    f"ours {window}",
                    f"Java's {window}",
                    fields,
                    goal,
                    unit=unit,
                    scale=scale,
                )
            )
    return answers
