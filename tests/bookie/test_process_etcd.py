"""A bookie whose metadata are etcd's, in the layout of BookKeeper's own driver there."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie_runs import FREE_SPACE_IS_IN_A_FILE, NO_LEDGER, OK, Bookies, Client, bookies_in, until
from etcd_server import EtcdServer, shared_server

from walkeeper.metadata import Cluster, LedgerMetadata, OpenedStore, ServiceInfo, open_store


class World:
    def __init__(self, bookies: Bookies, server: EtcdServer) -> None:
        self.bookies, self.server = bookies, server
        bookies.metadata = f"etcd://{server.hosts}/{uuid.uuid4().hex}/scope"
        self.opened: OpenedStore = open_store(bookies.metadata)
        self.cluster = Cluster(self.opened.store, self.opened.root)

    def close(self) -> None:
        self.opened.store.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with bookies_in(tmp_path) as bookies:
        made = World(bookies, shared_server())
        yield made
        made.close()


def test_it_makes_the_cluster_registers_and_lets_go_of_deleted_ledgers(world: World) -> None:
    bookie = world.bookies.start("--init", "--gc-interval", "100ms")
    bookie.ready()
    cluster = world.cluster
    assert cluster.layout().factory.endswith(".EtcdLedgerManagerFactory")
    assert cluster.bookies.writable_bookies() == cluster.bookies.all_bookies() == [bookie.bookie_id]
    registered = world.opened.store.get(f"{world.opened.root}/bookies/writable/{bookie.bookie_id}")
    assert registered is not None
    assert registered.ephemeral
    assert (cluster.bookies.service_info(bookie.bookie_id) or ServiceInfo()).free_bytes
    metadata = LedgerMetadata(1, 1, 1, {0: (bookie.bookie_id,)})
    ledger_ids = [cluster.ledgers.create(metadata).ledger_id for _ in range(3)]
    with Client(bookie.port) as client:
        for ledger_id in ledger_ids:
            assert client.add(ledger_id, 0) == OK
        cluster.ledgers.delete(ledger_ids[1])
        until(lambda: client.read(ledger_ids[1], 0)[0] == NO_LEDGER, "what was deleted goes")
        assert all(client.read(ledger_id, 0)[0] == OK for ledger_id in (ledger_ids[0], ledger_ids[2]))
    assert "other layout" not in bookie.said()
    assert bookie.stop() == 0
    assert cluster.bookies.writable_bookies() == []
    again = world.bookies.start(port=bookie.port)
    again.ready()
    with Client(again.port) as client:
        assert client.read(ledger_ids[0], 0)[0] == OK
    assert again.stop() == 0


def test_commands_find_the_cluster_and_its_cookies(world: World) -> None:
    bookie = world.bookies.start("--init")
    bookie.ready()

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "walkeeper", "bookie", *arguments, "--metadata", world.bookies.metadata]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    shown = run("cookie", "show", bookie.bookie_id)
    assert world.cluster.instance_id() in shown.stdout, shown.stderr
    refused = run("cookie", "delete", bookie.bookie_id, "--yes")
    assert refused.returncode != 0
    assert "is registered" in refused.stderr, refused
    assert bookie.stop() == 0


def test_it_goes_on_while_etcd_is_away_and_is_registered_afterwards(world: World) -> None:
    bookie = world.bookies.start("--init", "--session-timeout", "2s", "--gc-interval", "100ms")
    bookie.ready()
    ledger_id = world.cluster.ledgers.create(LedgerMetadata(1, 1, 1, {0: (bookie.bookie_id,)})).ledger_id
    with Client(bookie.port) as client:
        assert client.add(ledger_id, 0) == OK
        world.server.kill()
        try:
            for entry_id in range(1, 20):
                assert client.add(ledger_id, entry_id) == OK
            until(lambda: "garbage collection failed" in bookie.said(), "it sees that the store is away")
            assert client.add(ledger_id, 20) == OK
        finally:
            world.server.restart()
        until(lambda: world.cluster.bookies.writable_bookies() == [bookie.bookie_id], "it is registered")
        assert client.read(ledger_id, 20)[0] == OK
    assert bookie.stop() == 0


def test_a_stopped_process_loses_its_lease_and_not_its_ledgers(world: World) -> None:
    bookie = world.bookies.start("--init", "--session-timeout", "2s")
    bookie.ready()
    writable = world.cluster.bookies.writable_bookies
    ledger_id = world.cluster.ledgers.create(LedgerMetadata(1, 1, 1, {0: (bookie.bookie_id,)})).ledger_id
    with Client(bookie.port) as client:
        assert client.add(ledger_id, 0) == OK
        bookie.send(signal.SIGSTOP)
        until(lambda: writable() == [], "its lease is over")
        bookie.send(signal.SIGCONT)
        until(lambda: writable() == [bookie.bookie_id], "it is registered again")
        assert client.add(ledger_id, 1) == OK
    assert bookie.process.poll() is None


def test_an_id_that_is_no_address_is_refused(world: World) -> None:
    bookie = world.bookies.start("--init", "--bookie-id", "one")
    assert bookie.ended() != 0
    assert re.search("one answers at .* must be its address", bookie.said()), bookie.said()


def test_free_space_is_published_under_the_same_lease(world: World, tmp_path: Path) -> None:
    space = tmp_path / "free"
    space.write_text(str(2**49))
    options = ("--init", "--disk-check-interval", "100ms", "--session-timeout", "5s")
    bookie = world.bookies.start(*options, before=FREE_SPACE_IS_IN_A_FILE, env={"FREE_SPACE": str(space)})
    bookie.ready()

    def free() -> int | None:
        return (world.cluster.bookies.service_info(bookie.bookie_id) or ServiceInfo()).free_bytes

    assert free() == 2**49
    replaced = tmp_path / "replaced"
    replaced.write_text(str(2**47))
    replaced.rename(space)
    until(lambda: free() == 2**47, "it is published")
    assert bookie.said().count(" msg=registered ") == 1
    bookie.kill()
    until(lambda: world.cluster.bookies.writable_bookies() == [], "it goes with its session")
