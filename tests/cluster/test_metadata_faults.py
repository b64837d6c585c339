"""A metadata store that is a server: its process is killed, and stands still, while a log is written."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import etcd_server
import pytest
import zookeeper_server
from cluster.history import History, ready, rounds
from etcd_server import EtcdServer
from zookeeper_server import ZooKeeperServer

from walkeeper_bookie.cluster import LocalCluster

FAULTS = 3


class ServedCluster(LocalCluster):
    """Bookies whose metadata are on a server of their own."""

    def __init__(self, directory: Path, server: EtcdServer | ZooKeeperServer, uri: str) -> None:
        super().__init__(directory, 4, uri)
        self.server = server


class ServerHistory(History):
    cluster: ServedCluster

    def kill_the_store(self) -> None:
        server = self.cluster.server
        server.kill()
        try:
            self.pause(0.1, 4)
        finally:
            server.restart()

    def stop_the_store(self) -> None:
        process = self.cluster.server.process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        try:
            self.pause(0.1, 6)
        finally:
            process.send_signal(signal.SIGCONT)

    def kill_the_store_and_the_writer(self) -> None:
        """The next writer takes over once there is a store again."""
        self.writers[-1].kill()
        self.kill_the_store()

    def kill_the_store_and_a_bookie(self) -> None:
        bookie = self.source.choice(self.cluster.bookies)
        server = self.cluster.server
        server.kill()
        try:
            self.pause(0.1, 1)
            assert bookie.process is not None
            bookie.process.kill()
            bookie.process.wait()
            self.pause(0.1, 2)
        finally:
            server.restart()
        self.cluster.launch_one(bookie)
        ready(bookie)

    def all_faults(self) -> tuple[Callable[[], None], ...]:
        return (
            *(self.kill_the_store, self.stop_the_store, self.kill_the_store_and_the_writer),
            *(self.kill_the_store_and_a_bookie, self.take_over, self.kill_bookie),
        )


def started(store: str) -> tuple[EtcdServer | ZooKeeperServer, str]:
    """A server, and the URI of a cluster on it."""
    if reason := (etcd_server if store == "etcd" else zookeeper_server).missing():
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    if store == "etcd":
        etcd = EtcdServer()
        return etcd, f"etcd://{etcd.hosts}/ledgers"
    zookeeper = ZooKeeperServer()
    return zookeeper, f"zk+hierarchical://{zookeeper.hosts}/ledgers"


@pytest.fixture(scope="module", params=["etcd", "zookeeper"])
def four_bookies(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCluster]:
    server, uri = started(request.param)
    try:
        with ServedCluster(tmp_path_factory.mktemp("faults") / "cluster", server, uri) as made:
            made.start()
            yield made
    finally:
        server.stop()


@pytest.mark.parametrize("number", rounds(1))
def test_every_acknowledged_append_is_there_once_whatever_becomes_of_the_metadata(
    four_bookies: ServedCluster, tmp_path: Path, number: int
) -> None:
    ServerHistory(four_bookies, tmp_path, number).run(FAULTS)
