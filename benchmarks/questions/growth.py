"""
Row 12. Does an append get dearer as things grow: entries of a log, logs of a namespace, segments of a log?

CPU of the process for a 128-byte entry, 1024 in flight, at several sizes; the slope in log-log coordinates is the
answer. Process CPU decides because the machine's count has ticks of 10 ms and strangers in it; it is printed beside.
"""

from __future__ import annotations

import statistics

from harness.bench import Bench, Cell
from harness.ratio import exponent
from harness.result import Answer, Round, at_most, chosen

ROWS = (12,)
AXES = {
    "entries": (10**4, 10**5, 10**6, 10**7),
    "logs": (10, 10**2, 10**3, 10**4),
    "entries_of_logs": (10, 10**2, 10**3, 10**4),
    "segments": (10, 10**2, 10**3, 10**4),
}


NAMES = {
    "logs": "logs, records packed: the fewer logs, the more records share an entry",
    "entries_of_logs": "logs, each record an entry of its own",
}


def measure(bench: Bench) -> list[Answer]:
    return [_axis(bench, axis, amounts[:3] if bench.quick else amounts) for axis, amounts in AXES.items()]


def _axis(bench: Bench, axis: str, amounts: tuple[int, ...]) -> Answer:
    # Segments go on beginning while they are counted: few entries, so that ten stay about ten.
    measure = 40_000 if axis == "segments" else 100_000 if bench.quick else 500_000

    def cell(amount: int) -> Cell:
        return lambda: bench.native("bench_growth", axis=axis, amount=amount, measure=measure)

    rounds = bench.rounds({str(amount): cell(amount) for amount in amounts})

    def curve_of(each: Round, field: str = "cpu_ns_per_entry") -> list[tuple[float, float]]:
        return [(each.cells[str(amount)]["amount"], max(each.cells[str(amount)][field], 1e-9)) for amount in amounts]

    def slope(each: Round) -> float:
        return exponent(curve_of(each))

    def median_curve(field: str) -> dict[str, float]:
        curves = [curve_of(each, field) for each in chosen(rounds)]
        return {f"{points[0][0]:.0f}": statistics.median(y for _, y in points) for points in zip(*curves, strict=True)}

    curve = median_curve("cpu_ns_per_entry")
    return bench.bound(
        12,
        f"CPU of a 128 B entry, {amounts[0]:,} to {amounts[-1]:,} {NAMES.get(axis, axis)}: fitted exponent",
        rounds,
        slope,
        at_most(0.10, 0.05),
        unit="exponent",
        note=", ".join(f"{int(amount):,}: {value:.0f} ns" for amount, value in curve.items()),
        details={"curve_ns": curve, "machine_curve_ns": median_curve("machine_cpu_ns_per_entry")},
    )
