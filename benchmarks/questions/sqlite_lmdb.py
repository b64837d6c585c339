"""
Row 6. How many durable 1 KiB records a second, one in flight, from Python, against SQLite (WAL, synchronous=FULL) and
LMDB (synced)?

Both peers run as they come and tuned, and both are judged. fio's bare durable write runs beside them: what it does
against a peer is all that there is to win.
"""

from __future__ import annotations

from harness.bench import TRIM, Absent, Bench, Cell
from harness.result import Answer, at_least

ROWS = (6,)
FLOOR = "fio psync 4 KiB dsync"
GOALS = {"sqlite": ("SQLite WAL FULL", at_least(1.5, 1.8)), "lmdb": ("LMDB sync", at_least(2.5, 3.5))}


def measure(bench: Bench) -> list[Answer]:
    def peer(name: str, tuned: int) -> Cell:
        return lambda: bench.python(f"append_{name}", tuned=tuned, seconds=bench.seconds)

    cells: dict[str, Cell] = {
        FLOOR: lambda: bench.floor.latency(bench.seconds),
        "ours": lambda: bench.python("append_walkeeper", mode="lone", seconds=bench.seconds, trim=TRIM),
    }
    for name, (label, _) in GOALS.items():
        try:
            peer(name, 0)()
        except Absent as error:
            bench.log(f"  SKIPPED: {label}: {error}")
            continue
        cells[f"{label}, default"] = peer(name, 0)
        cells[f"{label}, tuned"] = peer(name, 1)
    rounds = bench.rounds(cells)
    compared = [
        bench.compare(
            6,
            f"1 KiB records/s, one in flight, Python: ours / {name}",
            rounds,
            "ours",
            name,
            "rate",
            goal,
            unit="k records/s",
            scale=1e-3,
            state="recycled",
        )
        for label, goal in GOALS.values()
        for name in cells
        if name.startswith(label)
    ]
    return compared + [bench.ceiling(6, rounds, FLOOR, name) for name in cells if name.startswith(("SQLite", "LMDB"))]
