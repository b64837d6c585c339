"""Who lives, as a SqliteStore sees it: processes that die, hang, wake up, and machines that were started anew."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from metadata.stores import WAIT_SECONDS, Calls, until

from walkeeper.metadata import ExistsError, SqliteStore, UnavailableError, _liveness

HOLDER = """
import os, sys, time
for name, shift in (("time", 1), ("time_ns", 10**9)):
    if sys.argv[3] != "0":
        real = getattr(time, name)
        setattr(time, name, lambda real=real, shift=shift: real() + int(sys.argv[3]) * shift)
from walkeeper.metadata import SqliteStore
store = SqliteStore(sys.argv[1], session_timeout=float(sys.argv[2]), busy_timeout=3600)
store.on_session(lambda event: print(event, store.session(), flush=True))
store.create("/here", b"x", ephemeral=True)
print("here", flush=True)
for line in sys.stdin:
    try:
        exec(line)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""
FOR_EVER = 3600.0
DAY = 86400


class Holder:
    """Another process with an ephemeral key /here. It does what it is told in lines of Python."""

    def __init__(self, path: Path, session_timeout: float = FOR_EVER, clock_shift: int = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path), str(session_timeout), str(clock_shift)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "here"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            until(lambda: Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=WAIT_SECONDS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path, busy_timeout=WAIT_SECONDS) as opened:
        yield opened


@pytest.fixture
def hold(path: Path) -> Iterator[Callable[..., Holder]]:
    """Starts holders, and kills those that are left."""
    held: list[Holder] = []

    def start(session_timeout: float = FOR_EVER, clock_shift: int = 0) -> Holder:
        held.append(Holder(path, session_timeout, clock_shift))
        return held[-1]

    yield start
    for holder in held:
        holder.kill()


def files(path: Path) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return sorted(os.listdir(f"{path}-sessions"))
    return []


def heartbeats(path: Path, count: int) -> None:
    """Waits until the one session there is has said so often that it goes on."""
    file = path.with_name(path.name + "-sessions") / files(path)[0]
    for _ in range(count):
        before = file.read_bytes()
        until(lambda before=before: file.read_bytes() != before)  # type: ignore[misc]


# ---- death ----


def test_the_keys_of_a_killed_process_are_gone_at_once(
    store: SqliteStore, path: Path, hold: Callable[..., Holder]
) -> None:
    """No time-out passes: the kernel let go of the lock."""
    holder = hold()
    assert store.children("/") == ["here"]
    holder.kill()
    assert store.get("/here") is None
    assert store.children("/") == []
    assert files(path) == []


@pytest.mark.parametrize("call", ["get", "children", "scan", "create", "create_sequential", "delete_parent"])
def test_whoever_looks_first_finds_the_keys_gone(store: SqliteStore, hold: Callable[..., Holder], call: str) -> None:
    store.create("/below")
    holder = hold()
    holder.tell("store.create('/below/n-0000000000', ephemeral=True); print('made', flush=True)")
    assert holder.line() == "made"
    holder.kill()
    if call == "get":
        assert store.get("/below/n-0000000000") is None
    elif call == "children":
        assert store.children("/below") == []
    elif call == "scan":
        assert list(store.scan("/below", page=1)) == []
    elif call == "create":
        store.create("/here")
    elif call == "create_sequential":
        store.create_sequential("/below/n-")
        assert len(store.children("/below")) == 1
    else:
        store.delete("/below")
        assert store.children("/") == []


def test_a_registration_of_a_killed_process_is_made_again_at_once(
    store: SqliteStore, hold: Callable[..., Holder]
) -> None:
    holder = hold()
    with pytest.raises(ExistsError):
        store.create("/here", ephemeral=True)
    holder.kill()
    store.create("/here", b"mine", ephemeral=True)
    value = store.get("/here")
    assert value is not None
    assert value.data == b"mine"


def test_who_watches_is_told_of_a_death_without_looking(store: SqliteStore, hold: Callable[..., Holder]) -> None:
    holder = hold()
    on_key, on_parent = Calls(), Calls()
    store.watch("/here", on_key)
    store.watch("/", on_parent)
    holder.kill()
    until(lambda: on_key.count and on_parent.count)
    assert store.children("/") == []


def test_a_read_only_store_leaves_out_the_keys_of_the_dead(
    store: SqliteStore, path: Path, hold: Callable[..., Holder]
) -> None:
    store.create("/stays")
    holder = hold()
    with SqliteStore(path, read_only=True) as reader:
        assert reader.children("/") == ["here", "stays"]
        holder.kill()
        assert reader.get("/here") is None
        assert reader.children("/") == ["stays"]
        assert list(reader.scan("/", page=1)) == ["stays"]
        assert len(files(path)) == 1


# ---- a process that hangs ----


def test_a_stopped_process_is_dead_after_its_timeout_and_is_told_when_it_goes_on(
    store: SqliteStore, path: Path, hold: Callable[..., Holder]
) -> None:
    holder = hold(0.5)
    holder.signal(signal.SIGSTOP)
    until(lambda: store.children("/") == [])
    holder.signal(signal.SIGCONT)
    assert holder.line() == "lost 2"
    assert holder.line() == "new 2"
    holder.tell("store.create('/here', b'again', ephemeral=True); print('made', flush=True)")
    assert holder.line() == "made"
    value = store.get("/here")
    assert value is not None
    assert value.data == b"again"
    assert len(files(path)) == 1


def test_a_process_that_was_taken_for_dead_stays_so(
    store: SqliteStore, path: Path, hold: Callable[..., Holder]
) -> None:
    """Its keys do not come back with it: somebody has been told that they went."""
    holder = hold(0.5)
    holder.signal(signal.SIGSTOP)
    until(lambda: store.get("/here") is None)
    assert files(path) == [], "it was buried before anybody was told"
    holder.signal(signal.SIGCONT)
    assert holder.line() == "lost 2"
    assert store.get("/here") is None
    holder.kill()


def test_a_short_pause_is_no_death(store: SqliteStore, hold: Callable[..., Holder]) -> None:
    holder = hold(FOR_EVER)
    holder.signal(signal.SIGSTOP)
    assert store.children("/") == ["here"]
    holder.signal(signal.SIGCONT)
    holder.tell("print(store.session(), flush=True)")
    assert holder.line() == "1"


def test_a_process_that_goes_on_lives_longer_than_its_timeout(
    store: SqliteStore, path: Path, hold: Callable[..., Holder]
) -> None:
    holder = hold(8.0)
    heartbeats(path, 5)  # every quarter of the time-out
    assert store.children("/") == ["here"]
    holder.tell("print(store.session(), flush=True)")
    assert holder.line() == "1"


def test_the_heart_beats_while_the_file_is_busy(store: SqliteStore, path: Path, hold: Callable[..., Holder]) -> None:
    hold(8.0).tell("store.watch('/', lambda: None)")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    heartbeats(path, 2)
    writer.execute("ROLLBACK")
    writer.close()
    assert store.children("/") == ["here"]


# ---- clocks ----


@pytest.mark.parametrize("shift", [-DAY, DAY])
def test_nobody_dies_of_a_clock_that_is_set(
    store: SqliteStore, hold: Callable[..., Holder], shift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder's wall clock is a day away from ours, and then ours moves as well."""
    holder = hold(20.0, shift)
    assert store.children("/") == ["here"]
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() - 2 * shift)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() - 2 * shift * 10**9)
    store.create("/ours", ephemeral=True)
    assert store.children("/") == ["here", "ours"]
    holder.tell("print(store.children('/'), store.session(), flush=True)")
    assert holder.line() == "['here', 'ours'] 1"


def test_time_while_the_machine_slept_counts(
    store: SqliteStore, hold: Callable[..., Holder], monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = hold(60.0)
    holder.signal(signal.SIGSTOP)
    assert store.children("/") == ["here"]
    real = _liveness.boot_time_ns
    monkeypatch.setattr(_liveness, "boot_time_ns", lambda: real() + 61 * 10**9)
    assert store.children("/") == []


def test_a_heartbeat_of_another_boot_says_nothing_and_the_lock_says_it_all(
    store: SqliteStore, hold: Callable[..., Holder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The boot time begins anew with the kernel; containers of one kernel may each have a boot id of their own."""
    holder = hold(60.0)
    monkeypatch.setattr(_liveness, "boot_id", lambda: "another")
    for hours in (-1, 1):
        real = time.clock_gettime_ns
        monkeypatch.setattr(
            _liveness, "boot_time_ns", lambda hours=hours, real=real: real(time.CLOCK_BOOTTIME) + hours * 3600 * 10**9
        )
        assert store.children("/") == ["here"]
    holder.kill()
    assert store.children("/") == []


@pytest.mark.parametrize("seconds", [-3600, 0, 3600])
def test_a_session_of_before_a_start_of_the_machine_is_dead(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """Its file is there, with a heartbeat that may look as if it came from the future; nobody holds the lock."""
    with monkeypatch.context() as before:
        before.setattr(_liveness, "boot_id", lambda: "the one before")
        before.setattr(_liveness, "boot_time_ns", lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME) + seconds * 10**9)
        holder = SqliteStore(path)
        holder.create("/here", ephemeral=True)
    file = path.with_name(path.name + "-sessions") / files(path)[0]
    text = file.read_bytes()
    assert text.startswith(b"the one before ")
    file.unlink()
    file.write_bytes(text)  # as it stands there without the process
    assert store.children("/") == []
    assert files(path) == []
    holder.close()


# ---- the files of sessions ----


def test_a_session_has_a_file_while_it_has_ephemeral_keys(path: Path) -> None:
    with SqliteStore(path) as store:
        store.create("/a")
        assert files(path) == []
        store.create("/here", ephemeral=True)
        store.create("/also", ephemeral=True)
        assert len(files(path)) == 1
        store.expire_session()
        assert files(path) == []
        assert store.children("/") == ["a"]
        store.create("/here", ephemeral=True)
        assert len(files(path)) == 1
    assert files(path) == []


def test_who_loses_the_files_of_the_sessions_loses_the_sessions(store: SqliteStore, path: Path) -> None:
    events = Calls()
    with SqliteStore(path, session_timeout=0.5) as holder:
        holder.on_session(events)
        holder.create("/here", ephemeral=True)
        for name in files(path):
            (path.with_name(path.name + "-sessions") / name).unlink()
        assert store.children("/") == []
        until(lambda: events.made == [("lost",), ("new",)])
        holder.create("/here", ephemeral=True)
        assert store.children("/") == ["here"]


def test_a_create_in_a_session_that_was_lost_is_refused_and_the_next_one_works(store: SqliteStore, path: Path) -> None:
    with SqliteStore(path, session_timeout=FOR_EVER) as holder:
        holder.create("/here", ephemeral=True)
        (path.with_name(path.name + "-sessions") / files(path)[0]).unlink()
        assert store.children("/") == []
        with pytest.raises(UnavailableError, match="session was lost"):
            holder.create("/also", ephemeral=True)
        assert store.children("/") == []
        assert holder.session() == 2
        holder.create("/also", ephemeral=True)
        assert store.children("/") == ["also"]


def test_files_that_nobody_knows_are_tidied_up(store: SqliteStore, path: Path, hold: Callable[..., Holder]) -> None:
    hold()
    folder = path.with_name(path.name + "-sessions")
    (folder / "left").write_bytes(b"")
    made = os.open(folder / "being-made", os.O_CREAT | os.O_RDWR)
    fcntl.flock(made, fcntl.LOCK_EX)
    store.create("/ours", ephemeral=True)
    assert "left" not in files(path)
    assert "being-made" in files(path)
    os.close(made)
    assert store.children("/") == ["here", "ours"]


def test_close_ends_the_session_also_where_the_file_is_busy(path: Path, store: SqliteStore) -> None:
    holder = SqliteStore(path)
    holder.create("/here", ephemeral=True)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    holder.close()
    writer.execute("ROLLBACK")
    writer.close()
    assert store.children("/") == []


def test_a_torn_heartbeat_is_read_again_and_kills_nobody(tmp_path: Path) -> None:
    file = _liveness.SessionFile(tmp_path / "sessions", 10**12)
    assert _liveness.is_alive(tmp_path / "sessions", file.token)
    text = file.path.read_bytes()
    file.path.write_bytes(text.replace(b" 1000000000000 ", b" 0000000000000 "))
    assert _liveness.is_alive(tmp_path / "sessions", file.token)
    file.beat()
    assert file.path.read_bytes()[:40] == text[:40]
    file.close()
    assert not _liveness.is_alive(tmp_path / "sessions", file.token)
