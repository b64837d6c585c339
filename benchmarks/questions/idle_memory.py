"""
Row 11. How much native memory does an idle log cost: the slope from 1,000 to 100,000 logs, names of 31 bytes, one
record each, no open handle?

What malloc holds decides, so that nobody has to believe the engine's own count, which is printed beside it, as is the
resident memory. Memtable and index cache are limited by options, not by the number of logs: they are set to 1 MiB
each.
"""

from __future__ import annotations

import statistics
from typing import Any

from harness.bench import MIB, Bench
from harness.result import Answer, at_most

ROWS = (11,)


def measure(bench: Bench) -> list[Answer]:
    few, many = (100, 2000) if bench.quick else (1000, 100_000)
    repeats = 1 if bench.quick else bench.pairs

    def cell(records: int) -> dict[str, Any]:
        return bench.native("bench_memory", few=few, many=many, records=records, memtable_bytes=MIB, cache_bytes=MIB)

    answers = []
    for records, name in ((1, "with one record"), (0, "empty")):
        found = [cell(records) for _ in range(repeats)]
        for field, label in (
            ("malloc_bytes", "malloc"),
            ("engine_bytes", "engine's count"),
            ("resident_bytes", "resident"),
        ):
            slopes = [
                (each["many"][field] - each["few"][field]) / (each["many"]["logs"] - each["few"]["logs"])
                for each in found
            ]
            decides = field == "malloc_bytes" and records == 1
            answers.append(
                Answer(
                    11,
                    f"bytes an idle log {name}, slope {few:,} -> {many:,} ({label})",
                    "B",
                    at_most(512, 128) if decides else None,
                    statistics.median(slopes),
                    None,
                    "",
                    slopes,
                    len(slopes),
                    note=f"{found[-1]['make_log_ns'] / 1e3:.0f} us to make one" if decides else "",
                    details=found[-1] if decides else {},
                )
            )
    return answers
