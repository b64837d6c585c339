"""
Row 6. How many durable 1 KiB records a second, one in flight, from Python, against SQLite (WAL, synchronous=FULL) and
LMDB (synced)?

Both peers run as they come and tuned, and both are judged.
"""

from __future__ import annotations

from harness.bench import TRIM, Absent, Bench, Cell
from harness.result import Answer, at_least

ROWS = (6,)
GOALS = {"sqlite": ("SQLite WAL FULL", at_least(1.5, 1.8)), "lmdb": ("LMDB sync", at_least(2.5, 3.5))}


def measure(bench: Bench) -> list[Answer]:
    def peer(name: str, tuned: int) -> Cell:
        return lambda: bench.python(f"append_{name}", tuned=tuned, seconds=bench.seconds)

    cells: dict[str, Cell] = {
        "ours": lambda: bench.python("append_walkeeper", mode="lone", seconds=bench.seconds, trim=TRIM)
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
    return [
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
