"""
Row 7. How many bytes go to the disk for a byte appended, 1 KiB records, log truncated as it goes?

The engine's own count decides (all kinds of writes since open); the block device's count stands beside it, and holds
what the file system adds and what strangers wrote meanwhile.
"""

from __future__ import annotations

from harness.bench import TRIM, Bench, Cell
from harness.result import Answer, Round, at_most

ROWS = (7,)
GOALS = {64: at_most(1.15, 1.09), 256: at_most(1.10, 1.06)}


def measure(bench: Bench) -> list[Answer]:
    def cell(window: int) -> Cell:
        return lambda: bench.native("bench_append", mode="window", window=window, seconds=bench.seconds, trim=TRIM)

    rounds = bench.rounds({f"window {window}": cell(window) for window in GOALS})
    answers = []
    for window, goal in GOALS.items():
        name = f"window {window}"

        def engine(each: Round, name: str = name) -> float:
            found = each.cells[name]
            return float(found["written_bytes"] / found["appended_bytes"])

        def device(each: Round, name: str = name) -> float:
            found = each.cells[name]
            return float(found.get("disk_write_bytes", 0) / found["appended_bytes"])

        last = rounds[-1].cells[name]
        block_kib = last["appended_bytes"] / max(1, last["blocks"]) / 1024
        note = f"K={last['blocks_in_flight']}, {last['sync_method']}, {block_kib:.0f} KiB of payload a block"
        answers.append(
            bench.bound(
                7,
                f"disk bytes / payload, 1 KiB, {name} (engine's count)",
                rounds,
                engine,
                goal,
                unit="ratio",
                state="recycled",
                note=note,
                details=last,
            )
        )
        if "disk_write_bytes" in last:
            answers.append(
                bench.bound(
                    7,
                    f"disk bytes / payload, 1 KiB, {name} (device's count)",
                    rounds,
                    device,
                    None,
                    unit="ratio",
                    state="recycled",
                    note="with the file system's writes and strangers'",
                )
            )
    return answers
