"""
Row 10. How many bytes are written to the disk for one of payload, where everything is kept? Adds of 1 KiB, 1024 in
flight, on a new directory, until the bookie has come to rest: journal files, prepared ones, and what is copied count.

One ledger is judged. Of a thousand that are written at once whatever gathers each of them counts as well. The process's
own count (/proc/PID/io) decides; the device's holds the file system's writes and strangers' as well, and
what the directory takes of the disk afterwards is beside it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from harness.bench import GIB, MIB
from harness.result import Answer, Round, at_most

from bookies.bench import ENTRY, BookieBench
from bookies.process import disk_bytes, written_bytes

ROWS = (10,)
WHY: dict[int, str] = {}


def measure(bench: BookieBench) -> list[Answer]:
    entries = (128 * MIB if bench.quick else GIB) // ENTRY

    def cell(ledgers: int) -> dict[str, Any]:
        with bench.cell():
            ours = bench.ours()
            before = bench.disk()
            bench.filled(ours, entries // ledgers, ledgers)
            bench.settled(ours, at_most=120.0)
            return {
                "process": written_bytes(ours.pid),
                "device": bench.disk().write_bytes - before.write_bytes,
                "kept": disk_bytes(ours.data),
            }

    rounds = bench.rounds({"one ledger": partial(cell, 1), "1,000 ledgers": partial(cell, 1000)}, timed=False)

    def value(name: str, field: str, of: Round) -> float:
        return float(of.cells[name][field] / (entries * ENTRY))

    return [
        bench.bound(
            10,
            f"disk bytes / payload, kept, 1024 in flight, {name}: {what}",
            rounds,
            partial(value, name, field),
            at_most(2.2, 1.3) if name == "one ledger" and field == "process" else None,
            unit="ratio",
        )
        for name in ("one ledger", "1,000 ledgers")
        for field, what in (
            ("process", "written, the process's count"),
            ("device", "written, the device's count"),
            ("kept", "what the directory takes afterwards"),
        )
    ]
