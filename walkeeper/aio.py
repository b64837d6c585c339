"""walkeeper with async and await: the same names, the same promises.

    async with walkeeper.aio.open("/var/lib/app/wal") as ns:
        log = await ns.log("orders")
        async with log.writer() as w:
            at = await w.append(b"paid 42")                  # durable when it returns
        async for record in log.reader(start=at, follow=True):
            await apply(record.payload)

No thread waits for appends: the engine signals an eventfd, the event loop reads it, and one call completes all that is
durable by then. Whatever may touch the disk in the calling thread (opening, reading, truncating) runs in the loop's
default executor; what is a property without `await` and may do so is a method here: `await log.options()`, `await
cursor.position()`, `await reader.position()`. One event loop uses a namespace. A cancelled append has an unknown
outcome, as after a time-out: the record was handed over, or not; the log is consistent either way.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import walkeeper
from walkeeper._drain import Drain
from walkeeper._opening import Opening, T, opened_in_a_thread, seen
from walkeeper._options import FOREVER, nanoseconds
from walkeeper._reader import FETCH_BYTES, FETCH_RECORDS, _pyarrow
from walkeeper.errors import (
    ClosedError,
    InvalidError,
    SequenceMismatchError,
    WouldBlockError,
)

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import Unpack

    from walkeeper._options import NewLogOptions, OpenOptions, Payload

__all__ = ["Cursor", "Log", "Namespace", "Opening", "Reader", "Writer", "open"]

_FOLLOWER_WAIT = 0.25
"""Seconds that a reader of a read-only namespace waits in a thread at a time: no event tells of another process."""


def open(
    uri: str | os.PathLike[str],
    *,
    create: bool = True,
    read_only: bool = False,
    on_damage: walkeeper.OnDamage = "stop",
    **options: Unpack[OpenOptions],
) -> Opening[Namespace]:
    """walkeeper.open: `ns = await open(uri)`, or `async with open(uri) as ns`."""

    async def start() -> Namespace:
        return Namespace(
            await opened_in_a_thread(
                lambda: walkeeper.open(uri, create=create, read_only=read_only, on_damage=on_damage, **options),
                lambda namespace: namespace.close(),
            )
        )

    return Opening(start)


class Namespace:
    """The logs in one directory. See walkeeper.Namespace."""

    __slots__ = ("_drains", "_sync")

    def __init__(self, sync: walkeeper.Namespace) -> None:
        self._sync = sync
        self._drains: list[Drain] = []  # none, or the one

    @property
    def path(self) -> str:
        """The directory."""
        return self._sync.path

    @property
    def read_only(self) -> bool:
        """Whether it was opened to read only."""
        return self._sync.read_only

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._sync.closed

    async def log(self, name: str, *, create: bool = True, **options: Unpack[NewLogOptions]) -> Log:
        """See walkeeper.Namespace.log."""
        return Log(self, await asyncio.to_thread(self._sync.log, name, create=create, **options))

    async def logs(self, prefix: str = "") -> list[str]:
        """See walkeeper.Namespace.logs."""
        return await asyncio.to_thread(self._sync.logs, prefix)

    async def delete_log(self, name: str) -> None:
        """See walkeeper.Namespace.delete_log."""
        await asyncio.to_thread(self._sync.delete_log, name)

    async def rename_log(self, old: str, new: str) -> None:
        """See walkeeper.Namespace.rename_log."""
        await asyncio.to_thread(self._sync.rename_log, old, new)

    async def backup(self, destination: str | os.PathLike[str]) -> None:
        """See walkeeper.Namespace.backup."""
        await asyncio.to_thread(self._sync.backup, destination)

    async def stats(self) -> walkeeper.Stats:
        """See walkeeper.Namespace.stats."""
        return await asyncio.to_thread(self._sync.stats)

    async def recovery(self) -> walkeeper.RecoveryReport:
        """See walkeeper.Namespace.recovery."""
        return await asyncio.to_thread(self._sync.recovery)

    async def close(self, timeout: float | None = None) -> None:
        """Waits until everything accepted is durable, and closes. See walkeeper.Namespace.close."""
        for drain in self._drains:
            await drain.stop(timeout)
        closing = asyncio.ensure_future(asyncio.to_thread(self._sync.close, timeout))
        closing.add_done_callback(self._closed)
        await asyncio.shield(closing)  # where this task is cancelled it is closed all the same

    async def __aenter__(self) -> Namespace:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<walkeeper.aio.Namespace {self.path!r}, {'closed' if self.closed else 'open'}>"

    def _closed(self, closing: asyncio.Future[None]) -> None:
        """It is, whatever came of it: who waits for a record is told."""
        seen(closing)
        for drain in self._drains:
            drain.abandon()

    def _drain(self) -> Drain:
        """What listens to the eventfd, in the running loop."""
        loop = asyncio.get_running_loop()
        if not self._drains:
            self._drains.append(Drain(self._sync, loop))
        drain = self._drains[0]
        if drain.loop is not loop:
            raise InvalidError(f"{self!r} is used by another event loop: open the directory once more in this one")
        return drain


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
            sync = await opened_in_a_thread(
                lambda: self._sync.writer(durability=durability), lambda writer: writer.close(0)
            )
            return Writer(self, sync, durability)

        return Opening(start)

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
    ) -> Reader:
        """A reader, opened with its first read; what walkeeper.Log.reader raises is raised there."""

        def opened() -> walkeeper.Reader:
            return self._sync.reader(
                start, sequence_id=sequence_id, txid=txid, time=time, end=end, follow=follow, timeout=timeout
            )

        return Reader(self, opened, follow, timeout)

    async def info(self) -> walkeeper.LogInfo:
        """See walkeeper.Log.info."""
        return await asyncio.to_thread(self._sync.info)

    async def options(self) -> walkeeper.LogOptions:
        """The options the log was created with."""
        return (await self.info()).options

    async def first(self) -> walkeeper.Position | None:
        """See walkeeper.Log.first."""
        return await asyncio.to_thread(self._sync.first)

    async def last(self) -> walkeeper.Position | None:
        """See walkeeper.Log.last."""
        return await asyncio.to_thread(self._sync.last)

    async def count(self) -> int:
        """See walkeeper.Log.count."""
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
        return await asyncio.to_thread(self._sync.find, sequence_id=sequence_id, txid=txid, time=time, dlsn=dlsn)

    async def truncate(self, position: walkeeper.Position | walkeeper.DLSN, *, force: bool = False) -> None:
        """See walkeeper.Log.truncate."""
        await asyncio.to_thread(self._sync.truncate, position, force=force)

    async def segments(self) -> list[walkeeper.Segment]:
        """See walkeeper.Log.segments."""
        return await asyncio.to_thread(self._sync.segments)

    async def cursor(self, name: str, *, create: bool = True) -> Cursor:
        """See walkeeper.Log.cursor."""
        return Cursor(self, await asyncio.to_thread(self._sync.cursor, name, create=create))

    async def cursors(self) -> list[str]:
        """See walkeeper.Log.cursors."""
        return await asyncio.to_thread(self._sync.cursors)

    def __repr__(self) -> str:
        return f"<walkeeper.aio.Log {self.name!r} in {self._namespace.path!r}>"


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
        return await asyncio.to_thread(lambda: self._sync.position)

    async def advance(self, position: walkeeper.Position | walkeeper.DLSN) -> None:
        """See walkeeper.Cursor.advance."""
        await asyncio.to_thread(self._sync.advance, position)

    async def delete(self) -> None:
        """See walkeeper.Cursor.delete."""
        await asyncio.to_thread(self._sync.delete)

    def __repr__(self) -> str:
        return f"<walkeeper.aio.Cursor {self.name!r}>"


class Writer:
    """The one writer of a log. See walkeeper.Writer; appends of several tasks become durable together.

    Records are accepted in the order of the calls, also where a call waits for room.
    """

    __slots__ = ("_drain", "_durability", "_log", "_name", "_queued", "_submit", "_sync", "_turn", "_watch")

    def __init__(self, log: Log, sync: walkeeper.Writer, durability: walkeeper.Durability) -> None:
        self._log = log
        self._name = log.name
        self._sync = sync
        self._durability = durability
        self._drain = log.namespace._drain()
        # What an append does, bound once.
        self._submit = sync._submit_notified
        self._watch = self._drain.watch
        self._turn = asyncio.Lock()
        self._queued = 0
        """How many calls hold `_turn` or queue for it: one waits for room, later ones stay behind it."""

    @property
    def log(self) -> Log:
        """The log it appends to."""
        return self._log

    @property
    def closed(self) -> bool:
        """Whether close() was called; one that was fenced is not closed."""
        return self._sync.closed

    @property
    def next_sequence_id(self) -> int:
        """See walkeeper.Writer.next_sequence_id."""
        return self._sync.next_sequence_id

    async def append(
        self,
        payload: Payload,
        *,
        txid: int | None = None,
        expected: int | None = None,
        durability: walkeeper.Durability | None = None,
        timeout: float | None = None,
    ) -> walkeeper.Position:
        """Appends one record; returns when it is durable (deferred: when it is accepted).

        Raises what walkeeper.Writer.append raises. Where the task is cancelled the outcome is unknown. As there,
        timeout=0 does not wait for room; a record for which there is some is waited for.
        """
        plain = txid is None and expected is None and durability is None and timeout is None
        if plain and self._durability == "sync" and not self._queued:
            accepted = self._submit(payload)
            if accepted is not None:
                at, ticket = accepted
                return await self._watch(ticket, at, self._name, True)
        deadline = self._deadline(timeout)
        sync = (durability or self._durability) == "sync"
        armed = sync

        def call() -> tuple[walkeeper.Position, int]:
            return self._sync._one(payload, txid, expected, durability, 0, armed)

        try:
            if expected is not None and not self._queued and expected != self._sync.next_sequence_id:
                # The mismatch is answered when the record that sits there is durable: not in the loop's thread.
                armed = False
                at, ticket = await asyncio.to_thread(call)
            else:
                at, ticket = await self._accepted(call, deadline)
        except SequenceMismatchError:
            await self.flush()  # its caller is told: conditional appends are welcome again
            raise
        if sync:
            await self._drain.durable(ticket, at, self._name, None if timeout == 0 else deadline, armed)
        return at

    async def append_many(
        self,
        payloads: Iterable[Payload],
        *,
        txids: Sequence[int] | None = None,
        expected: int | None = None,
        atomic: bool = False,
        durability: walkeeper.Durability | None = None,
        timeout: float | None = None,
    ) -> walkeeper.AppendRange:
        """Appends many records with one call and one wait. See walkeeper.Writer.append_many.

        Where they are more than there is room for at once, they are handed over in a thread of the executor.
        """
        many = payloads if isinstance(payloads, (list, tuple)) else list(payloads)
        deadline = self._deadline(timeout)
        self._queued += 1
        try:
            async with self._turn:
                # C may wait for room in the middle of a batch: not in the loop's thread.
                batch, ticket = await asyncio.to_thread(
                    self._sync._many, many, txids, expected, atomic, durability, timeout, False
                )
        finally:
            self._queued -= 1
        if (durability or self._durability) == "sync":
            await self._drain.durable(ticket, batch.last, self._log.name, None if timeout == 0 else deadline)
        return batch

    async def submit(
        self,
        payload: Payload,
        *,
        txid: int | None = None,
        expected: int | None = None,
        durability: walkeeper.Durability | None = None,
        timeout: float | None = None,
    ) -> asyncio.Future[walkeeper.Position]:
        """Hands one record over, waiting for room only; the future is done when the record is durable."""
        at, ticket = await self._accepted(
            lambda: self._sync._one(payload, txid, expected, durability, 0, True), self._deadline(timeout)
        )
        return self._watch(ticket, at, self._name, True, (durability or self._durability) != "sync")

    async def flush(self, timeout: float | None = None) -> walkeeper.Position:
        """Waits until everything this writer appended is durable; returns the position just behind it."""
        return await asyncio.to_thread(self._sync.flush, timeout)

    async def mark_end_of_stream(self) -> None:
        """Ends the log for ever. See walkeeper.Writer.mark_end_of_stream."""
        await asyncio.to_thread(self._sync.mark_end_of_stream)

    async def close(self, timeout: float | None = None) -> None:
        """Waits as flush does, and closes the writer whatever comes of it."""
        await asyncio.to_thread(self._sync.close, timeout)

    async def __aenter__(self) -> Writer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<walkeeper.aio.Writer of log {self._log.name!r}, {'closed' if self.closed else 'open'}>"

    def _deadline(self, timeout: float | None) -> float | None:
        return None if nanoseconds(timeout) == FOREVER else self._drain.loop.time() + float(timeout or 0)

    async def _accepted(self, call: Callable[[], T], deadline: float | None) -> T:
        """The answer of a call that does not wait for room, called again when there may be some."""
        if not self._queued:
            try:
                return call()
            except WouldBlockError:
                pass
        self._queued += 1
        try:
            async with self._turn:
                while True:
                    seen = self._drain.durable_point()
                    try:
                        return call()
                    except WouldBlockError:
                        if not await self._drain.moves(seen, deadline):
                            raise
        finally:
            self._queued -= 1


class Reader:
    """The records of a log in order, for `async for`. See walkeeper.Reader; used by one task at a time.

    Cancelling a task that waits here loses nothing: the next read yields what it would have yielded.
    """

    __slots__ = ("_closed", "_fetching", "_follow", "_log", "_open", "_sync", "_timeout")

    def __init__(self, log: Log, open: Callable[[], walkeeper.Reader], follow: bool, timeout: float | None) -> None:
        nanoseconds(timeout)
        self._log = log
        self._open = open
        self._sync: walkeeper.Reader | None = None
        self._follow = follow
        self._timeout = timeout
        self._fetching: asyncio.Future[bool] | None = None
        self._closed = False

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
        sync = await self._opened()
        if self._fetching is not None:  # of a read that was cancelled: a reader is used by one thread at a time
            await asyncio.wait((self._fetching,))
        return sync.position

    def __aiter__(self) -> Reader:
        return self

    async def __anext__(self) -> walkeeper.Record | walkeeper.Gap:
        sync = self._sync
        if sync is not None:
            for record in sync._stage.records:
                return record
        if not await self._filled(self._timeout):
            raise StopAsyncIteration
        assert self._sync is not None
        return next(self._sync)  # it waits for nothing; ClosedError where another task closed it just now

    async def read(
        self, max_records: int | None = None, max_bytes: int | None = None, timeout: float | None = None
    ) -> list[walkeeper.Record | walkeeper.Gap]:
        """The next records; empty where there is nothing more, or nothing came in time. See walkeeper.Reader.read."""
        if not await self._filled(self._timeout if timeout is None else timeout):
            return []
        assert self._sync is not None
        return self._sync.read(max_records, max_bytes, 0)

    async def read_arrow(
        self, max_records: int | None = None, max_bytes: int | None = None, timeout: float | None = None
    ) -> pyarrow.RecordBatch | None:
        """The next records as a pyarrow.RecordBatch; None where read() would answer an empty list.

        Where a cancelled call had got a batch, the next call gives it.
        """
        _pyarrow()  # before anything is fetched
        sync = await self._opened()
        arrived = await self._until(
            lambda wait: sync._arrive(max_records, max_bytes, wait) is not None,
            self._timeout if timeout is None else timeout,
        )
        return sync.read_arrow(max_records, max_bytes, 0) if arrived else None

    async def close(self) -> None:
        """Closes the reader; what it gave out stays valid."""
        self._closed = True
        if self._sync is not None:
            self._sync.close()

    async def __aenter__(self) -> Reader:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<walkeeper.aio.Reader of log {self._log.name!r}, {'closed' if self._closed else 'open'}>"

    async def _opened(self) -> walkeeper.Reader:
        if self._closed:
            raise ClosedError(f"this reader of log {self._log.name!r} was closed", log=self._log.name)
        if self._sync is None:
            self._sync = await asyncio.to_thread(self._open)
        return self._sync

    async def _filled(self, timeout: float | None) -> bool:
        """Whether there is a record to yield, fetched where need be; following, it waits."""
        sync = await self._opened()
        if sync._left():
            return True
        return await self._until(lambda wait: sync._fetch(FETCH_RECORDS, FETCH_BYTES, nanoseconds(wait)), timeout)

    async def _until(self, fetch: Callable[[float], bool], timeout: float | None) -> bool:
        """Whether there is something: what `fetch` gets, in a thread; False at the end, or when the time is over."""
        loop = asyncio.get_running_loop()
        deadline = None if nanoseconds(timeout) == FOREVER else loop.time() + float(timeout or 0)
        drain = self._log.namespace._drain() if self._follow and not self._log.namespace.read_only else None
        while True:
            seen = drain.durable_point() if drain else 0
            if await self._fetched(fetch, _FOLLOWER_WAIT if self._follow and not drain else 0.0):
                return True
            if not self._follow or (self._sync is not None and self._sync.ended):
                return False
            if drain is not None:
                if not await drain.moves(seen, deadline):
                    return False
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
        try:
            return await asyncio.shield(fetching)
        finally:
            if fetching.done():
                self._fetching = None
