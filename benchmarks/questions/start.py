"""
Row 9. How long after SIGKILL until the first append, with 4 GiB of journal; and how fast are its bytes scanned where
footers may not help?

The process is killed under load (64 in flight). The time is that of open + log + writer + one durable append, without
the wait for the dead process's lock. The scan reads every block: its floor is fio reading 1 MiB at a time.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from harness.bench import GIB, MIB, Bench
from harness.result import Answer, Round, at_least, at_most

ROWS = (9,)


def measure(bench: Bench) -> list[Answer]:
    journal = 256 * MIB if bench.quick else 4 * GIB
    with bench.directory() as place:
        filled = _run_and_kill(bench, place, mode="fill", bytes=journal)
        bench.log(f"  {filled['written_bytes'] / GIB:.2f} GiB of journal in {filled['journal_files']} files")
        rounds = bench.rounds(
            {
                "start": lambda: _run_and_kill(bench, place, mode="start"),
                "scan": lambda: _scan(bench, place),
                "fio": lambda: bench.floor.read(bench.seconds, MIB),
            }
        )
    size = f"{filled['written_bytes'] / GIB:.1f} GiB of journal"
    last = rounds[-1].cells["start"]
    return [
        bench.bound(
            9,
            f"SIGKILL to first append, {size}, lock wait apart",
            rounds,
            _seconds,
            at_most(0.5, 0.1),
            unit="s",
            note=f"lock wait {last['lock_wait_ns'] / 1e6:.1f} ms, {last['bytes_scanned'] / MIB:.1f} MiB scanned",
            details=last,
        ),
        bench.compare(
            9,
            f"start with footers ignored, bytes scanned/s / fio read 1 MiB, {size}",
            rounds,
            "scan",
            "fio",
            ("scan_rate", "bytes_rate"),
            at_least(0.6, 0.85),
            unit="MB/s",
            scale=1e-6,
        ),
    ]


def _seconds(each: Round) -> float:
    return float(each.cells["start"]["first_append_ns"]) / 1e9


def _scan(bench: Bench, place: Path) -> dict[str, Any]:
    found = _run_and_kill(bench, place, mode="start", ignore_footers=1)
    found["scan_rate"] = found["bytes_scanned"] / (found["recovery_ns"] / 1e9)
    return found


def _run_and_kill(bench: Bench, place: Path, **arguments: object) -> dict[str, Any]:
    """Starts the driver, takes its line, and kills it while it appends."""
    given = [part for name, value in arguments.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    with subprocess.Popen(
        [str(bench.driver("bench_start")), "--dir", str(place), *given], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.kill()
    if not line:
        raise RuntimeError(f"bench_start {' '.join(given)} said nothing: it failed before its first append")
    answer: dict[str, Any] = json.loads(line)
    return answer
