"""walkeeper sqlite: what it tells, restores and takes over. Looking fences nobody, and changes nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result
from command_line import COMMAND, json_lines, run

import walkeeper
import walkeeper_sqlite
from walkeeper.errors import UnsupportedError
from walkeeper_bookie.cluster import LocalCluster
from walkeeper_sqlite import _groups, _picker, _times, commands
from walkeeper_sqlite._counted_log import counted_log
from walkeeper_sqlite._snapshots import truncate
from walkeeper_sqlite._state_file import state_of

ROOT = Path(__file__).resolve().parents[2]
OPENER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM t").fetchall()
print("open", flush=True)
sys.stdin.read()
"""


def sqlite_command(*arguments: object) -> Result:
    return run("sqlite", *arguments)


def done(*arguments: object) -> str:
    result = sqlite_command(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def told(*arguments: object) -> dict[str, Any]:
    [row] = json_lines(sqlite_command(*arguments, "--json"))
    return row


def refused(*arguments: object) -> str:
    """What is said; nothing is said on the output."""
    result = sqlite_command(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    return result.stderr


def history(*arguments: object) -> list[dict[str, Any]]:
    return json_lines(sqlite_command("history", *arguments, "--json"))


def plain_database(path: Path, rows: int = 3) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t(x)")
        connection.executemany("INSERT INTO t VALUES(?)", [(number,) for number in range(rows)])
        connection.commit()
    return path


def rows_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM t").fetchone()
    return int(count)


@contextmanager
def writing(root: Path, file: Path) -> Iterator[sqlite3.Connection]:
    with (
        walkeeper.open(root) as ns,
        walkeeper_sqlite.attach(file, ns.log("app")) as database,
        closing(database.connect(isolation_level=None)) as connection,
    ):
        yield connection


def insert(connection: sqlite3.Connection, count: int = 1) -> None:
    for _ in range(count):
        connection.execute("INSERT INTO t VALUES(1)")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "wal"


@pytest.fixture
def app(tmp_path: Path, root: Path) -> Path:
    """A database with three rows that was taken over, and five more since."""
    file = plain_database(tmp_path / "app.db")
    done("attach", root, "app", file)
    with writing(root, file) as connection:
        insert(connection, 5)
    return file


# ---- attach ---------------------------------------------------------------------------------------------------------


def test_attach_takes_over_an_existing_file(tmp_path: Path, root: Path) -> None:
    file = plain_database(tmp_path / "app.db")
    assert told("attach", root, "app", file) | {"lsn": 0} == {
        "path": str(file),
        "did": "adopted",
        "lsn": 0,
        "transaction": 0,
        "pages": 2,
        "page_size": 4096,
    }
    assert [row["kind"] for row in history(root, "app", "--all")] == ["snapshot"]
    assert told("attach", root, "app", file)["did"] == "brought"


def test_attach_makes_the_file_from_the_log(tmp_path: Path, root: Path, app: Path) -> None:
    row = told("attach", root, "app", tmp_path / "again.db")
    assert (row["did"], row["transaction"]) == ("made", 5)
    assert (tmp_path / "again.db").read_bytes() == app.read_bytes()
    assert "is made from the log" in done("attach", root, "app", tmp_path / "third.db")


def test_attach_makes_no_log_for_what_is_no_database(tmp_path: Path, root: Path) -> None:
    (tmp_path / "notes").write_text("none")
    assert "is no SQLite database" in refused("attach", root, "app", tmp_path / "notes")
    assert not root.exists()
    assert "does not exist" in refused("attach", root, "app", tmp_path / "none.db")
    assert not root.exists()
    with walkeeper.open(root) as ns:
        ns.log("app")
    assert "log app is empty, and there is no" in refused("attach", root, "app", tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


def test_attach_refuses_a_file_that_is_not_of_the_log(tmp_path: Path, root: Path, app: Path) -> None:
    stranger = plain_database(tmp_path / "stranger.db")
    assert "is not known to be of log app" in refused("attach", root, "app", stranger)
    assert rows_of(stranger) == 3


def test_attach_refuses_a_file_that_is_open_without_the_vfs(root: Path, app: Path) -> None:
    command = [sys.executable, "-c", OPENER, str(app)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as opener:
        assert opener.stdout is not None
        opener.stdout.readline()
        said = refused("attach", root, "app", app)
        assert f"process {opener.pid}" in said
        assert "open without the VFS walkeeper" in said
        assert "open without the VFS walkeeper" in done("verify", root, "app", app)
        assert "open without the VFS walkeeper" in done("status", root, "app", app)


# ---- status, history ------------------------------------------------------------------------------------------------


def test_status_tells_of_the_log_and_of_the_file(tmp_path: Path, root: Path, app: Path) -> None:
    row = told("status", root, "app", app)
    assert (row["commits"], row["records"]) == (5, 6)
    assert [snapshot["lsn"] for snapshot in row["snapshots"]] == [0]
    assert (row["begins"]["sequence_id"], row["begins"]["kind"]) == (0, "snapshot")
    last = row["last_commit"]
    assert (last["lsn"], last["transaction"]) == (5, 5)
    assert abs(last["time_ms"] / 1000 - app.stat().st_mtime) < 60
    of_file = row["file"]
    assert (of_file["lsn"], of_file["of_this_log"], of_file["closed"], of_file["in_use"]) == (5, True, True, None)
    assert not of_file["changed"]
    shown = done("status", root, "app", app)
    assert "it has LSN 5, " in shown
    assert "behind the log" not in shown
    other = done("status", root, "app", plain_database(tmp_path / "other.db"))
    assert "it has no state file" in other


def test_status_of_a_file_that_is_behind_in_use_or_changed(tmp_path: Path, root: Path, app: Path) -> None:
    done("attach", root, "app", tmp_path / "second.db")
    with writing(root, tmp_path / "second.db") as connection:
        insert(connection, 2)
        assert "a process has it open on its log" in done("status", root, "app", tmp_path / "second.db")
        insert(connection)
    assert "3 commits behind the log" in done("status", root, "app", app)
    with closing(sqlite3.connect(app)) as connection:
        insert(connection)
        connection.commit()
    assert told("status", root, "app", app)["file"]["changed"]
    assert "its size or mtime is not that of when it was closed" in done("status", root, "app", app)


def test_status_of_an_empty_log(root: Path) -> None:
    with walkeeper.open(root) as ns:
        ns.log("app")
    assert "none: the log is empty" in done("status", root, "app")
    assert "no commits" in sqlite_command("history", root, "app").stderr


def test_status_warns_where_segments_go_and_there_is_no_snapshot(tmp_path: Path, root: Path) -> None:
    with walkeeper.open(root) as ns:
        log = ns.log("app", retention_seconds=86400)
        walkeeper_sqlite.attach(tmp_path / "app.db", log).close()
        assert "there is no snapshot" not in done("status", root, "app")
        log.cursor(log.cursors()[0], create=False).delete()
    assert "there is no snapshot" in done("status", root, "app")
    done("snapshot", root, "app", tmp_path / "app.db")
    assert "1 day" in done("status", root, "app")
    assert "there is no snapshot" not in done("status", root, "app")


def test_history_tells_of_commits_of_many_records_and_of_snapshots(root: Path, app: Path) -> None:
    with walkeeper.open(root) as ns, walkeeper_sqlite.attach(app, log := ns.log("app")) as database:
        with closing(database.connect(isolation_level=None)) as connection:
            connection.execute("CREATE TABLE blobs(x)")
            connection.execute("INSERT INTO blobs VALUES(randomblob(3000000))")
            database.snapshot()
            insert(connection)
        payload = [len(record.payload) for record in log.reader()]
        pages = database.status().pages
    rows = history(root, "app", "--all")
    assert [row["kind"] for row in rows] == ["snapshot", *["commit"] * 7, "snapshot", "commit"]
    assert [row["transaction"] for row in rows] == [0, 1, 2, 3, 4, 5, 6, 7, 7, 8]
    assert [row["lsn"] + 1 for row in rows[:-1]] == [row["first_sequence_id"] for row in rows[1:]]
    for row in rows:
        assert row["bytes"] == sum(payload[row["first_sequence_id"] : row["lsn"] + 1])
    large, whole = rows[7], rows[8]
    assert large["lsn"] - large["first_sequence_id"] >= 2
    assert large["pages"] > 3000000 / 4096
    assert (whole["pages"], whole["database_pages"]) == (pages, pages)
    shown = done("history", root, "app").splitlines()
    assert shown[0].split() == ["LSN", "time", "what", "transaction", "pages", "of", "bytes"]
    assert [line.split()[2] for line in shown[2:]] == [row["kind"] for row in rows]


@pytest.mark.parametrize("window", [1, 2, 256])
def test_the_last_of_the_history_are_the_last(
    monkeypatch: pytest.MonkeyPatch, root: Path, app: Path, window: int
) -> None:
    monkeypatch.setattr(_groups, "_RECORDS_AT_FIRST", window)
    with writing(root, app) as connection:
        connection.execute("CREATE TABLE blobs(x)")
        connection.execute("INSERT INTO blobs VALUES(randomblob(3000000))")
    rows = history(root, "app", "--all")
    for count in range(1, len(rows) + 2):
        assert history(root, "app", "--last", count) == rows[-count:]


def test_a_log_of_other_records_is_no_database(tmp_path: Path, root: Path) -> None:
    with walkeeper.open(root) as ns, ns.log("app").writer() as writer:
        writer.append(b"order 1")
    for command in ("history", "status"):
        result = sqlite_command(command, root, "app")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "record 0 of log app is no record of a SQLite database" in result.stderr
    with walkeeper.open(root) as ns, ns.log("next").writer() as writer:
        writer.append(bytes([2, 1, 3, 12]) + bytes(60))
    assert "which a newer walkeeper wrote" in refused("history", root, "next")


# ---- restore --------------------------------------------------------------------------------------------------------


def test_restore_to_any_commit_by_its_lsn_or_its_time(tmp_path: Path, root: Path, app: Path) -> None:
    for number, row in enumerate(history(root, "app", "--all")):
        file = tmp_path / f"{number}.db"
        assert told("restore", root, "app", file, "--to", row["lsn"])["transaction"] == row["transaction"]
        assert rows_of(file) == 3 + number
        assert "is restored: LSN" in done("restore", root, "app", f"{file}-at", "--to", _times.moment(row["time_ms"]))
        assert rows_of(Path(f"{file}-at")) >= 3 + number
    assert told("restore", root, "app", tmp_path / "all.db")["transaction"] == 5
    assert (tmp_path / "all.db").read_bytes() == app.read_bytes()


def test_restore_refuses_points_that_the_log_does_not_have(tmp_path: Path, root: Path, app: Path) -> None:
    file = tmp_path / "r.db"
    assert "log app has no record 6: its next one will be 6" in refused("restore", root, "app", file, "--to", 6)
    assert "no whole snapshot" in refused("restore", root, "app", file, "--to", "2020-01-01")
    assert "is no LSN, and no time" in refused("restore", root, "app", file, "--to", "yesterday")
    assert "has no log other" in refused("restore", root, "other", file)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("r.")) == []


@pytest.mark.parametrize("suffix", ["", "-wal", "-journal", "-shm", "-wk"])
def test_restore_refuses_a_name_beside_which_an_earlier_database_left_files(
    tmp_path: Path, root: Path, app: Path, suffix: str
) -> None:
    left = tmp_path / f"r.db{suffix}"
    left.write_bytes(b"left")
    assert f"{left} exists" in refused("restore", root, "app", tmp_path / "r.db")
    assert left.read_bytes() == b"left"


def test_restore_tells_the_commits_at_the_point_and_behind_it(tmp_path: Path, root: Path, app: Path) -> None:
    rows = history(root, "app", "--all")
    last, then = rows[-1], sqlite_command("restore", root, "app", tmp_path / "3.db", "--to", 3).stderr
    assert f"the last commit: LSN 3, {_times.moment(rows[3]['time_ms'])}, transaction 3\n" in then
    assert f"the next one: LSN 4, {_times.moment(rows[4]['time_ms'])}, transaction 4\n" in then
    now = sqlite_command("restore", root, "app", tmp_path / "now.db", "--to", "0 seconds ago").stderr
    assert f"the last commit: LSN {last['lsn']}, " in now
    assert "the next one: none" in now
    assert abs(datetime.fromisoformat(now.split()[1]) - datetime.now(timezone.utc)) < timedelta(minutes=10)
    before = sqlite_command("restore", root, "app", tmp_path / "before.db", "--to", "1 week ago").stderr
    assert "the last commit: none\n  the next one: LSN 1, " in before
    with writing(root, app) as connection:
        connection.execute("CREATE TABLE blobs(x)")
        connection.execute("INSERT INTO blobs VALUES(randomblob(3000000))")
    large = history(root, "app", "--last", 1)[0]
    within = sqlite_command("restore", root, "app", tmp_path / "within.db", "--to", large["first_sequence_id"]).stderr
    assert f"the last commit: LSN 6, {_times.moment(history(root, 'app', '--last', 2)[0]['time_ms'])}, " in within
    assert f"the next one: LSN {large['lsn']}, " in within


# ---- the choice of a commit on a terminal ---------------------------------------------------------------------------


def chosen(monkeypatch: pytest.MonkeyPatch, *arguments: object, given: str) -> str:
    """What is shown."""
    monkeypatch.setattr(commands, "is_terminal", lambda: True)
    result = run("sqlite", "restore", *arguments, given=given.encode())
    assert result.exit_code == 0, result.output
    return result.output


def test_on_a_terminal_the_point_is_chosen_from_a_list(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path, app: Path
) -> None:
    shown = chosen(monkeypatch, root, "app", tmp_path / "3.db", given="never\n3\n")
    assert [line.split()[0] for line in shown.splitlines()[2:7]] == ["1", "2", "3", "4", "5"]
    assert "'never' is no LSN" in shown
    assert rows_of(tmp_path / "3.db") == 6
    chosen(monkeypatch, root, "app", tmp_path / "5.db", given="\n")
    assert rows_of(tmp_path / "5.db") == 8
    chosen(monkeypatch, root, "app", tmp_path / "time.db", given=_times.moment(history(root, "app")[0]["time_ms"]))
    assert 3 <= rows_of(tmp_path / "time.db") <= 8
    assert told("restore", root, "app", tmp_path / "all.db")["transaction"] == 5  # --json asks nothing


def test_many_commits_are_narrowed_by_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path, app: Path
) -> None:
    """As many rows as a page has, of equal spans, each with what its commits are."""
    with writing(root, app) as connection:
        insert(connection, 300)
    rows = [row for row in history(root, "app", "--all") if row["kind"] == "commit"]
    with walkeeper.open(root, read_only=True) as ns:
        log = ns.log("app", create=False)
        everything = _picker.span_of(log)
        assert everything is not None
        assert (everything.count, everything.first.lsn, everything.last.lsn) == (305, 1, 305)
        seen: list[int] = []
        to_do = [everything]
        while to_do:
            span = to_do.pop()
            narrower = _picker.spans_in(log, span)
            assert 1 <= len(narrower) <= _picker.ROWS
            assert [one.count for one in narrower if one.count < 1] == []
            assert sum(one.count for one in narrower) == span.count
            if narrower == [span]:
                seen += range(span.first.lsn, span.last.lsn + 1)
                continue
            begins = [one.begin_ms for one in narrower]
            for one, end in zip(narrower, [*begins[1:], 1 << 60], strict=True):
                times = [row["time_ms"] for row in rows if one.first.lsn <= row["lsn"] <= one.last.lsn]
                assert one.begin_ms <= times[0] <= times[-1] < end
            to_do += narrower[::-1]
        assert seen == [row["lsn"] for row in rows]
    shown = chosen(monkeypatch, root, "app", tmp_path / "r.db", given="a\n..\na\n\n")
    assert shown.count("a letter shows its commits") >= 2
    assert ".. goes back" in shown
    first = _picker.spans_in
    with walkeeper.open(root, read_only=True) as ns:
        log = ns.log("app", create=False)
        assert rows_of(tmp_path / "r.db") == 3 + first(log, everything)[0].last.transaction


def test_commits_before_the_end_of_the_first_snapshot_are_no_choice(tmp_path: Path, root: Path, app: Path) -> None:
    with walkeeper.open(root) as ns, walkeeper_sqlite.attach(app, log := ns.log("app")) as database:
        with closing(database.connect(isolation_level=None)) as connection:
            connection.execute("CREATE TABLE blobs(x)")
            connection.execute("INSERT INTO blobs VALUES(randomblob(3000000))")
            taken = database.snapshot(progress=lambda done, total: insert(connection))
            insert(connection)
            assert [group.kind for group in _groups.groups(log, taken.lsn, end=taken.end_lsn)] == ["commit"] * 2
        truncate(log, timedelta(0), datetime.now(timezone.utc) + timedelta(minutes=1))
        everything = _picker.span_of(log)
        assert log.info().first.sequence_id == taken.lsn
        assert everything is not None
        assert everything.first.lsn > taken.end_lsn
        walkeeper_sqlite.restore(log, tmp_path / "r.db", to=everything.first.lsn)


# ---- times ----------------------------------------------------------------------------------------------------------


NOW = datetime(2024, 5, 1, 12, 30, tzinfo=timezone.utc)


@pytest.fixture
def in_kolkata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A zone with half an hour, and without daylight saving time."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("10 minutes ago", "2024-05-01T12:20Z"),
        ("90s ago", "2024-05-01T12:28:30Z"),
        ("1 week ago", "2024-04-24T12:30Z"),
        ("18:00", "2024-05-01T12:30Z"),
        ("18:01", "2024-04-30T12:31Z"),
        ("today 18:01", "2024-05-01T12:31Z"),
        ("yesterday 6:00:30", "2024-04-30T00:30:30Z"),
        ("2024-05-01T12:00", "2024-05-01T06:30Z"),
        ("2024-05-01 12:00+02:00", "2024-05-01T10:00Z"),
        ("2024-05-01", "2024-04-30T18:30Z"),
    ],
)
def test_times_as_people_write_them(in_kolkata: None, written: str, meant: str) -> None:
    found = _times._time_of(written, NOW.astimezone())
    assert found == datetime.fromisoformat(meant.replace("Z", "+00:00"))
    assert _times.point(_times.moment(int(found.timestamp() * 1000))) == found
    assert _times.moment(int(found.timestamp() * 1000)).endswith("+05:30")


@pytest.mark.parametrize(
    "written", ["yesterday", "ago", "-1", "9 fortnights ago", "25:00", "1:2", "9" * 20, "", "\u0661"]
)
def test_what_is_no_time(written: str) -> None:
    with pytest.raises(click.BadParameter, match="is no LSN, and no time"):
        _times.point(written)


def test_spans(in_kolkata: None) -> None:
    assert [_times.span(written) for written in ("1m", "90 s", "2 Weeks")] == [
        timedelta(minutes=1),
        timedelta(seconds=90),
        timedelta(weeks=2),
    ]
    for written in ("0m", "m", "1", "1 month", "-1m"):
        with pytest.raises(click.BadParameter, match="is no span"):
            _times.span(written)
    day = _times.floor_of(int(NOW.timestamp() * 1000), timedelta(days=1))
    assert _times.moment(day) == "2024-05-01T00:00:00.000+05:30"


# ---- history between points -----------------------------------------------------------------------------------------


def test_history_since_and_until(root: Path, app: Path) -> None:
    with writing(root, app) as connection:
        connection.execute("CREATE TABLE blobs(x)")
        connection.execute("INSERT INTO blobs VALUES(randomblob(3000000))")
        insert(connection)
    rows = history(root, "app", "--all")
    large = max(rows, key=lambda row: row["bytes"])
    for since in {0, 3, 4, large["first_sequence_id"], large["first_sequence_id"] + 1, large["lsn"], large["lsn"] + 1}:
        assert history(root, "app", "--since", since) == [row for row in rows if row["lsn"] >= since]
        assert history(root, "app", "--until", since) == [row for row in rows if row["lsn"] <= since]
        assert history(root, "app", "--since", since, "--last", 2) == [row for row in rows if row["lsn"] >= since][-2:]
        assert history(root, "app", "--until", since, "--last", 2) == [row for row in rows if row["lsn"] <= since][-2:]
    for time_ms in {row["time_ms"] for row in rows}:
        at = _times.moment(time_ms)
        assert history(root, "app", "--since", at) == [row for row in rows if row["time_ms"] >= time_ms]
        assert history(root, "app", "--until", at, "--all") == [row for row in rows if row["time_ms"] <= time_ms]
        assert history(root, "app", "--since", at, "--until", at) == [row for row in rows if row["time_ms"] == time_ms]
    assert history(root, "app", "--since", "2020-01-01") == rows
    assert "no commits" in sqlite_command("history", root, "app", "--until", "2020-01-01").stderr


def test_history_by_spans_of_time(root: Path, app: Path) -> None:
    rows = history(root, "app", "--all")
    for every in (timedelta(seconds=1), timedelta(days=7)):
        buckets = history(root, "app", "--every", f"{every // timedelta(seconds=1)}s")
        assert [bucket["time_ms"] for bucket in buckets] == sorted(
            {_times.floor_of(row["time_ms"], every) for row in rows}
        )
        for bucket in buckets:
            mine = [row for row in rows if _times.floor_of(row["time_ms"], every) == bucket["time_ms"]]
            commits = [row for row in mine if row["kind"] == "commit"]
            assert (bucket["commits"], bucket["snapshots"]) == (len(commits), len(mine) - len(commits))
            assert (bucket["pages"], bucket["lsn"]) == (sum(row["pages"] for row in commits), mine[-1]["lsn"])
            assert bucket["bytes"] == sum(row["bytes"] for row in mine)
    [bucket] = history(root, "app", "--every", "4w", "--since", 2, "--until", 4)
    assert (bucket["commits"], bucket["lsn"]) == (3, 4)
    shown = done("history", root, "app", "--every", "4w").splitlines()
    assert shown[0].split() == ["from", "commits", "snapshots", "pages", "bytes", "last", "LSN"]
    for wrong in (("--last", 1, "--all"), ("--last", 1, "--every", "1m"), ("--every", "1 month")):
        assert "Usage" in refused("history", root, "app", *wrong)


# ---- follow ---------------------------------------------------------------------------------------------------------


def test_follow_once_brings_a_file_to_the_end(tmp_path: Path, root: Path, app: Path) -> None:
    [row] = json_lines(sqlite_command("follow", root, "app", tmp_path / "copy.db", "--once", "--json"))
    last = history(root, "app", "--last", 1)[0]
    assert row == {
        "lsn": 5,
        "time_ms": last["time_ms"],
        "records_behind": 0,
        "ms_behind": 0,
        "commits_per_second": 0.0,
    }
    assert (tmp_path / "copy.db").read_bytes() == app.read_bytes()
    with writing(root, app) as connection:
        insert(connection, 2)
    assert "LSN 7, " in (shown := done("follow", root, "app", tmp_path / "copy.db", "--once"))
    assert "up to date" in shown
    assert rows_of(tmp_path / "copy.db") == 10
    done("snapshot", root, "app", app)  # the end of the log is no commit
    assert "LSN 7, " in done("follow", root, "app", tmp_path / "copy.db", "--once")
    assert "exclude each other" in refused("follow", root, "app", tmp_path / "copy.db", "--once", "--until-lsn", 1)
    assert "is not known to be of" in refused("follow", root, "app", plain_database(tmp_path / "other.db"), "--once")


def followed(root: Path, file: Path, *options: str) -> subprocess.Popen[str]:
    command = [*COMMAND, "sqlite", "follow", str(root), "app", str(file), "--every", "1s", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_follow_goes_on_until_a_signal(tmp_path: Path, root: Path, app: Path, number: int) -> None:
    with writing(root, app) as connection, followed(root, tmp_path / "copy.db") as process:
        assert process.stdout is not None
        assert "up to date" in process.stdout.readline()
        insert(connection, 3)
        while "LSN 8, " not in (line := process.stdout.readline()):
            assert line
        insert(connection)
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, ""), errors
    assert output.count("\n") >= 1
    assert "LSN 9, " in done("follow", root, "app", tmp_path / "copy.db", "--once")


def test_follow_until_a_commit_that_is_still_to_come(tmp_path: Path, root: Path, app: Path) -> None:
    with writing(root, app) as connection, followed(root, tmp_path / "copy.db", "--until-lsn", "7") as process:
        assert process.stdout is not None
        process.stdout.readline()
        insert(connection, 2)
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
    assert "LSN 7, " in output.splitlines()[-1]
    assert rows_of(tmp_path / "copy.db") == 10
    with followed(root, tmp_path / "copy.db", "--until-lsn", "8") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130, "it does not have it"


def test_follow_ends_where_another_program_writes_to_the_file(tmp_path: Path, root: Path, app: Path) -> None:
    with writing(root, app) as connection, followed(root, tmp_path / "copy.db") as process:
        assert process.stdout is not None
        process.stdout.readline()
        subprocess.run([sys.executable, "-c", WRITER, str(tmp_path / "copy.db")], check=True, stdout=subprocess.DEVNULL)
        insert(connection)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 2
    assert "another program wrote" in errors


WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("INSERT INTO t VALUES(1)")
connection.close()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_follow_and_restore_are_interrupted_while_the_file_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path, app: Path, number: int
) -> None:
    def interrupted(stop: threading.Event, told: commands.Told) -> commands.Told:
        signal.raise_signal(number)
        return until_stopped(stop, told)

    until_stopped = commands.until_stopped
    monkeypatch.setattr(commands, "until_stopped", interrupted)
    assert sqlite_command("restore", root, "app", tmp_path / "r.db").exit_code == 130
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("r.")] == []
    assert sqlite_command("follow", root, "app", tmp_path / "copy.db").exit_code == 0
    assert sqlite_command("follow", root, "app", tmp_path / "copy.db", "--once").exit_code == 130
    monkeypatch.undo()
    assert "LSN 5, " in done("follow", root, "app", tmp_path / "copy.db", "--once")


def test_what_a_follower_tells_of_a_lag(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"lsn": 4, "time_ms": 0, "records_behind": 1234, "ms_behind": 2300, "commits_per_second": 1000.0}
    commands.tell_followed(row, one_line=False, as_json=False)
    commands.tell_followed({**row, "records_behind": None, "ms_behind": None}, one_line=True, as_json=False)
    lines = capsys.readouterr().out
    assert ", 1,234 records, 2.3 s, behind, 1,000.0 commits/s\n\r" in lines
    assert lines.endswith(", the log cannot be read now, 1,000.0 commits/s")


# ---- verify ---------------------------------------------------------------------------------------------------------


def test_verify_finds_no_difference_in_a_file_that_is_as_its_log_says(tmp_path: Path, root: Path, app: Path) -> None:
    before = sorted(tmp_path.iterdir())
    row = told("verify", root, "app", app)
    assert (row["lsn"], row["not_compared"], row["different_pages_count"], row["integrity"]) == (5, None, 0, [])
    assert sorted(tmp_path.iterdir()) == before
    done("attach", root, "app", tmp_path / "second.db")
    with writing(root, tmp_path / "second.db") as connection:
        insert(connection, 2)
    assert told("verify", root, "app", app)["lsn"] == 5  # as of the file, which is behind
    assert told("verify", root, "app", tmp_path / "second.db")["lsn"] == 7


def test_verify_finds_the_pages_that_differ(root: Path, app: Path) -> None:
    with app.open("r+b") as file:
        file.seek(4096 + 4000)
        file.write(b"other bytes")
    result = sqlite_command("verify", root, "app", app)
    assert result.exit_code == 1
    assert "1 page differs: 2" in result.stdout
    with app.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(bytes(4096 * 20))
    result = sqlite_command("verify", root, "app", app)
    assert "21 pages differ: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …" in result.stdout
    assert "its size or mtime is not that of when it was closed" in result.stderr


def test_verify_compares_all_of_a_large_file(tmp_path: Path, root: Path) -> None:
    file = plain_database(tmp_path / "app.db", rows=200_000)
    done("attach", root, "app", file)
    assert file.stat().st_size > 513 * 4096
    with file.open("r+b") as opened:
        for number in (256, 257, 513):
            opened.seek(number * 4096 - 1)
            byte = opened.read(1)
            opened.seek(number * 4096 - 1)
            opened.write(bytes([byte[0] ^ 1]))
    result = sqlite_command("verify", root, "app", file)
    assert result.exit_code == 1
    assert "3 pages differ: 256, 257, 513\n" in result.stdout


def test_verify_compares_only_what_is_closed(tmp_path: Path, root: Path, app: Path) -> None:
    with writing(root, app) as connection:
        insert(connection)
        row = told("verify", root, "app", app)
        assert (row["lsn"], row["integrity"]) == (6, [])
        assert "has it open on its log" in row["not_compared"]
        insert(connection)  # not fenced
        for name in ("app.db", "app.db-wal", "app.db-wk"):
            (tmp_path / "killed").mkdir(exist_ok=True)
            (tmp_path / "killed" / name).write_bytes((tmp_path / name).read_bytes())
    killed = told("verify", root, "app", tmp_path / "killed" / "app.db")
    assert "it was not closed: app.db-wal is there" in killed["not_compared"]
    assert killed["lsn"] == 7
    assert rows_of(tmp_path / "killed" / "app.db") == 10  # SQLite moves the WAL into the file
    killed = told("verify", root, "app", tmp_path / "killed" / "app.db")
    assert "it was not closed, and has no WAL" in killed["not_compared"]


def test_verify_of_a_file_that_is_opened_meanwhile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path, app: Path
) -> None:
    def compare_late(*files: Any) -> list[int]:
        with writing(root, app) as connection:
            insert(connection)
        return [2]

    monkeypatch.setattr(commands, "different_pages", compare_late)
    row = told("verify", root, "app", app)
    assert (row["not_compared"], row["different_pages_count"]) == ("it was opened while it was compared", 0)


def test_verify_of_a_file_whose_commits_were_truncated(tmp_path: Path, root: Path, app: Path) -> None:
    done("snapshot", root, "app", app)
    done("truncate", root, "app", "--keep", 0)
    row = told("verify", root, "app", app)
    assert (row["not_compared"], row["different_pages_count"], row["transaction"]) == (None, 0, 5)
    done("attach", root, "app", tmp_path / "second.db")
    with writing(root, tmp_path / "second.db") as connection:
        insert(connection)
    done("snapshot", root, "app", tmp_path / "second.db")
    done("truncate", root, "app", "--keep", 0)
    assert "transaction 5, was truncated" in told("verify", root, "app", app)["not_compared"]


def test_verify_refuses_a_file_that_is_not_of_the_log(tmp_path: Path, root: Path, app: Path) -> None:
    other = plain_database(tmp_path / "other.db")
    assert "which log it is of is not known" in refused("verify", root, "app", other)
    done("attach", root, "other", other)
    assert "is of another log than app" in refused("verify", root, "app", other)
    (tmp_path / "app.db-wk").write_bytes(b"none of walkeeper")
    result = sqlite_command("verify", root, "app", app)
    assert result.exit_code == 1
    assert "app.db-wk is damaged" in result.stderr


# ---- the state file, progress ---------------------------------------------------------------------------------------


def test_a_torn_slot_of_the_state_file_leaves_the_other(tmp_path: Path, app: Path) -> None:
    file = tmp_path / "app.db-wk"
    whole = file.read_bytes()
    newest = state_of(app)
    assert newest is not None
    slot = newest.generation % 2 * 4096
    file.write_bytes(whole[: slot + 40] + b"\xff" + whole[slot + 41 :])
    other = state_of(app)
    assert other is not None
    assert other.generation == newest.generation - 1
    file.write_bytes(b"wksqlite\x02" + bytes(8183))
    with pytest.raises(UnsupportedError, match="has format 2"):
        state_of(app)
    file.write_bytes(bytes(8192))
    assert state_of(app) is None


def test_what_a_progress_bar_is_told_ends_with_all(tmp_path: Path, root: Path, app: Path) -> None:
    heard: list[tuple[int, int]] = []
    with walkeeper.open(root, read_only=True) as ns:
        log = counted_log(ns.log("app", create=False), lambda done, total: heard.append((done, total)))
        walkeeper_sqlite.restore(log, tmp_path / "r.db")
    records = heard[-1][1]
    assert heard[-1] == (records, records)
    assert all(0 < done <= total for done, total in heard)
    assert (tmp_path / "r.db").read_bytes() == app.read_bytes()


# ---- snapshot, truncate ---------------------------------------------------------------------------------------------


def test_snapshot_and_truncate(tmp_path: Path, root: Path, app: Path) -> None:
    assert "0 records let go, 6 kept" in done("truncate", root, "app", "--keep", 0)
    taken = told("snapshot", root, "app", app)
    assert taken["lsn"] == 6
    assert "no snapshot is older than 1 days: nothing is let go of" in done("truncate", root, "app", "--keep", 1)
    row = told("truncate", root, "app", "--keep", 0)
    assert (row["snapshot"]["lsn"], row["records_let_go"]) == (6, 6)
    assert told("status", root, "app")["begins"]["sequence_id"] == 6
    assert told("restore", root, "app", tmp_path / "r.db")["transaction"] == 5
    assert "no whole snapshot" in refused("restore", root, "app", tmp_path / "gone.db", "--to", 5)
    for bad in ("-1", "nan", "many"):
        assert "--keep" in refused("truncate", root, "app", "--keep", bad)


# ---- on bookies -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bookies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with pytest.MonkeyPatch.context() as patch:
        paths = [str(ROOT / "bookie"), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        with LocalCluster(tmp_path_factory.mktemp("bookies"), 3) as made:
            made.start()
            yield made


def test_on_bookies_looking_fences_nobody_and_attach_does(bookies: LocalCluster, tmp_path: Path) -> None:
    place = (bookies.metadata, "app")
    named = ("--namespace", "shop")
    with (
        walkeeper.open(bookies.metadata, namespace="shop") as ns,
        walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("app")) as database,
        closing(database.connect(isolation_level=None)) as connection,
    ):
        connection.execute("CREATE TABLE t(x)")
        insert(connection, 3)
        assert told("status", *place, *named)["commits"] == 4
        assert len(history(*place, "--all", *named)) == 5
        assert told("verify", *place, tmp_path / "app.db", *named)["transaction"] == 4
        assert told("restore", *place, tmp_path / "r.db", "--to", 2, *named)["transaction"] == 2
        assert "is in use" in refused("attach", *place, tmp_path / "app.db", *named)
        insert(connection)
        row = told("attach", *place, tmp_path / "second.db", *named)
        assert (row["did"], row["transaction"]) == ("made", 5)
        with pytest.raises(sqlite3.OperationalError):
            insert(connection)
        assert database.status().state == "fenced"
    assert told("snapshot", *place, tmp_path / "second.db", *named)["pages"] == 2
    assert told("truncate", *place, "--keep", 0, *named)["records_let_go"] == 6
    assert told("verify", *place, tmp_path / "second.db", *named)["not_compared"] is None
    assert rows_of(tmp_path / "second.db") == 4
