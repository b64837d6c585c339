"""
Row 11. What happens to the p99 of adds while a reader catches up on another ledger at half of its solo rate or more?

Adds come in an open loop, 2,000 a second, each due at its time; the reader asks for half a megabyte at a time, four
under way, and is held to 0.6 of what it reached alone. A round in which it did not reach 0.5 does not answer the
question. Two floors: fio's durable writes beside reads of the same size and pace show what the disk does to anybody;
the bare loop's adds, while our bookie serves the same reader, what the machine does to a server of its own that only
writes. And since a virtual machine that is used well is stopped by its host for ten milliseconds and more, several
times a second (`harness/stalls.py`), each p99 stands there a second time, of the adds that were not under way then.
"""

from __future__ import annotations

import math
import statistics
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from harness.bench import GIB, MIB
from harness.fio import read_size_of
from harness.result import Answer, Round, at_most
from harness.stalls import Stalls, p99, watched

from bookies.bench import BATCH, BATCHES_UNDER_WAY, ENTRY, HEAD, BookieBench
from bookies.servers import Server

ROWS = (11,)
WHY = {
    11: """The bare loop, a server of its own that only writes, fares no better beside the same reader: two processors
are shared by the reader, its server and whoever writes, and the disk by reads and writes; fio's own durable writes
beside reads of this size and pace rise as well, by what the last row says. On some days the host stops this virtual
machine besides: with the reader beside, both processors vanish at the same time, for 10 to 25 ms, several times a
second; a process with real-time priority that does nothing but sleep sees it. Each such stop delays 20 to 50 adds, and
decides the p99 (12.6 on such a day). The second row leaves out the adds of those moments."""
}
RATE, PACE, ENOUGH = 2000, 0.6, 0.5


def clear(trace: bytes, stalls: Stalls) -> dict[str, float]:
    """Without the adds that were under way while a processor was away; nan where nobody knows."""
    adds = list(struct.iter_unpack("=QQ", trace))
    if not stalls.known:
        return dict.fromkeys(("clear_p99_ns", "clear_share", "stalled_share"), math.nan)
    left = stalls.clear(adds)
    return {
        "clear_p99_ns": p99(left),
        "clear_share": len(left) / len(adds),
        "stalled_share": stalls.share(min(began for began, _ in adds), max(ended for _, ended in adds)),
    }


def measure(bench: BookieBench) -> list[Answer]:
    entries = (128 * MIB if bench.quick else GIB) // (ENTRY + HEAD)
    place = bench.place()
    with bench.cell():
        written = bench.ours(place=place)
        ledger = bench.filled(written, entries)
        bench.settled(written, at_most=60.0)
    ours, bare = bench.ours(place=place), bench.bare()
    ms = 1000 if bench.quick else 4000

    def reader(pace: float, ms: int) -> dict[str, Any]:
        return bench.reads(
            ours,
            first_ledger=ledger,
            entries=entries,
            batch=BATCH,
            window=BATCHES_UNDER_WAY,
            pace=int(pace),
            warmup_ms=300,
            ms=ms,
        )

    def writer(server: Server) -> dict[str, Any]:
        with bench.directory() as place, watched() as stalls:
            trace = place / "trace"
            found = bench.adds(server, rate=RATE, warmup_ms=500, ms=ms, trace=trace)
            written = trace.read_bytes()
        if not stalls.known:
            bench.log("  nobody watched the processors: it takes the privilege of a real-time priority")
        return {**found, **clear(written, stalls)}

    alone = [reader(0, ms) for _ in range(3)]
    solo = statistics.median(float(each["bytes_per_second"]) for each in alone)
    read_size = read_size_of(alone[-1])
    bench.log(f"  the reader alone: {solo / 1e6:.0f} MB/s")

    def beside(server: Server) -> dict[str, Any]:
        with ThreadPoolExecutor(1) as other:
            reads = other.submit(reader, PACE * solo, ms + 1000)  # it begins before the adds do, and ends after them
            adds = writer(server)
            return {**adds, "share": reads.result()["bytes_per_second"] / solo}

    def reached(each: Round) -> bool:
        return float(each.cells["with"]["share"]) >= ENOUGH

    seconds = ms / 1000
    rounds = bench.rounds(
        {
            "without": lambda: writer(ours),
            "with": lambda: beside(ours),
            "bare without": lambda: writer(bare),
            "bare with": lambda: beside(bare),
            "fio without": lambda: bench.floor.latency(seconds),
            "fio with": lambda: bench.floor.latency_beside_reader(seconds, read_size, PACE * solo),
        },
        reached,
    )
    kept = [each for each in rounds if reached(each)]
    counted = kept or rounds
    share = statistics.median(float(each.cells["with"]["share"]) for each in rounds)
    stalled, left = (
        statistics.median(float(each.cells["with"][name]) for each in counted)
        for name in ("stalled_share", "clear_share")
    )
    note = f"the reader kept {share:.2f} of its solo {solo / 1e6:.0f} MB/s; {len(rounds) - len(kept)} rounds left out"
    us: dict[str, Any] = {"unit": "us", "scale": 1e-3}
    return [
        bench.compare(
            11,
            f"p99 of {RATE:,} adds/s while a reader catches up / without it",
            counted,
            "with",
            "without",
            "p99_ns",
            at_most(2, 1.3) if kept else None,
            **us,
            note=note if kept else "CONDITION NOT MET: " + note,
        ),
        bench.compare(
            11,
            "the same, of the adds during which no processor was taken away",
            counted,
            "with",
            "without",
            "clear_p99_ns",
            None,
            **us,
            note=f"with the reader the host took one for {100 * stalled:.0f} % of the time; {100 * left:.0f} % of adds",
        ),
        bench.compare(11, "the same, p50", counted, "with", "without", "p50_ns", None, **us),
        bench.compare(
            11,
            "the bare loop's p99 while our bookie serves the reader / without it",
            counted,
            "bare with",
            "bare without",
            "p99_ns",
            None,
            **us,
            note="what the machine does to a server that only writes",
        ),
        bench.compare(
            11,
            "the same, of the adds during which no processor was taken away",
            counted,
            "bare with",
            "bare without",
            "clear_p99_ns",
            None,
            **us,
        ),
        bench.compare(
            11,
            f"fio alone: p99 of 4 KiB dsync beside {read_size // 1024} KiB reads at the same pace / without",
            counted,
            "fio with",
            "fio without",
            "p99_ns",
            None,
            **us,
            note="what the disk does to anybody",
        ),
    ]
