"""
Rows 4 and 5. How many durable 1 KiB records a second, against RocksDB's write-ahead log?

RocksDB runs through its C API with real threads, sync on, pipelined writes, memtable large enough not to flush in the
cell. Alone it runs twice. *As asked*: `recycle_log_file_num` set and the recovery mode left alone; RocksDB 7.8 then
does not recycle, and does not say so: this is what users get. *Really recycled*: under the one recovery mode that lets
it. Both are judged, and the second is much the harder.

The sum first: alone, both are one durable write. Against a log that is not recycled we save the file system's own
journal; against a really recycled one only the way through the page cache, a tenth or two. Together, RocksDB's group
commit wakes each thread; submit wakes one.
"""

from __future__ import annotations

from typing import Any

from harness.bench import TRIM, Absent, Bench, Cell
from harness.result import Answer, at_least

ROWS = (4, 5)
FLOOR = "fio psync 4 KiB dsync"
THREADS = (16, 64, 128, 256)
AS_ASKED, REALLY = 1, 2


def measure(bench: Bench) -> list[Answer]:
    def rocksdb(threads: int, pipelined: int = 1, recycle: int = REALLY) -> dict[str, Any]:
        return bench.native("rocksdb_wal", threads=threads, pipelined=pipelined, recycle=recycle, seconds=bench.seconds)

    def ours(mode: str, **more: int) -> dict[str, Any]:
        return bench.native("bench_append", mode=mode, seconds=bench.seconds, trim=TRIM, **more)

    threads, pipelined, recycle = _best(bench, rocksdb)
    best = f"RocksDB's best with threads ({threads}, pipelined {'on' if pipelined else 'off'}, {_recycling(recycle)})"
    cells: dict[str, Cell] = {
        FLOOR: lambda: bench.floor.latency(bench.seconds),
        "ours, lone": lambda: ours("lone"),
        "RocksDB, lone, recycling as asked": lambda: rocksdb(1, recycle=AS_ASKED),
        "RocksDB, lone, really recycled": lambda: rocksdb(1),
        "ours, 64 threads": lambda: ours("threads", threads=64),
        "RocksDB, 64 threads": lambda: rocksdb(64),
        best: lambda: rocksdb(threads, pipelined, recycle),
        "ours, window 64": lambda: ours("window", window=64),
        "ours, window 1024": lambda: ours("window", window=1024),
    }
    rounds = bench.rounds(cells)

    def answer(row: int, left: str, right: str, must: float, aim: float) -> Answer:
        return bench.compare(
            row,
            f"1 KiB records/s: {left} / {right}",
            rounds,
            left,
            right,
            "rate",
            at_least(must, aim),
            unit="k records/s",
            scale=1e-3,
            state="recycled",
        )

    return [
        answer(4, "ours, lone", "RocksDB, lone, recycling as asked", 1.5, 1.8),
        answer(4, "ours, lone", "RocksDB, lone, really recycled", 1.5, 1.8),
        bench.ceiling(4, rounds, FLOOR, "RocksDB, lone, recycling as asked"),
        bench.ceiling(4, rounds, FLOOR, "RocksDB, lone, really recycled"),
        answer(4, "ours, 64 threads", "RocksDB, 64 threads", 1.5, 4),
        # One thread with a window against many threads: what each API offers at its best, not like against like.
        answer(5, "ours, window 64", best, 5, 9),
        answer(5, "ours, window 1024", best, 15, 35),
    ]


def _recycling(recycle: int) -> str:
    return "really recycled" if recycle == REALLY else "recycling as asked"


def _best(bench: Bench, rocksdb: Any) -> tuple[int, int, int]:
    """The thread count, write path and recycling that RocksDB likes best here."""
    found: dict[tuple[int, int, int], float] = {}
    grid = [
        (threads, pipelined, recycle)
        for threads in (THREADS[1:3] if bench.quick else THREADS)
        for pipelined in (1, 0)
        for recycle in (AS_ASKED, REALLY)
    ]
    for threads, pipelined, recycle in grid:
        found[threads, pipelined, recycle] = _rate(rocksdb, threads, pipelined, recycle)
        bench.log(
            f"  RocksDB, {threads} threads, pipelined {pipelined}, {_recycling(recycle)}: "
            f"{found[threads, pipelined, recycle]:,.0f} records/s"
        )
    return max(found, key=lambda key: found[key])


def _rate(rocksdb: Any, threads: int, pipelined: int, recycle: int) -> float:
    try:
        return float(rocksdb(threads, pipelined, recycle)["rate"])
    except RuntimeError as error:
        raise Absent(f"RocksDB: {error}") from error
