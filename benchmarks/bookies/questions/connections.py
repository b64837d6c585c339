"""
Row 6. Do many connections and ledgers cost what one of each does? 64 connections with 16 adds under way each, 1,000
ledgers between them, beside one connection and one ledger with 1024 under way.
"""

from __future__ import annotations

from typing import Any

from harness.result import Answer, at_least

from bookies.bench import BookieBench

ROWS = (6,)
WHY: dict[int, str] = {}


def measure(bench: BookieBench) -> list[Answer]:
    ours = bench.grown(bench.ours())

    def cell(connections: int, ledgers: int) -> dict[str, Any]:
        bench.settled(ours, at_most=3.0)
        return bench.adds(ours, connections=connections, ledgers=ledgers, window=1024)

    rounds = bench.rounds({"many": lambda: cell(64, 1000), "one": lambda: cell(1, 1), "ledgers": lambda: cell(1, 1000)})
    rate: dict[str, Any] = {"unit": "k entries/s", "scale": 1e-3}
    field = "entries_per_second"
    many = "64 connections x 16, 1,000 ledgers / one connection x 1024"
    return [
        bench.compare(6, f"entries/s: {many}", rounds, "many", "one", field, at_least(0.7, 0.9), **rate),
        bench.compare(6, "entries/s: one connection, 1,000 ledgers / 1", rounds, "ledgers", "one", field, None, **rate),
        bench.compare(
            6,
            f"CPU of the bookie an entry: {many}",
            rounds,
            "many",
            "one",
            "server_ns_per_entry",
            None,
            unit="us",
            scale=1e-3,
        ),
    ]
