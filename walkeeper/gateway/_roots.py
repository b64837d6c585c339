"""Roots: those that this gateway has, of a namespace."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from walkeeper.errors import LogNotFoundError
from walkeeper.gateway._change import decode
from walkeeper.gateway._file_tree import Directory, File, FileTree
from walkeeper.gateway._path import root_of
from walkeeper.gateway._protocol import Refused, Status
from walkeeper.gateway._root import Contents, Root

if TYPE_CHECKING:
    from walkeeper.aio import Log, Namespace

__all__ = ["Roots"]

log = logging.getLogger("walkeeper.gateway")


class Roots:
    """Opens a root when it is asked for. One that another gateway took is not taken back unless a client says so."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._contents = Contents()
        self._open: dict[str, Root] = {}
        self._taken: set[str] = set()
        """Of these another gateway became the writer."""
        self._locks: dict[str, asyncio.Lock] = {}

    async def get(self, name: str, *, create: bool = False) -> Root | None:
        """None: there is no such root. Refused: another gateway has it."""
        root = self._open.get(name)
        if root is not None and root.lost is None:
            return root
        async with self._locks.setdefault(name, asyncio.Lock()):
            await self._drop_lost(name)
            if name in self._taken:
                raise Refused(Status.NOT_OWNER, f"another gateway has taken /{name} over")
            if name not in self._open:
                try:
                    self._open[name] = await Root.open(name, self._namespace, self._contents, create=create)
                except LogNotFoundError:
                    return None
                log.info("/%s is open", name)
            return self._open[name]

    async def take(self, name: str) -> None:
        """From whichever gateway has it."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            await self._drop_lost(name)
            self._taken.discard(name)

    async def list(self) -> dict[str, Directory | File]:
        """Those that are there, also of other gateways, which keep them. A root may be a file."""
        found: dict[str, Directory | File] = {}
        for log_name in await self._namespace.logs("files/"):
            name = root_of(log_name)
            if name is None:
                continue
            root = self._open.get(name)
            if root is not None and root.lost is None:
                top = await root.at((name,))
            else:
                top = (await read_tree(await self._namespace.log(log_name, create=False))).at((name,))
            if top is not None:
                found[name] = top
        return found

    async def close(self) -> None:
        for root in list(self._open.values()):
            await root.close()
        self._open.clear()

    async def _drop_lost(self, name: str) -> None:
        root = self._open.get(name)
        if root is None or root.lost is None:
            return
        if root.fenced:
            self._taken.add(name)
        log.warning("/%s is closed: %s", name, root.lost)
        del self._open[name]
        await root.close()


async def read_tree(own: Log) -> FileTree:
    """The files of a root as its log has them now. Nobody is fenced."""
    tree = FileTree()
    async with own.reader() as reader:
        while records := await reader.read():
            for record in records:
                tree.replay(decode(bytes(record.payload)), record.dlsn)
    return tree
