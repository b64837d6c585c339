"""appends.svg: durable appends of 1 KiB a second, beside the bare disk and peers; of benchmarks/results/latest.json."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from drawing import Drawing

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "latest.json"
LEFT, PER_DECADE, SMALLEST = 330.0, 205.0, 1000.0


def rates() -> list[tuple[str, list[tuple[str, float, str]]]]:
    """Groups of bars: what is measured, then name, records a second, colour."""
    answers: list[dict[str, Any]] = json.loads(RESULTS.read_text())["answers"]

    def find(row: int, ours: str, peer: str) -> tuple[float, float]:
        """Ours, and the peer's, in records a second. The one answer of a row whose name has both texts."""
        (found,) = (
            one for one in answers if one["row"] == row and ours in one["name"].split(" / ")[0] and peer in one["name"]
        )
        return found["ours"] * 1000, found["reference"] * 1000

    lone, sqlite = find(6, "ours", "SQLite WAL FULL, tuned")
    bare, _ = find(6, "bare durable writes", "SQLite WAL FULL, tuned")
    _, lmdb = find(6, "ours", "LMDB sync, default")
    _, rocksdb = find(4, "ours, lone", "really recycled")
    threads, rocksdb_threads = find(4, "ours, 64 threads", "RocksDB, 64 threads")
    window, _ = find(5, "window 1024", "RocksDB's best")
    return [
        (
            "one in flight",
            [
                ("bare durable writes (fio)", bare, "other"),
                ("walkeeper, Python", lone, "ours"),
                ("RocksDB, recycling its log", rocksdb, "line"),
                ("SQLite, WAL, synchronous=FULL", sqlite, "line"),
                ("LMDB, sync", lmdb, "line"),
            ],
        ),
        ("64 threads", [("walkeeper, C", threads, "ours"), ("RocksDB", rocksdb_threads, "line")]),
        ("1,024 in flight, one thread", [("walkeeper, C", window, "ours")]),
    ]


def draw_appends() -> Drawing:
    groups = rates()
    bars = sum(len(bars) for _, bars in groups)
    d = Drawing("Durable appends of 1 KiB a second", 1100, 96 + 26 * bars + 34 * len(groups))
    d.text(40, 44, "Durable appends of 1 KiB a second (logarithmic; one run, one machine)", "head")
    y = 66.0
    for title, group in groups:
        d.text(40, y + 20, title, "soft", colour="soft")
        y += 30
        for name, rate, colour in group:
            width = PER_DECADE * math.log10(rate / SMALLEST)
            d.text(LEFT - 12, y + 16, name, "", "end")
            d.box(LEFT, y + 3, width, 17, colour, rx=3)
            d.text(LEFT + width + 10, y + 17, f"{rate:,.0f}", "soft")
            y += 26
        y += 4
    return d
