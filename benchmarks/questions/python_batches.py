"""
Row 3. How many records a second does append_many take from Python, against the same call in C?

Python adds one call a batch, and must find the bytes of each record: with 1024 records a batch the border is paid per
record, a fraction of a microsecond.
"""

from __future__ import annotations

from harness.bench import TRIM, Bench
from harness.result import Answer, at_least

ROWS = (3,)
BATCH = 1024


def measure(bench: Bench) -> list[Answer]:
    rounds = bench.rounds(
        {
            "Python": lambda: bench.python(
                "append_walkeeper", mode="many", batch=BATCH, seconds=bench.seconds, trim=TRIM
            ),
            "C": lambda: bench.native("bench_append", mode="many", batch=BATCH, seconds=bench.seconds, trim=TRIM),
            "C window": lambda: bench.native(
                "bench_append", mode="window", window=BATCH, seconds=bench.seconds, trim=TRIM
            ),
        }
    )
    name = f"append_many of {BATCH} records of 1 KiB: Python / C"
    return [
        bench.compare(
            3,
            name,
            rounds,
            "Python",
            "C",
            "rate",
            at_least(0.4, 0.6),
            unit="k records/s",
            scale=1e-3,
            state="recycled",
            reference_name="the same call in C",
        ),
        bench.compare(
            3,
            f"append_many from Python / C submitting with {BATCH} in flight",
            rounds,
            "Python",
            "C window",
            "rate",
            None,
            unit="k records/s",
            scale=1e-3,
            state="recycled",
        ),
    ]
