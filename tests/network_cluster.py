"""NetworkCluster: bookies on hosts of their own, in a private network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from private_network import PrivateNetwork

from walkeeper_bookie.cluster import BookieProcess, LocalCluster

__all__ = ["NetworkCluster"]


class NetworkCluster(LocalCluster):
    """Each bookie has a host of its own. The metadata are a file, which everybody sees all the time: whoever is cut off
    is found by clients as before."""

    def __init__(self, directory: Path, network: PrivateNetwork, hosts: Sequence[str]) -> None:
        super().__init__(directory, len(hosts))
        self.network = network
        self.hosts = {bookie.port: host for bookie, host in zip(self.bookies, hosts, strict=True)}
        for bookie in self.bookies:
            bookie.bookie_id = f"{network.address(self.hosts[bookie.port])}:{bookie.port}"

    def launch_one(self, bookie: BookieProcess, options: Sequence[str] = ()) -> None:
        with self.network.inside(self.hosts[bookie.port]):
            super().launch_one(bookie, ("--listen", bookie.bookie_id, *options))
