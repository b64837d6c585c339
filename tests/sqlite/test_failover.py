"""A database on three bookies, and the machine that takes it over: the first one is killed, or stands still.

WALKEEPER_SQLITE_FAILOVERS=n: so many rounds.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import walkeeper
import walkeeper_sqlite
from walkeeper_bookie.cluster import LocalCluster

ROOT = Path(__file__).resolve().parents[2]
PATHS = [str(ROOT / "bookie"), str(ROOT / "adapters/sqlite")]
ROUNDS = int(os.environ.get("WALKEEPER_SQLITE_FAILOVERS", "10"))
SEED = int(os.environ.get("WALKEEPER_TEST_SEED", "0")) or random.randrange(1, 1 << 32)


@pytest.fixture(scope="module")
def bookies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([*PATHS, os.environ.get("PYTHONPATH", "")]))
        with LocalCluster(tmp_path_factory.mktemp("bookies"), 3) as made:
            made.start()
            yield made


@dataclass
class Primary:
    """What it said so far."""

    process: subprocess.Popen[str]
    found: int = -1
    acknowledged: int = 0
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
            else:
                self.refused = rest
            lines = None if lines is None else lines - 1


@contextmanager
def primary(bookies: LocalCluster, namespace: str, file: Path) -> Iterator[Primary]:
    command = [sys.executable, str(Path(__file__).with_name("primary.py")), bookies.metadata, namespace, str(file)]
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
    for number in range(ROUNDS // 2):
        with primary(bookies, namespace, tmp_path / f"{number}.db") as first:
            first.listen(1)
            assert first.found == last, first.refused
            first.listen(chance.randrange(5, 60))
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


def test_a_primary_that_is_fenced_reads_and_is_told_so(bookies: LocalCluster, tmp_path: Path) -> None:
    with walkeeper.open(bookies.metadata, namespace=f"fenced-{SEED}") as ns:
        database = walkeeper_sqlite.attach(tmp_path / "first.db", ns.log("app"))
        connection = database.connect(isolation_level=None)
        connection.execute("CREATE TABLE t(x)")
        with walkeeper_sqlite.attach(tmp_path / "second.db", ns.log("app")) as second:
            with pytest.raises(sqlite3.OperationalError):
                connection.execute("INSERT INTO t VALUES(1)")
            assert database.status().state == "fenced"
            assert second.connect().execute("SELECT * FROM t").fetchall() == []
        connection.close()
        database.close()
