"""The lock of a directory: one process writes, others look whether somebody does."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import walkeeper
from walkeeper.cli._copy import lock_held


@pytest.fixture
def closed(directory: Path) -> Path:
    """A directory that this process wrote, and closed."""
    walkeeper.open(directory).close()
    return directory


@contextmanager
def looked_at(directory: Path, seconds: float) -> Iterator[None]:
    """Somebody looks at the lock, and is kept from going on."""
    with (directory / "lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        timer = threading.Timer(seconds, fcntl.flock, (file, fcntl.LOCK_UN))
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


def open_at_once(directory: Path) -> None:
    walkeeper.open(directory, lock_timeout=0).close()


def hold_for_a_copy(directory: Path) -> None:
    with lock_held(directory):
        pass


@pytest.mark.parametrize("take", [open_at_once, hold_for_a_copy])
def test_who_only_looks_keeps_no_writer_out(closed: Path, take: Callable[[Path], None]) -> None:
    with looked_at(closed, 0.05):
        take(closed)


@pytest.mark.parametrize("take", [open_at_once, hold_for_a_copy])
def test_a_look_that_does_not_end_is_not_waited_for(closed: Path, take: Callable[[Path], None]) -> None:
    started = time.monotonic()
    with looked_at(closed, 60), pytest.raises(walkeeper.DirectoryLockedError, match="look") as refused:
        take(closed)
    assert refused.value.holder_pid is None
    assert time.monotonic() - started < 20


def test_who_has_just_taken_the_lock_is_not_taken_for_the_one_before(closed: Path) -> None:
    """Its pid may not be in the file yet: there stands this process, which holds nothing."""
    code = """
import fcntl, sys
file = open(sys.argv[1], "rb")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", code, str(closed / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(walkeeper.DirectoryLockedError) as refused:
            walkeeper.open(closed, lock_timeout=0)
        other.stdin.close()
    assert refused.value.holder_pid is None
    assert str(os.getpid()) not in str(refused.value).replace(str(closed), "")


def test_a_process_that_does_hold_the_directory_is_named_to_itself(directory: Path) -> None:
    """What a close left that ran out of time holds it until the process ends."""
    code = """
import os, sys, walkeeper
namespace = walkeeper.open(sys.argv[1], deferred_max_delay=60)
namespace.log("orders").writer().append(b"x", durability="deferred")
try:
    namespace.close(timeout=0)
except walkeeper.TimeoutError:
    try:
        walkeeper.open(sys.argv[1], lock_timeout=0)
    except walkeeper.DirectoryLockedError as error:
        assert error.holder_pid == os.getpid(), error
"""
    subprocess.run([sys.executable, "-c", code, str(directory)], timeout=60, check=True)


HOLD = """
import sys, walkeeper
with walkeeper.open(sys.argv[1]) as namespace:
    with namespace.log("orders").writer() as writer:
        writer.append(b"first")
        print("open", flush=True)
        sys.stdin.readline()
        writer.append(b"second")
"""


@contextmanager
def written_without_lock(directory: Path) -> Iterator[None]:
    """Another process writes the directory, and somebody has removed its file `lock`; it closes it in order."""
    command = [sys.executable, "-c", HOLD, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        (directory / "lock").unlink()
        try:
            yield
        finally:
            other.stdin.write("\n")
            other.stdin.close()
            assert other.wait(60) == 0


@pytest.mark.parametrize("take", [open_at_once, hold_for_a_copy])
def test_a_directory_whose_lock_was_removed_is_still_locked(closed: Path, take: Callable[[Path], None]) -> None:
    with written_without_lock(closed):
        with pytest.raises(walkeeper.DirectoryLockedError, match="open for writing"):
            take(closed)
        with walkeeper.open(closed, read_only=True) as follower:
            assert [record.payload for record in follower.log("orders").reader()] == [b"first"]
    with walkeeper.open(closed) as namespace:
        assert [record.payload for record in namespace.log("orders").reader()] == [b"first", b"second"]


def append_more_than_a_file_holds(writer: walkeeper.Writer) -> None:
    for _ in range(40):
        writer.append(b"an order" * 400)


def test_a_writer_whose_directory_was_replaced_is_told(directory: Path, tmp_path: Path) -> None:
    """Another directory has its place: nothing more is acknowledged than what one journal file holds, and an error says
    what happened."""
    sizes = {"file_size_min": 1 << 16, "file_size_max": 1 << 16}
    namespace = walkeeper.open(directory, **sizes)
    writer = namespace.log("orders").writer()
    writer.append(b"first")
    for name in ("superblock", "lock"):
        (directory / name).rename(tmp_path / name)
        (directory / name).write_bytes((tmp_path / name).read_bytes())
    with pytest.raises(walkeeper.JournalFailedError, match="not this process's any more: its file `") as told:
        append_more_than_a_file_holds(writer)
    assert "removes or replaces its files" in str(told.value)
    for handle in (writer, namespace):
        with suppress(walkeeper.JournalFailedError):  # again, of what was under way
            handle.close()
