"""
Row 11. What happens to the p99 of adds while a reader catches up on another ledger at half of its solo rate or more?

Adds come in an open loop, 2,000 a second, each due at its time; the reader asks for half a megabyte at a time, four
under way, and is held to 0.6 of what it reached alone. A round in which it did not reach 0.5 does not answer the
question. fio's durable writes beside reads of the same size and pace show what the disk does to anybody.
"""

from __future__ import annotations

import statistics
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from harness.bench import GIB, MIB
from harness.fio import read_size_of
from harness.result import Answer, Round, at_most

from bookies.bench import BATCH, BATCHES_UNDER_WAY, ENTRY, HEAD, BookieBench

ROWS = (11,)
WHY: dict[int, str] = {}
RATE, PACE, ENOUGH = 2000, 0.6, 0.5


def measure(bench: BookieBench) -> list[Answer]:
    entries = (128 * MIB if bench.quick else GIB) // (ENTRY + HEAD)
    place = bench.place()
    with bench.cell():
        written = bench.ours(place=place)
        ledger = bench.filled(written, entries)
        bench.settled(written, at_most=60.0)
    ours = bench.ours(place=place)
    ms = 1000 if bench.quick else 4000

    def reader(pace: float, ms: int) -> dict[str, Any]:
        return bench.reads(
            ours,
            first_ledger=ledger,
            entries=entries,
            batch=BATCH,
            window=BATCHES_UNDER_WAY,
            pace=int(pace),
            warmup_ms=300,
            ms=ms,
        )

    def writer() -> dict[str, Any]:
        return bench.adds(ours, rate=RATE, warmup_ms=500, ms=ms)

    alone = [reader(0, ms) for _ in range(3)]
    solo = statistics.median(float(each["bytes_per_second"]) for each in alone)
    read_size = read_size_of(alone[-1])
    bench.log(f"  the reader alone: {solo / 1e6:.0f} MB/s")

    def both() -> dict[str, Any]:
        with ThreadPoolExecutor(1) as beside:
            reads = beside.submit(reader, PACE * solo, ms + 600)  # it begins before the adds do, and ends after them
            adds = writer()
            return {**adds, "share": reads.result()["bytes_per_second"] / solo}

    def reached(each: Round) -> bool:
        return float(each.cells["with"]["share"]) >= ENOUGH

    seconds = ms / 1000
    rounds = bench.rounds(
        {
            "without": writer,
            "with": both,
            "fio without": lambda: bench.floor.latency(seconds),
            "fio with": lambda: bench.floor.latency_beside_reader(seconds, read_size, PACE * solo),
        },
        reached,
    )
    kept = [each for each in rounds if reached(each)]
    share = statistics.median(float(each.cells["with"]["share"]) for each in rounds)
    note = f"the reader kept {share:.2f} of its solo {solo / 1e6:.0f} MB/s; {len(rounds) - len(kept)} rounds left out"
    counted = kept or rounds
    us: dict[str, Any] = {"unit": "us", "scale": 1e-3}
    return [
        bench.compare(
            11,
            f"p99 of {RATE:,} adds/s while a reader catches up / without it",
            counted,
            "with",
            "without",
            "p99_ns",
            at_most(2, 1.3) if kept else None,
            **us,
            note=note if kept else "CONDITION NOT MET: " + note,
        ),
        bench.compare(11, "the same, p50", counted, "with", "without", "p50_ns", None, **us),
        bench.compare(
            11,
            f"fio alone: p99 of 4 KiB dsync beside {read_size // 1024} KiB reads at the same pace / without",
            counted,
            "fio with",
            "fio without",
            "p99_ns",
            None,
            **us,
            note="what the disk does to anybody",
        ),
    ]
