"""etcd as the suite of metadata stores sees it: keys below a root of the test's own, on one server."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from etcd_server import shared_server

if TYPE_CHECKING:
    from walkeeper.metadata import MetadataStore
    from walkeeper.metadata._etcd import EtcdStore

EXPIRE_SECONDS_MAX = 60.0


def expire(store: EtcdStore) -> None:
    """The store's session is lost, as if its time had passed; returns when the store has another one."""
    from walkeeper.metadata._etcd_client import revoke

    before = store.session()
    deadline = time.monotonic() + EXPIRE_SECONDS_MAX
    if before:
        store._connection.read(lambda stubs, seconds: stubs.lease.LeaseRevoke(revoke(before), timeout=seconds), None)
    store._lease.renew()
    while store.session() in (before, 0):
        assert time.monotonic() < deadline, "the session does not end"
        time.sleep(0.005)


class EtcdBacking:
    """A Backing of the suite."""

    def __init__(self, folder: Path) -> None:
        self._server = shared_server()
        self._opened: list[EtcdStore] = []
        self.root = f"/suite-{uuid.uuid4().hex[:12]}/ledgers"
        self.open().create(self.root, parents=True)

    def open(self) -> MetadataStore:
        from walkeeper.metadata._etcd import EtcdStore

        self._opened.append(EtcdStore(self._server.hosts))
        return self._opened[-1]

    def expire(self, store: MetadataStore) -> None:
        from walkeeper.metadata._etcd import EtcdStore

        assert isinstance(store, EtcdStore)
        expire(store)

    def close(self) -> None:
        for store in self._opened:
            store.close()
