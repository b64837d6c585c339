"""Finding, truncating, and cursors that hold truncation back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import walkeeper

Contents = Callable[..., list[bytes]]
Open = Callable[..., walkeeper.Namespace]

TEN = [b"%d" % number for number in range(10)]


@pytest.fixture
def ten(log: walkeeper.Log) -> list[walkeeper.Position]:
    """The positions of ten records, with txids 0, 10, 20, ... 90."""
    with log.writer() as writer:
        return [writer.append(payload, txid=10 * number) for number, payload in enumerate(TEN)]


# Finding


def test_find_by_each_number(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    for number, position in enumerate(ten):
        for found in (
            log.find(sequence_id=number),
            log.find(txid=10 * number),
            log.find(txid=10 * number - 9 if number else 0),
            log.find(dlsn=position),
            log.find(dlsn=position.dlsn),
        ):
            assert (found, found.sequence_id, found.txid) == (position, number, 10 * number)


def test_past_the_end_find_answers_just_behind_the_last(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    for found in (log.find(sequence_id=99), log.find(txid=91)):
        assert found > ten[-1]
        assert found.sequence_id == 10


def test_find_wants_one_number(log: walkeeper.Log) -> None:
    with pytest.raises(walkeeper.InvalidError):
        log.find()
    with pytest.raises(walkeeper.InvalidError):
        log.find(sequence_id=1, txid=1)


def test_what_a_reader_was_given_can_be_truncated(
    log: walkeeper.Log, ten: list[walkeeper.Position], contents: Contents
) -> None:
    """Where it stands is behind the last record and before whatever comes next."""
    with log.reader() as reader:
        assert len(list(reader)) == 10
        log.truncate(reader.position)
    assert contents(log) == []
    with pytest.raises(walkeeper.InvalidError):
        log.truncate(walkeeper.DLSN(1, 99, 0))
    with log.writer() as writer:
        assert writer.append(b"eleventh", txid=100).sequence_id == 10
    assert contents(log) == [b"eleventh"]


def test_what_a_reader_was_given_of_an_ended_stream_can_be_truncated(log: walkeeper.Log, contents: Contents) -> None:
    """It stands in the segment behind, which will never be."""
    with log.writer() as writer:
        writer.append(b"last")
        writer.mark_end_of_stream()
    with log.reader() as reader:
        assert len(list(reader)) == 1
        log.truncate(reader.position)
    assert contents(log) == []


HUGE = 2**63


@pytest.mark.parametrize(
    "wanted",
    [
        {"sequence_id": HUGE},
        {"sequence_id": 1.9},
        {"sequence_id": "1"},
        {"txid": HUGE},
        {"dlsn": walkeeper.DLSN(HUGE, 0, 0)},
        {"dlsn": walkeeper.DLSN(1, 1.5, 0)},  # type: ignore[arg-type]
        {"time": 1e30},
        {"time": float("inf")},
        {"time": float("nan")},
        {"time": "noon"},
    ],
    ids=str,
)
def test_a_number_that_no_record_can_have_is_refused(
    log: walkeeper.Log, ten: list[walkeeper.Position], wanted: dict[str, Any]
) -> None:
    with pytest.raises(walkeeper.InvalidError):
        log.find(**wanted)
    with pytest.raises(walkeeper.InvalidError):
        log.reader(**({"start": wanted["dlsn"]} if "dlsn" in wanted else wanted))


def test_first_last_and_count(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    assert log.first() == ten[0]
    assert log.last() == ten[-1]
    assert log.count() == 10


def test_an_empty_log_has_no_first_and_no_last(log: walkeeper.Log) -> None:
    assert log.first() is None
    assert log.last() is None
    assert log.count() == 0


# Truncating


def test_what_was_truncated_is_gone(log: walkeeper.Log, ten: list[walkeeper.Position], contents: Contents) -> None:
    log.truncate(ten[4])
    assert contents(log) == TEN[4:]
    assert log.first() == ten[4]
    assert log.last() == ten[-1]
    assert log.count() == 6


def test_a_reader_before_the_truncation_point_is_told(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    log.truncate(ten[4])
    for where in ({"start": ten[3]}, {"sequence_id": 0}):
        with pytest.raises(walkeeper.TruncatedError):
            log.reader(**where).read()
    with pytest.raises(walkeeper.TruncatedError):
        log.find(sequence_id=3)


def test_a_reader_overtaken_by_truncation_is_told_and_skips_nothing(
    log: walkeeper.Log, ten: list[walkeeper.Position]
) -> None:
    reader = log.reader()
    assert len(reader.read(max_records=2)) == 2
    log.truncate(ten[5])
    for _ in range(2):
        with pytest.raises(walkeeper.TruncatedError):
            reader.read()


def test_sequence_ids_go_on_after_everything_was_truncated(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    log.truncate(log.info().next)
    assert log.count() == 0
    assert log.first() is None
    with log.writer() as writer:
        assert writer.append(b"x", txid=1000).sequence_id == 10
    assert log.count() == 1


def test_truncating_twice_or_backwards_changes_nothing(
    log: walkeeper.Log, ten: list[walkeeper.Position], contents: Contents
) -> None:
    log.truncate(ten[6])
    log.truncate(ten[6])
    log.truncate(ten[2])
    assert contents(log) == TEN[6:]


def test_behind_the_end_there_is_nothing_to_truncate(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    with pytest.raises(walkeeper.InvalidError):
        log.truncate(walkeeper.DLSN(9999, 0, 0))
    assert log.count() == 10


def test_truncation_is_durable(open: Open, contents: Contents) -> None:
    with open() as ns:
        with ns.log("orders").writer() as writer:
            positions = [writer.append(payload) for payload in TEN]
        ns.log("orders").truncate(positions[7])
    assert contents(open().log("orders")) == TEN[7:]


# Cursors


def test_a_new_cursor_needs_everything(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    cursor = log.cursor("billing")
    assert cursor.position == ten[0]
    assert log.cursors() == ["billing"]


def test_a_cursor_moves_with_the_records_handled(
    log: walkeeper.Log, ten: list[walkeeper.Position], contents: Contents
) -> None:
    cursor = log.cursor("billing")
    for record in log.reader(start=cursor.position, end=ten[4]):
        cursor.advance(record.next)
    assert cursor.position.sequence_id == 4
    assert contents(log, start=cursor.position) == TEN[4:]


def test_a_cursor_takes_a_dlsn(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    cursor = log.cursor("billing")
    cursor.advance(ten[5].dlsn)
    assert (cursor.position, cursor.position.sequence_id) == (ten[5], 5)


def test_a_cursor_does_not_pass_the_end_by_a_dlsn(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    cursor = log.cursor("billing")
    beyond = walkeeper.DLSN(999, 0, 0)
    for place in (beyond, walkeeper.Position.from_bytes(beyond.to_bytes())):
        with pytest.raises(walkeeper.InvalidError, match="the log ends at"):
            cursor.advance(place)
    assert cursor.position == ten[0]
    (last,) = log.reader(start=ten[-1])
    cursor.advance(last.next.dlsn)
    assert cursor.position.sequence_id == 10


def test_a_cursor_takes_no_position_of_a_longer_log(
    ns: walkeeper.Namespace, log: walkeeper.Log, ten: list[walkeeper.Position]
) -> None:
    cursor = log.cursor("billing")
    with ns.log("another").writer() as writer:
        elsewhere = writer.append_many([b"x"] * 30).last
    with pytest.raises(walkeeper.InvalidError, match="another log's"):
        cursor.advance(elsewhere)
    with pytest.raises(walkeeper.InvalidError, match="the next record of orders will be 10"):
        cursor.advance(walkeeper.Position((1, 1000, 0, 5, -1)))
    assert cursor.position == ten[0]


def test_a_cursor_takes_the_position_of_a_record_that_is_not_durable_yet(log: walkeeper.Log) -> None:
    cursor = log.cursor("billing")
    with log.writer() as writer:
        position = writer.append(b"later", durability="deferred")
        cursor.advance(position)
    assert cursor.position == position


def test_a_cursor_goes_where_a_reader_stands_that_read_everything(
    log: walkeeper.Log, ten: list[walkeeper.Position]
) -> None:
    cursor, reader = log.cursor("billing"), log.reader()
    assert len(list(reader)) == 10
    cursor.advance(reader.position)
    assert cursor.position.sequence_id == 10


def test_a_cursor_takes_no_number(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    with pytest.raises(TypeError, match="a Position or a DLSN is wanted, not 5"):
        log.cursor("billing").advance(5)  # type: ignore[arg-type]


def test_a_cursor_moves_forward_only(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    cursor = log.cursor("billing")
    cursor.advance(ten[5])
    with pytest.raises(walkeeper.InvalidError):
        cursor.advance(ten[4])
    cursor.advance(ten[5])
    assert cursor.position == ten[5]


def test_a_cursor_holds_truncation_back(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    cursor = log.cursor("billing")
    cursor.advance(ten[3])
    with pytest.raises(walkeeper.CursorHoldsError, match="billing"):
        log.truncate(ten[4])
    assert log.count() == 10
    log.truncate(ten[3])
    assert log.count() == 7


def test_force_passes_a_cursor(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    cursor = log.cursor("billing")
    log.truncate(ten[4], force=True)
    assert log.count() == 6
    with pytest.raises(walkeeper.TruncatedError):
        log.reader(start=cursor.position).read()


def test_a_deleted_cursor_holds_nothing(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    cursor = log.cursor("billing")
    cursor.delete()
    assert log.cursors() == []
    log.truncate(ten[9])
    with pytest.raises(walkeeper.CursorNotFoundError):
        _ = cursor.position
    with pytest.raises(walkeeper.CursorNotFoundError):
        cursor.delete()


def test_without_create_a_cursor_must_be_there(log: walkeeper.Log) -> None:
    with pytest.raises(walkeeper.CursorNotFoundError):
        log.cursor("billing", create=False)
    log.cursor("billing")
    assert log.cursor("billing", create=False).name == "billing"


def test_cursors_are_durable(open: Open) -> None:
    with open() as ns:
        with ns.log("orders").writer() as writer:
            positions = [writer.append(payload) for payload in TEN]
        for name, position in (("b", positions[2]), ("a", positions[7]), ("ä", positions[9])):
            ns.log("orders").cursor(name).advance(position)
    log = open().log("orders")
    assert log.cursors() == ["a", "b", "ä"]
    assert [log.cursor(name).position.sequence_id for name in log.cursors()] == [7, 2, 9]
