"""Asking for a cursor is a look and a change: others truncate between them, or ask for the same cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import walkeeper
from walkeeper.directory._cursor import DirectoryCursor


@pytest.fixture
def positions(log: walkeeper.Log) -> Iterator[list[walkeeper.Position]]:
    """Those of ten records in `log`."""
    with log.writer() as writer:
        yield [writer.append(b"x") for _ in range(10)]


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """What another thread does once, between the look and the change."""

    def meanwhile(change: Callable[[], object]) -> None:
        place = DirectoryCursor._set

        def late(cursor: walkeeper.Cursor, position: walkeeper.Position) -> None:
            monkeypatch.setattr(DirectoryCursor, "_set", place)
            change()
            place(cursor, position)

        monkeypatch.setattr(DirectoryCursor, "_set", late)

    return meanwhile


def test_a_cursor_beside_a_truncation_is_at_the_first_record_that_is_left(
    log: walkeeper.Log, positions: list[walkeeper.Position], between: Callable[[Callable[[], object]], None]
) -> None:
    between(lambda: log.truncate(positions[5]))
    assert log.cursor("billing").position == positions[5]


def test_a_cursor_that_another_made_meanwhile_is_where_the_other_put_it(
    log: walkeeper.Log, positions: list[walkeeper.Position], between: Callable[[Callable[[], object]], None]
) -> None:
    between(lambda: log.cursor("billing").advance(positions[7]))
    assert log.cursor("billing").position == positions[7]


def test_a_name_that_no_cursor_can_have_is_refused(log: walkeeper.Log) -> None:
    for name in ("", "x" * 256, "a\0b"):
        with pytest.raises(walkeeper.InvalidError, match="1 to 255 bytes"):
            log.cursor(name)
    assert log.cursors() == []
