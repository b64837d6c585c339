"""Cursors of a query: where it began, and what it has read, kept with the logs."""

from __future__ import annotations

from contextlib import suppress

from pyspark_walkeeper._changes import changes_of
from pyspark_walkeeper._offsets import Offsets
from pyspark_walkeeper._options import ReadOptions
from walkeeper.errors import LogDeletedError, LogNotFoundError

__all__ = ["Cursors"]


class Cursors:
    """Those of the option cursorName, one in each log that is read."""

    def __init__(self, options: ReadOptions) -> None:
        assert options.cursor is not None
        self._name = options.cursor
        self._changes = changes_of(options.place)

    def began_at(self, resolved: Offsets) -> Offsets:
        """Where the cursors stand. Of logs that have none, what was resolved, and it is kept before it is told."""
        found: Offsets = {}
        for log, offset in resolved.items():
            at = self._changes.cursor(log, self._name)
            if at is None:
                self._changes.set_cursor(log, self._name, offset)
            found[log] = offset if at is None else at
        return found

    def advance(self, offsets: Offsets) -> None:
        """The query is done with all before these; so truncation may be, too."""
        for log, offset in offsets.items():
            with suppress(LogNotFoundError, LogDeletedError):  # whether that is a loss is asked when it is read
                at = self._changes.cursor(log, self._name)
                if at is None or at < offset:
                    self._changes.set_cursor(log, self._name, offset)
