"""
Row 16. Each stack with its own client: BookKeeper's client on Java's bookie and on ours, v3 (its default) and v2, and
our load generator on ours. Adds of 1 KiB to one ledger, E = Qw = Qa = 1, and batch reads of what was just written.
Java's client can be the limit of these figures: nothing is promised of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from harness.result import Answer

from bookies.bench import BookieBench
from bookies.java import JavaClient

ROWS = (16,)
WHY: dict[int, str] = {}
WINDOWS = (1, 64, 1024)


def measure(bench: BookieBench) -> list[Answer]:
    zookeeper = bench.zookeeper()
    java = bench.java("tuned")
    metadata = zookeeper.uri_of("stacks")
    ours = bench.grown(bench.ours(metadata=metadata))
    clients = {
        "Java's client on Java's bookie": bench.java_client(zookeeper.uri),
        "Java's client on ours": bench.java_client(metadata),
    }
    for client in clients.values():
        for version in ("v2", "v3"):
            for window in (64, 1024):
                client.do("add", version, window, 500 if bench.quick else 4000)

    def cell(client: JavaClient, version: str, window: int) -> dict[str, Any]:
        bench.settled(ours, java, at_most=3.0)
        return client.do("add", version, window, bench.ms)

    def read(client: JavaClient) -> dict[str, Any]:
        client.do("add", "v2", 1024, bench.ms // 2)
        bench.settled(ours, java, at_most=3.0)
        return client.do("read", "v2", 100)

    def by_ours(window: int) -> dict[str, Any]:
        bench.settled(ours, java, at_most=3.0)
        return bench.adds(ours, window=window)

    cells = {
        f"{name} {version} {window}": partial(cell, client, version, window)
        for name, client in clients.items()
        for version in ("v3", "v2")
        for window in WINDOWS
    }
    for window in WINDOWS:
        cells[f"our client on ours v2 {window}"] = partial(by_ours, window)
    for name, client in clients.items():
        cells[f"{name} read"] = partial(read, client)
    rounds = bench.rounds(cells)
    answers = []
    for window in WINDOWS:
        for left in (
            f"Java's client on ours v3 {window}",
            f"Java's client on ours v2 {window}",
            f"our client on ours v2 {window}",
        ):
            right = f"Java's client on Java's bookie {left.split()[-2]} {window}"
            for field, unit, scale in (("entries_per_second", "k entries/s", 1e-3), ("p50_ns", "us", 1e-3)):
                answers.append(
                    bench.compare(
                        16,
                        f"{'entries/s' if field != 'p50_ns' else 'p50'}, {window} in flight: "
                        f"{left.rpartition(' ')[0]} / Java's on Java's",
                        rounds,
                        left,
                        right,
                        field,
                        None,
                        unit=unit,
                        scale=scale,
                    )
                )
    mine, theirs = (f"{name} read" for name in reversed(clients))
    answers.append(
        bench.compare(
            16,
            "batch reads of 100, one after the other, entries/s: Java's client on ours / Java's on Java's",
            rounds,
            mine,
            theirs,
            "entries_per_second",
            None,
            unit="k entries/s",
            scale=1e-3,
        )
    )
    return answers
