"""
A SQLite whose write-ahead log is a log, beside SQLite alone, and beside the log.

    make bench-sqlite                     # writes sqlite.md beside this file
    python benchmarks/sqlite.py [--quick] [--page FILE] [--dir SCRATCH]

The sides of a row take turns, A B B A, in one process: a figure is the ratio of one pair, and the answer the median of
the pairs. Rows of 100 bytes, one a commit, autocommit.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATHS = [str(ROOT / "bookie"), str(ROOT / "adapters/sqlite")]
sys.path[:0] = PATHS

from harness.machine import Watch, describe  # noqa: E402
from harness.ratio import Goal, bootstrap  # noqa: E402
from harness.report import number  # noqa: E402

import walkeeper  # noqa: E402
import walkeeper_sqlite  # noqa: E402
from walkeeper_bookie.cluster import LocalCluster  # noqa: E402

SIZE = 100
THREADS = 8


@dataclass
class Row:
    name: str
    unit: str
    ours: float
    reference: float | None
    values: list[float]
    """The ratios of the pairs, or the figures themselves where nothing stands beside them."""
    goal: Goal

    def cells(self) -> str:
        interval = bootstrap(self.values)
        reference = "" if self.reference is None else f"{number(self.reference)} {self.unit}"
        shown = [
            self.name,
            f"{number(self.ours)} {self.unit}",
            reference,
            number(interval.median),
            f"{number(min(self.values))} - {number(max(self.values))}",
            self.goal.text(self.goal.must),
            self.goal.text(self.goal.aim),
            self.goal.verdict(interval),
        ]
        return f"| {' | '.join(shown)} |"


@dataclass
class Ground:
    place: Path
    quick: bool
    rows: list[Row] = field(default_factory=list)
    made: int = 0

    @property
    def pairs(self) -> int:
        return 2 if self.quick else 11

    @property
    def commits(self) -> int:
        return 300 if self.quick else 4000

    def name(self, kind: str) -> str:
        self.made += 1
        return f"{kind}{self.made}"

    def add(self, row: Row) -> None:
        print(row.cells(), flush=True)
        self.rows.append(row)

    def compare(
        self, name: str, unit: str, ours: Callable[[], float], reference: Callable[[], float], must: float, aim: float
    ) -> None:
        """Both give so many a second."""
        ours(), reference()
        pairs = []
        for turn in range(self.pairs):
            order = (ours, reference) if turn % 2 == 0 else (reference, ours)
            rate = {side: side() for side in order}
            pairs.append((rate[ours], rate[reference]))
        medians = [statistics.median(side) for side in zip(*pairs, strict=True)]
        ratios = [mine / other for mine, other in pairs]
        self.add(Row(name, unit, *medians, ratios, Goal(must, aim, lower=False)))


def committing(connection: sqlite3.Connection, commits: int) -> float:
    """Commits a second of a table of its own, which is gone behind it."""
    connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
    row = (os.urandom(SIZE),)
    begun = time.perf_counter()
    for _ in range(commits):
        connection.execute("INSERT INTO t(x) VALUES(?)", row)
    rate = commits / (time.perf_counter() - begun)
    connection.execute("DROP TABLE t")
    return rate


def plain(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


# ---- questions ----


def embedded(ground: Ground, ns: walkeeper.Namespace) -> None:
    """One thread, on one disk; and what a commit costs in the log."""
    with walkeeper_sqlite.attach(ground.place / "app.db", ns.log("app")) as database:
        ours, alone = database.connect(isolation_level=None), plain(ground.place / "plain.db")
        ground.compare(
            "commits on a directory ÷ SQLite's WAL with synchronous=FULL",
            "/s",
            lambda: committing(ours, ground.commits),
            lambda: committing(alone, ground.commits),
            1.0,
            1.2,
        )
        before = database.status()
        ours.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        for _ in range(10):
            for _ in range(ground.commits // 10):
                ours.execute("INSERT INTO t(x) VALUES(?)", (os.urandom(SIZE),))
        after = database.status()
        size = (after.log_bytes - before.log_bytes) / (after.commits - before.commits)
        ground.add(Row("log bytes of a commit of one row", "bytes", size, None, [size], Goal(500, 200, lower=True)))
        reads(ground, ours, alone)
        ours.close()
        alone.close()
    restoring(ground, ns.log("app"))


def reads(ground: Ground, ours: sqlite3.Connection, alone: sqlite3.Connection) -> None:
    count = 20_000 if ground.quick else 200_000
    for connection in (ours, alone):
        connection.execute("CREATE TABLE r(id INTEGER PRIMARY KEY, x)")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO r(x) VALUES(?)", ((os.urandom(SIZE),) for _ in range(count)))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def reading(connection: sqlite3.Connection) -> float:
        connection.execute("PRAGMA cache_size=10")  # so that pages are read from the file
        begun = time.perf_counter()
        for identity in range(1, count, 7):
            connection.execute("SELECT x FROM r WHERE id = ?", (identity * 7919 % count + 1,)).fetchone()
        return count / 7 / (time.perf_counter() - begun)

    ground.compare(
        "reads of single rows ÷ SQLite alone", "/s", lambda: reading(ours), lambda: reading(alone), 0.98, 1.0
    )


def restoring(ground: Ground, log: walkeeper.Log) -> None:
    """A database of 64 MiB, whose log begins with a snapshot, beside cp and sync of the file."""
    size = 4 if ground.quick else 64
    name, file = ground.name("big"), ground.place / "big.db"
    big = log.namespace.log(name)
    with walkeeper_sqlite.attach(file, big) as database:
        connection = database.connect(isolation_level=None)
        connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO t(x) VALUES(?)", ((os.urandom(1000),) for _ in range(size * 1024)))
        connection.execute("COMMIT")
        database.snapshot()
        connection.close()
    bytes_count = file.stat().st_size

    def by_us() -> float:
        target = ground.place / ground.name("restored")
        begun = time.perf_counter()
        walkeeper_sqlite.restore(big, target)
        rate = bytes_count / 2**20 / (time.perf_counter() - begun)
        target.unlink()
        return rate

    def by_copy() -> float:
        target = ground.place / ground.name("copy")
        begun = time.perf_counter()
        shutil.copyfile(file, target)
        with open(target, "rb") as copy:
            os.fsync(copy.fileno())
        rate = bytes_count / 2**20 / (time.perf_counter() - begun)
        target.unlink()
        return rate

    ground.compare("restoration ÷ a synced copy of the file", "MiB/s", by_us, by_copy, 0.4, 0.7)


def together(ground: Ground, ns: walkeeper.Namespace, where: str) -> None:
    """Eight threads."""
    seconds = 0.5 if ground.quick else 2.0

    def by_threads(acknowledge: walkeeper_sqlite.Acknowledge) -> float:
        name = ground.name("threads")
        with walkeeper_sqlite.attach(ground.place / f"{name}.db", ns.log(name), acknowledge=acknowledge) as database:
            first = database.connect(isolation_level=None)
            first.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
            counts, end = [0] * THREADS, time.perf_counter() + seconds

            def run(thread: int) -> None:
                connection = database.connect(isolation_level=None, timeout=60)
                while time.perf_counter() < end:
                    connection.execute("INSERT INTO t(x) VALUES(?)", (os.urandom(SIZE),))
                    counts[thread] += 1
                connection.close()

            threads = [threading.Thread(target=run, args=(thread,)) for thread in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            first.close()
        return sum(counts) / seconds

    name = f"{THREADS} threads {where}, group ÷ strict"
    ground.compare(name, "/s", lambda: by_threads("group"), lambda: by_threads("strict"), 3, 4)


def replicated(ground: Ground, ns: walkeeper.Namespace) -> None:
    """Three bookies, one commit in flight, beside one append of as many bytes in flight."""
    payload = os.urandom(160)
    with walkeeper_sqlite.attach(ground.place / "replicated.db", ns.log("app")) as database:
        connection = database.connect(isolation_level=None)
        with ns.log("bare").writer() as writer:

            def appending() -> float:
                begun = time.perf_counter()
                for _ in range(ground.commits // 4):
                    writer.append(payload)
                return ground.commits // 4 / (time.perf_counter() - begun)

            ground.compare(
                "commits on three bookies ÷ appends there, one in flight",
                "/s",
                lambda: committing(connection, ground.commits // 4),
                appending,
                0.8,
                0.95,
            )
        connection.close()


def following(ground: Ground, ns: walkeeper.Namespace) -> None:
    """From a commit that returned to the reader that sees it, on three bookies, a commit each few milliseconds."""
    lags = []
    with (
        walkeeper_sqlite.attach(ground.place / "leading.db", ns.log("leading")) as database,
        walkeeper_sqlite.follow(ground.place / "following.db", ns.log("leading")) as follower,
    ):
        connection = database.connect(isolation_level=None)
        connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        follower.wait_for(walkeeper_sqlite.last_lsn(connection), timeout=60)
        for _ in range(100 if ground.quick else 2000):
            connection.execute("INSERT INTO t(x) VALUES(?)", (os.urandom(SIZE),))
            begun = time.perf_counter()
            follower.wait_for(database.status().lsn, timeout=60)
            lags.append((time.perf_counter() - begun) * 1000)
            time.sleep(0.002)
        connection.close()
    lags.sort()
    middle, most = lags[len(lags) // 2], lags[int(len(lags) * 0.99)]
    name = f"follower on three bookies behind a commit, 99 % within (half within {number(middle)} ms)"
    ground.add(Row(name, "ms", most, None, [most], Goal(20, 5, lower=True)))


# ---- the page ----

TEXT = """# SQLite on a log, measured

<!-- Made by `make bench-sqlite`. Do not edit: run it again. -->

{quick}Measured {date} with SQLite {version}. Other processes took {others:.2f} processors meanwhile; they fall on both
sides, which take turns. A ratio is the median of {pairs} pairs.

| what | walkeeper | reference | ratio or figure | min - max | must | aim | verdict |
|---|---|---|---|---|---|---|---|
{table}

* A commit is one row of 100 bytes, by Python's `sqlite3`. SQLite alone syncs its WAL with each commit; here the log
  does, and the WAL is not synced.
* The floor of a commit on three bookies is one append there: the row beside it. Both sides are asked by one thread, and
  SQLite's own work (about 20 us a row from Python) comes on top.
* Strict commits of several threads wait for each other's sync or round trip. A commit of a group costs about 140 us of
  processor time, from C as from Python, and two processors bound it: frames of the WAL 20 %, wake-ups of threads 19 %,
  the log's driver 17 %, SQLite's checkpoints 15 %, file locks 8 %.
* A commit in a directory is one write and one sync, as one of SQLite is. The rest is the frame that is read back, and
  the image that is made of it.
* A restoration reads the log by one thread while it writes the file by another; the copy comes from the page cache.

## The machine

| | |
|---|---|
{machine}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="to see that it works; nothing to quote")
    parser.add_argument("--page", type=Path, help="the file that the results are written to")
    parser.add_argument("--dir", help="where logs and databases are kept")
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(dir=given.dir))
    os.environ["PYTHONPATH"] = os.pathsep.join(PATHS)
    watch, begun = Watch(place), time.monotonic()
    ground = Ground(place, given.quick)
    try:
        with walkeeper.open(place / "wal") as ns:
            embedded(ground, ns)
            together(ground, ns, "on a directory")
        with LocalCluster(place / "cluster", 3) as cluster:
            cluster.start()
            with walkeeper.open(cluster.metadata) as ns:
                replicated(ground, ns)
                together(ground, ns, "on three bookies")
                following(ground, ns)
        others = watch.stop().others_cpu_seconds / (time.monotonic() - begun)
        if given.page:
            text = TEXT.format(
                quick="QUICK RUN: nothing to quote.\n\n" if given.quick else "",
                date=time.strftime("%Y-%m-%d"),
                version=sqlite3.sqlite_version,
                pairs=ground.pairs,
                others=others,
                table="\n".join(row.cells() for row in ground.rows),
                machine="\n".join(f"| {name} | {value} |" for name, value in describe(place).items()),
            )
            given.page.write_text(text)
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
