"""A process that is killed, or whose disk fails, at each call that changes the database file, its WAL or its state; and
at each one that changes the directory of the log, without io_uring.

A write that kills is half done. What was acknowledged is there when it is opened again, and what failed as rolled back
is not, from the local files and from the log alone; and SQLite without walkeeper never finds more than the log has.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import walkeeper
import walkeeper_sqlite

HERE = Path(__file__).parent
APP, LOG = "app.db", "wal"
COMMITS = [*range(1, 6), *range(101, 106)]
SKIPPED = 77
STRIDES = {APP: 1, LOG: int(os.environ.get("WALKEEPER_SQLITE_STRIDE", "3"))}
"""Of the calls to a log, which are many, each third, and each sixth to two databases; the seed chooses the first."""
SEED = int(os.environ.get("WALKEEPER_TEST_SEED", "0")) or random.randrange(1, 1 << 32)
PAIRS = [*range(1, 5), *range(101, 105)]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the library that fails calls, and of the program that forbids io_uring, whose calls it would not
    see."""
    made = tmp_path_factory.mktemp("tools")
    without_uring = str(HERE.parent / "native/without_uring.c")
    for command in (
        ["-shared", "-fPIC", "-o", str(made / "failing_calls.so"), str(HERE / "failing_calls.c"), "-ldl"],
        ["-std=c11", "-D_GNU_SOURCE", "-o", str(made / "without_uring"), without_uring],
    ):
        subprocess.run(["cc", "-O1", *command], check=True)
    if subprocess.run([made / "without_uring", "true"]).returncode == SKIPPED:
        pytest.skip("no system call filter may be installed here")
    return made


def run(tools: Path, folder: Path, files: str, steps: str = "steps.py", **how: str) -> tuple[int, str]:
    """The exit status, and what it said. Calls fail that change files whose names begin with `files`."""
    folder.mkdir()
    preload = f"{os.environ.get('LD_PRELOAD', '')} {tools}/failing_calls.so"  # a sanitizer's library is the first
    environment = {**os.environ, "LD_PRELOAD": preload, "WALKEEPER_FAIL_IN": str(folder / files), **how}
    command = [str(tools / "without_uring"), sys.executable, str(HERE / steps), str(folder)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=120)
    return done.returncode, done.stdout


def rows(file: Path) -> list[int]:
    connection = sqlite3.connect(file)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if not connection.execute("SELECT name FROM sqlite_master").fetchall():
            return []
        return [row[0] for row in connection.execute("SELECT id FROM t ORDER BY id")]
    finally:
        connection.close()


def plain_rows(folder: Path, *, looks: bool) -> list[int]:
    """What SQLite without walkeeper makes of the files, or of copies of them."""
    if looks:
        return rows(folder / APP) if (folder / APP).exists() else []
    for name in ("app.db", "app.db-wal"):
        if (folder / name).exists():
            shutil.copy(folder / name, folder / f"plain-{name}")
    return rows(folder / "plain-app.db") if (folder / "plain-app.db").exists() else []


def failures_of(said: str) -> tuple[set[int], set[int]]:
    """The rows that were rolled back, and those of which nobody knew: the first one of each poisoned database."""
    rolled_back, unknown, poisoned = set(), set(), False
    for line in said.splitlines():
        word, _, rest = line.partition(" ")
        if word == "attached":
            poisoned = False
        elif word == "failed":
            row, state = int(rest.split()[0]), rest.split()[1]
            (unknown if state == "poisoned" and not poisoned else rolled_back).add(row)
            poisoned = poisoned or state == "poisoned"
    return rolled_back, unknown


def check(folder: Path, said: str, *, killed: bool, whole: bool, looks: bool = False) -> None:
    """`whole`: the local files are those of a process that ended at that moment, and not of a disk that failed.
    `looks`: a program without the VFS reads the database before it is opened again."""
    acknowledged = {int(line.split()[1]) for line in said.splitlines() if line.startswith("ok ")}
    rolled_back, unknown = failures_of(said)
    if killed:
        unknown.add(next((row for row in COMMITS if row not in acknowledged), 0))
    with walkeeper.open(folder / LOG) as ns:
        log = ns.log("app")
        in_log = []
        if log.info().count and walkeeper_sqlite.restore(log, folder / "log.db"):
            in_log = rows(folder / "log.db")
        assert acknowledged <= set(in_log) <= acknowledged | unknown, said
        assert not rolled_back & set(in_log), said
        if whole:
            local = plain_rows(folder, looks=looks)
            assert set(local) <= set(in_log)
        with walkeeper_sqlite.attach(folder / APP, log) as database:
            connection = database.connect(isolation_level=None)
            connection.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, x)")
            connection.execute("INSERT INTO t VALUES(1000, 0)")
            connection.close()
        assert rows(folder / APP) == [*in_log, 1000]
        walkeeper_sqlite.restore(log, folder / "again.db")
        assert (folder / "again.db").read_bytes() == (folder / APP).read_bytes()


def calls_of(tools: Path, folder: Path, files: str) -> int:
    status, said = run(tools, folder, files, WALKEEPER_FAIL_COUNT=str(folder / "count"))
    assert status == 0
    assert [int(line.split()[1]) for line in said.splitlines() if line.startswith("ok ")] == COMMITS, said
    check(folder, said, killed=False, whole=True)
    return int((folder / "count").read_text())


def in_turn(calls: int, one: Callable[[int], None], stride: int = 1) -> None:
    assert calls > 60
    with ThreadPoolExecutor(3) as pool:
        steps = [(number, pool.submit(one, number)) for number in range(1 + SEED % stride, calls + 1, stride)]
    failures = [(number, step.exception()) for number, step in steps if step.exception() is not None]
    assert not failures, failures


@pytest.mark.parametrize("files", [APP, LOG])
def test_a_process_that_is_killed_at_any_call(tools: Path, tmp_path: Path, files: str) -> None:
    def killed_at(number: int) -> None:
        status, said = run(tools, tmp_path / str(number), files, WALKEEPER_FAIL_AT=str(number))
        # threads of the log make as many calls as there is time for
        assert status == -signal.SIGKILL or (files == LOG and status == 0), said
        check(tmp_path / str(number), said, killed=status != 0, whole=True, looks=number // STRIDES[files] % 2 == 1)

    in_turn(calls_of(tools, tmp_path / "none", files), killed_at, STRIDES[files])


@pytest.mark.parametrize("files", [APP, LOG])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_at_any_call(tools: Path, tmp_path: Path, files: str, code: int) -> None:
    def fails_at(number: int) -> None:
        how = {"WALKEEPER_FAIL_AT": str(number), "WALKEEPER_FAIL_WITH": str(code)}
        status, said = run(tools, tmp_path / str(number), files, **how)
        assert status == 0, said
        check(tmp_path / str(number), said, killed=False, whole=False)

    stride = STRIDES[files] * (2 if code == errno.ENOSPC else 1)  # what follows is the same but for the error
    in_turn(calls_of(tools, tmp_path / "none", files), fails_at, stride)


RESTARTS = """
import os, sys, walkeeper, walkeeper_sqlite
folder, file, what = sys.argv[1:]
with walkeeper.open(folder + "/wal") as ns, walkeeper_sqlite.attach(f"{folder}/{file}", ns.log("app")) as db:
    connection = db.connect(isolation_level=None)
    if what == "fill":
        connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        connection.execute("WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 30) "
                           "INSERT INTO t SELECT i, randomblob(900) FROM n")
        connection.execute("PRAGMA wal_checkpoint")
    if what != "open":
        for number in range(3):  # other pages each time: the WAL would put those of the first ones into the file
            rest = number if what == "fill" else 5 + number
            connection.execute("UPDATE t SET x = randomblob(900) WHERE id % 11 = ?", (rest,))
    if what == "fill":
        os._exit(0)
    connection.close()
"""


@pytest.mark.parametrize("code", [0, errno.EIO])
def test_a_restart_that_is_killed_at_any_call(tools: Path, tmp_path: Path, code: int) -> None:
    """It redoes the commits of another machine, on a file that a crash left. Others may read the file meanwhile."""

    def command(folder: Path, file: str, what: str) -> list[str]:
        return [sys.executable, "-c", RESTARTS, str(folder), file, what]

    def at(number: int, count: bool = False) -> None:
        folder = tmp_path / str(number)
        subprocess.run(["cp", "-rp", tmp_path / "filled", folder], check=True)
        if number % 3 == 1:
            assert len(rows(folder / APP)) == 30
        how = {"WALKEEPER_FAIL_AT": str(number)} if not count else {"WALKEEPER_FAIL_COUNT": str(tmp_path / "count")}
        how |= {"WALKEEPER_FAIL_WITH": str(code)} if code else {}
        how |= {"LD_PRELOAD": f"{tools}/failing_calls.so", "WALKEEPER_FAIL_IN": str(folder / APP)}
        restarted = subprocess.run(command(folder, APP, "open"), env={**os.environ, **how}, timeout=120)
        assert restarted.returncode in ([0] if count else [0, 1] if code else [-signal.SIGKILL])
        if (
            number % 3 == 2 and not code
        ):  # behind a restart that failed it is refused: nobody knows the file that it left
            assert len(rows(folder / APP)) == 30
        with walkeeper.open(folder / LOG) as ns:
            with walkeeper_sqlite.attach(folder / APP, ns.log("app")):
                pass
            assert len(rows(folder / APP)) == 30
            walkeeper_sqlite.restore(ns.log("app"), folder / "log.db")
        assert (folder / "log.db").read_bytes() == (folder / APP).read_bytes()

    (tmp_path / "filled").mkdir()
    subprocess.run(command(tmp_path / "filled", APP, "fill"), check=True)
    subprocess.run(command(tmp_path / "filled", "other.db", "go on"), check=True)
    at(0, count=True)
    calls = int((tmp_path / "count").read_text())
    assert calls > 20
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(at, range(1, calls + 1)))


CHECKPOINTS = """
import sys, walkeeper, walkeeper_sqlite
with walkeeper.open(sys.argv[1] + "/wal") as ns, walkeeper_sqlite.attach(sys.argv[1] + "/app.db", ns.log("app")) as db:
    writer, reader = db.connect(isolation_level=None), db.connect(isolation_level=None)
    writer.execute("CREATE TABLE t(x)")
    for number in range(40):
        writer.execute("INSERT INTO t VALUES(?)", (number,))
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM t").fetchall()
        writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()  # all frames; the reader keeps the WAL
        if number % 10 == 9:
            reader.execute("COMMIT")
            writer.execute("INSERT INTO t VALUES(?)", (number,))  # begins the WAL anew
        else:
            writer.execute("INSERT INTO t VALUES(?)", (number,))
            reader.execute("COMMIT")
    reader.close()
    writer.close()
"""


def test_the_state_moves_on_behind_a_sync_alone(tools: Path, tmp_path: Path) -> None:
    """A restart redoes nothing before the redo point, so what is there must have survived a power cut."""
    told, command = tmp_path / "told", [sys.executable, "-c", CHECKPOINTS, str(tmp_path)]
    how = {
        "LD_PRELOAD": f"{tools}/failing_calls.so",
        "WALKEEPER_FAIL_IN": str(tmp_path / "app.db"),
        "WALKEEPER_FAIL_TOLD": str(told),
    }
    subprocess.run(command, env={**os.environ, **how}, check=True, timeout=120)
    unsynced, states, small = False, 0, 0
    for line in told.read_text().splitlines():
        call, _, file = line.partition(" ")
        if file == "" and call == "write":
            small += unsynced
            unsynced = True
        elif file == "" and call in ("fsync", "fdatasync"):
            unsynced = False
        elif file == "-wk" and call in ("fsync", "fdatasync"):
            assert not unsynced
            states += 1
    assert states > 4
    assert small > 20, "no checkpoint was left to the next sync"


def check_pair(folder: Path, said: str) -> None:
    """Both databases have the same rows: what was acknowledged, and nothing that was not tried; and go on."""
    acknowledged = [int(line.split()[1]) for line in said.splitlines() if line.startswith("ok ")]
    with walkeeper.open(folder / "wal") as ns:
        log = ns.log("app")
        with (
            walkeeper_sqlite.attach(folder / "app.db", log, acknowledge="group") as app,
            app.attach(folder / "app-audit.db", "audit") as audit,
        ):
            connection = app.connect(isolation_level=None)
            connection.execute("ATTACH ? AS audit", (audit.uri,))
            for schema in ("main", "audit"):
                connection.execute(f"CREATE TABLE IF NOT EXISTS {schema}.t(id INTEGER PRIMARY KEY, x)")
                connection.execute(f"INSERT INTO {schema}.t VALUES(1000, 0)")
            connection.close()
        found = rows(folder / "app.db")
        assert rows(folder / "app-audit.db") == found
        assert set(acknowledged) <= set(found) <= {*PAIRS, 1000}
        assert len(found) - 1 <= len(acknowledged) + said.count("failed ") + 1
        for name, file in ((None, "app.db"), ("audit", "app-audit.db")):
            walkeeper_sqlite.restore(log, folder / "again.db", name=name)
            assert (folder / "again.db").read_bytes() == (folder / file).read_bytes()
            (folder / "again.db").unlink()


@pytest.mark.parametrize("code", [0, errno.EIO, errno.ENOSPC])
def test_a_transaction_over_two_databases_at_any_call(tools: Path, tmp_path: Path, code: int) -> None:
    """0: the process is killed."""
    status, said = run(tools, tmp_path / "none", "app", "steps_beside.py", WALKEEPER_FAIL_COUNT=str(tmp_path / "count"))
    assert status == 0
    assert [int(line.split()[1]) for line in said.splitlines()] == PAIRS, said
    check_pair(tmp_path / "none", said)

    def at(number: int) -> None:
        how = {"WALKEEPER_FAIL_AT": str(number)} | ({"WALKEEPER_FAIL_WITH": str(code)} if code else {})
        status, said = run(tools, tmp_path / str(number), "app", "steps_beside.py", **how)
        assert status == (0 if code else -signal.SIGKILL), said
        check_pair(tmp_path / str(number), said)

    in_turn(int((tmp_path / "count").read_text()), at, 2 * STRIDES[LOG])
