"""Cursor: a named durable position in a log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from walkeeper._position import DLSN, Position, dlsn_of
from walkeeper.errors import CursorNotFoundError, InvalidError

if TYPE_CHECKING:
    from walkeeper._log import Log

__all__ = ["Cursor"]


def _first_of_the_next(end: DLSN) -> tuple[DLSN, DLSN]:
    """Where the record behind the end of a log may be: a reader that read everything stands there."""
    return DLSN(end.segment, end.entry_id + 1, 0), DLSN(end.segment + 1, 0, 0)


class Cursor(ABC):
    """A named durable position: the first record that its owner still needs.

    Truncation may go up to it and not further. It moves forward only: after handling `record`, say
    `cursor.advance(record.next)`; after a restart, read on from `log.reader(start=cursor.position)`. Where a truncation
    was forced past it, that reader raises TruncatedError: advance the cursor to `log.info().first`, and know that the
    records between were not handled.
    """

    __slots__ = ("_log", "_name")

    def __init__(self, log: Log, name: str) -> None:
        self._log = log
        self._name = name

    @property
    def name(self) -> str:
        """The name it was opened under."""
        return self._name

    @property
    def log(self) -> Log:
        """The log it is in."""
        return self._log

    @property
    @abstractmethod
    def position(self) -> Position:
        """The first record still needed. Raises CursorNotFoundError where the cursor was deleted."""

    def advance(self, position: Position | DLSN) -> None:
        """Moves the cursor to `position`; durable when it returns.

        Raises InvalidError where that would be backwards, or, by a DLSN, beyond the end of the log; TruncatedError
        where the records there were let go. A deleted cursor is made again.
        """
        place = dlsn_of(position)
        if not isinstance(position, Position) or position.sequence_id < 0:
            position = self._log.find(dlsn=place)
            if position.dlsn < place and place not in _first_of_the_next(position.dlsn):
                where = f"moving the cursor {self._name!r} to {tuple(place)}"
                raise InvalidError(f"{where}: the log ends at {tuple(position.dlsn)}", log=self._log.name)
        self._set(position)

    @abstractmethod
    def delete(self) -> None:
        """Forgets the cursor; durable when it returns. What only it needed may be truncated from now on."""

    def _exists(self) -> bool:
        try:
            _ = self.position
        except CursorNotFoundError:
            return False
        return True

    @abstractmethod
    def _set(self, position: Position) -> None:
        """advance(), to a place that was settled."""

    def __repr__(self) -> str:
        return f"<walkeeper.Cursor {self._name!r} of log {self._log.name!r}>"
