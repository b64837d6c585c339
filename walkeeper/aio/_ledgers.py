"""LedgerClient, LedgerWriter and LedgerReader of walkeeper.aio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import walkeeper
from walkeeper._options import Backend, nanoseconds, seconds_of
from walkeeper._writer import _checked
from walkeeper.aio._opening import opened_in_a_thread, seen
from walkeeper.errors import QuorumTimeoutError, TimeoutError, WouldBlockError
from walkeeper.ledgers import BookieInfo, Digest, LedgerEntry
from walkeeper.ledgers._reader import CHUNK_BYTES

if TYPE_CHECKING:
    from typing_extensions import Self

    from walkeeper._options import Payload
    from walkeeper.ledgers._bookie_choice import Racks
    from walkeeper.ledgers._reader import LedgerHandle
    from walkeeper.ledgers.placement import PlacementPolicy
    from walkeeper.metadata import LedgerMetadata, OpenedStore

__all__ = ["LedgerClient", "LedgerReader", "LedgerWriter"]

Sync = TypeVar("Sync", bound="LedgerHandle")
Result = TypeVar("Result")
STEP = 1000
"""Ids of a listing that a thread of the executor takes at once."""
_WAIT_SECONDS = 1.0
"""A thread of the executor waits so long at a time."""


class LedgerClient:
    """See walkeeper.LedgerClient. What asks the metadata store or the bookies runs in the loop's default executor; adds
    do not.

        async with walkeeper.aio.LedgerClient("zk://host:2181/ledgers") as client:
            async with await client.create() as writer:
                await writer.add(b"paid 42")

    It connects where it is entered, or awaited: `client = await LedgerClient(uri)`.
    """

    def __init__(
        self,
        metadata: str | OpenedStore,
        *,
        create: bool = False,
        session_timeout: float = 10.0,
        connect_timeout: float = 5.0,
        add_timeout: float = 5.0,
        read_timeout: float = 5.0,
        link_bytes: int = 64 * 1024 * 1024,
        backend: Backend = "auto",
        placement: str | PlacementPolicy = "random",
        racks: Racks | None = None,
    ) -> None:
        self._connect = lambda: walkeeper.LedgerClient(
            metadata,
            create=create,
            session_timeout=session_timeout,
            connect_timeout=connect_timeout,
            add_timeout=add_timeout,
            read_timeout=read_timeout,
            link_bytes=link_bytes,
            backend=backend,
            placement=placement,
            racks=racks,
        )
        self._sync: walkeeper.LedgerClient | None = None

    @property
    def closed(self) -> bool:
        """Whether it is not connected: close() was called, or nobody entered it."""
        return self._sync is None or self._sync.closed

    async def create(
        self,
        *,
        ensemble_size: int = 3,
        write_quorum: int = 3,
        ack_quorum: int = 2,
        digest: Digest = "crc32c",
        password: bytes = b"",
        custom_metadata: Mapping[str, bytes] | None = None,
        ledger_id: int | None = None,
    ) -> LedgerWriter:
        """See walkeeper.LedgerClient.create. Where the task is cancelled an empty ledger may be left."""
        sync = self._connected()
        writer = await opened_in_a_thread(
            lambda: sync.create(
                ensemble_size=ensemble_size,
                write_quorum=write_quorum,
                ack_quorum=ack_quorum,
                digest=digest,
                password=password,
                custom_metadata=custom_metadata,
                ledger_id=ledger_id,
            ),
            lambda made: made.close(),
        )
        return LedgerWriter(writer)

    async def open(
        self, ledger_id: int, *, password: bytes = b"", digest: Digest = "crc32", timeout: float | None = None
    ) -> LedgerReader:
        """See walkeeper.LedgerClient.open."""
        sync = self._connected()
        return LedgerReader(
            await opened_in_a_thread(
                lambda: sync.open(ledger_id, password=password, digest=digest, timeout=timeout),
                lambda reader: reader.close(),
            )
        )

    async def open_no_recovery(
        self, ledger_id: int, *, password: bytes = b"", digest: Digest = "crc32"
    ) -> LedgerReader:
        """See walkeeper.LedgerClient.open_no_recovery."""
        sync = self._connected()
        return LedgerReader(
            await opened_in_a_thread(
                lambda: sync.open_no_recovery(ledger_id, password=password, digest=digest),
                lambda reader: reader.close(),
            )
        )

    async def delete(self, ledger_id: int) -> None:
        """See walkeeper.LedgerClient.delete."""
        await asyncio.to_thread(self._connected().delete, ledger_id)

    async def list(self) -> AsyncIterator[int]:
        """See walkeeper.LedgerClient.list: `async for ledger_id in client.list()`."""
        ids = self._connected().list()
        while some := await asyncio.to_thread(_some, ids, STEP):
            for ledger_id in some:
                yield ledger_id

    async def metadata(self, ledger_id: int) -> LedgerMetadata:
        """See walkeeper.LedgerClient.metadata."""
        return await asyncio.to_thread(self._connected().metadata, ledger_id)

    async def bookies(self) -> tuple[BookieInfo, ...]:
        """See walkeeper.LedgerClient.bookies."""
        return await asyncio.to_thread(self._connected().bookies)

    async def close(self, timeout: float | None = None) -> None:
        """See walkeeper.LedgerClient.close."""
        if self._sync is not None:
            await asyncio.to_thread(self._sync.close, timeout)

    def __await__(self) -> Generator[Any, Any, LedgerClient]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> LedgerClient:
        if self._sync is None:
            self._sync = await opened_in_a_thread(self._connect, lambda client: client.close())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<walkeeper.aio.LedgerClient, {'closed' if self.closed else 'open'}>"

    def _connected(self) -> walkeeper.LedgerClient:
        if self._sync is None:
            raise walkeeper.InvalidError("the client is not connected: enter it with `async with`, or await it")
        return self._sync


class _Handle(Generic[Sync]):
    """What a writer and a reader have in common."""

    def __init__(self, sync: Sync) -> None:
        self._sync = sync

    @property
    def ledger_id(self) -> int:
        """The id of the ledger in its cluster."""
        return self._sync.ledger_id

    @property
    def metadata(self) -> LedgerMetadata:
        """The metadata, as this handle saw them last."""
        return self._sync.metadata

    @property
    def closed(self) -> bool:
        """Whether close() has done its work."""
        return self._sync.closed

    @property
    def lac(self) -> int:
        """The last add confirmed that this handle knows, -1 for none."""
        return self._sync.lac

    @property
    def length(self) -> int | None:
        """The payload bytes up to the LAC; None where they are not known."""
        return self._sync.length

    async def read(
        self, first: int = 0, last: int | None = None, *, max_bytes: int = CHUNK_BYTES, timeout: float | None = None
    ) -> AsyncIterator[LedgerEntry]:
        """See walkeeper.LedgerReader.read: `async for entry in reader.read()`."""
        steps = self._sync._steps(first, last, max_bytes, timeout)
        while entries := await asyncio.to_thread(next, steps, None):
            for entry in entries:
                yield entry

    async def read_unconfirmed(
        self, first: int, last: int | None = None, *, max_bytes: int = CHUNK_BYTES, timeout: float | None = None
    ) -> AsyncIterator[LedgerEntry]:
        """See walkeeper.LedgerReader.read_unconfirmed."""
        steps = self._sync._unconfirmed_steps(first, last, max_bytes, timeout)
        while entries := await asyncio.to_thread(next, steps, None):
            for entry in entries:
                yield entry

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Lets go of the handle."""
        self._sync.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<walkeeper.aio.{type(self).__name__} of ledger {self.ledger_id}, {state}>"


class LedgerReader(_Handle["walkeeper.LedgerReader"]):
    """See walkeeper.LedgerReader."""

    async def read_last_confirmed(self, timeout: float | None = None) -> int:
        """See walkeeper.LedgerReader.read_last_confirmed."""
        return await asyncio.to_thread(self._sync.read_last_confirmed, timeout)

    async def wait_last_confirmed(self, beyond: int, timeout: float | None = None) -> int:
        """See walkeeper.LedgerReader.wait_last_confirmed. Its thread outlives a cancelled task by a second at most."""
        seconds = seconds_of(_checked(nanoseconds, timeout))
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        while True:
            left = _WAIT_SECONDS if deadline is None else min(_WAIT_SECONDS, max(0.0, deadline - loop.time()))
            try:
                return await asyncio.to_thread(self._sync.wait_last_confirmed, beyond, left)
            except TimeoutError:
                if deadline is not None and loop.time() >= deadline:
                    raise


class LedgerWriter(_Handle["walkeeper.LedgerWriter"]):
    """See walkeeper.LedgerWriter. Entries are accepted in the order of the calls, also where a call waits for room.

    A cancelled add has an unknown outcome, as after a time-out: the entry was handed over, or not.
    """

    def __init__(self, sync: walkeeper.LedgerWriter) -> None:
        super().__init__(sync)
        self._turn = asyncio.Lock()
        self._queued = 0
        """How many calls hold `_turn` or queue for it: one waits for room, later ones stay behind it."""

    @property
    def last_add_pushed(self) -> int:
        """The highest id that an entry was given, confirmed or not; -1: none."""
        return self._sync.last_add_pushed

    async def add(self, data: Payload, *, timeout: float | None = None) -> int:
        """See walkeeper.LedgerWriter.add. No thread waits for it. As there, timeout=0 does not wait."""
        seconds = seconds_of(_checked(nanoseconds, timeout))
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        entry_id, future = await self._accepted(data, timeout)
        confirmed = asyncio.wrap_future(future)
        if deadline is None:
            return await confirmed
        done, _ = await asyncio.wait((confirmed,), timeout=max(0.0, deadline - loop.time()))
        if not done:
            confirmed.add_done_callback(seen)
            text = f"entry {entry_id} of ledger {self.ledger_id} was not confirmed in time: it may still be"
            raise QuorumTimeoutError(text, ledger_id=self.ledger_id, entry_id=entry_id, outcome="unknown")
        return confirmed.result()

    async def add_many(self, payloads: Iterable[Payload], *, timeout: float | None = None) -> range:
        """See walkeeper.LedgerWriter.add_many. They are handed over, and waited for, in a thread of the executor."""
        many = payloads if isinstance(payloads, (list, tuple)) else list(payloads)
        return await self._in_turn(lambda: self._sync.add_many(many, timeout=timeout))

    async def submit(self, data: Payload, *, timeout: float | None = None) -> asyncio.Future[int]:
        """Hands one entry over, waiting for room only; the future is done, with its id, when the entry is confirmed."""
        _, future = await self._accepted(data, timeout)
        return asyncio.wrap_future(future)

    async def flush(self, timeout: float | None = None) -> int:
        """See walkeeper.LedgerWriter.flush."""
        return await asyncio.to_thread(self._sync.flush, timeout)

    async def read_last_confirmed(self, timeout: float | None = None) -> int:
        """See walkeeper.LedgerWriter.read_last_confirmed."""
        return self._sync.read_last_confirmed(timeout)

    async def close(self, timeout: float | None = None) -> None:
        """See walkeeper.LedgerWriter.close. Where the task is cancelled the ledger is closed all the same."""
        closing = asyncio.ensure_future(asyncio.to_thread(self._sync.close, timeout))
        closing.add_done_callback(seen)
        await asyncio.shield(closing)

    async def _accepted(self, data: Payload, timeout: float | None) -> tuple[int, Future[int]]:
        """The entry's id and its future. It waits for room in a thread of the executor, if at all."""
        timeout_ns = _checked(nanoseconds, timeout)
        if not self._queued or timeout_ns == 0:
            try:
                return self._sync._submit(data, 0)
            except WouldBlockError:
                if timeout_ns == 0:
                    raise
        return await self._in_turn(lambda: self._sync._submit(data, timeout_ns))

    async def _in_turn(self, call: Callable[[], Result]) -> Result:
        self._queued += 1
        try:
            async with self._turn:
                return await asyncio.to_thread(call)
        finally:
            self._queued -= 1


def _some(ids: Iterator[int], count: int) -> tuple[int, ...]:
    return tuple(islice(ids, count))
