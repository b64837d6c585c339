"""Records that go by their age: only where the log says so, only whole segments, never past a cursor."""

from __future__ import annotations

import time
from collections.abc import Callable

import walkeeper

Open = Callable[..., walkeeper.Namespace]

PATIENCE = 20.0


def write_segments(log: walkeeper.Log, count: int) -> None:
    """Segments of two records each: the third record of 40 bytes finds 64 reached."""
    with log.writer() as writer:
        for number in range(2 * count):
            writer.append(b"%040d" % number)


def wait_until(happens: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE
    while not happens():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def test_old_segments_go_and_the_open_one_stays(ns: walkeeper.Namespace) -> None:
    log = ns.log("short-lived", segment_bytes=64, retention_seconds=1)
    write_segments(log, 3)
    assert len(log.segments()) == 3
    assert wait_until(lambda: len(log.segments()) == 1)
    assert [bytes(record.payload) for record in log.reader()] == [b"%040d" % 4, b"%040d" % 5]
    assert log.count() == 2
    with log.writer() as writer:
        assert writer.append(b"next").sequence_id == 6


def test_a_cursor_holds_them_back(ns: walkeeper.Namespace) -> None:
    log = ns.log("held", segment_bytes=64, retention_seconds=1)
    write_segments(log, 3)
    cursor = log.cursor("reader")
    cursor.advance(log.find(sequence_id=2))
    assert wait_until(lambda: log.first().sequence_id == 2)
    time.sleep(2.5)
    assert log.first().sequence_id == 2
    cursor.advance(log.find(sequence_id=4))
    assert wait_until(lambda: log.first().sequence_id == 4)


def test_without_it_nothing_goes(ns: walkeeper.Namespace) -> None:
    ephemeral = ns.log("short-lived", segment_bytes=64, retention_seconds=1)
    log = ns.log("kept", segment_bytes=64)
    write_segments(ephemeral, 2)
    write_segments(log, 2)
    assert wait_until(lambda: len(ephemeral.segments()) == 1)
    assert log.count() == 4
