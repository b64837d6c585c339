"""
A SQLite whose write-ahead log is a log, beside litestream: commits a second, what is lost with the primary, and how
long the takeover takes.

    make bench-sqlite-peers               # writes sqlite_peers.md beside this file
    python benchmarks/sqlite_peers.py [--quick] [--page FILE] [--peers FOLDER] [--dir SCRATCH] [--seed N]

litestream is built by `go install` into FOLDER, where it is not there yet. Without it, only walkeeper is measured, and
the page says so. All ways take turns, in one run. Rows of 100 bytes, one a commit.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parents[1]
PATHS = [str(ROOT / "bookie"), str(ROOT / "adapters/sqlite")]
sys.path[:0] = PATHS

from harness.machine import Watch, describe  # noqa: E402
from harness.ratio import Goal, Interval, bootstrap  # noqa: E402
from harness.report import number  # noqa: E402

import walkeeper  # noqa: E402
import walkeeper_sqlite  # noqa: E402
from walkeeper_bookie.cluster import LocalCluster  # noqa: E402

LITESTREAM = "v0.5.18"
BUILD_SECONDS = 1800.0
SIZE = 100
PAUSE_SECONDS = 0.005
"""Between two commits of a primary that will be killed."""
LIFE_SECONDS = (0.5, 3.0)
"""Until it is. What it says meanwhile, 40 bytes a commit, must fit in a pipe of 64 KiB."""
CONTROL_SECONDS = 60.0
OTHERS_MAX = 0.05
"""Processors that other processes may take: with more there is no verdict."""


# ---- the programs beside ours ----


def built(folder: Path) -> Path | None:
    """litestream, built where it is not there yet. None: Go is absent, or its modules cannot be had."""
    program = folder / f"litestream-{LITESTREAM}" / "litestream"
    if program.exists():
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    module = f"github.com/benbjohnson/litestream/cmd/litestream@{LITESTREAM}"
    flags = f"{os.environ.get('GOFLAGS', '')} -p=2".strip()
    environment = os.environ | {"GOBIN": str(program.parent.resolve()), "GOFLAGS": flags}
    try:
        subprocess.run(
            ["nice", "-n", "19", "go", "install", module], env=environment, timeout=BUILD_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        print(f"litestream {LITESTREAM} could not be built: {error}", file=sys.stderr)
        return None
    return program


class Control(http.client.HTTPConnection):
    """The control socket of a litestream, on one connection that stays open."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=CONTROL_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)

    def synced(self, database: Path) -> None:
        """Returns when the replica has what is committed, as `litestream sync -wait` does."""
        self.request("POST", "/sync", json.dumps({"path": str(database), "wait": True}))
        answer = self.getresponse()
        said = answer.read().decode()
        if answer.status != http.client.OK:
            raise RuntimeError(f"litestream did not sync {database}: {answer.status} {said}")


class Replicator:
    """A litestream as a process. Leaving the context kills it."""

    def __init__(self, program: Path, database: Path, replica: Path, socket_path: Path) -> None:
        self.database, self.socket_path = database, socket_path
        self._log = socket_path.with_suffix(".log")
        config = socket_path.with_suffix(".yml")
        config.write_text(
            f"socket:\n  enabled: true\n  path: {socket_path}\n"
            f"dbs:\n  - path: {database}\n    replica:\n      url: file://{replica}\n"
        )
        with open(self._log, "wb") as log:
            self.process = subprocess.Popen([program, "replicate", "-config", config], stdout=log, stderr=log)

    def __enter__(self) -> Replicator:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def ready(self) -> None:
        """Returns when the replica has the database."""
        until = time.monotonic() + CONTROL_SECONDS
        while not self._synced():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"litestream does not replicate: {self._log.read_text()}")
            time.sleep(0.02)

    def _synced(self) -> bool:
        """False where it does not listen yet, or has not opened the database."""
        with closing(Control(str(self.socket_path))) as control:
            try:
                control.synced(self.database)
            except (OSError, RuntimeError):
                return False
        return True


def plain(path: Path) -> sqlite3.Connection:
    """As litestream's documentation has it for many small commits, with a WAL that is synced at each commit."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=5000", "wal_autocheckpoint=0"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


# ---- the primary: a process of its own, which is killed ----


def write_until_killed(kind: str, file: str, mebibytes: str, where: str, log: str) -> None:
    """
    Says `ready` when the database has so many MiB, and begins when a line comes. Behind each commit that returned it
    says the commit's number, the time, and the bytes that the log has of commits.
    """
    with ExitStack() as stack:
        database = None
        if kind == "walkeeper":
            ns = stack.enter_context(walkeeper.open(where))
            database = walkeeper_sqlite.attach(file, ns.log(log))
        connection = plain(Path(file)) if database is None else database.connect(isolation_level=None)
        connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        connection.execute("CREATE TABLE there(x)")
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO there VALUES(?)", ((os.urandom(1000),) for _ in range(int(mebibytes) * 1024))
        )
        connection.execute("COMMIT")
        print("ready", flush=True)
        sys.stdin.readline()
        control = Control(where) if kind == "waiting" else None
        commit = 0
        while True:
            commit += 1
            connection.execute("INSERT INTO t VALUES(?, ?)", (commit, os.urandom(SIZE)))
            if control is not None:
                control.synced(Path(file))
            size = 0 if database is None else database.status().log_bytes
            print(commit, time.monotonic(), size, flush=True)
            time.sleep(PAUSE_SECONDS)


@dataclass
class Primary:
    writer: subprocess.Popen[str]
    replicator: Replicator | None = None

    def kill(self) -> None:
        """The writer and its replicator at one time."""
        processes = [self.writer] + ([self.replicator.process] if self.replicator else [])
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


@contextmanager
def writing(kind: str, file: Path, mebibytes: int, where: str, log: str) -> Iterator[subprocess.Popen[str]]:
    """A writer whose database is there, and that has not begun."""
    arguments = ["--write", kind, str(file), str(mebibytes), where, log]
    command = [sys.executable, __file__, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            if writer.stdout.readline() != "ready\n":
                raise RuntimeError(f"the primary of {file} ended before it began")
            yield writer
        finally:
            writer.kill()


# ---- the ways to keep a database ----


class Way(Protocol):
    name: str

    @contextmanager
    def primary(self, file: Path, log: str, mebibytes: int) -> Iterator[Primary]: ...

    @contextmanager
    def taken_over(self, file: Path, log: str) -> Iterator[sqlite3.Connection]:
        """Elsewhere: `file` is not there."""
        ...

    def replica_bytes(self, log: str) -> int | None:
        """None: the writer says it."""
        ...


@dataclass
class OnLog:
    name: str
    uri: str

    @contextmanager
    def primary(self, file: Path, log: str, mebibytes: int) -> Iterator[Primary]:
        with writing("walkeeper", file, mebibytes, self.uri, log) as writer:
            yield Primary(writer)

    @contextmanager
    def taken_over(self, file: Path, log: str) -> Iterator[sqlite3.Connection]:
        with walkeeper.open(self.uri) as ns, walkeeper_sqlite.attach(file, ns.log(log)) as database:
            connection = database.connect(isolation_level=None)
            yield connection
            connection.close()

    def replica_bytes(self, log: str) -> int | None:
        return None


@dataclass
class Streamed:
    name: str
    program: Path
    place: Path
    waiting: bool

    def _replica(self, log: str) -> Path:
        return self.place / f"replica-{log}"

    @contextmanager
    def primary(self, file: Path, log: str, mebibytes: int) -> Iterator[Primary]:
        socket_path = self.place / f"{log}.sock"
        kind = "waiting" if self.waiting else "plain"
        with (
            writing(kind, file, mebibytes, str(socket_path), log) as writer,
            Replicator(self.program, file, self._replica(log), socket_path) as replicator,
        ):
            replicator.ready()
            yield Primary(writer, replicator)

    @contextmanager
    def taken_over(self, file: Path, log: str) -> Iterator[sqlite3.Connection]:
        command = [str(self.program), "restore", "-o", str(file), f"file://{self._replica(log)}"]
        subprocess.run(command, check=True, capture_output=True)
        connection = plain(file)
        yield connection
        connection.close()

    def replica_bytes(self, log: str) -> int | None:
        commits = self._replica(log) / "ltx/0"
        return sum(path.stat().st_size for path in commits.iterdir())


# ---- what is lost, and the takeover ----


def lost(acknowledged: int, found: list[int]) -> int:
    """How many acknowledged commits are not there. Raises ValueError where commits before the last one are missing."""
    if found != list(range(1, len(found) + 1)):
        raise ValueError(f"{len(found)} commits are there, and they are not the first ones")
    return max(0, acknowledged - len(found))


def said(line: str) -> tuple[int, float, int] | None:
    """A commit of a primary: its number, when it returned, the bytes in the log. None: the line is cut."""
    if not line.endswith("\n"):
        return None
    commit, at, size = line.split()
    return int(commit), float(at), int(size)


@dataclass
class Kill:
    """One primary's end."""

    acknowledged: int
    lost: int
    span: float
    """Seconds from the first lost commit to the kill."""
    takeover: float
    """Seconds from the kill to the first commit elsewhere."""
    replica_bytes: int
    """That commits added to one copy of the log or replica."""
    carried: int
    """So many commits."""


def killed(way: Way, place: Path, log: str, life: float, mebibytes: int) -> Kill:
    """A primary lives so many seconds, is killed, and its folder is gone. Another folder takes over."""
    folder, elsewhere = place / f"{log}-first", place / f"{log}-second"
    folder.mkdir()
    elsewhere.mkdir()
    with way.primary(folder / "app.db", log, mebibytes) as primary:
        writer = primary.writer
        assert writer.stdin is not None
        assert writer.stdout is not None
        replica = way.replica_bytes(log)
        writer.stdin.write("\n")
        writer.stdin.flush()
        time.sleep(life)
        at = time.monotonic()
        primary.kill()
        folder.rename(place / f"{log}-gone")
        with way.taken_over(elsewhere / "app.db", log) as connection:
            connection.execute("INSERT INTO t(id, x) VALUES(0, ?)", (os.urandom(SIZE),))
            takeover = time.monotonic() - at
            found = [row[0] for row in connection.execute("SELECT id FROM t WHERE id > 0 ORDER BY id")]
        commits = [commit for line in writer.stdout if (commit := said(line))]
    if len(commits) < 2:
        raise RuntimeError(f"{way.name}: {len(commits)} commits in {life:.1f} seconds")
    missing, after = lost(len(commits), found), way.replica_bytes(log)
    if replica is None or after is None:
        size, carried = commits[-1][2] - commits[0][2], len(commits) - 1
    else:
        size, carried = after - replica, len(found)
    for gone in (place / f"{log}-gone", elsewhere):
        shutil.rmtree(gone)
    span = at - commits[len(found)][1] if missing else 0.0
    return Kill(len(commits), missing, span, takeover, size, carried)


def loss_row(name: str, kills: list[Kill]) -> str:
    acknowledged, carried = sum(kill.acknowledged for kill in kills), sum(kill.carried for kill in kills)
    losses, takeovers = [kill.lost for kill in kills], [kill.takeover * 1000 for kill in kills]
    cells = [
        name,
        f"{acknowledged:,}",
        f"{sum(losses):,}",
        f"{statistics.median(losses):g} ({min(losses)} - {max(losses)})",
        f"{max(kill.span for kill in kills):.2f} s",
        f"{number(statistics.median(takeovers))} ms ({number(min(takeovers))} - {number(max(takeovers))})",
        f"{sum(kill.replica_bytes for kill in kills) / carried:,.0f}" if carried else "",
    ]
    return f"| {' | '.join(cells)} |"


# ---- commits a second ----


@dataclass
class Side:
    name: str
    connection: sqlite3.Connection
    after_commit: Callable[[], None] | None = None
    settle: Callable[[], None] | None = None
    """Behind its turn, so that what it left to do is not done in another's."""
    rates: list[float] = field(default_factory=list)

    def run(self, seconds: float) -> float:
        connection, after_commit, row = self.connection, self.after_commit, (os.urandom(SIZE),)
        connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        commits, begun = 0, time.perf_counter()
        while (now := time.perf_counter()) - begun < seconds:
            connection.execute("INSERT INTO t(x) VALUES(?)", row)
            if after_commit is not None:
                after_commit()
            commits += 1
        connection.execute("DROP TABLE t")
        if self.settle is not None:
            self.settle()
        return commits / (now - begun)


@dataclass
class Row:
    """A ratio of two sides, a figure a turn. Without a goal: they do not promise the same."""

    name: str
    ours: list[float]
    reference: list[float]
    goal: Goal | None

    def cells(self, others: float) -> str:
        ratios = [mine / other for mine, other in zip(self.ours, self.reference, strict=True)]
        interval = bootstrap(ratios)
        shown = [
            self.name,
            f"{number(statistics.median(self.ours))} /s",
            f"{number(statistics.median(self.reference))} /s",
            number(interval.median),
            f"{number(min(ratios))} - {number(max(ratios))}",
            self.goal.text(self.goal.must) if self.goal else "",
            self.goal.text(self.goal.aim) if self.goal else "",
            self._verdict(interval, others),
        ]
        return f"| {' | '.join(shown)} |"

    def _verdict(self, interval: Interval, others: float) -> str:
        if self.goal is None:
            return "-"
        verdict = self.goal.verdict(interval)
        return verdict if others <= OTHERS_MAX else f"no verdict: a busy machine ({verdict})"


@dataclass(frozen=True)
class Length:
    seconds: float
    """Of each turn of a side."""
    turns: int
    kills: int
    mebibytes: int
    """That a database has before its primary is killed."""


FULL = Length(seconds=2.0, turns=11, kills=15, mebibytes=16)
QUICK = Length(seconds=0.5, turns=2, kills=2, mebibytes=1)


def commit_rates(place: Path, cluster: LocalCluster, program: Path | None, length: Length) -> dict[str, list[float]]:
    """Commits a second of each way, a figure a turn."""
    with ExitStack() as stack:
        sides = []
        for name, uri in (("directory", str(place / "rates-log")), ("bookies", cluster.metadata)):
            ns = stack.enter_context(walkeeper.open(uri))
            database = stack.enter_context(walkeeper_sqlite.attach(place / f"rates-{name}.db", ns.log("rates")))
            connection = database.connect(isolation_level=None)
            stack.callback(connection.close)
            sides.append(Side(name, connection))
        if program is not None:
            file, socket_path = place / "rates-streamed.db", place / "rates.sock"
            connection = plain(file)
            stack.callback(connection.close)
            replicator = stack.enter_context(Replicator(program, file, place / "replica-rates", socket_path))
            replicator.ready()
            control = Control(str(socket_path))
            stack.callback(control.close)

            def synced() -> None:
                control.synced(file)

            sides.append(Side("streamed", connection, settle=synced))
            sides.append(Side("waiting", connection, after_commit=synced, settle=synced))
        for side in sides:
            side.run(length.seconds / 4)
        for turn in range(length.turns):
            for side in sides if turn % 2 == 0 else reversed(sides):
                side.rates.append(side.run(length.seconds))
        return {side.name: side.rates for side in sides}


def rate_rows(rates: dict[str, list[float]]) -> list[Row]:
    if "streamed" not in rates:
        return []
    return [
        Row(
            "on three bookies ÷ litestream, each commit waits for the replica",
            rates["bookies"],
            rates["waiting"],
            Goal(1.0, 2.0, lower=False),
        ),
        Row(
            "on a directory ÷ litestream, each commit waits for the replica",
            rates["directory"],
            rates["waiting"],
            Goal(1.0, 2.0, lower=False),
        ),
        Row("on three bookies ÷ litestream behind", rates["bookies"], rates["streamed"], None),
        Row("on a directory ÷ litestream behind", rates["directory"], rates["streamed"], None),
    ]


# ---- the page ----

LITESTREAM_DOCS = "https://litestream.io"
RQLITE_DOCS = "https://rqlite.io/docs"
FACTS = (
    ("", "walkeeper on three bookies", "SQLite with litestream", "rqlite, three nodes"),
    (
        "a commit returns when",
        "two of three bookies have synced it",
        "the local WAL is synced. The replica follows, [each second by default]({ls}/reference/config/). "
        "[`sync -wait`]({ls}/reference/sync/) returns when the replica has it too",
        "[a quorum of nodes has it]({rq}/faq/), and [synced its Raft log]({rq}/guides/performance/). "
        "[Queued writes]({rq}/api/queued-writes/) return before",
    ),
    (
        "where the primary and its disk are gone",
        "every commit that returned is there",
        "[a small window is lost]({ls}/alternatives/)",
        "every commit that returned is there, where a quorum of nodes is left",
    ),
    (
        "who takes over",
        "whom you tell. The earlier writer is fenced",
        "whom you tell. [You see to it that two never replicate]({ls}/tips/). "
        "For S3 its Go library has [leases]({ls}/guides/s3-advanced/)",
        "[the nodes elect a leader]({rq}/clustering/)",
    ),
    (
        "servers",
        "three bookies, and ZooKeeper or etcd",
        "none: [a process beside the application]({ls}/how-it-works/), and a place for the replica",
        "[three nodes]({rq}/clustering/general-guidelines/)",
    ),
    (
        "driver",
        "those of SQLite, which load the VFS",
        "those of SQLite",
        "[an HTTP API; no drop-in replacement for SQLite]({rq}/faq/)",
    ),
    (
        "transactions in which the program reads, and then decides what to write",
        "yes",
        "yes",
        "no: [a transaction is one request; `BEGIN` and `COMMIT` are unsupported]({rq}/faq/)",
    ),
    (
        "as of an earlier time",
        "any commit that the log has",
        "[a time, or a transaction]({ls}/reference/restore/)",
        "[from backups]({rq}/guides/backup/)",
    ),
)
BUSY = "So what is timed here is not to be quoted; what is counted is: commits that are lost, and bytes."
RATE_HEAD = (
    "| commits | walkeeper | reference | ratio | min - max | must | aim | verdict |",
    "|---|---|---|---|---|---|---|---|",
)
LOSS_HEAD = (
    "| way | acknowledged | lost | lost a kill, median (min - max) | longest span lost "
    "| kill to first commit elsewhere, median (min - max) | bytes a commit in one copy |",
    "|---|---|---|---|---|---|---|",
)
TEXT = """# SQLite on a log beside other ways to keep a SQLite

<!-- Made by `make bench-sqlite-peers`. Do not edit: run it again. -->

{quick}Measured {date} with SQLite {version}, {litestream}. All on one machine and its loopback. Seed {seed}.
Other processes took {others:.2f} processors meanwhile; they fall on all sides, which take turns. {busy}

rqlite is not measured: its module could not be had by `go install`, so it could not be built. What this page says of it
is from its documentation.

## What each promises

{facts}

litestream is made for disaster recovery: it needs no servers, and its replica may lie in an object store. rqlite is a
database server of its own. walkeeper is for a program that has its SQLite inside, and may lose no commit.

## Commits a second

One row of 100 bytes a commit, one thread, Python's `sqlite3`. A ratio is the median of {turns} turns of {seconds:g}
seconds.

{rates}

* *litestream behind* is litestream as it comes: it replicates each second.
* *Each commit waits*: behind each commit the program asks litestream for a sync, and goes on when the replica has it.
  The connection to the control socket stays open. Then no commit that went on is lost with the primary, as with
  walkeeper, so these rows have goals. Others on the primary see a commit before the replica has it, and litestream does
  not call this [synchronous replication]({ls}/tips/).
* The other rows compare different promises, and have no goals.
* litestream replicates to a directory on the same disk. To an object store a wait takes a round trip to it. The three
  bookies share one disk and two processors here.
* SQLite has `synchronous=FULL`, and `wal_autocheckpoint=0`, as [litestream's tips]({ls}/tips/) say for many small
  commits.

## What is lost, and the takeover

A primary with {mebibytes} MiB commits a row, pauses for {pause:g} ms, and so on. At a random moment of its first
{life:g} seconds it is killed, and litestream with it; its folder is gone. Another folder takes over from the log, or
from the replica. {kills} kills of each.

{losses}

* *Lost* are commits that returned and are not there after the takeover. *Span*: from the first of them to the kill.
* The takeover begins at once: how long it takes to notice that a primary is dead is not in it. It is `walkeeper.open`,
  `attach` and a commit; or `litestream restore`, opening the file and a commit. The log has no snapshot, so all of it
  is read.
* *In one copy*: the payload in the log, of which three bookies have three copies; and the replica's files of level 0,
  over the commits that they have. litestream behind writes a page once that many commits of a second changed. Its
  compactions and daily snapshots come on top, as walkeeper's snapshots do.

## The machine

| | |
|---|---|
{machine}
"""


def facts() -> str:
    head, *rows = [f"| {' | '.join(cells)} |".format(ls=LITESTREAM_DOCS, rq=RQLITE_DOCS) for cells in FACTS]
    return "\n".join([head, "|---|---|---|---|", *rows])


def page(
    rates: dict[str, list[float]],
    kills: dict[str, list[Kill]],
    length: Length,
    others: float,
    seed: int,
    machine: dict[str, str],
) -> str:
    rows = rate_rows(rates)
    alone = " and ".join(f"{number(statistics.median(figures))} /s on {name}" for name, figures in rates.items())
    return TEXT.format(
        quick="QUICK RUN: nothing to quote.\n\n" if length is QUICK else "",
        date=time.strftime("%Y-%m-%d"),
        version=sqlite3.sqlite_version,
        litestream=f"litestream {LITESTREAM}" if rows else f"without litestream: {LITESTREAM} could not be built",
        others=others,
        busy=BUSY if others > OTHERS_MAX else "",
        seed=seed,
        ls=LITESTREAM_DOCS,
        rq=RQLITE_DOCS,
        turns=length.turns,
        seconds=length.seconds,
        facts=facts(),
        rates="\n".join([*RATE_HEAD, *(row.cells(others) for row in rows)]) if rows else f"walkeeper: {alone}.",
        mebibytes=length.mebibytes,
        pause=PAUSE_SECONDS * 1000,
        life=LIFE_SECONDS[1],
        kills=length.kills,
        losses="\n".join([*LOSS_HEAD, *(loss_row(name, one) for name, one in kills.items())]),
        machine="\n".join(f"| {name} | {value} |" for name, value in machine.items()),
    )


def measure(
    place: Path, program: Path | None, length: Length, seed: int
) -> tuple[dict[str, list[float]], dict[str, list[Kill]]]:
    chance = random.Random(seed)
    with LocalCluster(place / "cluster", 3) as cluster:
        cluster.start()
        rates = commit_rates(place, cluster, program, length)
        ways: list[Way] = [
            OnLog("walkeeper on three bookies", cluster.metadata),
            OnLog("walkeeper on a directory elsewhere", str(place / "log")),
        ]
        if program is not None:
            ways += [
                Streamed("litestream behind", program, place, waiting=False),
                Streamed("litestream, each commit waits for the replica", program, place, waiting=True),
            ]
        kills: dict[str, list[Kill]] = {way.name: [] for way in ways}
        for turn in range(length.kills):
            for way in ways if turn % 2 == 0 else reversed(ways):
                log = f"kill{ways.index(way)}-{turn}"
                kill = killed(way, place, log, chance.uniform(*LIFE_SECONDS), length.mebibytes)
                print(f"{way.name}: {kill}", flush=True)
                kills[way.name].append(kill)
    return rates, kills


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="to see that it works; nothing to quote")
    parser.add_argument("--page", type=Path, help="the file that the results are written to")
    parser.add_argument("--peers", type=Path, default=ROOT / "build/peers", help="where litestream is built")
    parser.add_argument("--dir", help="where logs, replicas and databases are kept")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills; 0: another one each time")
    parser.add_argument("--write", nargs=5, metavar="WORD", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        write_until_killed(*given.write)
    length, seed = QUICK if given.quick else FULL, given.seed or random.randrange(1, 1 << 32)
    program = built(given.peers)
    place = Path(tempfile.mkdtemp(dir=given.dir))
    os.environ["PYTHONPATH"] = os.pathsep.join(PATHS)
    watch, begun = Watch(place), time.monotonic()
    try:
        rates, kills = measure(place, program, length, seed)
        others = watch.stop().others_cpu_seconds / (time.monotonic() - begun)
        text = page(rates, kills, length, others, seed, describe(place))
        print(text)
        if given.page:
            given.page.write_text(text)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if any(kill.lost for name, one in kills.items() if name.startswith("walkeeper") for kill in one):
        raise SystemExit("walkeeper lost an acknowledged commit")


if __name__ == "__main__":
    main()
