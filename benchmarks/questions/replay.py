"""
Row 8. How fast is a log of 1 KiB records, written at window 64, read from start to end, against fio reading at our
read size?

Our read size is what the block device saw while we read. fio reads a file of the same directory's disk, one read in
flight; with four of 1 MiB as a second, harder floor, printed.
"""

from __future__ import annotations

from typing import Any

from harness.bench import GIB, MIB, Absent, Bench, Cell
from harness.fio import read_size_of
from harness.result import Answer, at_least

ROWS = (8,)


def measure(bench: Bench) -> list[Answer]:
    with bench.directory() as place:
        bench.native("bench_read", place, mode="prepare", bytes=256 * MIB if bench.quick else 2 * GIB, window=64)
        return _answers(bench, place)


def _answers(bench: Bench, place: Any) -> list[Answer]:
    def c_api() -> dict[str, Any]:
        return bench.native("bench_read", place, mode="replay")

    observed = c_api()
    read_size = read_size_of(observed)
    cells: dict[str, Cell] = {
        "C": c_api,
        "fio": lambda: bench.floor.read(bench.seconds, read_size),
        "fio, 1 MiB, depth 4": lambda: bench.floor.read(bench.seconds, MIB, 4),
    }
    try:
        bench.python("replay_arrow", place)
        cells["read_arrow"] = lambda: bench.python("replay_arrow", place)
    except (Absent, RuntimeError) as error:
        bench.log(f"  read_arrow is left out: {error}")
    rounds = bench.rounds(cells)
    goals = {"C": at_least(0.6, 0.9), "read_arrow": at_least(0.5, 0.8)}
    answers = []
    for name, goal in goals.items():
        if name not in cells:
            continue
        for floor, decides in (("fio", goal), ("fio, 1 MiB, depth 4", None)):
            label = f"fio read {read_size // 1024} KiB, depth 1" if floor == "fio" else floor
            answers.append(
                bench.compare(
                    8,
                    f"replay of 1 KiB records, {name} / {label}",
                    rounds,
                    name,
                    floor,
                    ("payload_rate", "bytes_rate"),
                    decides,
                    unit="MB/s",
                    scale=1e-6,
                    reference_name=label,
                )
            )
    return answers
