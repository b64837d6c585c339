"""
Row 9. How long from the writer's ack of an entry to its arrival at a reader that follows by long polls (v3, with the
entry: piggy-back), beside a round trip over the loopback?

The writer has one add in flight and never pauses. An entry becomes readable when the next add tells the bookie that it
is acknowledged, so a whole add lies within what is judged. What is left after that add's ack stands beside it; it may
be below zero. The round trip is 64 bytes there and back between two threads of the client, before and after.
"""

from __future__ import annotations

from typing import Any

from harness.result import Answer, at_most

from bookies.bench import BookieBench
from bookies.servers import Server

ROWS = (9,)
WHY: dict[int, str] = {}


def measure(bench: BookieBench) -> list[Answer]:
    servers: dict[str, Server] = {"ours": bench.grown(bench.ours()), "Java tuned": bench.warmed(bench.java("tuned"))}

    def cell(name: str, version: int) -> dict[str, Any]:
        bench.settled(*servers.values(), at_most=3.0)
        return bench.native(
            "bookie_tail",
            bench.scratch,
            port=servers[name].port,
            version=version,
            ledger=bench.ledgers(),
            seconds=1 if bench.quick else 3,
        )

    cells = {
        "ours v2": lambda: cell("ours", 2),
        "ours v3": lambda: cell("ours", 3),
        "Java tuned v2": lambda: cell("Java tuned", 2),
    }
    if not bench.quick:
        for _ in range(2):  # the long polls have code of their own for the JVM to compile
            cells["Java tuned v2"]()
    rounds = bench.rounds(cells)
    us: dict[str, Any] = {"unit": "us", "scale": 1e-3}

    def of_round_trip(name: str, what: str, field: str, judged: bool = False) -> Answer:
        return bench.compare(
            9,
            f"{what}, {name} / loopback round trip",
            rounds,
            name,
            name,
            (field, "round_trip_p50_ns"),
            at_most(15, 8) if judged else None,
            **us,
            reference_name="round trip",
        )

    ack = "tail, from the entry's ack to the reader's return, p50"
    return [
        of_round_trip("ours v2", ack, "ack_to_return_p50_ns", judged=True),
        of_round_trip("ours v3", ack, "ack_to_return_p50_ns"),
        of_round_trip("Java tuned v2", ack, "ack_to_return_p50_ns"),
        of_round_trip("ours v2", "from the ack of the add that makes it readable, p50", "after_lac_p50_ns"),
        of_round_trip("ours v2", "from the entry's ack to the reader's return, p99", "ack_to_return_p99_ns"),
    ]
