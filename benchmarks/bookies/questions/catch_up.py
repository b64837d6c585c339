"""
Row 7, cold. How fast does a reader catch up on a ledger that is in no memory, beside fio's sequential reads of the very
files with blocks as large as the bookie's own reads, as many under way as the bookie has threads that read?

Half a megabyte a batch read, four under way. The bookie was restarted after the ledger was written, and what it holds
in memory is a small part of it; it reads past the page cache, as fio does. Before Java's bookie reads, the kernel's
page cache is emptied; its cell is shorter.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.bench import GIB, MIB
from harness.fio import read_size_of
from harness.result import Answer, at_least

from bookies.bench import BATCH, BATCHES_UNDER_WAY, ENTRY, HEAD, BookieBench
from bookies.fio import data_files, read_once

ROWS = (7,)
WHY: dict[int, str] = {}
READER_THREADS = 2
"""Of a bookie as it comes."""


def drop_page_cache() -> bool:
    """False where we may not."""
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError:
        return False
    return True


def measure(bench: BookieBench) -> list[Answer]:
    entries = (128 * MIB if bench.quick else GIB) // (ENTRY + HEAD)
    of_java = entries // 8
    place = bench.place()
    with bench.cell():
        written = bench.ours(place=place)
        ledger = bench.filled(written, entries)
        bench.settled(written, at_most=60.0)
    ours = bench.ours(place=place)
    java = bench.warmed(bench.java("tuned"))
    java_ledger = bench.filled(java, of_java)
    bench.settled(java, at_most=60.0)

    def cold() -> dict[str, Any]:
        return bench.reads(ours, first_ledger=ledger, entries=entries, batch=BATCH, window=BATCHES_UNDER_WAY, passes=1)

    def of_java_cold() -> dict[str, Any]:
        dropped = drop_page_cache()
        found = bench.reads(
            java, first_ledger=java_ledger, entries=of_java, batch=BATCH, window=BATCHES_UNDER_WAY, passes=1
        )
        return {**found, "dropped": dropped}

    block_size = read_size_of(cold())
    files = data_files(ours.data, MIB)
    rounds = bench.rounds(
        {
            "ours": cold,
            "fio": lambda: read_once(files, block_size, entries * (ENTRY + HEAD), READER_THREADS),
            "Java tuned": of_java_cold,
        }
    )
    dropped = all(each.cells["Java tuned"]["dropped"] for each in rounds)
    rate: dict[str, Any] = {"unit": "MB/s", "scale": 1e-6}
    return [
        bench.compare(
            7,
            "cold catch-up of 1 KiB entries / fio sequential read of the same files",
            rounds,
            "ours",
            "fio",
            ("bytes_per_second", "bytes_rate"),
            at_least(0.5, 0.8),
            **rate,
            note=f"{entries * ENTRY // MIB} MiB, reads of {block_size // 1024} KiB, {READER_THREADS} under way",
        ),
        bench.compare(
            7,
            "the same: ours / Java tuned",
            rounds,
            "ours",
            "Java tuned",
            "bytes_per_second",
            None,
            **rate,
            note="" if dropped else "Java's page cache could not be dropped: it was warm",
        ),
    ]
