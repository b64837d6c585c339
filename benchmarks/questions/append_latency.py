"""
Row 1. How long does one durable append take, one in flight, against the bare durable write of fio?

The sum first: a 1 KiB append is one 4 KiB durable write plus a copy and a checksum of a microsecond, so C should
stand at the floor. Python adds the call (a microsecond); asyncio adds an eventfd wake and a turn of its loop (15 to
20 microseconds).
"""

from __future__ import annotations

from harness.bench import TRIM, Absent, Bench, Cell
from harness.result import Answer, at_most

ROWS = (1,)
GOALS = {"C": at_most(1.10, 1.05), "blocking Python": at_most(1.20, 1.10), "asyncio": at_most(1.8, 1.4)}


def measure(bench: Bench) -> list[Answer]:
    return _in_state(bench, "recycled", TRIM) + _in_state(bench, "growing", 0)


def _in_state(bench: Bench, state: str, trim: int) -> list[Answer]:
    cells: dict[str, Cell] = {
        "fio": lambda: bench.floor.latency(bench.seconds),
        "C": lambda: bench.native("bench_append", mode="lone", seconds=bench.seconds, trim=trim),
        "blocking Python": lambda: bench.python("append_walkeeper", mode="lone", seconds=bench.seconds, trim=trim),
        "asyncio": lambda: bench.python("append_walkeeper", mode="asyncio", seconds=bench.seconds, trim=trim),
    }
    for name in ("blocking Python", "asyncio"):
        if not _runs(bench, name, cells[name]):
            del cells[name]
    rounds = bench.rounds(cells)
    return [
        bench.compare(
            1,
            f"append 1 KiB, one in flight, p50: {name} / fio psync 4 KiB dsync p50",
            rounds,
            name,
            "fio",
            "p50_ns",
            # What a growing journal costs is printed; the promise is about the steady state.
            GOALS[name] if state == "recycled" else None,
            unit="us",
            scale=1e-3,
            state=state,
            reference_name="fio psync 4 KiB dsync",
        )
        for name in GOALS
        if name in cells
    ]


def _runs(bench: Bench, name: str, cell: Cell) -> bool:
    try:
        cell()
    except (Absent, RuntimeError) as error:
        bench.log(f"  {name} is left out: {error}")
        return False
    return True
