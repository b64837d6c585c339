"""Bookies: which are up, where they answer, and a hint when that changes."""

from __future__ import annotations

from collections.abc import Callable

from walkeeper.metadata._bookie_id import check_bookie_id
from walkeeper.metadata._cluster_keys import ClusterKeys
from walkeeper.metadata._cookies import Cookies
from walkeeper.metadata._service_info import ServiceInfo
from walkeeper.metadata._store import MetadataStore, MissingError, Watch

READ_ONLY = "readonly"


class Bookies:
    """The bookies of the cluster below `root`. One that changes between writable and read-only is both for a moment."""

    def __init__(self, store: MetadataStore, root: str, keys: ClusterKeys | None = None) -> None:
        self._store = store
        self._cluster_keys = ClusterKeys.of(store) if keys is None else keys
        self._cookies = Cookies(store, root)
        self._writable = f"{root}/{self._cluster_keys.writable}"
        self._read_only = f"{root}/{self._cluster_keys.read_only}"
        self._watched = (self._writable, self._read_only, f"{root}/cookies")

    def writable_bookies(self) -> list[str]:
        """Those that take new entries. MissingError where there is no cluster."""
        return [name for name in self._store.children(self._writable) if name != READ_ONLY]

    def read_only_bookies(self) -> list[str]:
        """Those that are up, and take none."""
        try:
            return self._store.children(self._read_only)
        except MissingError:
            return []

    def all_bookies(self) -> list[str]:
        """Those that have a cookie: up or not."""
        return self._cookies.bookie_ids()

    def service_info(self, bookie_id: str) -> ServiceInfo | None:
        """Where the bookie answers; None where it is not up. CorruptMetadataError."""
        check_bookie_id(bookie_id)
        for folder in (self._writable, self._read_only):
            found = self._store.get(f"{folder}/{bookie_id}")
            if found is not None:
                return ServiceInfo.parse(found.data, bookie_id, f"{folder}/{bookie_id}")
        return None

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Calls back after bookies came or went, were made or let go: then one asks again. It may come too often."""
        return _Watches([self._store.watch(key, callback) for key in self._watched])


class _Watches:
    """Several watches as one."""

    def __init__(self, watches: list[Watch]) -> None:
        self._watches = watches

    def close(self) -> None:
        for watch in self._watches:
            watch.close()
