"""ZooKeeper as the suite of metadata stores sees it: keys below a root of the test's own, on one server."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zookeeper_server import shared_server

if TYPE_CHECKING:
    from walkeeper.metadata import MetadataStore
    from walkeeper.metadata._zookeeper import ZooKeeperStore

EXPIRE_SECONDS_MAX = 60.0
CLOSE_SESSION = -11


def packet(*parts: bytes) -> bytes:
    """What ZooKeeper reads as one message."""
    body = b"".join(parts)
    return struct.pack(">i", len(body)) + body


def end_session(port: int, session: int, password: bytes) -> None:
    """Ends somebody's session at the server, as its expiry would; or not, where its owner interferes: try again."""
    connect = packet(struct.pack(">iqiqi", 0, 0, 10_000, session, len(password)), password, b"\0")
    close = packet(struct.pack(">ii", 1, CLOSE_SESSION))
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(connect + close)
        while connection.recv(4096):
            pass


def expire(store: ZooKeeperStore, port: int) -> None:
    """The store's session is lost, as if its time had passed; returns when the store has another one."""
    before = store.session()
    deadline = time.monotonic() + EXPIRE_SECONDS_MAX
    identity: Any = None
    while store.session() in (before, 0):
        assert time.monotonic() < deadline, "the session does not end"
        identity = store._connection._client.client_id or identity
        if identity is not None and identity[0] == before:
            end_session(port, *identity)
        time.sleep(0.01)


class ZooKeeperBacking:
    """A Backing of the suite."""

    def __init__(self, folder: Path) -> None:
        self._server = shared_server()
        self._opened: list[ZooKeeperStore] = []
        self.root = f"/suite-{uuid.uuid4().hex[:12]}/ledgers"
        self.open().create(self.root, parents=True)

    def open(self) -> MetadataStore:
        from walkeeper.metadata._zookeeper import ZooKeeperStore

        self._opened.append(ZooKeeperStore(self._server.hosts))
        return self._opened[-1]

    def expire(self, store: MetadataStore) -> None:
        from walkeeper.metadata._zookeeper import ZooKeeperStore

        assert isinstance(store, ZooKeeperStore)
        expire(store, self._server.port)

    def close(self) -> None:
        for store in self._opened:
            store.close()
