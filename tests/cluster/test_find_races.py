"""Records that come while a log is looked through for a place: none of them is passed over."""

from __future__ import annotations

from typing import Any

import pytest

import walkeeper
from walkeeper.cluster._log import ClusterLog

LATE = [b"0", b"1", b"2"]


@pytest.fixture
def log(ns: walkeeper.Namespace) -> walkeeper.Log:
    return ns.log("orders")


def is_late(writer: walkeeper.Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It appends three records where somebody has found none, and is about to ask where the log ends."""
    sound, came = ClusterLog._end, []

    def late(self: ClusterLog) -> Any:
        if not came:
            came.append(writer.append_many(LATE))
        return sound(self)

    monkeypatch.setattr(ClusterLog, "_end", late)


@pytest.fixture
def writer(log: walkeeper.Log, monkeypatch: pytest.MonkeyPatch) -> walkeeper.Writer:
    writer = log.writer()
    is_late(writer, monkeypatch)
    return writer


@pytest.mark.parametrize("start", [{"sequence_id": 0}, {"txid": 0}, {"time": 0}], ids=str)
def test_a_reader_begins_with_them(log: walkeeper.Log, writer: walkeeper.Writer, start: dict[str, Any]) -> None:
    with log.reader(**start) as reader:
        assert [bytes(record.payload) for record in reader] == LATE


def test_they_are_found(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    assert log.find(sequence_id=0).sequence_id == 0


def test_those_below_the_place_are_not(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    assert log.find(sequence_id=7).sequence_id == 3
    with log.reader(sequence_id=2) as reader:
        assert [bytes(record.payload) for record in reader] == LATE[2:]


def test_a_truncation_up_to_the_end_leaves_them(log: walkeeper.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were acknowledged after its call would be lost."""
    with log.writer() as writer:
        writer.append_many([b"old"] * 5)
        behind = log.info().next
        is_late(writer, monkeypatch)
        log.truncate(behind)
        with log.reader() as reader:
            assert [bytes(record.payload) for record in reader] == LATE
