"""Namespace and open of walkeeper.aio."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import TYPE_CHECKING

import walkeeper
from walkeeper._namespace import is_cluster
from walkeeper._options import CLUSTER_ONLY, nanoseconds, refuse_options, seconds_of
from walkeeper.aio._drain import Drain
from walkeeper.aio._log import Log
from walkeeper.aio._opening import Opening, opened_in_a_thread, seen
from walkeeper.directory._namespace import DirectoryNamespace, open_at
from walkeeper.directory._paths import absolute, backup_places, directory_of, with_absolute_journal
from walkeeper.errors import InvalidError, Outcome

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from walkeeper._options import AnyOpenOptions, NewLogOptions

__all__ = ["Namespace", "open"]


def open(
    uri: str | os.PathLike[str],
    *,
    create: bool = True,
    read_only: bool = False,
    on_damage: walkeeper.OnDamage = "stop",
    **options: Unpack[AnyOpenOptions],
) -> Opening[Namespace]:
    """walkeeper.open: `ns = await open(uri)`, or `async with open(uri) as ns`.

    A relative path means what it means then.
    """

    async def start() -> Namespace:
        if isinstance(uri, str) and is_cluster(uri):
            from walkeeper.cluster._namespace import open_cluster, settled_uri

            place_of_store = settled_uri(uri)
            return Namespace(
                await opened_in_a_thread(
                    lambda: open_cluster(place_of_store, create, read_only, on_damage, dict(options)),
                    lambda namespace: namespace.close(),
                )
            )
        path = directory_of(uri)
        refuse_options(options, CLUSTER_ONLY, f"{path!r} is a directory")
        place = absolute(os.fsencode(path))  # now: the process may change its directory before a thread is free
        settled = with_absolute_journal(options)
        return Namespace(
            await opened_in_a_thread(
                lambda: open_at(place, path, create, read_only, on_damage, settled),
                lambda namespace: namespace.close(),
            )
        )

    return Opening(start)


class Namespace:
    """The logs in one directory, or in one namespace of a cluster. See walkeeper.Namespace."""

    __slots__ = ("_drains", "_loop", "_sync")

    def __init__(self, sync: walkeeper.Namespace) -> None:
        self._sync = sync
        self._loop = asyncio.get_running_loop()
        """The one that opened it, and the only one that may use it."""
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
        self._check_loop()
        return Log(self, await asyncio.to_thread(self._sync.log, name, create=create, **options))

    async def logs(self, prefix: str = "") -> list[str]:
        """See walkeeper.Namespace.logs."""
        self._check_loop()
        return await asyncio.to_thread(self._sync.logs, prefix)

    async def delete_log(self, name: str) -> None:
        """See walkeeper.Namespace.delete_log."""
        self._check_loop()
        await asyncio.to_thread(self._sync.delete_log, name)

    async def rename_log(self, old: str, new: str) -> None:
        """See walkeeper.Namespace.rename_log."""
        self._check_loop()
        await asyncio.to_thread(self._sync.rename_log, old, new)

    async def backup(
        self, destination: str | os.PathLike[str], *, journal: str | os.PathLike[str] | None = None
    ) -> None:
        """See walkeeper.Namespace.backup."""
        self._check_loop()
        await asyncio.to_thread(self._sync._back_up, *backup_places(destination, journal))

    async def stats(self) -> walkeeper.Stats:
        """See walkeeper.Namespace.stats."""
        self._check_loop()
        return await asyncio.to_thread(self._sync.stats)

    async def recovery(self) -> walkeeper.RecoveryReport:
        """See walkeeper.Namespace.recovery."""
        self._check_loop()
        return await asyncio.to_thread(self._sync.recovery)

    async def close(self, timeout: float | None = None) -> None:
        """Waits until everything accepted is durable, and closes. See walkeeper.Namespace.close.

        Any event loop may call it, also after the loop that opened the namespace was closed. Tasks of that loop, where
        it still runs, are told what became of their records.
        """
        seconds = seconds_of(nanoseconds(timeout))  # where it cannot be, nothing was stopped
        closing = asyncio.ensure_future(self._close(seconds))
        closing.add_done_callback(seen)
        await asyncio.shield(closing)  # where this task is cancelled it is closed all the same

    async def __aenter__(self) -> Namespace:
        self._check_loop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<walkeeper.aio.Namespace {self.path!r}, {'closed' if self.closed else 'open'}>"

    async def _close(self, seconds: float | None) -> None:
        """Closes it behind what is pending, and also where the loop ends and cancels all of its tasks."""
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        try:
            if loop is self._loop:  # another loop may not wait for the futures of this one: it may be closed, or stand
                for drain in self._drains:
                    await drain.stop(seconds)
        finally:
            left = None if deadline is None else max(0.0, deadline - loop.time())
            closing = asyncio.ensure_future(asyncio.to_thread(self._sync.close, left))
            closing.add_done_callback(self._closed)
            await asyncio.shield(closing)

    def _closed(self, closing: asyncio.Future[None]) -> None:
        """It is, whatever came of it: who waits for a record is told."""
        seen(closing)
        if self.closed:
            for drain in self._drains:
                drain.end()

    def _check_loop(self, outcome: Outcome | None = None) -> None:
        """Raises InvalidError, with that outcome, in any event loop but the one that opened the namespace."""
        if asyncio.get_running_loop() is not self._loop:
            text = f"{self!r} is used by another event loop: open the directory once more in this one"
            raise InvalidError(text, outcome=outcome)

    @property
    def _has_eventfd(self) -> bool:
        return self._sync._has_eventfd

    def _drain(self) -> Drain:
        """What listens to the eventfd, in the running loop."""
        self._check_loop()
        if not self._drains:
            assert isinstance(self._sync, DirectoryNamespace)
            self._drains.append(Drain(self._sync, self._loop))
        return self._drains[0]
