"""A database on bookies, and the machine that takes it over: the first one is killed, stands still, or is parted from
bookies while it commits.

WALKEEPER_SQLITE_FAILOVERS=n: so many rounds.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from network_cluster import NetworkCluster
from private_network import private_network

import walkeeper
import walkeeper_sqlite
from walkeeper_bookie.cluster import LocalCluster

ROOT = Path(__file__).resolve().parents[2]
PATHS = [str(ROOT / "bookie"), str(ROOT / "adapters/sqlite")]
ROUNDS = int(os.environ.get("WALKEEPER_SQLITE_FAILOVERS", "12"))
WAYS_TO_ACKNOWLEDGE = ("strict", "group")
HOSTS = ("bookie-1", "bookie-2", "bookie-3", "bookie-4")
SEED = int(os.environ.get("WALKEEPER_TEST_SEED", "0")) or random.randrange(1, 1 << 32)


@pytest.fixture(scope="module")
def bookies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([*PATHS, os.environ.get("PYTHONPATH", "")]))
        with LocalCluster(tmp_path_factory.mktemp("bookies"), 3) as made:
            made.start()
            yield made


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkCluster]:
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("PYTHONPATH", os.pathsep.join([*PATHS, os.environ.get("PYTHONPATH", "")]))
        network = stack.enter_context(private_network("first", "second", *HOSTS))
        made = stack.enter_context(NetworkCluster(tmp_path_factory.mktemp("hosts"), network, HOSTS))
        made.start()
        yield made


@dataclass
class Primary:
    """What it said so far."""

    process: subprocess.Popen[str]
    found: int = -1
    acknowledged: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    """The state of the database behind each commit that did not return."""
    state: str = "open"
    refused: str | None = None

    def listen(self, lines: int | None = None) -> None:
        """To so many lines, or to the end."""
        assert self.process.stdout is not None
        while lines is None or lines > 0:
            line = self.process.stdout.readline()
            if not line.endswith("\n"):
                return
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "at":
                self.found = self.acknowledged = int(rest)
            elif word == "ok":
                self.acknowledged = int(rest)
            elif word == "failed":
                row, state = rest.split()
                self.failed[int(row)] = state
            elif word == "ended":
                self.state = rest
            else:
                self.refused = rest
            lines = None if lines is None else lines - 1


@contextmanager
def primary(bookies: LocalCluster, namespace: str, file: Path, acknowledge: str) -> Iterator[Primary]:
    program = str(Path(__file__).with_name("primary.py"))
    command = [sys.executable, program, bookies.metadata, namespace, str(file), acknowledge]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Primary(process)
        finally:
            process.kill()


def check_rows(file: Path, acknowledged: int) -> int:
    """No acknowledged row is missing, and at most the one that was under way is there too. Returns the last one."""
    connection = sqlite3.connect(file)
    ids = [row[0] for row in connection.execute("SELECT id FROM t ORDER BY id")]
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    assert ids == list(range(1, len(ids) + 1))
    assert len(ids) in (acknowledged, acknowledged + 1)
    return len(ids)


@pytest.mark.parametrize("way", ["killed", "stopped"])
def test_what_was_acknowledged_is_on_the_machine_that_takes_over(
    bookies: LocalCluster, tmp_path: Path, way: str
) -> None:
    print(f"WALKEEPER_TEST_SEED={SEED}")
    chance = random.Random(f"{SEED} {way}")
    namespace, last = f"{way}-{SEED}", 0
    for number in range(ROUNDS // 3):
        acknowledge = chance.choice(WAYS_TO_ACKNOWLEDGE)
        with primary(bookies, namespace, tmp_path / f"{number}.db", acknowledge) as first:
            first.listen(1)
            assert first.found == last, first.refused
            first.listen(chance.randrange(5, 120))
            os.kill(first.process.pid, signal.SIGKILL if way == "killed" else signal.SIGSTOP)
            if way == "killed":
                first.listen()
            again = tmp_path / f"{number}-again.db"
            with walkeeper.open(bookies.metadata, namespace=namespace) as ns:
                with walkeeper_sqlite.attach(again, ns.log("app")) as database:
                    connection = database.connect(isolation_level=None)
                    ids = [row[0] for row in connection.execute("SELECT id FROM t ORDER BY id")]
                    if way == "stopped":
                        os.kill(first.process.pid, signal.SIGCONT)
                        first.listen()
                        assert first.refused is not None
                    assert ids == list(range(1, len(ids) + 1))
                    assert len(ids) in (first.acknowledged, first.acknowledged + 1)
                    last = len(ids) + 1
                    connection.execute("INSERT INTO t(id) VALUES(?)", (last,))
                    connection.close()
                walkeeper_sqlite.restore(ns.log("app"), tmp_path / f"{number}-restored.db")
            check_rows(tmp_path / f"{number}-restored.db", last)
            check_rows(again, last)


@contextmanager
def parted(hosts: NetworkCluster, chance: random.Random) -> Iterator[None]:
    """The first machine and some bookies do not hear each other, or one does not hear the other."""
    ways = chance.choice([(True, False), (False, True), (True, True)])
    for host in chance.sample(HOSTS, chance.randrange(1, len(HOSTS) + 1)):
        for way, pair in zip(ways, [("first", host), (host, "first")], strict=True):
            if way:
                hosts.network.cut(*pair)
    try:
        time.sleep(chance.choice([0, 0.1, 0.5, 2]))
        yield
    finally:
        hosts.network.heal()


def rows_of_primaries(connection: sqlite3.Connection) -> list[int]:
    """The machines that take over insert NULL."""
    return [row[0] for row in connection.execute("SELECT id FROM t WHERE x IS NOT NULL ORDER BY id")]


@pytest.fixture
def follower(hosts: NetworkCluster, tmp_path: Path) -> Iterator[walkeeper_sqlite.Follower]:
    """Of the log of the machines that are parted, on the second one."""
    with hosts.network.inside("second"), walkeeper.open(hosts.metadata, namespace=f"parted-{SEED}") as ns:
        walkeeper_sqlite.attach(tmp_path / "made.db", ns.log("app")).close()
        with walkeeper_sqlite.follow(tmp_path / "follower.db", ns.log("app")) as made:
            yield made


def test_a_primary_that_is_parted_from_bookies_is_taken_over(
    hosts: NetworkCluster, follower: walkeeper_sqlite.Follower, tmp_path: Path
) -> None:
    """What it committed is there. What it was told is rolled back is not; what it was told nothing of is there or not,
    and the log says so for ever. A follower sees the same."""
    print(f"WALKEEPER_TEST_SEED={SEED}")
    chance, namespace, last, rows = random.Random(f"{SEED} parted"), f"parted-{SEED}", 0, []
    for number in range(ROUNDS // 3):
        old, new = tmp_path / f"{number}.db", tmp_path / f"{number}-again.db"
        with ExitStack() as stack:
            with hosts.network.inside("first"):
                first = stack.enter_context(primary(hosts, namespace, old, chance.choice(WAYS_TO_ACKNOWLEDGE)))
            first.listen(1)
            assert first.found == last, first.refused
            first.listen(chance.randrange(5, 120))
            with parted(hosts, chance), hosts.network.inside("second"):
                ns = stack.enter_context(walkeeper.open(hosts.metadata, namespace=namespace))
                database = stack.enter_context(walkeeper_sqlite.attach(new, ns.log("app")))
                connection = database.connect(isolation_level=None)
                found = rows_of_primaries(connection)
                last = connection.execute("SELECT max(id) FROM t").fetchone()[0] + 1
                connection.execute("INSERT INTO t(id) VALUES(?)", (last,))
                time.sleep(chance.choice([0, 0.1, 0.5, 2]))
            first.listen()
            first.process.wait()
            assert rows_of_primaries(connection) == found
            follower.wait_for(walkeeper_sqlite.last_lsn(connection), timeout=60)
            connection.close()
            database.close()
            reader = sqlite3.connect(follower.path)
            assert rows_of_primaries(reader) == found
            reader.close()
            known = set(range(first.found + 1, first.acknowledged + 1)) - first.failed.keys()
            unknown = {row for row, state in first.failed.items() if state == "poisoned"}
            assert {*rows, *known} <= set(found) <= {*rows, *known, *unknown}, first
            assert first.refused is not None
            assert first.state in ("fenced", "poisoned")
            assert ("readonly" in first.refused) == (first.state == "fenced"), first
            rows = found
            # what the first machine had beyond the log is gone when it comes back
            walkeeper_sqlite.restore(ns.log("app"), tmp_path / f"{number}-restored.db")
            for file in (old, new):
                walkeeper_sqlite.attach(file, ns.log("app")).close()
                assert file.read_bytes() == (tmp_path / f"{number}-restored.db").read_bytes()


def test_a_primary_that_is_fenced_reads_and_is_told_so(bookies: LocalCluster, tmp_path: Path) -> None:
    with walkeeper.open(bookies.metadata, namespace=f"fenced-{SEED}") as ns:
        database = walkeeper_sqlite.attach(tmp_path / "first.db", ns.log("app"))
        connection = database.connect(isolation_level=None)
        connection.execute("CREATE TABLE t(x)")
        with walkeeper_sqlite.attach(tmp_path / "second.db", ns.log("app")) as second:
            with pytest.raises(sqlite3.OperationalError):
                connection.execute("INSERT INTO t VALUES(1)")
            status = database.status()
            assert status.state == "fenced"
            assert status.reason == "append to log app: another writer took over: the record is not written"
            assert second.connect().execute("SELECT * FROM t").fetchall() == []
        connection.close()
        database.close()
