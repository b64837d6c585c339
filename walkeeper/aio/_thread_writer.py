"""ThreadWriter: a Writer of walkeeper.aio whose records are handed over in threads where that may take time.

So it is where a record may need another segment first, as on a cluster. What becomes durable is told by futures of the
synchronous writer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import walkeeper
from walkeeper._writer import is_arrow
from walkeeper.aio._opening import T, seen
from walkeeper.aio._writer import Writer
from walkeeper.errors import SequenceMismatchError, TimeoutError

if TYPE_CHECKING:
    from walkeeper._options import ArrowArray, Payload

__all__ = ["ThreadWriter"]


class ThreadWriter(Writer):
    """See Writer."""

    __slots__ = ()

    def _listen(self) -> None:
        pass

    async def append(
        self,
        payload: Payload,
        *,
        txid: int | None = None,
        expected: int | None = None,
        durability: walkeeper.Durability | None = None,
        timeout: float | None = None,
    ) -> walkeeper.Position:
        self._check_loop()
        deadline = self._deadline(timeout)
        at, ticket = await self._accept(payload, txid, expected, durability, timeout)
        if (durability or self._durability) == "sync":
            await self._durable(ticket, at, None if timeout == 0 else deadline)
        return at

    async def append_many(
        self,
        payloads: Iterable[Payload] | ArrowArray,
        *,
        txids: Sequence[int] | None = None,
        expected: int | None = None,
        atomic: bool = False,
        durability: walkeeper.Durability | None = None,
        timeout: float | None = None,
    ) -> walkeeper.AppendRange:
        self._check_loop()
        many = payloads if isinstance(payloads, (list, tuple)) or is_arrow(payloads) else list(payloads)
        deadline = self._deadline(timeout)
        batch, ticket = await self._in_turn(self._sync._many, many, txids, expected, atomic, durability, timeout, False)
        if (durability or self._durability) == "sync":
            await self._durable(ticket, batch.last, None if timeout == 0 else deadline)
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
        self._check_loop()
        self._deadline(timeout)
        at, ticket = await self._accept(payload, txid, expected, durability, timeout)
        return self._future(ticket, at, (durability or self._durability) != "sync")

    async def _accept(
        self,
        payload: Payload,
        txid: int | None,
        expected: int | None,
        durability: walkeeper.Durability | None,
        timeout: float | None,
    ) -> tuple[walkeeper.Position, int]:
        """Its position and ticket. What C takes at once is handed over here, and all else in a thread."""
        plain = txid is None and expected is None and durability is None and timeout is None
        if plain and not self._queued:
            accepted = self._submit(payload)
            if accepted is not None:
                return accepted
        return await self._in_turn(self._sync._one, payload, txid, expected, durability, timeout)

    async def _in_turn(self, call: Callable[..., T], *arguments: Any) -> T:
        """What the call answers in a thread, behind those of earlier calls. A call goes on where its task is cancelled,
        and those behind it wait for it all the same."""
        self._queued += 1
        try:
            async with self._turn:
                calling = asyncio.ensure_future(asyncio.to_thread(call, *arguments))
                try:
                    return await asyncio.shield(calling)
                except asyncio.CancelledError:
                    calling.add_done_callback(seen)
                    await asyncio.wait((calling,))
                    raise
        except SequenceMismatchError:
            await self.flush()  # its caller is told: conditional appends are welcome again
            raise
        finally:
            self._queued -= 1

    def _future(
        self, ticket: int, at: walkeeper.Position, deferred: bool = False
    ) -> asyncio.Future[walkeeper.Position]:
        done = self._sync._calls.watch(self._sync._log, ticket, at, deferred)
        return asyncio.wrap_future(done, loop=self._loop)

    async def _durable(self, ticket: int, at: walkeeper.Position, deadline: float | None) -> None:
        future = self._future(ticket, at)
        if deadline is None:
            await future
            return
        done, _ = await asyncio.wait((future,), timeout=max(0, deadline - self._loop.time()))
        if not done:
            future.add_done_callback(seen)
            text = f"the record with sequence id {at.sequence_id} was not durable in time: it may or may not be written"
            raise TimeoutError(text, log=self._name, sequence_id=at.sequence_id, outcome="unknown")
        future.result()
