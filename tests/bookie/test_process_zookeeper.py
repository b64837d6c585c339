"""A bookie whose metadata are ZooKeeper's: sessions end, servers die, and the bookie goes on."""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie_runs import OK, Bookies, Client, bookies_in, until
from zookeeper_server import ZooKeeperServer, shared_server

from walkeeper.metadata import Cluster, LedgerManager, LedgerMetadata, MetadataError, open_store

SESSION_S = 1.0


class World:
    def __init__(self, bookies: Bookies, server: ZooKeeperServer) -> None:
        self.bookies, self.server = bookies, server
        bookies.metadata = f"zk+hierarchical://{server.hosts}/{uuid.uuid4().hex}/ledgers"

    def make_ledger(self, ledger_id: int, *members: str) -> None:
        """What a client does before it adds; of ledgers without metadata the bookie lets go."""
        opened = open_store(self.bookies.metadata)
        Cluster(opened.store, opened.root).ledgers.create(LedgerMetadata(1, 1, 1, {0: members}), ledger_id)
        opened.store.close()

    def registered(self) -> list[str]:
        """The writable bookies; asked in a session of its own."""
        try:
            opened = open_store(self.bookies.metadata)
        except MetadataError:
            return []
        try:
            return [name for name in opened.store.children(f"{opened.root}/available") if name != "readonly"]
        except MetadataError:
            return []
        finally:
            opened.store.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with bookies_in(tmp_path) as bookies:
        yield World(bookies, shared_server())


def test_it_goes_on_while_zookeeper_is_away_and_registers_again(world: World) -> None:
    bookie = world.bookies.start("--init", "--session-timeout", f"{SESSION_S:.0f}s", "--gc-interval", "100ms")
    bookie.ready()
    world.make_ledger(7, bookie.bookie_id)
    with Client(bookie.port) as client:
        assert client.add(7, 0) == OK
        world.server.kill()
        try:
            for entry_id in range(1, 20):
                assert client.add(7, entry_id) == OK
            until(lambda: "garbage collection failed" in bookie.said(), "it sees that the store is away")
            assert client.add(7, 20) == OK
        finally:
            world.server.restart()
        until(lambda: world.registered() == [bookie.bookie_id], "it is registered")
        assert client.read(7, 20)[0] == OK
    assert bookie.stop() == 0
    assert world.registered() == []


def test_a_stopped_process_loses_its_session_and_not_its_ledgers(world: World) -> None:
    bookie = world.bookies.start("--init", "--session-timeout", f"{SESSION_S:.0f}s")
    bookie.ready()
    with Client(bookie.port) as client:
        assert client.add(7, 0) == OK
        bookie.send(signal.SIGSTOP)
        until(lambda: world.registered() == [], "its session is over")
        bookie.send(signal.SIGCONT)
        until(lambda: world.registered() == [bookie.bookie_id], "it is registered again")
        assert client.add(7, 1) == OK
    assert bookie.process.poll() is None


def test_after_sigkill_its_old_session_does_not_hold_it_up(world: World) -> None:
    first = world.bookies.start("--init", "--session-timeout", "60s")
    first.ready()
    first.kill()
    assert world.registered() == [first.bookie_id]  # of the dead one
    began = time.monotonic()
    second = world.bookies.start(port=first.port)
    second.ready()
    assert time.monotonic() - began < 30  # and not the minute that the old session lives
    assert world.registered() == [first.bookie_id]


def test_a_server_that_comes_late_is_waited_for(world: World) -> None:
    world.server.kill()
    try:
        bookie = world.bookies.start("--init", "--start-timeout", "120s")
        until(lambda: "does not answer" in bookie.said(), "it waits")
    finally:
        world.server.restart()
    bookie.ready()


def test_the_layout_is_the_one_that_the_uri_names(world: World) -> None:
    scheme, _, rest = world.bookies.metadata.partition("://")
    assert scheme == "zk+hierarchical"
    long, plain = f"zk+longhierarchical://{rest}", f"zk://{rest}"
    first = world.bookies.start("--init", metadata=long)
    first.ready()
    opened = open_store(plain)
    layout = Cluster(opened.store, opened.root).layout()
    opened.store.close()
    assert layout.manager is LedgerManager.LONG_HIERARCHICAL
    assert first.stop() == 0
    other = world.bookies.start("--init", data=world.bookies.place / "other")
    assert other.ended() == 2
    assert "does not start" in other.said()
    assert "and the cluster has org.apache.bookkeeper.meta.LongHierarchicalLedgerManagerFactory" in other.said()
    assert not other.data.exists()
    for metadata in (long, plain):
        again = world.bookies.start(port=first.port, metadata=metadata)
        again.ready()
        assert again.stop() == 0
