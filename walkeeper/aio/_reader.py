"""Reader of walkeeper.aio: records fetched in a thread, waited for without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic

import walkeeper
from walkeeper._options import nanoseconds, seconds_of
from walkeeper._reader import FETCH_BYTES, FETCH_RECORDS, Item_co, _limit, _pyarrow
from walkeeper.aio._opening import seen
from walkeeper.errors import ClosedError

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import Self

    from walkeeper.aio._log import Log

__all__ = ["Reader"]

_FOLLOWER_WAIT = 0.25
"""Seconds that a follower waits in a thread at a time, where no event tells of what another process writes."""


class Reader(Generic[Item_co]):
    """The records of a log in order, for `async for`. See walkeeper.Reader; used by one task at a time.

    As there, it raises GapError where records are lost, or yields a Gap with gaps="yield".

    Cancelling a task that waits here loses nothing: the next read yields what it would have yielded.
    """

    __slots__ = ("_closed", "_closing", "_fetching", "_follow", "_log", "_loop", "_open", "_sync", "_timeout")

    def __init__(
        self, log: Log, open: Callable[[], walkeeper.Reader[Any]], follow: bool, timeout: float | None
    ) -> None:
        nanoseconds(timeout)
        self._log = log
        self._loop = log.namespace._loop
        self._open = open
        self._sync: walkeeper.Reader[Any] | None = None
        self._follow = follow
        self._timeout = timeout
        self._fetching: asyncio.Future[bool] | None = None
        self._closed = False
        self._closing: asyncio.Future[None] | None = None
        """Done when it is closed, for those who wait; made with the first of them."""

    @property
    def log(self) -> Log:
        """The log it reads."""
        return self._log

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed

    @property
    def ended(self) -> bool:
        """Whether the last answer was "nothing more". See walkeeper.Reader.ended."""
        return self._sync is not None and self._sync.ended

    async def position(self) -> walkeeper.DLSN:
        """Where the reader stands: a reader started here yields what this one would yield next.

        Raises what walkeeper.Log.reader raises, where nothing was read yet.
        """
        self._check_loop()
        sync = await self._opened()
        if self._fetching is not None:  # of a read that was cancelled: a reader is used by one thread at a time
            await asyncio.wait((self._fetching,))
        return sync.position

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item_co:
        if asyncio.get_running_loop() is not self._loop:
            self._check_loop()
        sync = self._sync
        record: Item_co
        if sync is not None:
            for record in sync._stage.records:
                return record
        if not await self._filled(self._timeout):
            raise StopAsyncIteration
        assert self._sync is not None
        record = next(self._sync)  # it waits for nothing; ClosedError where another task closed it just now
        return record

    async def read(
        self, max_records: int | None = None, max_bytes: int | None = None, timeout: float | None = None
    ) -> list[Item_co]:
        """The next records; empty where there is nothing more, or nothing came in time. See walkeeper.Reader.read."""
        self._check_loop()
        _limit("max_records", max_records, FETCH_RECORDS)  # before it waits
        _limit("max_bytes", max_bytes, FETCH_BYTES)
        wait = self._timeout if timeout is None else timeout
        nanoseconds(wait)
        if not await self._filled(wait):
            return []
        assert self._sync is not None
        return self._sync.read(max_records, max_bytes, 0)

    async def read_arrow(
        self, max_records: int | None = None, max_bytes: int | None = None, timeout: float | None = None
    ) -> pyarrow.RecordBatch | None:
        """The next records as a pyarrow.RecordBatch; None where read() would answer an empty list.

        Where a cancelled call had got a batch, the next call gives it, whole: it may be larger than `max_records` and
        `max_bytes`. At a gap it raises GapError, also with gaps="yield", and the next call goes on behind it.
        """
        self._check_loop()
        _pyarrow()  # before anything is fetched
        sync = await self._opened()
        arrived = await self._until(
            lambda wait: sync._arrive(max_records, max_bytes, wait) is not None,
            self._timeout if timeout is None else timeout,
        )
        return sync.read_arrow(max_records, max_bytes, 0) if arrived else None

    async def close(self) -> None:
        """Closes the reader; what it gave out stays valid. A task that waits for records gets ClosedError.

        Any event loop may call it.
        """
        self._closed = True
        if self._sync is not None:
            self._sync.close()
        if self._closing is None or self._closing.done():
            return
        if asyncio.get_running_loop() is self._loop:
            self._closing.set_result(None)
        else:
            try:
                self._loop.call_soon_threadsafe(_finish, self._closing)
            except RuntimeError:
                pass  # that loop is closed: none of its tasks waits any more

    async def __aenter__(self) -> Self:
        self._check_loop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<walkeeper.aio.Reader of log {self._log.name!r}, {'closed' if self._closed else 'open'}>"

    def _check_loop(self) -> None:
        self._log.namespace._check_loop()

    async def _opened(self) -> walkeeper.Reader[Any]:
        self._check()
        if self._sync is None:
            opened = await asyncio.to_thread(self._open)
            self._check()  # another task may have closed it meanwhile
            self._sync = opened
        return self._sync

    def _check(self) -> None:
        if self._closed:
            raise ClosedError(f"this reader of log {self._log.name!r} was closed", log=self._log.name)

    async def _filled(self, timeout: float | None) -> bool:
        """Whether there is a record to yield, fetched where need be; following, it waits."""
        sync = await self._opened()
        if sync._left():
            return True
        return await self._until(lambda wait: sync._fetch(FETCH_RECORDS, FETCH_BYTES, nanoseconds(wait)), timeout)

    async def _until(self, fetch: Callable[[float], bool], timeout: float | None) -> bool:
        """Whether there is something: what `fetch` gets, in a thread; False at the end, or when the time is over."""
        loop = asyncio.get_running_loop()
        if self._closing is None:
            self._closing = loop.create_future()
        seconds = seconds_of(nanoseconds(timeout))
        deadline = None if seconds is None else loop.time() + seconds
        namespace = self._log.namespace
        listens = self._follow and not namespace.read_only and namespace._has_eventfd
        drain = namespace._drain() if listens else None
        while True:
            seen = drain.durable_point() if drain else 0
            if await self._fetched(fetch, _FOLLOWER_WAIT if self._follow and not drain else 0.0):
                return True
            if not self._follow or (self._sync is not None and self._sync.ended):
                return False
            if drain is not None:
                if not await drain.moves(seen, deadline, self._closing):
                    return False
                self._check()
            elif deadline is not None and loop.time() >= deadline:
                return False

    async def _fetched(self, fetch: Callable[[float], bool], wait: float) -> bool:
        """Fetches in a thread. A cancelled task leaves that running, and the next call takes what it brings.

        That was perhaps yielded already, as `sync` has it as soon as the thread has it: then it is no answer any more.
        """
        if self._fetching is not None:
            await self._end_of(self._fetching)
            if self._sync is not None and self._sync._holds():
                return True
        self._fetching = asyncio.ensure_future(asyncio.to_thread(fetch, wait))
        self._fetching.add_done_callback(seen)
        return await self._end_of(self._fetching)

    async def _end_of(self, fetching: asyncio.Future[bool]) -> bool:
        """What it brings; ClosedError where the reader is closed before. The thread is left to itself then, too."""
        assert self._closing is not None
        await asyncio.wait((fetching, self._closing), return_when=asyncio.FIRST_COMPLETED)
        if fetching.done():
            self._fetching = None
        self._check()
        return fetching.result()


def _finish(closing: asyncio.Future[None]) -> None:
    if not closing.done():
        closing.set_result(None)
