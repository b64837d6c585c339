"""
Row 15. Does an entry cost the bookie more CPU where there are many connections, or many ledgers? The fitted exponent of
CPU an entry (the slope in log-log), entries of 128 bytes, 1024 adds under way.

Over connections the adds go round all of them in groups of 16, so that as many adds come at once at every point but the
first, where they are one connection's; as many ledgers between them at every point. Beside it one add at a time, which
is not judged: with 10,000 connections each add costs a receive and a send of its own, with one connection 1,024 come in
one receive. The bare loop's single adds, where they were measured, are the floor of that: a receive and a send an add
are what any server pays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from harness.ratio import exponent
from harness.result import Answer, Round, at_most

from bookies.bench import BookieBench
from bookies.questions.idle import raise_descriptor_limit
from bookies.servers import Server

ROWS = (15,)
WHY: dict[int, str] = {
    15: """Over connections, groups of 16 are judged and single adds are not. The question is what a connection costs a
bookie that has many others, and single adds ask something else at the two ends of their curve: with one connection the
1,024 that are under way come in one receive, and their answers go in one send; with 10,000 each add is a receive and a
send of its own, calls of the kernel, and an entry cannot cost less than those. With groups of 16 they are shared by as
many adds at every point from 10 connections on. How much of the single adds' curve is the kernel's, the bare loop says
where it was measured: it does nothing but receive, sum, write and send."""
}
SIZE = 128


def measure(bench: BookieBench) -> list[Answer]:
    most_connections, most_ledgers = (1000, 10_000) if bench.quick else (10_000, 100_000)
    raise_descriptor_limit(2 * most_connections + 8000)

    def powers(most: int) -> list[int]:
        return [10**power for power in range(len(str(most)))]

    def cell(server: Callable[[], Server], **arguments: object) -> dict[str, Any]:
        with bench.cell():
            return bench.adds(server(), size=SIZE, window=1024, warmup_ms=2 * bench.ms, **arguments)

    axes: dict[str, tuple[list[int], str, bool]] = {
        "connections, groups of 16": (powers(most_connections), "connections in groups of 16", True),
        "connections, one by one": ([1, most_connections], "connections, single adds", False),
        "bare, connections, one by one": ([1, most_connections], "connections, single adds", False),
        "ledgers": (powers(most_ledgers), "ledgers", True),
    }
    cells: dict[str, Callable[[], dict[str, Any]]] = {}
    for axis, (counts, _, _) in axes.items():
        for count in counts:
            given = {"connections": count, "ledgers": most_connections, "group": 16 if "groups" in axis else 1}
            server = bench.bare if axis.startswith("bare") else bench.ours
            cells[f"{axis} {count}"] = partial(cell, server, **({"ledgers": count} if axis == "ledgers" else given))
    rounds = bench.rounds(cells)

    def fitted(axis: str, of: Round) -> float:
        return exponent([(n, float(of.cells[f"{axis} {n}"]["server_ns_per_entry"])) for n in axes[axis][0]])

    answers = []
    for axis, (counts, name, judged) in axes.items():
        curve = {str(n): float(rounds[-1].cells[f"{axis} {n}"]["server_ns_per_entry"]) for n in counts}
        answers.append(
            bench.bound(
                15,
                f"CPU of the {'bare loop' if axis.startswith('bare') else 'bookie'} an entry, "
                f"1 to {counts[-1]:,} {name}: fitted exponent",
                rounds,
                partial(fitted, axis),
                at_most(0.10, 0.05) if judged else None,
                unit="exponent",
                note=", ".join(f"{int(n):,}: {value:.0f} ns" for n, value in curve.items()),
                details={"curve_ns": curve},
            )
        )
    answers.append(
        bench.compare(
            15,
            f"CPU of the server an entry, {most_connections:,} connections, single adds: ours / bare loop",
            rounds,
            f"connections, one by one {most_connections}",
            f"bare, connections, one by one {most_connections}",
            "server_ns_per_entry",
            None,
            unit="us",
            scale=1e-3,
        )
    )
    return answers
