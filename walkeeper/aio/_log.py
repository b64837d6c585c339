"""Log of walkeeper.aio: a handle on one log."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Literal, overload

import walkeeper
from walkeeper.aio._cursor import Cursor
from walkeeper.aio._opening import Opening, opened_in_a_thread
from walkeeper.aio._reader import Reader
from walkeeper.aio._thread_writer import ThreadWriter
from walkeeper.aio._writer import Writer

if TYPE_CHECKING:
    from walkeeper.aio._namespace import Namespace

__all__ = ["Log"]


class Log:
    """A handle on one log. See walkeeper.Log."""

    __slots__ = ("_namespace", "_sync")

    def __init__(self, namespace: Namespace, sync: walkeeper.Log) -> None:
        self._namespace = namespace
        self._sync = sync

    @property
    def name(self) -> str:
        """The name it was opened under."""
        return self._sync.name

    @property
    def namespace(self) -> Namespace:
        """The namespace it is in."""
        return self._namespace

    def writer(self, *, durability: walkeeper.Durability = "sync") -> Opening[Writer]:
        """The writer of this log: `w = await log.writer()`, or `async with log.writer() as w`."""

        async def start() -> Writer:
            self._namespace._check_loop()  # another loop is refused before the earlier writer is fenced
            listens = self._namespace._has_eventfd
            if listens:
                self._namespace._drain()
            sync = await opened_in_a_thread(
                lambda: self._sync.writer(durability=durability), lambda writer: writer.close(0)
            )
            return Writer(self, sync, durability) if listens else ThreadWriter(self, sync, durability)

        return Opening(start)

    @overload
    def reader(
        self,
        start: walkeeper.Position | walkeeper.DLSN | Literal["start", "end"] = "start",
        *,
        sequence_id: int | None = None,
        txid: int | None = None,
        time: datetime | float | None = None,
        end: walkeeper.Position | walkeeper.DLSN | None = None,
        follow: bool = False,
        timeout: float | None = None,
        gaps: Literal["raise"] = "raise",
    ) -> Reader[walkeeper.Record]: ...
    @overload
    def reader(
        self,
        start: walkeeper.Position | walkeeper.DLSN | Literal["start", "end"] = "start",
        *,
        sequence_id: int | None = None,
        txid: int | None = None,
        time: datetime | float | None = None,
        end: walkeeper.Position | walkeeper.DLSN | None = None,
        follow: bool = False,
        timeout: float | None = None,
        gaps: walkeeper.Gaps,
    ) -> Reader[walkeeper.Record | walkeeper.Gap]: ...
    def reader(
        self,
        start: walkeeper.Position | walkeeper.DLSN | Literal["start", "end"] = "start",
        *,
        sequence_id: int | None = None,
        txid: int | None = None,
        time: datetime | float | None = None,
        end: walkeeper.Position | walkeeper.DLSN | None = None,
        follow: bool = False,
        timeout: float | None = None,
        gaps: walkeeper.Gaps = "raise",
    ) -> Reader[walkeeper.Record] | Reader[walkeeper.Record | walkeeper.Gap]:
        """A reader, opened with its first read; what walkeeper.Log.reader raises is raised there."""

        def opened() -> walkeeper.Reader[walkeeper.Record | walkeeper.Gap]:
            return self._sync.reader(
                start, sequence_id=sequence_id, txid=txid, time=time, end=end, follow=follow, timeout=timeout, gaps=gaps
            )

        return Reader(self, opened, follow, timeout)

    async def info(self) -> walkeeper.LogInfo:
        """See walkeeper.Log.info."""
        self._namespace._check_loop()
        return await asyncio.to_thread(self._sync.info)

    async def options(self) -> walkeeper.LogOptions:
        """The options the log was created with."""
        return (await self.info()).options

    async def first(self) -> walkeeper.Position | None:
        """See walkeeper.Log.first."""
        self._namespace._check_loop()
        return await asyncio.to_thread(self._sync.first)

    async def last(self) -> walkeeper.Position | None:
        """See walkeeper.Log.last."""
        self._namespace._check_loop()
        return await asyncio.to_thread(self._sync.last)

    async def count(self) -> int:
        """See walkeeper.Log.count."""
        self._namespace._check_loop()
        return await asyncio.to_thread(self._sync.count)

    async def find(
        self,
        *,
        sequence_id: int | None = None,
        txid: int | None = None,
        time: datetime | float | None = None,
        dlsn: walkeeper.Position | walkeeper.DLSN | None = None,
    ) -> walkeeper.Position:
        """See walkeeper.Log.find."""
        self._namespace._check_loop()
        return await asyncio.to_thread(self._sync.find, sequence_id=sequence_id, txid=txid, time=time, dlsn=dlsn)

    async def truncate(self, position: walkeeper.Position | walkeeper.DLSN, *, force: bool = False) -> None:
        """See walkeeper.Log.truncate."""
        self._namespace._check_loop()
        await asyncio.to_thread(self._sync.truncate, position, force=force)

    async def segments(self) -> list[walkeeper.Segment]:
        """See walkeeper.Log.segments."""
        self._namespace._check_loop()
        return await asyncio.to_thread(self._sync.segments)

    async def cursor(self, name: str, *, create: bool = True) -> Cursor:
        """See walkeeper.Log.cursor."""
        self._namespace._check_loop()
        return Cursor(self, await asyncio.to_thread(self._sync.cursor, name, create=create))

    async def cursors(self) -> list[str]:
        """See walkeeper.Log.cursors."""
        self._namespace._check_loop()
        return await asyncio.to_thread(self._sync.cursors)

    def __repr__(self) -> str:
        return f"<walkeeper.aio.Log {self.name!r} in {self._namespace.path!r}>"
