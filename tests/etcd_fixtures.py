"""Fixtures of the tests of the etcd store, as a plugin of pytest: a server, a proxy before it, stores, a root.

PYTEST_DONT_REWRITE: tests import its names before pytest takes it as a plugin, which it would warn of.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from etcd_server import EtcdServer, shared_server
from tcp_proxy import TcpProxy, proxy_to

from walkeeper.metadata._etcd import EtcdStore
from walkeeper.metadata._etcd_client import Stubs, _etcd, grpc, range_of

SHORT = 2.0  # a session that a test waits for the end of
LONG = 60.0  # one that outlives whatever the test does

Open = Callable[..., EtcdStore]


@pytest.fixture
def server() -> EtcdServer:
    return shared_server()


@pytest.fixture
def proxy(server: EtcdServer) -> Iterator[TcpProxy]:
    with proxy_to(server.port) as proxy:
        yield proxy


@pytest.fixture
def open_store() -> Iterator[Open]:
    """Opens stores that are closed at the end."""
    with contextlib.ExitStack() as opened:

        def open_store(hosts: str, **options: Any) -> EtcdStore:
            options.setdefault("poll_seconds", 3600.0)  # nothing is noticed by luck
            return opened.enter_context(EtcdStore(hosts, **options))

        yield open_store


@pytest.fixture
def other(server: EtcdServer, open_store: Open) -> EtcdStore:
    """A store beside the one that is tested, and beside its proxy."""
    return open_store(server.hosts, session_timeout=LONG)


@pytest.fixture
def root(other: EtcdStore) -> str:
    root = f"/etcd-store-{uuid.uuid4().hex[:12]}"
    other.create(root)
    return root


class Raw:
    """What is on etcd, seen without a store."""

    def __init__(self, hosts: str) -> None:
        self.channel = grpc.insecure_channel(hosts)
        self.stubs = Stubs(self.channel)

    def found(self, prefix: str) -> dict[str, Any]:
        """The keys that begin so, and what etcd says of each."""
        start = prefix.encode()
        answer = self.stubs.kv.Range(range_of(start, start[:-1] + bytes([start[-1] + 1])), timeout=30)
        return {kv.key.decode(): kv for kv in answer.kvs}

    def compact(self, revision: int) -> None:
        """What was before is forgotten."""
        self.stubs.kv.Compact(_etcd.CompactionRequest(revision=revision), timeout=30)

    def values(self, prefix: str) -> dict[str, bytes]:
        return {key: kv.value for key, kv in self.found(prefix).items()}


@pytest.fixture
def raw(server: EtcdServer) -> Iterator[Raw]:
    made = Raw(server.hosts)
    yield made
    made.channel.close()
