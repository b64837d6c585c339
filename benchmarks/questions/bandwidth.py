"""
Row 2. How much of the disk's durable bandwidth becomes payload, 1 KiB records, 1024 in flight, from C?

The floor is fio with the blocks we wrote: the same mean size (rounded to 4 KiB) and the same number in flight. A
block has a header, each record one of about 20 bytes, and the engine fills one block while others fly: 0.9 of the
floor is what a bare loop reaches.
"""

from __future__ import annotations

from typing import Any

from harness.bench import GIB, TRIM, Bench, Cell
from harness.result import Answer, at_least

ROWS = (2,)


def measure(bench: Bench) -> list[Answer]:
    return _in_state(bench, "recycled", TRIM) + _in_state(bench, "growing", 0)


def block_size(cell: dict[str, Any]) -> int:
    """
    The mean size of the blocks a cell wrote, on the grid of direct I/O. From the payload and its usual overhead: the
    engine's count of written bytes also holds the zeros that prepare a growing journal.
    """
    mean = 1.05 * float(cell["appended_bytes"]) / max(1, int(cell["blocks"]))
    return max(4096, round(mean / 4096) * 4096)


def _in_state(bench: Bench, state: str, trim: int) -> list[Answer]:
    def ours() -> dict[str, Any]:
        # A growing journal is stopped at 2 GiB: it must not fill the disk of whoever runs this.
        return bench.native(
            "bench_append",
            mode="window",
            window=1024,
            seconds=bench.seconds,
            trim=trim,
            bytes_max=0 if trim else 2 * GIB,
        )

    observed = ours()
    size, depth = block_size(observed), int(observed["blocks_in_flight"])
    cells: dict[str, Cell] = {"ours": ours, "fio": lambda: bench.floor.bandwidth(bench.seconds, size, depth)}
    rounds = bench.rounds(cells)
    return [
        bench.compare(
            2,
            "payload bandwidth, 1 KiB, window 1024, C / fio at our block size and depth",
            rounds,
            "ours",
            "fio",
            ("payload_rate", "bytes_rate"),
            at_least(0.75, 0.9) if state == "recycled" else None,
            unit="MB/s",
            scale=1e-6,
            state=state,
            reference_name=f"fio dsync {size // 1024} KiB, depth {depth}",
            note=f"blocks of {size // 1024} KiB observed, K={depth}",
        )
    ]
