"""fork: the child may not use what the parent opened, and does not harm it."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

import walkeeper


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
                ns.logs,
                lambda: ns.log("new"),
            ):
                assert is_forked(call), call

        in_child(check)
        assert writer.append(b"z").sequence_id == 1


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
        assert all(record.payload == b"x" * 1000 for record in records if isinstance(record, walkeeper.Record))

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
