"""
Row 8. Is one of 1,000 ledgers that were written at once as fast to read as one that was written alone?

Adds of 1 KiB went to 1,000 ledgers in turn, and then as many bytes to one, as those that are read have together; when
the bookie had come to rest (how much the mover has sorted until then is told) it was restarted. Every tenth ledger is
read to its end, one after the other, as a catch-up reads: half a megabyte a batch read, four under way. The mover may
copy faster here than it does by default, and waits a second for more files and not a minute: the state that it leaves
is the same, and sooner there.
"""

from __future__ import annotations

import time
from typing import Any

from harness.bench import MIB
from harness.result import Answer, at_least

from bookies.bench import BATCH, BATCHES_UNDER_WAY, ENTRY, BookieBench

ROWS = (8,)
WHY: dict[int, str] = {}
LEDGERS, EVERY = 1000, 10


def measure(bench: BookieBench) -> list[Answer]:
    each = 256 if bench.quick else 2048
    place = bench.place()
    with bench.cell():
        written = bench.ours("--compact-rate", "1GiB/s", "--sort-wait", "1s", place=place)
        first = bench.filled(written, each, LEDGERS)
        lone = bench.filled(written, each * LEDGERS // EVERY)
        for _ in range(2):  # it looks again a second after the last file
            bench.settled(written, at_most=120.0)
            time.sleep(2)
        sorted_bytes = written.metric("walkeeper_sorted_bytes_total")
    ours = bench.ours(place=place)

    def cell(**arguments: object) -> dict[str, Any]:
        return bench.reads(ours, batch=BATCH, window=BATCHES_UNDER_WAY, passes=1, **arguments)

    rounds = bench.rounds(
        {
            "one of many": lambda: cell(first_ledger=first, ledgers=LEDGERS // EVERY, stride=EVERY, entries=each),
            "lone": lambda: cell(first_ledger=lone, entries=each * LEDGERS // EVERY),
        }
    )
    many, one = rounds[-1].cells["one of many"], rounds[-1].cells["lone"]
    note = (
        f"{LEDGERS} ledgers of {each * ENTRY / MIB:g} MiB; the mover sorted {sorted_bytes / MIB:,.0f} MiB; "
        f"bytes read from the disk for a byte: {many.get('disk_read_bytes', 0) / many['bytes']:.2f}, lone "
        f"{one.get('disk_read_bytes', 0) / one['bytes']:.2f}"
    )
    return [
        bench.compare(
            8,
            "catch-up of one of 1,000 interleaved ledgers, after the mover / of a lone ledger",
            rounds,
            "one of many",
            "lone",
            "bytes_per_second",
            at_least(0.5, 0.8),
            unit="MB/s",
            scale=1e-6,
            note=note,
        )
    ]
