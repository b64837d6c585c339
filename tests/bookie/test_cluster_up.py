"""`walkeeper cluster up`: a cluster for development; it comes up, shows itself, and leaves no process behind."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie_runs import NO_LEDGER, OK, PATIENCE_S, ROOT, Client, until

from walkeeper.metadata import open_store
from walkeeper_bookie.cluster import BookieProcess, ClusterError, LocalCluster, Sample, free_ports
from walkeeper_bookie.commands.cluster import cells, line_of

PATH = os.pathsep.join([str(ROOT / "bookie"), str(ROOT), os.environ.get("PYTHONPATH", "")])
COMMAND = [sys.executable, "-c", "from walkeeper_bookie.commands.cluster import cluster; cluster()", "up"]


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", PATH)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "cluster", 2) as made:
        yield made


def up(*options: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *options], stdout=stdout, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def processes_below(place: Path) -> list[str]:
    """Command lines that name the place."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            is_bookie = any(word.startswith(b"walkeeper_bookie") for word in words)
            if is_bookie and any(os.fsencode(place) in word for word in words):
                found.append(entry.name)
    return found


# ---- as a library ----


def test_a_cluster_comes_up_and_goes(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(urllib.request, "_opener", None)
    cluster.start()
    opened = open_store(cluster.metadata)
    names = opened.store.children("/ledgers/available")
    opened.store.close()
    assert names == sorted([bookie.bookie_id for bookie in cluster.bookies] + ["readonly"])
    for bookie in cluster.bookies:
        with Client(bookie.port) as client:
            assert client.add(1, 0) == OK
        bookie.look()
        assert bookie.state == "writable"
        assert bookie.samples[-1].entries == 1
    assert cluster.stop()
    assert [bookie.state for bookie in cluster.bookies] == ["stopped", "stopped"]


def test_the_same_bookies_come_up_again_with_what_they_had(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as first:
        first.start()
        with Client(first.bookies[0].port) as client:
            assert client.add(1, 0) == OK
    with LocalCluster(tmp_path, 2) as second:  # and one more
        assert second.bookies[0].bookie_id == first.bookies[0].bookie_id
        second.start()
        with Client(second.bookies[0].port) as client:
            assert client.read(1, 0)[0] == OK
        with Client(second.bookies[1].port) as client:
            assert client.read(1, 0)[0] == NO_LEDGER


def test_each_journal_has_a_directory_of_its_own(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "cluster", 2, journal=tmp_path / "fast") as made:
        made.start()
    for name in ("bookie-1", "bookie-2"):
        assert sorted(one.name for one in (tmp_path / "fast" / name).iterdir()) == ["journal", "owner"]
        assert not (tmp_path / "cluster" / name / "journal").exists()
    with LocalCluster(tmp_path / "cluster", 2) as made, pytest.raises(ClusterError):
        made.start()  # it was made with journal directories, which must be named
    said = "".join((tmp_path / "cluster" / f"bookie-{number}.log").read_text() for number in (1, 2))
    assert "journal" in said  # the other one may have been stopped before it got that far


def test_a_bookie_that_dies_is_seen_and_can_be_started_again(cluster: LocalCluster) -> None:
    cluster.start()
    bookie = cluster.bookies[0]
    assert bookie.process is not None
    bookie.process.kill()
    until(lambda: bookie.died, "it died")
    assert bookie.state == "ended: killed by SIGKILL"
    assert str(bookie.log) in line_of(bookie)
    cluster.launch_one(bookie)
    until(lambda: bookie.ready, "it is back")
    assert cluster.stop()


def test_a_bookie_that_does_not_start_is_named(cluster: LocalCluster) -> None:
    cluster.metadata = "nothing:at-all"
    with pytest.raises(ClusterError, match="exit status 2"):
        cluster.start()


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("[]")
    with pytest.raises(ClusterError, match="not a cluster's"):
        LocalCluster(tmp_path, 1)


def test_ports_differ() -> None:
    ports = list(free_ports(64, set()))
    assert len(set(ports)) == 64


def test_what_the_table_shows(tmp_path: Path) -> None:
    bookie = BookieProcess("127.0.0.1:1", 1, 2, tmp_path, tmp_path / "log")
    assert cells(bookie) == ("127.0.0.1:1", "not started", "", "", "", "")
    bookie.samples = [Sample(10.0, True, True, 3, 100, 2**20), Sample(12.0, True, True, 4, 500, 3 * 2**20)]
    assert cells(bookie)[3:] == ("4", "200", "3.0 MiB")


# ---- as a command ----


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_command_says_what_happens_and_stops_cleanly(tmp_path: Path, number: int) -> None:
    command = up("--bookies", "2", "--data", str(tmp_path))
    assert command.stdout is not None
    said = ""
    while "cluster ready" not in said:
        line = command.stdout.readline()
        assert line, (said, command.communicate())
        said += line
    places = json.loads((tmp_path / "cluster.json").read_text())["bookies"]
    for place in places:
        assert f"bookie 127.0.0.1:{place['port']}: writable" in said
    assert f"metadata sqlite:{tmp_path}/metadata.db" in said
    command.send_signal(number)
    rest, errors = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 0, (rest, errors)
    assert rest.count(": stopped\n") == 2
    assert errors == ""
    assert processes_below(tmp_path) == []


def test_no_bookie_outlives_the_command(tmp_path: Path) -> None:
    """They would hold the ports, and the next `up` would find them taken."""
    command = up("--bookies", "2", "--data", str(tmp_path))
    assert command.stdout is not None
    while "cluster ready" not in command.stdout.readline():
        pass
    assert len(processes_below(tmp_path)) == 2
    command.kill()
    command.communicate(timeout=PATIENCE_S)
    until(lambda: processes_below(tmp_path) == [], "they ended")


def test_the_command_shows_who_died_and_says_so_at_the_end(tmp_path: Path) -> None:
    command = up("--bookies", "2", "--data", str(tmp_path))
    assert command.stdout is not None
    while "cluster ready" not in command.stdout.readline():
        pass
    victim = processes_below(tmp_path)[0]
    os.kill(int(victim), signal.SIGKILL)
    line = ""
    while "killed by SIGKILL" not in line:
        line = command.stdout.readline()
        assert line
    assert "its log is" in line
    command.send_signal(signal.SIGINT)
    command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 1
    assert processes_below(tmp_path) == []


def test_the_command_says_that_nothing_came_up(tmp_path: Path) -> None:
    command = up("--bookies", "2", "--data", str(tmp_path), "--metadata", "nothing:at-all")
    said, errors = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 2
    assert "ended: exit status 2" in said
    assert "names no metadata store" in said or "there is no store" in said  # the reason, not only where it stands
    assert "did not come up" in errors
    assert processes_below(tmp_path) == []


INTERRUPTED_AT_EACH_STEP = """
import signal, sys
from walkeeper_bookie.commands.cluster import told_to_stop

def wait_and_interrupt_at(step):
    count = 0
    def trace(frame, event, argument):
        nonlocal count
        count += 1
        if count == step:
            signal.raise_signal(signal.SIGINT)
        return trace
    with told_to_stop() as stop:
        sys.settrace(trace)
        found = stop.wait(0.001)
        sys.settrace(None)
        assert count < step or stop.is_set()
    return count

step = 1
while wait_and_interrupt_at(step) >= step:
    step += 1
print("steps", step - 1)
"""


def test_a_signal_at_any_step_of_the_wait_stops_the_command() -> None:
    command = [sys.executable, "-c", INTERRUPTED_AT_EACH_STEP]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.removeprefix("steps")) >= 2


def test_on_a_terminal_there_is_a_table(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = up("--bookies", "1", "--data", str(tmp_path), stdout=theirs)
    os.close(theirs)
    said = b""
    try:
        limit = time.monotonic() + PATIENCE_S
        while not re.search(rb"writable.*MiB", said):
            assert time.monotonic() < limit, said
            said += os.read(ours, 65536)
        command.send_signal(signal.SIGINT)
        try:
            while some := os.read(ours, 65536):
                said += some
        except OSError:
            pass  # nobody writes to the terminal any more
    finally:
        os.close(ours)
    command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 0
    assert b"entries/s" in said
    assert b": stopped" in said
