"""Numbers that are no time, no id and no position: refused in one way, or as long as a time can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import walkeeper

HUGE = 10**5000
"""Python refuses to write it in digits."""


@pytest.mark.parametrize("seconds", [10**400, HUGE, 1e300, 2.0**64], ids=["10**400", "10**5000", "1e300", "2.0**64"])
def test_a_time_out_that_is_too_long_to_be_counted_is_for_ever(directory: Path, seconds: float) -> None:
    with walkeeper.open(directory, lock_timeout=seconds, deferred_max_delay=seconds) as ns:
        log = ns.log("orders")
        with log.writer() as writer:
            assert writer.append(b"x", timeout=seconds).sequence_id == 0
            assert writer.submit(b"x", timeout=seconds).result(30).sequence_id == 1
            assert writer.append_many([b"x"], timeout=seconds).count == 1
            assert writer.flush(seconds).sequence_id == 3
            writer.close(seconds)
        assert len(log.reader(follow=True, timeout=seconds).read(timeout=seconds)) == 3
        ns.close(seconds)


@pytest.mark.parametrize("seconds", [-HUGE, [HUGE], float("nan")], ids=["-10**5000", "[10**5000]", "NaN"])
def test_a_time_out_that_cannot_be_is_refused(directory: Path, seconds: Any) -> None:
    with walkeeper.open(directory) as ns, ns.log("orders").writer() as writer:
        with pytest.raises(walkeeper.InvalidError, match=r"^timeout="):
            writer.append(b"x", timeout=seconds)
        assert writer.next_sequence_id == 0


def test_a_number_too_long_to_be_written_is_refused_as_any_other(directory: Path) -> None:
    with walkeeper.open(directory) as ns:
        log = ns.log("orders")
        with log.writer() as writer:
            for refused in (
                lambda: writer.append(b"x", txid=HUGE),
                lambda: writer.append(b"x", expected=HUGE),
                lambda: writer.append_many([b"x"], txids=[HUGE]),
                lambda: log.find(sequence_id=HUGE),
                lambda: log.find(time=-HUGE),
                lambda: log.reader(sequence_id=0, start=HUGE),  # type: ignore[arg-type]
                lambda: log.reader(start=walkeeper.DLSN(HUGE, 0, 0)),
                lambda: walkeeper.open(directory, read_bytes=HUGE),
                lambda: walkeeper.open(directory, backend=HUGE),  # type: ignore[arg-type]
                lambda: walkeeper.open(directory, check_all=HUGE),  # type: ignore[arg-type]
            ):
                with pytest.raises(walkeeper.InvalidError, match="too long to be shown"):
                    refused()
            with pytest.raises(TypeError, match="too long to be shown"):
                log.reader(start=HUGE)  # type: ignore[arg-type]
            assert writer.next_sequence_id == 0


def test_a_cursor_is_not_put_at_a_number_of_more_than_64_bits(directory: Path) -> None:
    with walkeeper.open(directory) as ns:
        log = ns.log("orders")
        with log.writer() as writer:
            at = writer.append(b"x")
        cursor = log.cursor("billing")
        for numbers in ((2**70, -1), (0, 2**70)):
            with pytest.raises(walkeeper.InvalidError, match=r"below 2\*\*63"):
                cursor.advance(walkeeper.Position((*at.dlsn, *numbers)))
        assert cursor.position == at


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_positions_are_read_from_any_bytes_like_object(kind: Any) -> None:
    position = walkeeper.Position((1, 2, 3, 40, 50))
    again = walkeeper.Position.from_bytes(kind(position.to_bytes()))
    assert (again.dlsn, again.sequence_id, again.txid) == (position.dlsn, 40, 50)
    assert walkeeper.Position.from_bytes(kind(position.dlsn.to_bytes())) == position
    assert walkeeper.DLSN.from_bytes(kind(position.dlsn.to_bytes())) == position.dlsn
    for read in (walkeeper.Position.from_bytes, walkeeper.DLSN.from_bytes):
        with pytest.raises(walkeeper.CorruptError):
            read(kind(b"\0" * 25))


@pytest.mark.parametrize("number", [0, 1])
def test_positions_are_not_read_from_lists_and_numbers(number: int) -> None:
    stored = walkeeper.Position((1, 2, 3, 40, 50)).dlsn.to_bytes()
    for wrong in (list(stored), len(stored), None, "x" * len(stored)):
        with pytest.raises(TypeError, match="bytes-like"):
            (walkeeper.Position, walkeeper.DLSN)[number].from_bytes(wrong)  # type: ignore[arg-type]
