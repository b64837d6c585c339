"""Networks that part clients from bookies, in both directions or in one, and connections that carry nothing any more.

Bookies do not speak with each other: what a network can part is a client from some bookies, while another client hears
others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from cluster.history import History, rounds
from network_cluster import NetworkCluster
from private_network import private_network
from tcp_proxy import TcpProxy, proxy_to

from walkeeper_bookie.cluster import BookieProcess, LocalCluster

FAULTS = 3
CLIENTS = ("client-1", "client-2")
BOOKIES = ("bookie-1", "bookie-2", "bookie-3", "bookie-4")


# ---- hosts that do not hear each other ----


class NetworkHistory(History):
    """Writers are on two hosts in turn; the follower is on one of them."""

    cluster: NetworkCluster

    def on_its_host(self, who: str) -> AbstractContextManager[None]:
        return self.cluster.network.inside(CLIENTS[self.started % 2] if who.startswith("writer") else CLIENTS[0])

    def _parted(self, pairs: Sequence[tuple[str, str]]) -> None:
        """For a while, or for longer than a client waits."""
        try:
            for source, sink in pairs:
                self.cluster.network.cut(source, sink)
            self.pause(0.2, 2)
            if self.source.random() < 0.5:
                self.write()
            self.pause(0.2, 6)
        finally:
            self.cluster.network.heal()

    def cut_a_bookie_off(self) -> None:
        bookie = self.source.choice(BOOKIES)
        self._parted([pair for client in CLIENTS for pair in ((client, bookie), (bookie, client))])

    def swallow_what_a_bookie_says(self) -> None:
        """It stores what it is sent, and nobody is told."""
        bookie = self.source.choice(BOOKIES)
        self._parted([(bookie, client) for client in CLIENTS])

    def swallow_what_clients_say(self) -> None:
        bookie = self.source.choice(BOOKIES)
        self._parted([(client, bookie) for client in CLIENTS])

    def cut_a_client_off(self) -> None:
        """From two bookies or more; the other one hears all."""
        client = self.source.choice(CLIENTS)
        bookies = self.source.sample(BOOKIES, self.source.randint(2, 4))
        self._parted([pair for bookie in bookies for pair in ((client, bookie), (bookie, client))])

    def part_in_two(self) -> None:
        """Each client hears two bookies, and neither those of the other."""
        bookies = self.source.sample(BOOKIES, 4)
        sides = ((CLIENTS[0], bookies[2:]), (CLIENTS[1], bookies[:2]))
        self._parted([pair for client, others in sides for one in others for pair in ((client, one), (one, client))])

    def swallow_at_random(self) -> None:
        """Any direction between any two of them."""
        pairs = [pair for client in CLIENTS for one in BOOKIES for pair in ((client, one), (one, client))]
        self._parted(self.source.sample(pairs, 5))

    def lose_a_third(self) -> None:
        """Of what goes between all of them, in slots of some hundredths of a second. What TCP sends again comes late,
        and a request may be answered long after somebody gave it up."""
        pairs = [pair for client in CLIENTS for one in BOOKIES for pair in ((client, one), (one, client))]
        until = time.monotonic() + self.source.uniform(1, 4)
        try:
            while time.monotonic() < until:
                for source, sink in self.source.sample(pairs, len(pairs) // 3):
                    self.cluster.network.cut(source, sink)
                self.pause(0.01, 0.06)
                self.cluster.network.heal()
        finally:
            self.cluster.network.heal()

    def all_faults(self) -> tuple[Callable[[], None], ...]:
        return (
            self.lose_a_third,
            *(self.cut_a_bookie_off, self.swallow_what_a_bookie_says, self.swallow_what_clients_say),
            *(self.cut_a_client_off, self.part_in_two, self.swallow_at_random),
            *(self.take_over, self.lose_a_bookie_and_the_writer),
        )


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkCluster]:
    with ExitStack() as stack:
        network = stack.enter_context(private_network(*CLIENTS, *BOOKIES))
        made = stack.enter_context(NetworkCluster(tmp_path_factory.mktemp("faults") / "cluster", network, BOOKIES))
        made.start()
        yield made


@pytest.mark.parametrize("number", rounds(1))
def test_every_acknowledged_append_is_there_once_whoever_is_parted_from_whom(
    hosts: NetworkCluster, tmp_path: Path, number: int
) -> None:
    NetworkHistory(hosts, tmp_path, number).run(FAULTS)


# ---- connections that carry nothing ----


class ProxiedCluster(LocalCluster):
    """Clients reach each bookie through a proxy."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        super().__init__(directory, len(BOOKIES))
        self.proxies = [stack.enter_context(proxy_to(bookie.port)) for bookie in self.bookies]
        for bookie, proxy in zip(self.bookies, self.proxies, strict=True):
            bookie.bookie_id = proxy.hosts

    def launch_one(self, bookie: BookieProcess, options: Sequence[str] = ()) -> None:
        super().launch_one(bookie, ("--advertise", bookie.bookie_id, *options))


class ProxiedHistory(History):
    """What is broken is whole again at the end of the fault, but for connections that were left half-open."""

    cluster: ProxiedCluster

    def _some(self) -> list[TcpProxy]:
        return self.source.sample(self.cluster.proxies, self.source.choice((1, 1, 2)))

    def leave_half_open(self) -> None:
        """A machine that vanished: nobody says that the connections are gone, and new ones are as they should be."""
        for proxy in self._some():
            proxy.leave_half_open()
        self.pause(0.2, 6)

    def leave_next_half_open(self) -> None:
        for proxy in self._some():
            proxy.leave_next_half_open()
            proxy.cut()
        self.pause(0.2, 6)

    def _broken(self, act: Callable[[TcpProxy], None]) -> None:
        some = self._some()
        try:
            for proxy in some:
                act(proxy)
            self.pause(0.2, 6)
        finally:
            for proxy in some:
                proxy.heal()

    def refuse(self) -> None:
        self._broken(TcpProxy.refuse)

    def hold(self) -> None:
        """What was sent arrives late, all of it."""
        self._broken(TcpProxy.hold)

    def swallow_answers(self) -> None:
        self._broken(TcpProxy.swallow_answers)

    def swallow_requests(self) -> None:
        self._broken(TcpProxy.swallow_requests)

    def all_faults(self) -> tuple[Callable[[], None], ...]:
        return (
            *(self.leave_half_open, self.leave_next_half_open, self.refuse, self.hold),
            *(self.swallow_answers, self.swallow_requests, self.take_over, self.kill_writer),
        )


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedCluster]:
    with (
        ExitStack() as stack,
        ProxiedCluster(tmp_path_factory.mktemp("faults") / "cluster", stack) as made,
    ):
        made.start()
        yield made


@pytest.mark.parametrize("number", rounds(1))
def test_every_acknowledged_append_is_there_once_whatever_becomes_of_connections(
    proxied: ProxiedCluster, tmp_path: Path, number: int
) -> None:
    ProxiedHistory(proxied, tmp_path, number).run(FAULTS)
