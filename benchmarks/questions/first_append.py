"""
Row 14. How long does the first append on a new directory take: making it, probing the disk, preparing the first file,
one durable record?
"""

from __future__ import annotations

from statistics import median

from harness.bench import Bench
from harness.result import Answer, Round, at_most

ROWS = (14,)


def measure(bench: Bench) -> list[Answer]:
    def fresh() -> dict[str, float]:
        with bench.directory() as place:
            return bench.native("bench_start", place / "new", mode="fresh")

    def milliseconds(each: Round) -> float:
        return float(each.cells["ours"]["first_append_ns"]) / 1e6

    rounds = bench.rounds({"ours": fresh})
    open_ms = median(float(each.cells["ours"]["open_ns"]) / 1e6 for each in rounds)
    return [
        bench.bound(
            14,
            "first append on a new directory, probe included",
            rounds,
            milliseconds,
            at_most(200, 50),
            unit="ms",
            note=f"open {open_ms:.1f} ms of it",
            details=rounds[-1].cells["ours"],
        )
    ]
