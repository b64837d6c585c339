"""
Row 7, warm. Batch reads over v2 of what was just written, 100 entries of 1 KiB a request, four requests under way, the
same client for both: 32 MiB, which both bookies have in memory. A ledger of half a gigabyte that was just written is
beside it: Java has it in the kernel's page cache, ours reads past that, from the disk. Single reads too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from harness.bench import MIB
from harness.result import Answer, at_least

from bookies.bench import BookieBench
from bookies.servers import Server

ROWS = (7,)
WHY: dict[int, str] = {}
WARM = 32 * MIB // 1100
BATCH, UNDER_WAY = 100, 4


def measure(bench: BookieBench) -> list[Answer]:
    servers: dict[str, Server] = {"ours": bench.ours(), "Java tuned": bench.warmed(bench.java("tuned"))}
    large = (64 if bench.quick else 512) * MIB // 1100
    ledgers = {
        (name, entries): bench.filled(server, entries) for entries in (large, WARM) for name, server in servers.items()
    }
    for (name, entries), ledger in ledgers.items():
        bench.reads(servers[name], first_ledger=ledger, entries=entries, batch=BATCH, window=UNDER_WAY, passes=1)

    def cell(name: str, entries: int, **arguments: object) -> dict[str, Any]:
        bench.settled(*servers.values(), at_most=3.0)
        return bench.reads(servers[name], first_ledger=ledgers[name, entries], entries=entries, **arguments)

    cells: dict[str, Callable[[], dict[str, Any]]] = {}
    for name in servers:
        cells[f"{name} warm"] = partial(cell, name, WARM, batch=BATCH, window=UNDER_WAY)
        cells[f"{name} large"] = partial(cell, name, large, batch=BATCH, window=UNDER_WAY)
        cells[f"{name} single v2"] = partial(cell, name, WARM, window=64)
        cells[f"{name} single v3"] = partial(cell, name, WARM, window=64, version=3, order="random")
    if not bench.quick:  # the reads have code of their own for the JVM to compile
        for name, run in cells.items():
            if name.startswith("Java"):
                run()
    rounds = bench.rounds(cells)
    rate: dict[str, Any] = {"unit": "k entries/s", "scale": 1e-3}
    return [
        bench.compare(
            7,
            f"{what}: ours / Java tuned",
            rounds,
            f"ours {name}",
            f"Java tuned {name}",
            field,
            goal,
            **(rate if field == "entries_per_second" else {"unit": "us", "scale": 1e-3}),
        )
        for what, name, field, goal in (
            ("batch reads, warm, entries/s", "warm", "entries_per_second", at_least(3, 6)),
            (f"the same of a ledger of {large * 1024 // MIB} MiB", "large", "entries_per_second", None),
            ("single reads over v2, in order, 64 under way", "single v2", "entries_per_second", None),
            ("single reads over v3, random, 64 under way", "single v3", "entries_per_second", None),
            ("CPU of the bookie an entry, batch reads, warm", "warm", "server_ns_per_entry", None),
        )
    ]
