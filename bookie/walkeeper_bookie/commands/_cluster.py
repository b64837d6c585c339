"""The cluster as commands see it: its instance id, its cookies, who is registered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from walkeeper.metadata import (
    ClusterKeys,
    Cookie,
    MetadataFormatError,
    MetadataStore,
    Starts,
    UnknownOutcomeError,
    Versioned,
    check_bookie_id,
)
from walkeeper_bookie._identity import restore_hint
from walkeeper_bookie.commands._refusal import Refusal

__all__ = ["Cluster", "cluster_at", "cookie_file"]

COOKIE_MAX = 64 * 1024


class Cluster:
    """Below one root of a store. MetadataError where it cannot be read or written."""

    def __init__(self, store: MetadataStore, root: str) -> None:
        self._store, self._root, self._keys = store, root, ClusterKeys.of(store)

    def instance_id(self) -> str:
        """Refusal where there is no cluster."""
        value = self._store.get(f"{self._root}/{self._keys.instance_id}", linearizable=True)
        if value is None:
            raise no_cluster(self._store.uri, f"no {self._keys.instance_id}")
        return value.data.decode("utf-8", "replace")

    def cookie(self, bookie_id: str) -> Cookie | None:
        value = self._store.get(self._cookie(bookie_id), linearizable=True)
        return None if value is None else Cookie.parse(value.data, f"the cookie of {bookie_id} in the cluster")

    def bookie_ids(self) -> list[str]:
        """Of all that have a cookie."""
        cookies = f"{self._root}/cookies"
        return [] if self._store.get(cookies, linearizable=True) is None else self._store.children(cookies)

    def create_cookie(self, cookie: Cookie) -> None:
        """It is there when this returns. ExistsError where another one is."""
        try:
            self._store.create(self._cookie(cookie.bookie_id), cookie.serialise(), parents=True)
        except UnknownOutcomeError:
            if self.cookie(cookie.bookie_id) != cookie:
                raise

    def delete_cookie(self, bookie_id: str) -> None:
        """It is gone when this returns. Refusal where there is none, or where the bookie runs."""
        key = self._cookie(bookie_id)
        value = self._store.get(key, linearizable=True)
        if value is None:
            raise Refusal(f"the cluster has no cookie of bookie {bookie_id}")
        if self.is_registered(bookie_id):
            raise Refusal(f"bookie {bookie_id} is registered: it runs", "stop it, and wait for its session to end")
        self._store.delete(key, value.version)

    def starts(self, bookie_id: str) -> Versioned[int] | None:
        """How often the bookie was started; None: nobody counted yet."""
        return Starts(self._store, self._root).get(bookie_id, self.instance_id())

    def is_registered(self, bookie_id: str) -> bool:
        folders = (self._keys.writable, self._keys.read_only)
        return any(
            self._store.get(f"{self._root}/{each}/{bookie_id}", linearizable=True) is not None for each in folders
        )

    def _cookie(self, bookie_id: str) -> str:
        return f"{self._root}/cookies/{check_bookie_id(bookie_id)}"


def no_cluster(uri: str, why: str) -> Refusal:
    return Refusal(
        f"there is no cluster at {uri} ({why})",
        "look at --metadata; where a new cluster is meant, walkeeper-bookie --init makes it",
    )


@contextmanager
def cluster_at(uri: str) -> Iterator[Cluster]:
    """The cluster that a URI names. Refusal where there is no such store: nothing is made."""
    from walkeeper.metadata import MissingError, open_store

    try:
        opened = open_store(uri, create=False)
    except MissingError as wrong:
        raise no_cluster(uri, str(wrong)) from None
    try:
        yield Cluster(opened.store, opened.root)
    finally:
        opened.store.close()


def cookie_file(path: Path) -> Cookie | None:
    """The cookie in a data directory; None where there is none. Refusal where it is damaged."""
    try:
        with open(path, "rb") as file:
            return Cookie.parse(file.read(COOKIE_MAX), str(path))
    except FileNotFoundError:
        return None
    except MetadataFormatError as wrong:
        raise Refusal(f"{path} is no cookie: {wrong}", restore_hint(path.parent)) from None
