"""fork: the child may not use what the parent opened, and does not harm it (storage rule 25)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import walkeeper


@pytest.fixture(params=["auto", "psync"])
def ns(request: pytest.FixtureRequest, directory: Path) -> Iterator[walkeeper.Namespace]:
    """An open namespace, empty, on each backend."""
    with walkeeper.open(directory, backend=request.param) as namespace:
        yield namespace


def in_child(check: Callable[[], None], seconds: int = 20) -> None:
    """Runs `check` in a forked child; fails where it raises or hangs."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(seconds)
            check()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def is_forked(call: Callable[[], object]) -> bool:
    try:
        call()
    except walkeeper.ForkedError as error:
        return error.hint is not None
    return False


def test_a_child_may_not_use_what_the_parent_opened(ns: walkeeper.Namespace) -> None:
    log = ns.log("orders")
    with log.writer() as writer:
        writer.append(b"x")
        reader, cursor = log.reader(), log.cursor("billing")

        def check() -> None:
            for call in (
                lambda: writer.append(b"y"),
                lambda: writer.append_many([b"y"]),
                lambda: writer.submit(b"y"),
                writer.flush,
                log.writer,
                log.info,
                lambda: cursor.position,
                reader.read,
                lambda: writer.next_sequence_id,
                ns.logs,
                ns.stats,
                ns.recovery,
                lambda: ns.log("new"),
            ):
                assert is_forked(call), call

        in_child(check)
        assert writer.append(b"z").sequence_id == 1


def test_a_child_may_not_use_what_the_parent_follows(ns: walkeeper.Namespace, directory: Path) -> None:
    with ns.log("orders").writer() as writer, walkeeper.open(directory, read_only=True) as followed:
        writer.append_many([b"x"] * 10)
        log = followed.log("orders", create=False)
        reader, following = log.reader(), log.reader(follow=True)

        def check() -> None:
            for call in (
                lambda: reader.read(1),
                lambda: next(following),
                log.info,
                lambda: log.find(sequence_id=0),
                log.reader,
                followed.logs,
                followed.stats,
                lambda: followed.log("orders", create=False),
            ):
                assert is_forked(call), call
            followed.close()

        in_child(check)
        assert len(reader.read()) == 10
        writer.append(b"y")
        assert log.info().count == 11


def descriptors_below(directory: Path) -> list[str]:
    """What this process has open of the directory's lock, and of rings."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
        if target == str(directory / "lock") or "io_uring" in target:
            found.append(target)
    return found


def test_the_child_lets_go_of_lock_and_ring(ns: walkeeper.Namespace, directory: Path) -> None:
    with ns.log("orders").writer() as writer:
        writer.submit(b"x").result(timeout=10)
        before = descriptors_below(directory)
        assert str(directory / "lock") in before
        assert ns.stats().backend == "psync" or len(before) > 1

        def check() -> None:
            assert descriptors_below(directory) == []
            with pytest.raises(walkeeper.DirectoryLockedError) as refused:
                walkeeper.open(directory, lock_timeout=0)
            assert refused.value.holder_pid == os.getppid()

        in_child(check)
        assert descriptors_below(directory) == before
        assert [writer.submit(b"y").result(timeout=10).sequence_id for _ in range(100)] == list(range(1, 101))


def test_children_that_only_exec_are_not_disturbed(ns: walkeeper.Namespace, directory: Path) -> None:
    ask = (
        "import sys, walkeeper as w\n"
        "try:\n w.open(sys.argv[1], lock_timeout=0)\n"
        "except w.DirectoryLockedError:\n print(1)"
    )
    with ns.log("orders").writer() as writer:
        stop = threading.Event()

        def append() -> None:
            while not stop.is_set():
                writer.append(b"x")

        thread = threading.Thread(target=append)
        thread.start()
        try:
            for preexec in (None, lambda: None):  # the latter makes it a fork, with its handlers
                for close_fds in (True, False):
                    done = subprocess.run(
                        [sys.executable, "-c", ask, str(directory)],
                        preexec_fn=preexec,
                        close_fds=close_fds,
                        capture_output=True,
                        text=True,
                        timeout=60,
                    )
                    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
        finally:
            stop.set()
            thread.join()
        assert writer.append(b"y").sequence_id > 0


def test_leaving_the_child_does_not_close_the_parents_namespace(directory: Path) -> None:
    ns = walkeeper.open(directory)
    writer = ns.log("orders").writer()
    writer.submit(b"x").result(timeout=10)

    def check() -> None:
        writer.close()
        ns.close()
        assert writer.closed
        assert ns.closed

    in_child(check)
    assert writer.append(b"y").sequence_id == 1
    writer.close()
    ns.close()


def test_records_that_were_read_stay_valid_in_the_child(ns: walkeeper.Namespace) -> None:
    log = ns.log("orders")
    with log.writer() as writer:
        writer.append_many([b"x" * 1000] * 100)
    records = log.reader().read()

    def check() -> None:
        assert all(record.payload == b"x" * 1000 for record in records)

    in_child(check)
    check()


def test_the_child_does_not_hold_the_lock(directory: Path) -> None:
    ns = walkeeper.open(directory)
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(20)
            os.write(ready[1], b".")
            os.read(go[0], 1)
        finally:
            os._exit(0)
    os.read(ready[0], 1)
    ns.close()
    other = os.fork()
    if other == 0:
        status = 1
        try:
            signal.alarm(20)
            walkeeper.open(directory, lock_timeout=1).close()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(other, 0)
    os.write(go[1], b".")
    os.waitpid(child, 0)
    for end in (*ready, *go):
        os.close(end)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_child_that_opens_for_itself_works(ns: walkeeper.Namespace, tmp_path: Path) -> None:
    ns.log("orders")

    def check() -> None:
        with walkeeper.open(tmp_path / "own") as own, own.log("orders").writer() as writer:
            assert writer.submit(b"x").result(timeout=10).sequence_id == 0

    in_child(check)
