"""Cursor of walkeeper.aio: a named durable position."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import walkeeper

if TYPE_CHECKING:
    from walkeeper.aio._log import Log

__all__ = ["Cursor"]


class Cursor:
    """A named durable position. See walkeeper.Cursor."""

    __slots__ = ("_log", "_sync")

    def __init__(self, log: Log, sync: walkeeper.Cursor) -> None:
        self._log = log
        self._sync = sync

    @property
    def name(self) -> str:
        """The name it was opened under."""
        return self._sync.name

    @property
    def log(self) -> Log:
        """The log it is in."""
        return self._log

    async def position(self) -> walkeeper.Position:
        """See walkeeper.Cursor.position."""
        self._log.namespace._check_loop()
        return await asyncio.to_thread(lambda: self._sync.position)

    async def advance(self, position: walkeeper.Position | walkeeper.DLSN) -> None:
        """See walkeeper.Cursor.advance."""
        self._log.namespace._check_loop()
        await asyncio.to_thread(self._sync.advance, position)

    async def delete(self) -> None:
        """See walkeeper.Cursor.delete."""
        self._log.namespace._check_loop()
        await asyncio.to_thread(self._sync.delete)

    def __repr__(self) -> str:
        return f"<walkeeper.aio.Cursor {self.name!r}>"
