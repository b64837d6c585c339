"""
Row 10. What happens to the p99 of appends while a reader catches up at half its solo rate or more?

Both read and write past the page cache, so nothing but the disk and the CPUs is shared; fio's writer beside fio's
reader, at our read size and pace, shows what the disk alone does. The reader is paced at 0.6 of
what it reached alone; where it did not reach 0.5 the round does not answer the question, and the row says so.
"""

from __future__ import annotations

import statistics
from typing import Any

from harness.bench import GIB, MIB, Bench
from harness.fio import read_size_of
from harness.result import Answer, Round, at_most

ROWS = (10,)
PACE, ENOUGH = 0.6, 0.5


def measure(bench: Bench) -> list[Answer]:
    with bench.directory() as place:
        bench.native("bench_read", place, mode="prepare", bytes=256 * MIB if bench.quick else GIB, window=64)

        def cell(appender: int, reader: int, pace: float = 0) -> dict[str, Any]:
            return bench.native(
                "bench_catch_up", place, appender=appender, reader=reader, pace=int(pace), seconds=bench.seconds
            )

        alone = [cell(0, 1) for _ in range(3)]
        solo = statistics.median(float(each["reader_rate"]) for each in alone)
        read_size = read_size_of(alone[-1])
        bench.log(f"  the reader alone: {solo / 1e6:.0f} MB/s")

        def share(each: Round) -> float:
            return float(each.cells["with"]["reader_rate"] / solo)

        rounds = bench.rounds(
            {
                "without": lambda: cell(1, 0),
                "with": lambda: cell(1, 1, PACE * solo),
                "fio without": lambda: bench.floor.latency(bench.seconds),
                "fio with": lambda: bench.floor.latency_beside_reader(bench.seconds, read_size, PACE * solo),
            },
            lambda each: share(each) >= ENOUGH,
        )

    reached = [share(each) for each in rounds]
    kept = [each for each in rounds if share(each) >= ENOUGH]
    note = f"the reader kept {statistics.median(reached):.2f} of its solo {solo / 1e6:.0f} MB/s"
    if len(kept) < len(rounds):
        note += f"; {len(rounds) - len(kept)} of {len(rounds)} rounds below {ENOUGH} left out"
    counted = kept or rounds
    answer = bench.compare(
        10,
        "append p99 while a reader catches up / without it",
        counted,
        "with",
        "without",
        "p99_ns",
        at_most(2, 1.3) if kept else None,
        unit="us",
        scale=1e-3,
        state="recycled",
        note=note if kept else "CONDITION NOT MET: " + note,
    )
    p50 = bench.compare(
        10,
        "append p50 while a reader catches up / without it",
        counted,
        "with",
        "without",
        "p50_ns",
        None,
        unit="us",
        scale=1e-3,
        state="recycled",
    )
    fio = bench.compare(
        10,
        f"the same with fio alone: 4 KiB dsync p99 beside {read_size // 1024} KiB reads at the same pace / without",
        counted,
        "fio with",
        "fio without",
        "p99_ns",
        None,
        unit="us",
        scale=1e-3,
        note="what the disk does to anybody at our read size",
    )
    return [answer, p50, fio]
