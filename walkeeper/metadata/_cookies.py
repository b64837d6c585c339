"""Cookies: who the bookies of a cluster are, whether they are up or not."""

from __future__ import annotations

from walkeeper.metadata._bookie_id import check_bookie_id
from walkeeper.metadata._cookie import Cookie
from walkeeper.metadata._settle import Versioned, settle, settle_delete
from walkeeper.metadata._store import MetadataStore, MissingError


class Cookies:
    """The cookies of the cluster below `root`."""

    def __init__(self, store: MetadataStore, root: str) -> None:
        self._store = store
        self._folder = f"{root}/cookies"

    def get(self, bookie_id: str) -> Versioned[Cookie] | None:
        """The bookie's cookie, not older than any write that ended before; None where there is none.

        CorruptMetadataError, UnsupportedMetadataError.
        """
        key = self._key(bookie_id)
        found = self._store.get(key, linearizable=True)
        return None if found is None else Versioned(Cookie.parse(found.data, key), found.version)

    def create(self, cookie: Cookie) -> int:
        """A new bookie's; its version. ExistsError where the bookie has another one."""
        key, data = self._key(cookie.bookie_id), cookie.serialise()
        return settle(lambda: self._store.create(key, data, parents=True), lambda: self._find(key, data))

    def put(self, cookie: Cookie, version: int) -> int:
        """Instead of the one with that version. ConflictError, MissingError."""
        key, data = self._key(cookie.bookie_id), cookie.serialise()
        return settle(lambda: self._store.put(key, data, version), lambda: self._find(key, data))

    def delete(self, bookie_id: str, version: int | None = None) -> None:
        """The bookie is none any more. ConflictError; a cookie that is not there is no error."""
        key = self._key(bookie_id)
        settle_delete(lambda: self._store.delete(key, version))

    def bookie_ids(self) -> list[str]:
        """The ids of all bookies that have a cookie, in byte order."""
        try:
            return self._store.children(self._folder)
        except MissingError:
            return []

    def _key(self, bookie_id: str) -> str:
        return f"{self._folder}/{check_bookie_id(bookie_id)}"

    def _find(self, key: str, data: bytes) -> int | None:
        """The version of the key where it holds these bytes: a cookie is the same, whoever wrote it."""
        found = self._store.get(key, linearizable=True)
        return found.version if found is not None and found.data == data else None
