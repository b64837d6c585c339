"""Garbage collection of a bookie process: normal use raises no alarm, and all space comes back; a hold has an end."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from bookie_runs import NO_LEDGER, OK, Bookies, Client, Running, bookies_in, free_port, until

from walkeeper.metadata import Cluster, LedgerManager, LedgerMetadata, Operation, open_store


class World:
    """A bookie whose passes follow one another closely, and the cluster of its ledgers, in a sqlite file."""

    def __init__(self, bookies: Bookies, *settings: str) -> None:
        self.bookies, self.settings, self.http = bookies, settings, free_port()
        self.bookie = self.start("--init")
        opened = open_store(bookies.metadata)
        self.cluster = Cluster(opened.store, opened.root)

    def start(self, *settings: str, port: int = 0) -> Running:
        gc = ("--gc-interval", "50ms", "--http", f"127.0.0.1:{self.http}", *self.settings)
        bookie = self.bookies.start(*gc, *settings, port=port)
        bookie.ready()
        return bookie

    def restart(self) -> None:
        self.bookie = self.start(port=self.bookie.port)

    def store(self, client: Client, ledger_ids: Iterable[int]) -> None:
        """What a client does: first the metadata, then the first entry."""
        for ledger_id in ledger_ids:
            self.cluster.ledgers.create(LedgerMetadata(1, 1, 1, {0: (self.bookie.bookie_id,)}), ledger_id)
            assert client.add(ledger_id, 0) == OK

    def delete(self, ledger_ids: Iterable[int]) -> None:
        """All between the same two passes."""
        keys = [f"{self.cluster.root}/{LedgerManager.HIERARCHICAL.path(ledger_id)}" for ledger_id in ledger_ids]
        self.cluster.store.transact([Operation("delete", key) for key in keys])

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=30) as answer:
            found = re.search(rf"^{re.escape(name)} (\S+)$", answer.read().decode(), re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    def held(self, reason: str) -> float:
        return self.metric(f'walkeeper_gc_held_ledgers{{reason="{reason}"}}')

    def passes(self, count: int) -> None:
        """So many whole passes from now on."""
        wanted = self.metric("walkeeper_gc_passes_total") + count + 1
        until(lambda: self.metric("walkeeper_gc_passes_total") >= wanted, "there are passes")


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as found:
        yield found


def test_a_broker_restarts_and_deletes_its_old_ledgers_at_once(bookies: Bookies) -> None:
    world = World(bookies)
    with Client(world.bookie.port) as client:
        world.store(client, range(400))
        world.passes(1)
        world.delete(range(75))
        world.delete(range(75, 150))
        world.store(client, range(1000, 1150))
        until(lambda: world.metric("bookie_gc_DELETED_LEDGER_TOTAL") == 150, "all of them go")
        assert world.metric("walkeeper_gc_alarm") == 0
        assert client.read(149, 0)[0] == NO_LEDGER
        assert client.read(150, 0)[0] == OK
        assert client.read(1149, 0)[0] == OK
    assert "held" not in world.bookie.said()
    assert world.bookie.stop() == 0


def test_a_collapsed_listing_holds_ledgers_over_a_kill_and_lets_them_go_by_itself(bookies: Bookies) -> None:
    world = World(bookies, "--gc-hold-time", "3s")
    with Client(world.bookie.port) as client:
        world.store(client, range(100))
        world.passes(1)
        world.delete(range(90))
        until(lambda: world.metric("walkeeper_gc_alarm") == 1, "there is an alarm")
        assert world.held("collapsed") == 90
        assert world.metric('walkeeper_gc_held_bytes{reason="collapsed"}') > 0
        assert world.metric('walkeeper_gc_held_until_seconds{reason="collapsed"}') > 0
        assert client.read(0, 0)[0] == OK
    world.bookie.kill()
    world.restart()
    with Client(world.bookie.port) as client:
        until(lambda: world.metric("bookie_gc_DELETED_LEDGER_TOTAL") == 90, "they go")
        assert world.metric("walkeeper_gc_alarm") == 0
        assert client.read(89, 0)[0] == NO_LEDGER
        assert client.read(90, 0)[0] == OK
    assert world.bookie.stop() == 0


def test_an_emptied_tree_waits_for_an_operator_over_a_restart(bookies: Bookies) -> None:
    world = World(bookies, "--gc-hold-time", "0s")
    with Client(world.bookie.port) as client:
        world.store(client, range(20))
        world.passes(1)
        world.delete(range(20))
        until(lambda: world.metric("walkeeper_gc_alarm") == 1, "there is an alarm")
        world.passes(3)
        assert world.held("emptied") == 20
        assert world.metric('walkeeper_gc_held_until_seconds{reason="emptied"}') == float("inf")
    assert world.bookie.stop() == 0
    assert 'until="an operator acknowledges it"' in world.bookie.said()
    world.restart()
    assert world.metric("walkeeper_gc_alarm") == 1
    world.passes(3)
    assert world.metric("bookie_gc_DELETED_LEDGER_TOTAL") == 0
    (world.bookie.data / "gc-acknowledged").write_text("20\n")
    until(lambda: world.metric("bookie_gc_DELETED_LEDGER_TOTAL") == 20, "they go")
    assert world.metric("walkeeper_gc_alarm") == 0
    assert world.bookie.stop() == 0


def test_a_damaged_state_is_told_and_removing_it_helps(bookies: Bookies) -> None:
    world = World(bookies)
    world.passes(1)
    assert world.bookie.stop() == 0
    state = world.bookie.data / "gc-state"
    state.write_bytes(state.read_bytes()[:-1])
    broken = bookies.start(port=world.bookie.port)
    assert broken.ended() == 5
    assert f"{state} is damaged" in broken.said()
    assert "remove the file" in broken.said()
    state.unlink()
    world.restart()
    assert world.bookie.stop() == 0
