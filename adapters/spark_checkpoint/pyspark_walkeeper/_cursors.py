"""Cursors of a query: where it began, and what it has read, kept with the logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyspark_walkeeper._changes import changes_of
from pyspark_walkeeper._offsets import Offsets
from pyspark_walkeeper._options import ReadOptions

__all__ = ["Cursors"]


class Cursors:
    """Those of the option cursorName, one in each log that is read."""

    def __init__(self, options: ReadOptions) -> None:
        assert options.cursor is not None
        self._name = options.cursor
        self._changes = changes_of(options.place)

    def began_at(self, resolve: Callable[[], Offsets], logs: Iterable[str]) -> Offsets:
        """Where the cursors stand. Of logs that have none, what `resolve` says, and it is kept before it is told."""
        found = {log: self._changes.cursor(log, self._name) for log in logs}
        if None in found.values():
            resolved = resolve()
            for log in [log for log, offset in found.items() if offset is None]:
                self._changes.set_cursor(log, self._name, resolved[log])
                found[log] = resolved[log]
        return {log: offset for log, offset in found.items() if offset is not None}

    def advance(self, offsets: Offsets) -> None:
        """The query is done with all before these; so truncation may be, too."""
        for log, offset in offsets.items():
            at = self._changes.cursor(log, self._name)
            if at is None or at < offset:
                self._changes.set_cursor(log, self._name, offset)
