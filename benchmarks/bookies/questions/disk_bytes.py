"""
Row 10. How many bytes are written to the disk for one of payload, where everything is kept? Adds of 1 KiB, 1024 in
flight, on a new directory, until the bookie has come to rest: journal files, prepared ones, and what is copied count.

The process's own count (/proc/PID/io) decides; the device's holds the file system's writes and strangers' as well, and
what the directory takes of the disk afterwards is beside it.
"""

from __future__ import annotations

from typing import Any

from harness.bench import GIB, MIB
from harness.result import Answer, Round, at_most

from bookies.bench import ENTRY, BookieBench
from bookies.process import disk_bytes, written_bytes

ROWS = (10,)
WHY: dict[int, str] = {}


def measure(bench: BookieBench) -> list[Answer]:
    entries = (128 * MIB if bench.quick else GIB) // ENTRY

    def cell() -> dict[str, Any]:
        with bench.cell():
            ours = bench.ours()
            before = bench.disk()
            bench.filled(ours, entries)
            bench.settled(ours, at_most=60.0)
            return {
                "process": written_bytes(ours.pid),
                "device": bench.disk().write_bytes - before.write_bytes,
                "kept": disk_bytes(ours.data),
            }

    rounds = bench.rounds({"ours": cell})

    def value(field: str, of: Round) -> float:
        return float(of.cells["ours"][field] / (entries * ENTRY))

    return [
        bench.bound(10, f"disk bytes / payload, kept, 1024 in flight ({name})", rounds, of, goal, unit="ratio")
        for name, of, goal in (
            ("written, the process's count", lambda each: value("process", each), at_most(2.2, 1.3)),
            ("written, the device's count", lambda each: value("device", each), None),
            ("what the directory takes afterwards", lambda each: value("kept", each), None),
        )
    ]
