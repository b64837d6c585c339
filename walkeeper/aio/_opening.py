"""Opening: what is awaited, or entered with `async with`; and futures of threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["Opening", "T", "opened_in_a_thread", "seen"]


class _Closable(Protocol):
    async def close(self) -> None: ...


T = TypeVar("T")
C = TypeVar("C", bound=_Closable)


class Opening(Awaitable[C], Generic[C]):
    """Something being opened: await it, or enter it with `async with`, which closes it at the end."""

    __slots__ = ("_opened", "_start")

    def __init__(self, start: Callable[[], Coroutine[Any, Any, C]]) -> None:
        self._start = start
        self._opened: C | None = None

    def __await__(self) -> Generator[Any, Any, C]:
        return self._start().__await__()

    async def __aenter__(self) -> C:
        self._opened = await self._start()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()


async def opened_in_a_thread(start: Callable[[], T], close: Callable[[T], object]) -> T:
    """What `start` opens in a thread. Where the task is cancelled meanwhile, it is closed again."""
    opening = asyncio.ensure_future(asyncio.to_thread(start))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(lambda done: _close_again(done, close))
        raise


def _close_again(done: asyncio.Future[T], close: Callable[[T], object]) -> None:
    if not done.cancelled() and done.exception() is None:
        done.get_loop().run_in_executor(None, close, done.result())


def seen(done: asyncio.Future[Any]) -> None:
    """Where nobody asks again, asyncio is not to complain that nobody looked at its exception."""
    if not done.cancelled():
        done.exception()
