"""A bookie whose metadata are ZooKeeper's: sessions end, servers die, and the bookie goes on."""

from __future__ import annotations

import re
import signal
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie_runs import FREE_SPACE_IS_IN_A_FILE, NO_LEDGER, OK, Bookies, Client, bookies_in, free_port, until
from zookeeper_server import ZooKeeperServer, shared_server

from walkeeper.metadata import Cluster, LedgerManager, LedgerMetadata, MetadataError, ServiceInfo, open_store

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


@pytest.mark.parametrize("layout", ["hierarchical", "longhierarchical"])
def test_ledgers_of_a_client_with_another_layout_stay(world: World, layout: str) -> None:
    """Pulsar's client writes the keys of `hierarchical`, whatever LAYOUT says: its ledgers are no deleted ones."""
    rest = world.bookies.metadata.partition("://")[2]
    world.bookies.metadata = f"zk+{layout}://{rest}"
    http = free_port()
    bookie = world.bookies.start("--init", "--gc-interval", "100ms", "--http", f"127.0.0.1:{http}")
    bookie.ready()
    opened = open_store(world.bookies.metadata)
    other = LedgerManager.LONG_HIERARCHICAL if layout == "hierarchical" else LedgerManager.HIERARCHICAL
    keys = [f"{opened.root}/{other.path(ledger_id)}" for ledger_id in range(20)]
    with Client(bookie.port) as client:
        for ledger_id, key in enumerate(keys):
            metadata = LedgerMetadata(1, 1, 1, {0: (bookie.bookie_id,)}).serialise()
            opened.store.create(key, metadata, parents=True)
            assert client.add(ledger_id, 0) == OK
        until(lambda: metric(http, "walkeeper_gc_other_layout_ledgers") == 20, "they are listed")
        until(lambda: metric(http, "walkeeper_gc_passes_total") > 5, "there are passes")
        assert all(client.read(ledger_id, 0)[0] == OK for ledger_id in range(20))
        assert metric(http, "walkeeper_gc_alarm") == 0
        assert "keys of another layout" in bookie.said()
        opened.store.delete(keys[3])
        until(lambda: client.read(3, 0)[0] == NO_LEDGER, "what was deleted goes")
        assert client.read(4, 0)[0] == OK
    opened.store.close()
    assert bookie.stop() == 0


def metric(http: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{http}/metrics", timeout=30) as answer:
        found = re.search(rf"^{name} (\S+)$", answer.read().decode(), re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def test_a_cluster_that_was_formatted_takes_nothing_from_a_running_bookie(world: World) -> None:
    """Its INSTANCEID is another one from then on."""
    bookie = world.bookies.start("--init", "--gc-interval", "100ms")
    bookie.ready()
    opened = open_store(world.bookies.metadata)
    with Client(bookie.port) as client:
        for ledger_id in range(3):
            world.make_ledger(ledger_id, bookie.bookie_id)
            assert client.add(ledger_id, 0) == OK
        for ledger_id in range(3):
            Cluster(opened.store, opened.root).ledgers.delete(ledger_id)
        opened.store.put(f"{opened.root}/INSTANCEID", str(uuid.uuid4()).encode())
        until(lambda: "not the bookie's cluster" in bookie.said(), "it sees that")
        said = bookie.said().count("not the bookie's cluster")
        until(lambda: bookie.said().count("not the bookie's cluster") > said + 3, "there are more passes")
        assert all(client.read(ledger_id, 0)[0] == OK for ledger_id in range(3))
    opened.store.close()
    bookie.kill()


def test_free_space_is_published_in_the_same_session(world: World, tmp_path: Path) -> None:
    space = tmp_path / "free"
    space.write_text(str(2**49))
    options = ("--init", "--disk-check-interval", "100ms", "--session-timeout", f"{SESSION_S:.0f}s")
    bookie = world.bookies.start(*options, before=FREE_SPACE_IS_IN_A_FILE, env={"FREE_SPACE": str(space)})
    bookie.ready()
    opened = open_store(world.bookies.metadata)
    cluster = Cluster(opened.store, opened.root)

    def free() -> int | None:
        return (cluster.bookies.service_info(bookie.bookie_id) or ServiceInfo()).free_bytes

    assert free() == 2**49
    replaced = tmp_path / "replaced"
    replaced.write_text(str(2**47))
    replaced.rename(space)
    until(lambda: free() == 2**47, "it is published")
    assert bookie.said().count(" msg=registered ") == 1
    bookie.kill()
    until(lambda: cluster.bookies.writable_bookies() == [], "it goes with its session")
    opened.store.close()
