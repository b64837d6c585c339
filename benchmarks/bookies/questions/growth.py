"""
Row 15. Does an entry cost the bookie more CPU where there are many connections, or many ledgers? The fitted exponent of
CPU an entry (the slope in log-log), entries of 128 bytes, 1024 adds under way.

Over connections the adds go round all of them in groups of 16, so that as many adds come at once at every point but the
first, where they are one connection's; as many ledgers between them at every point. Beside it one add at a time: with
10,000 connections each add costs a receive and a send of its own, with one connection it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from harness.ratio import exponent
from harness.result import Answer, Round, at_most

from bookies.bench import BookieBench
from bookies.questions.idle import raise_descriptor_limit

ROWS = (15,)
WHY: dict[int, str] = {}
SIZE = 128


def measure(bench: BookieBench) -> list[Answer]:
    most_connections, most_ledgers = (1000, 10_000) if bench.quick else (10_000, 100_000)
    raise_descriptor_limit(2 * most_connections + 8000)

    def powers(most: int) -> list[int]:
        return [10**power for power in range(len(str(most)))]

    def cell(**arguments: object) -> dict[str, Any]:
        with bench.cell():
            ours = bench.ours()
            return bench.adds(ours, size=SIZE, window=1024, warmup_ms=2 * bench.ms, **arguments)

    axes: dict[str, tuple[list[int], str, bool]] = {
        "connections, groups of 16": (powers(most_connections), "connections in groups of 16", True),
        "connections, one by one": ([1, most_connections], "connections, single adds", False),
        "ledgers": (powers(most_ledgers), "ledgers", True),
    }
    cells: dict[str, Callable[[], dict[str, Any]]] = {}
    for axis, (counts, _, _) in axes.items():
        for count in counts:
            given = {"connections": count, "ledgers": most_connections, "group": 16 if "groups" in axis else 1}
            cells[f"{axis} {count}"] = partial(cell, **({"ledgers": count} if axis == "ledgers" else given))
    rounds = bench.rounds(cells)

    def fitted(axis: str, of: Round) -> float:
        return exponent([(n, float(of.cells[f"{axis} {n}"]["server_ns_per_entry"])) for n in axes[axis][0]])

    answers = []
    for axis, (counts, name, judged) in axes.items():
        curve = {str(n): float(rounds[-1].cells[f"{axis} {n}"]["server_ns_per_entry"]) for n in counts}
        answers.append(
            bench.bound(
                15,
                f"CPU of the bookie an entry, 1 to {counts[-1]:,} {name}: fitted exponent",
                rounds,
                partial(fitted, axis),
                at_most(0.10, 0.05) if judged else None,
                unit="exponent",
                note=", ".join(f"{int(n):,}: {value:.0f} ns" for n, value in curve.items()),
                details={"curve_ns": curve},
            )
        )
    return answers
