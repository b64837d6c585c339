"""What clients meet while a bookie starts: nobody, until it serves as what it will be."""

from __future__ import annotations

import errno
import fcntl
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie_runs import Bookies, Running, bookies_in, until
from wire_client import OK, WireClient

from walkeeper_bookie._addresses import is_locked

GATE = """
import pathlib, sys, time
from walkeeper_bookie._collector import Collector
start = Collector.start

def waits(collector):
    print("it waits", file=sys.stderr, flush=True)
    while not pathlib.Path({gate!r}).exists():
        time.sleep(0.01)
    start(collector)

Collector.start = waits
"""
"""The start waits at what is told to the server before it may serve."""
TELLS_OPEN = """
import sys
from walkeeper_bookie import _bookie
real = _bookie.Directory.open

def opens(*given, **more):
    print("it opens", file=sys.stderr, flush=True)
    return real(*given, **more)

_bookie.Directory.open = opens
"""
TELLS_WAIT = """
import sys
from walkeeper_bookie import _bookie
real, _bookie.LINGER_S = _bookie.is_locked, 0.0

def tells(store):
    print("it waits", file=sys.stderr, flush=True)
    return real(store)

_bookie.is_locked = tells
"""


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as found:
        yield found


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


def made(bookies: Bookies) -> Running:
    """A bookie that was started once, and stopped."""
    bookie = bookies.start("--init")
    bookie.ready()
    assert bookie.stop() == 0
    return bookie


def refusal(port: int) -> int:
    """What a client's connection meets; 0: somebody."""
    with socket.socket() as client:
        client.bind(("127.0.0.1", 0))
        return client.connect_ex(("127.0.0.1", port))


def test_nobody_can_connect_before_it_serves(bookies: Bookies, gate: Path) -> None:
    first = made(bookies)
    bookie = bookies.start(port=first.port, before=GATE.format(gate=str(gate)))
    until(lambda: "it waits" in bookie.said(), "the server is there, and not told yet")
    assert refusal(bookie.port) == errno.ECONNREFUSED
    gate.touch()
    bookie.ready()
    with WireClient(bookie.port) as client:
        assert client.add(7, 0) == OK
    assert bookie.stop() == 0


def test_its_address_is_its_own_while_it_starts(bookies: Bookies, gate: Path) -> None:
    """Also against one that would share it with whoever does not listen."""
    first = made(bookies)
    bookie = bookies.start(port=first.port, before=GATE.format(gate=str(gate)))
    until(lambda: "it waits" in bookie.said(), "it starts")
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", bookie.port))
    gate.touch()
    bookie.ready()


def test_a_writer_meets_no_refusal_of_a_bookie_that_starts_again(bookies: Bookies) -> None:
    """It connects again and again while a journal is recovered: nobody is there, or its add is taken."""
    first = bookies.start("--init")
    first.ready()
    payload = b"x" * 2**16
    with WireClient(first.port) as client:
        for entry_id in range(500):
            assert client.add(7, entry_id, payload) == OK
    first.send(signal.SIGKILL)
    first.ended()
    until(lambda: refusal(first.port) == errno.ECONNREFUSED, "the kernel has closed what the killed one listened at")
    refused, wrong, done = 0, list[object](), threading.Event()

    def write() -> None:
        nonlocal refused
        entry_id = 500
        while not wrong and not done.is_set():
            try:
                with WireClient(first.port) as client:
                    code = client.add(7, entry_id)
            except ConnectionRefusedError:  # noqa: PERF203 - each try is a client's
                refused += 1
            except Exception as error:
                wrong.append(error)
            else:
                if code != OK:
                    wrong.append(code)
                entry_id += 1
        if entry_id == 500:
            wrong.append("nothing was added")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        bookie = bookies.start(port=first.port)
        bookie.ready()
        with WireClient(bookie.port) as client:
            until(lambda: wrong or client.read(7, 500).code == OK, "it writes")
    finally:
        done.set()
        writer.join()
    assert not wrong
    assert refused > 0


def test_an_address_in_use_is_found_out_before_the_directory_is_opened(bookies: Bookies) -> None:
    first = made(bookies)
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", first.port))
        held.listen()
        bookie = bookies.start(port=first.port, before=TELLS_OPEN)
        assert bookie.ended() == 7
    assert f"listen 127.0.0.1:{first.port}" in bookie.said()
    assert "another process serves there" in bookie.said()
    assert "it opens" not in bookie.said()


def test_whoever_has_the_directory_and_the_address_is_waited_for(bookies: Bookies) -> None:
    first = bookies.start("--init")
    first.ready()
    second = bookies.start("--lock-timeout", "1h", port=first.port, before=TELLS_WAIT)
    until(lambda: "it waits" in second.said(), "it waits")
    assert first.stop() == 0
    second.ready()
    with WireClient(second.port) as client:
        assert client.add(7, 0) == OK
    assert second.stop() == 0


def test_a_start_that_waits_for_an_address_ends_when_it_is_told_to(bookies: Bookies) -> None:
    first = bookies.start("--init")
    first.ready()
    second = bookies.start("--lock-timeout", "1h", port=first.port, before=TELLS_WAIT)
    until(lambda: "it waits" in second.said(), "it waits")
    assert second.stop() == 0
    assert first.stop() == 0


def test_it_takes_the_address_of_a_killed_one_whose_connections_linger(bookies: Bookies) -> None:
    first = bookies.start("--init")
    first.ready()
    with WireClient(first.port) as client:
        assert client.add(7, 0) == OK
        assert first.stop() == 0  # its end of the connection closes first, and waits out its time
        second = bookies.start(port=first.port)
        second.ready()
        assert second.stop() == 0


@pytest.mark.parametrize("name", ["superblock", "lock"])
def test_a_store_is_locked_by_either_of_its_files(tmp_path: Path, name: str) -> None:
    """Somebody may have removed the file `lock` of a bookie that lives."""
    with (tmp_path / name).open("w") as held:
        assert not is_locked(tmp_path)
        fcntl.flock(held, fcntl.LOCK_EX)
        assert is_locked(tmp_path)
