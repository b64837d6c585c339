"""The stores that the suite is run against: a store joins it by an entry in STORES."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from etcd_backing import EtcdBacking
from zookeeper_backing import ZooKeeperBacking

from walkeeper.metadata import FaultyStore, MemoryStore, MemoryTree, MetadataStore, SqliteStore

WAIT_SECONDS = 60.0


class Backing(Protocol):
    """What keeps the keys of one test. It is made for the test, and closed after it."""

    root: str
    """A key that is there, without children: the test's keys are below it."""

    def open(self) -> MetadataStore:
        """Another session, in this process."""
        ...

    def expire(self, store: MetadataStore) -> None:
        """The store's session is lost, as if nothing had been heard of it for too long; it gets a new one."""
        ...

    def close(self) -> None:
        """Closes the sessions that are still open."""
        ...


class MemoryBacking:
    root = "/ledgers"

    def __init__(self, folder: Path) -> None:
        self._tree = MemoryTree()
        self._opened: list[MemoryStore] = []
        self.open().create(self.root)

    def open(self) -> MetadataStore:
        self._opened.append(MemoryStore(self._tree))
        return self._opened[-1]

    def expire(self, store: MetadataStore) -> None:
        assert isinstance(store, MemoryStore)
        store.expire_session()

    def close(self) -> None:
        for store in self._opened:
            store.close()


class FaultyBacking:
    """FaultyStore without a fault is a store like any other."""

    def __init__(self, folder: Path) -> None:
        self._below = MemoryBacking(folder)
        self.root = self._below.root

    def open(self) -> MetadataStore:
        return FaultyStore(self._below.open())

    def expire(self, store: MetadataStore) -> None:
        assert isinstance(store, FaultyStore)
        self._below.expire(store.store)

    def close(self) -> None:
        self._below.close()


class SqliteBacking:
    root = "/ledgers"

    def __init__(self, folder: Path) -> None:
        self._path = folder / "metadata.sqlite"
        self._opened: list[SqliteStore] = []
        self.open().create(self.root)

    def open(self) -> MetadataStore:
        self._opened.append(SqliteStore(self._path, busy_timeout=WAIT_SECONDS))
        return self._opened[-1]

    def expire(self, store: MetadataStore) -> None:
        assert isinstance(store, SqliteStore)
        store.expire_session()

    def close(self) -> None:
        for store in self._opened:
            store.close()


STORES: dict[str, Callable[[Path], Backing]] = {
    "memory": MemoryBacking,
    "faulty": FaultyBacking,
    "sqlite": SqliteBacking,
    "zookeeper": ZooKeeperBacking,
    "etcd": EtcdBacking,
}


def until(condition: Callable[[], Any], what: str = "") -> Any:
    """Waits until it is true; what it was."""
    end = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < end, what or condition
        time.sleep(0.002)
    return found


class Calls:
    """A callback that remembers its calls."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []

    def __call__(self, *arguments: Any) -> None:
        self.made.append(arguments)

    @property
    def count(self) -> int:
        return len(self.made)


def settle(store: MetadataStore, key: str) -> None:
    """Every hint of what this store saw change until now has been given."""
    mark = f"{key}/settle"
    calls = Calls()
    watch = store.watch(mark, calls)
    store.create(mark)
    until(lambda: calls.count)
    watch.close()
    store.delete(mark)
