"""
Row 12. What user-space memory does an idle connection take, and an idle ledger: the slopes of the bookie's resident
memory from 1,000 to 10,000 connections, each of which asked for something once, and from 1,000 to 100,000 ledgers with
one entry of 100 bytes each.

The memory of recent entries and of index pages has limits of its own, which are set to 1 MiB and filled first. The
kernel's sockets are not in it.
"""

from __future__ import annotations

import resource
from typing import Any

from harness.result import Answer, Round, at_most

from bookies.bench import BookieBench
from bookies.process import resident_bytes
from bookies.servers import Child, Ours

ROWS = (12,)
WHY: dict[int, str] = {}
LIMITS = ("--memtable", "1MiB", "--cache", "1MiB")


def raise_descriptor_limit(wanted: int) -> int:
    """Of this process and those it starts; what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), max(hard, wanted)))
    except (OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, wanted), hard), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def own_count(ours: Ours) -> float:
    """Bytes that the bookie itself counts for ledgers: the engine's, and the server's."""
    uses = ('walkeeper_engine_memory_bytes{use="index"}', 'walkeeper_memory_bytes{use="ledgers"}')
    return sum(ours.metric(name) for name in uses)


def measure(bench: BookieBench) -> list[Answer]:
    few, many = (100, 1000) if bench.quick else (1000, 10_000)
    few_ledgers, many_ledgers = (1000, 10_000) if bench.quick else (1000, 100_000)
    limit = raise_descriptor_limit(2 * many + 8000)
    many = min(many, limit - 4000)

    def started() -> Ours:
        ours = bench.ours(*LIMITS)
        bench.filled(ours, 20_000)  # its buffers are made, its limits reached
        bench.settled(ours)
        return ours

    def held(ours: Ours, count: int) -> None:
        command = [str(bench.driver("bookie_idle")), "--port", str(ours.port), "--connections", str(count)]
        child = Child(ours.place, command, f"idle-{count}")
        bench.kept(child)
        child.line()

    def connections() -> dict[str, Any]:
        with bench.cell():
            ours = started()
            held(ours, few)
            before = resident_bytes(ours.pid)
            held(ours, many - few)
            return {"slope": (resident_bytes(ours.pid) - before) / (many - few)}

    def ledgers() -> dict[str, Any]:
        with bench.cell():
            ours = started()
            bench.adds(ours, ledgers=few_ledgers, entries=few_ledgers, window=1024, size=100)
            bench.settled(ours)
            before, counted = resident_bytes(ours.pid), own_count(ours)
            bench.adds(
                ours, ledgers=many_ledgers - few_ledgers, entries=many_ledgers - few_ledgers, window=1024, size=100
            )
            bench.settled(ours, at_most=30.0)
            made = many_ledgers - few_ledgers
            return {
                "slope": (resident_bytes(ours.pid) - before) / made,
                "counted": (own_count(ours) - counted) / made,
            }

    rounds = bench.rounds({"connections": connections, "ledgers": ledgers}, timed=False)

    def slope(name: str, of: Round, field: str = "slope") -> float:
        return float(of.cells[name][field])

    return [
        bench.bound(
            12,
            f"memory of an idle connection, slope {few:,} to {many:,}",
            rounds,
            lambda each: slope("connections", each),
            at_most(4096, 1024),
            unit="B",
        ),
        bench.bound(
            12,
            f"memory of an idle ledger, slope {few_ledgers:,} to {many_ledgers:,}",
            rounds,
            lambda each: slope("ledgers", each),
            at_most(512, 128),
            unit="B",
        ),
        bench.bound(
            12,
            "the same, the bookie's own count",
            rounds,
            lambda each: slope("ledgers", each, "counted"),
            None,
            unit="B",
        ),
    ]
