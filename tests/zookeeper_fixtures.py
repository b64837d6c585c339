"""Fixtures of the tests of the ZooKeeper store, as a plugin of pytest: a server, a proxy before it, stores, a root.

PYTEST_DONT_REWRITE: tests import its names before pytest takes it as a plugin, which it would warn of.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from call import Call
from kazoo.client import KazooClient
from metadata.stores import WAIT_SECONDS
from tcp_proxy import TcpProxy, proxy_to
from zookeeper_server import ZooKeeperServer, shared_server

from walkeeper.metadata._zookeeper import ZooKeeperStore

SHORT = 1.5  # a session that a test waits for the end of
LONG = 60.0  # one that outlives whatever the test does

__all__ = ["LONG", "SHORT", "Call", "Open"]

Open = Callable[..., ZooKeeperStore]


@pytest.fixture
def server() -> ZooKeeperServer:
    return shared_server()


@pytest.fixture
def proxy(server: ZooKeeperServer) -> Iterator[TcpProxy]:
    with proxy_to(server.port) as proxy:
        yield proxy


@pytest.fixture
def open_store() -> Iterator[Open]:
    """Opens stores that are closed at the end."""
    with contextlib.ExitStack() as opened:

        def open_store(hosts: str, **options: Any) -> ZooKeeperStore:
            options.setdefault("poll_seconds", 3600.0)  # nothing is noticed by luck
            return opened.enter_context(ZooKeeperStore(hosts, **options))

        yield open_store


@pytest.fixture
def other(server: ZooKeeperServer, open_store: Open) -> ZooKeeperStore:
    """A store beside the one that is tested, and beside its proxy."""
    return open_store(server.hosts, session_timeout=LONG)


@pytest.fixture
def root(other: ZooKeeperStore) -> str:
    root = f"/zookeeper-store-{uuid.uuid4().hex[:12]}"
    other.create(root)
    return root


@pytest.fixture
def raw(server: ZooKeeperServer) -> Iterator[KazooClient]:
    """A client that knows nothing of stores."""
    client = KazooClient(server.hosts)
    client.start(timeout=WAIT_SECONDS)
    yield client
    client.stop()
    client.close()
