"""Signals may come between any two steps of the bookie's process."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie_runs import OK, Bookies, Client, bookies_in, free_port, until

# Every line that the waiting thread runs is followed by a signal's handler, as the interpreter may do it.
PROGRAM = """
import signal, sys
from types import SimpleNamespace
from walkeeper_bookie._log import Log
from walkeeper_bookie._process import Process

process = Process(SimpleNamespace(log_level="info"), Log())
process._read_settings_again = lambda bookie: None
steps = 0

def step(frame, event, argument):
    global steps
    if frame.f_code not in (Process._on_stop.__code__, Process._on_reload.__code__):
        steps += 1
        sys.settrace(None)
        process._on_reload(signal.SIGHUP, None)
        if steps == 300:
            process._on_stop(signal.SIGTERM, None)
            return None
        sys.settrace(step)
    return step

sys.settrace(step)
process._serve(SimpleNamespace(journal_failed=lambda: False, crashed=None))
print("ended")
"""


def test_no_handler_waits_for_the_thread_that_it_interrupts() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "ended\n", done.stderr


# ---- of a bookie that drains ----

READS = 200
DRAIN_S = 50


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as found:
        yield found


def not_ready(http: int) -> str:
    """Why it is not; empty: it is."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{http}/ready", timeout=30):
            return ""
    except urllib.error.HTTPError as wrong:
        with wrong:
            return wrong.read().decode().strip()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def test_the_second_signal_ends_it_while_it_drains(bookies: Bookies) -> None:
    """A client that does not read holds the drain up; until then /ready says what goes on, and /metrics answers."""
    http = free_port()
    bookie = bookies.start("--init", "--drain-timeout", f"{DRAIN_S}s", "--http", f"127.0.0.1:{http}")
    bookie.ready()
    with Client(bookie.port) as client:
        assert client.add(7, 0, b"x" * 2**19) == OK
    with socket.create_connection(("127.0.0.1", bookie.port)) as unread:
        packet = struct.pack(">Iqq", 2 << 24 | 2 << 16, 7, 0)
        unread.sendall((struct.pack(">I", len(packet)) + packet) * READS)
        assert unread.recv(1) != b""
        bookie.send(signal.SIGTERM)
        until(lambda: not listens(bookie.port), "it drains")
        assert not_ready(http) == "stopping"
        with urllib.request.urlopen(f"http://127.0.0.1:{http}/metrics", timeout=DRAIN_S / 2) as answer:
            assert b"walkeeper_" in answer.read()
        told = time.monotonic()
        bookie.send(signal.SIGTERM)
        assert bookie.ended() == 8
        assert time.monotonic() - told < DRAIN_S / 2


def test_sighup_makes_no_pass_of_the_collector(bookies: Bookies) -> None:
    """Rule 1: what vanished is deleted after two passes, gc_interval apart, however often the settings are read."""
    http = free_port()
    bookie = bookies.start("--init", "--gc-interval", "10min", "--http", f"127.0.0.1:{http}")
    bookie.ready()
    for times in (1, 2):
        bookie.send(signal.SIGHUP)
        until(lambda: bookie.said().count("settings read again") == times, "it read them")  # noqa: B023
        time.sleep(0.3)
    with urllib.request.urlopen(f"http://127.0.0.1:{http}/metrics", timeout=30) as answer:
        assert b"\nwalkeeper_gc_passes_total 0\n" in answer.read()
