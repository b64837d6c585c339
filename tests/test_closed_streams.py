"""A process whose standard streams are closed: what it prints reaches no file, socket or database of ours."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie_runs import OK, ROOT, Client, free_port, until
from command_line import COMMAND, four_orders, run

import walkeeper

SHARED_MEMORY = Path("/dev/shm")

CLOSED = 'exec "$@" <&- >&- 2>&-'
"""What a shell starts so has none of the three."""

USE = """
import os, sys, walkeeper

path, backend = sys.argv[1:]
assert sys.stderr is None

def stray():
    for number in range(3):
        try:
            os.write(number, b"a message that is to go nowhere" * 200)
        except OSError:
            pass
        else:
            os._exit(9)

def look():
    stray()
    for name in os.listdir("/proc/self/fd"):
        try:
            leads_to = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the one that lists them, or of a thread of ours
            continue
        assert int(name) > 2 or leads_to == os.devnull, (name, leads_to)

try:
    for _ in range(3):
        with walkeeper.open(path, backend=backend, file_size_min=1 << 16, file_size_max=1 << 16) as namespace:
            look()
            with namespace.log("orders").writer() as writer:
                for number in range(40):
                    writer.append(b"an order" * 400)
                    stray()
            look()
        look()
except BaseException:
    import traceback
    with open(path + ".failure", "w") as failure:
        traceback.print_exc(file=failure)
    os._exit(1)
"""


def start_closed(*command: str, cwd: Path | None = None) -> int:
    """Runs it with its standard streams closed; the exit status."""
    return subprocess.run(["sh", "-c", CLOSED, "sh", *command], timeout=120, cwd=cwd).returncode


@pytest.fixture(params=["disk", "tmpfs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Direct I/O refuses most stray writes by their alignment; tmpfs takes them."""
    if request.param == "disk":
        yield tmp_path
        return
    if not os.path.ismount(SHARED_MEMORY):
        pytest.skip("there is no tmpfs at /dev/shm")
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as name:
        yield Path(name)


@pytest.mark.parametrize("backend", ["auto", "psync"])
def test_a_log_is_whole(place: Path, backend: str) -> None:
    path = place / "wal"
    status = start_closed(sys.executable, "-c", USE, str(path), backend)
    failure = Path(f"{path}.failure")
    assert status == 0, failure.read_text() if failure.exists() else status
    with walkeeper.open(path, create=False) as namespace:
        assert [record.payload for record in namespace.log("orders").reader()] == [b"an order" * 400] * 120
    assert run("verify", path).exit_code == 0


def test_a_command_writes_a_log(place: Path) -> None:
    """It has nowhere to write what it says, so it does nothing; without an input and errors it does all."""
    path = four_orders(place / "wal")
    assert start_closed(*COMMAND, "backup", str(path), str(place / "copy")) == 2
    assert not (place / "copy").exists()
    half_closed = ["sh", "-c", 'exec "$@" <&- 2>&-', "sh"]
    for words in (["stat", path], ["backup", path, place / "copy"]):
        done = subprocess.run([*half_closed, *COMMAND, *map(str, words)], stdout=subprocess.PIPE, timeout=60)
        assert done.returncode == 0, words
    assert run("verify", path).exit_code == 0
    assert run("verify", place / "copy").exit_code == 0


STORE = """
import os, sys
from walkeeper.metadata import open_store

open_store("memory:streams")
for number in range(3):  # occupied by whatever store: so that no socket of a client of ZooKeeper comes to be there
    if os.readlink(f"/proc/self/fd/{number}") != os.devnull:
        os._exit(8)
store = open_store("sqlite:" + sys.argv[1]).store
store.create("/one", b"first")
for number in range(3):
    try:
        os.write(number, b"x" * 4096)
        os._exit(9)
    except OSError:
        pass
store.create("/two", b"second")
store.close()
"""


def test_a_metadata_file_is_whole(place: Path) -> None:
    file = place / "metadata.db"
    assert start_closed(sys.executable, "-c", STORE, str(file)) == 0
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


SESSION = """
import os, sys
from pathlib import Path
from walkeeper.metadata._liveness import SessionFile

session = SessionFile(Path(sys.argv[1]), 10**9)
os._exit(sum(os.path.exists(f"/proc/self/fd/{number}") for number in range(3)))
"""


def test_the_file_of_a_session_has_a_number_of_its_own(tmp_path: Path) -> None:
    """Also where the application closed its streams since the store was opened."""
    assert start_closed(sys.executable, "-c", SESSION, str(tmp_path / "sessions")) == 0


def low_descriptors_of(process: int) -> dict[int, str]:
    """Where its standard streams lead to."""
    links = [Path(f"/proc/{process}/fd/{number}") for number in range(3)]
    return {number: os.readlink(link) for number, link in enumerate(links) if link.is_symlink()}


def accepts(port: int, ledger: int) -> bool:
    """Whether a bookie listens there, and is ready to write."""
    try:
        with Client(port) as client:
            return client.add(ledger, 0, b"an entry") == OK
    except OSError:
        return False


def serve_closed(command: list[str], port: int, ledger: int) -> None:
    """A bookie with its streams closed takes an entry, and ends in order."""
    path = os.pathsep.join([str(ROOT / "bookie"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(["sh", "-c", CLOSED, "sh", *command], env={**os.environ, "PYTHONPATH": path})
    try:
        until(lambda: process.poll() is not None or accepts(port, ledger), "the bookie is ready")
        assert set(low_descriptors_of(process.pid).values()) == {os.devnull}
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def test_a_bookie_serves(place: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "walkeeper_bookie", "--metadata", f"sqlite:{place / 'metadata.db'}"]
    command += ["--listen", f"127.0.0.1:{port}", "--data", str(place / "data"), "--http", f"127.0.0.1:{free_port()}"]
    serve_closed([*command, "--init"], port, 1)
    serve_closed(command, port, 2)
    (superblock,) = (place / "data").rglob("superblock")
    assert run("verify", superblock.parent).exit_code == 0
