"""A bookie whose log, or whose standard output, nobody reads."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from bookie_runs import OK, ROOT, Bookies, Client, Running, bookies_in, free_port, until

SHORT_QUEUE = "from walkeeper_bookie import _line_writer\n_line_writer.QUEUE_BYTES = 1000\n"
SHORT_BOUND = "from walkeeper_bookie import _stop_guard\n_stop_guard.CLOSE_S = 1.0\n"
# It waits in C, for ever: no handler of a signal runs in that thread.
HANG = """
def hang(*_):
    import ctypes
    libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    print("it hangs", file=sys.stderr, flush=True)
    libc.pthread_mutex_lock(mutex)

import sys
"""
HANGING_START = HANG + "from walkeeper_bookie import _bookie\n_bookie.make_data_directory = hang\n"
HANGING_CLOSE = HANG + "from walkeeper_bookie._directory import Directory\nDirectory.close = hang\n"
HANGING_LOOP = HANG + "from walkeeper_bookie._process import Process\nProcess._read_settings_again = hang\n"


class FullPipe:
    """A pipe of one page, full. Both ends are the test's."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        fcntl.fcntl(self.write_end, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(self.write_end, False)
        os.write(self.write_end, b"." * 4096)
        os.set_blocking(self.write_end, True)

    def read_until(self, wanted: bytes) -> str:
        """What comes, until that is in it."""
        text = b""
        while wanted not in text:
            some = os.read(self.read_end, 65536)
            assert some, text[-500:]
            text += some
        return text.decode()

    def close(self) -> None:
        os.close(self.read_end)
        os.close(self.write_end)


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as found:
        yield found


@pytest.fixture
def pipe() -> Iterator[FullPipe]:
    with closing(FullPipe()) as pipe:
        yield pipe


def ask(port: int, path: str) -> str:
    """What is answered, also where that is an error."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as wrong:
        with wrong:
            return wrong.read().decode()
    except urllib.error.URLError as wrong:
        return str(wrong)


def switch(port: int, read_only: bool) -> None:
    """Makes the bookie read-only, or writable: two lines of its log."""
    body = b'{"readOnly": true}' if read_only else b'{"readOnly": false}'
    url = f"http://127.0.0.1:{port}/api/v1/bookie/state/readonly"
    with urllib.request.urlopen(urllib.request.Request(url, body, method="PUT"), timeout=20) as answer:
        assert answer.status == 200


def ended_within(bookie: Running, seconds: float) -> int:
    """The exit status of a bookie that was told to stop."""
    began = time.monotonic()
    status = bookie.ended()
    assert time.monotonic() - began < seconds
    return status


def test_a_log_pipe_that_nobody_reads_holds_nothing_up(bookies: Bookies, pipe: FullPipe) -> None:
    http = free_port()
    options = ("--init", "--http", f"127.0.0.1:{http}", "--session-timeout", "1s")
    bookie = bookies.start(*options, stderr=pipe.write_end, before=SHORT_QUEUE)
    bookie.ready()
    for _ in range(20):
        switch(http, True)
        switch(http, False)
    assert ask(http, "/ready") == "ready\n"
    dropped = re.search(r"^walkeeper_log_lines_dropped_total (\d+)$", ask(http, "/metrics"), re.MULTILINE)
    assert dropped is not None
    assert int(dropped[1]) > 0
    with Client(bookie.port) as client:
        assert client.add(7, 0) == OK
    until(lambda: ask(http, "/ready") == "ready\n", "it is registered as wanted")
    assert re.search(r'msg="\d+ lines were dropped"', pipe.read_until(b' lines were dropped"'))
    bookie.send(signal.SIGTERM)
    assert ended_within(bookie, 20) == 0


def test_sigterm_ends_it_while_nobody_reads_the_log(bookies: Bookies, pipe: FullPipe) -> None:
    bookie = bookies.start("--init", stderr=pipe.write_end)
    bookie.ready()
    bookie.send(signal.SIGTERM)
    assert ended_within(bookie, 20) == 0


def test_standard_output_that_nobody_reads_holds_nothing_up(bookies: Bookies, pipe: FullPipe) -> None:
    http = free_port()
    bookie = bookies.start("--init", "--http", f"127.0.0.1:{http}", stdout=pipe.write_end)
    until(lambda: ask(http, "/ready") == "ready\n", "it is ready")
    bookie.send(signal.SIGHUP)
    until(lambda: "settings read again" in bookie.said(), "its main thread goes on")
    assert " ready on " in pipe.read_until(b"ready on")
    bookie.send(signal.SIGTERM)
    assert ended_within(bookie, 20) == 0


def test_a_closed_stderr_is_no_file_of_the_bookie(bookies: Bookies) -> None:
    """Else the next file that it opens gets the number, and the log is written into it."""
    bookie = bookies.start("--init", before="import os\nfor fd in (0, 2):\n    os.close(fd)")
    bookie.ready()
    for descriptor in (0, 2):
        assert os.readlink(f"/proc/{bookie.process.pid}/fd/{descriptor}") == os.devnull
    assert bookie.stop() == 0


# ---- a stop that hangs ----


def test_a_stop_that_hangs_ends_at_its_bound(bookies: Bookies) -> None:
    bookie = bookies.start("--init", "--drain-timeout", "1s", before=SHORT_BOUND + HANGING_CLOSE)
    bookie.ready()
    with Client(bookie.port) as client:
        assert client.add(7, 0) == OK
    bookie.send(signal.SIGTERM)
    assert ended_within(bookie, 20) == 11
    assert 'waits_for="closing the directory" status=11' in bookie.said()
    again = bookies.start(port=bookie.port)
    again.ready()
    with Client(again.port) as client:
        assert client.read(7, 0)[0] == OK
    assert again.stop() == 0


@pytest.mark.parametrize("where", ["start", "loop"])
def test_a_main_thread_that_hangs_is_ended_at_the_bound(bookies: Bookies, where: str) -> None:
    before = SHORT_BOUND + {"start": HANGING_START, "loop": HANGING_LOOP}[where]
    bookie = bookies.start("--init", "--drain-timeout", "1s", before=before)
    if where == "loop":
        bookie.ready()
        bookie.send(signal.SIGHUP)
    until(lambda: "it hangs" in bookie.said(), "it hangs")
    bookie.send(signal.SIGTERM)
    assert ended_within(bookie, 20) == 11


def test_the_second_signal_ends_a_main_thread_that_hangs_at_once(bookies: Bookies) -> None:
    bookie = bookies.start("--init", "--drain-timeout", "10min", before=HANGING_START)
    until(lambda: "it hangs" in bookie.said(), "it hangs")
    bookie.send(signal.SIGTERM)
    bookie.send(signal.SIGINT)
    assert ended_within(bookie, 20) == 8


def test_a_metadata_store_that_does_not_answer_does_not_hold_the_stop_up(bookies: Bookies) -> None:
    bookie = bookies.start("--init", "--drain-timeout", "1s")
    bookie.ready()
    with closing(sqlite3.connect(bookies.metadata.removeprefix("sqlite:"), isolation_level=None)) as held:
        held.execute("BEGIN EXCLUSIVE")
        bookie.send(signal.SIGTERM)
        assert ended_within(bookie, 20) == 0
        held.execute("ROLLBACK")


# ---- what else is written to stderr ----

REPORTS = """
import logging, sys, threading, warnings
from walkeeper_bookie._line_writer import LineWriter
from walkeeper_bookie._log import Log
from walkeeper_bookie._standard_streams import report_to

class Broken:
    def __del__(self):
        raise KeyError("finalizer")

def fail():
    raise KeyError("thread")

writer = LineWriter(2)
report_to(Log(writer), writer)
thread = threading.Thread(target=fail, name="some")
thread.start()
thread.join()
warnings.warn("careful")
Broken()
logging.getLogger("somebody else").warning("unhandled")
print("part", end="", file=sys.stderr)
print(" of a line", file=sys.stderr)
print("done", flush=True)
sys.stdin.read()
sys.excepthook(ValueError, ValueError("main"), None)
writer.flush(60)
"""


def reporting(stderr: int) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT / "bookie"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", REPORTS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_whatever_python_reports_is_a_line_of_the_log() -> None:
    process = reporting(subprocess.PIPE)
    _, said = process.communicate("", timeout=60)
    lines = [re.sub(r"^time=\S+ ", "", line) for line in said.splitlines()]
    assert len(lines) == 6
    assert lines[0].startswith('level=error msg="a thread ended: a defect" thread=some reason="Traceback')
    assert lines[1].startswith("level=warning msg=careful category=UserWarning")
    assert lines[2].startswith('level=error msg="an exception was ignored"')
    assert lines[3:5] == ["unhandled", "part of a line"]
    assert lines[5] == 'level=error msg="an exception: a defect" reason="ValueError: main\\n"'


def test_whatever_python_reports_waits_for_no_reader(pipe: FullPipe) -> None:
    process = reporting(pipe.write_end)
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    pipe.read_until(b"part of a line")
    process.communicate("", timeout=60)
