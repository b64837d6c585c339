"""The cluster of these tests, and which of its bookies a ledger is on."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from java_bookies.jvm import DB_STORAGE, JavaBookie, JavaClient, class_path
from metadata.stores import until
from programs import Program

import walkeeper
from walkeeper.ledgers.placement import Candidate
from walkeeper.metadata import MissingError
from walkeeper_bookie.cluster import LocalCluster

LARGEST = 5 * 1024 * 1024 - 512
"""Payload bytes of the largest entry of ours; with its headers it nearly fills a frame."""


class Named:
    """A placement policy: these bookies in this order; and these take the places of those that fail."""

    needs_weights = False

    def __init__(self, bookies: Sequence[str], spares: Sequence[str] = ()) -> None:
        self._bookies = tuple(bookies)
        self._spares = tuple(spares)

    def new_ensemble(
        self, size: int, write_quorum: int, ack_quorum: int, bookies: Sequence[Candidate], exclude: Collection[str]
    ) -> tuple[str, ...]:
        return self._bookies[:size]

    def replacements(
        self,
        ensemble: Sequence[str],
        failed_slots: Sequence[int],
        write_quorum: int,
        bookies: Sequence[Candidate],
        exclude: Collection[str],
    ) -> dict[int, str]:
        up = {bookie.bookie_id for bookie in bookies if bookie.writable}
        spares = [name for name in self._spares if name in up and name not in {*ensemble, *exclude}]
        return dict(zip(failed_slots, spares, strict=False))


class Shape:
    """Three bookies, in the order of an ensemble, and spare ones."""

    def __init__(self, cluster: Cluster, bookies: Sequence[str], spares: Sequence[str]) -> None:
        self.cluster = cluster
        self.bookies = list(bookies)
        self.spares = list(spares)

    def client(self, *, spares: bool = False, **options: Any) -> walkeeper.LedgerClient:
        """A client of ours whose ledgers are on these bookies; without spares none that fails is replaced."""
        policy = Named(self.bookies, self.spares if spares else ())
        return walkeeper.LedgerClient(self.cluster.metadata, placement=policy, **options)


class Cluster:
    """Bookies of Java's and of ours. Leaving the context ends them all."""

    def __init__(self, place: Path) -> None:
        self._ends = contextlib.ExitStack()
        class_path()
        (place / "zookeeper").mkdir()
        with contextlib.ExitStack() as ends:
            zookeeper = ends.enter_context(Program("MetadataServer", str(place / "zookeeper"), logs=place))
            port = zookeeper.expect("zookeeper").words[0]
            self.metadata = f"zk+hierarchical://127.0.0.1:{port}/ledgers"
            self.client = JavaClient(place / "client.log", self.metadata)
            ends.callback(self.client.end)
            self.java = [
                JavaBookie(place / f"java-{number}", self.metadata, settings)
                for number, settings in enumerate(({}, {}, DB_STORAGE), 1)
            ]
            for bookie in self.java:
                ends.callback(bookie.kill)
                bookie.launch()
            ours = ends.enter_context(LocalCluster(place / "ours", 2, self.metadata))
            ours.start()
            for bookie in self.java:
                bookie.await_ready()
            self.ours = [bookie.bookie_id for bookie in ours.bookies]
            self._looks = ends.enter_context(walkeeper.LedgerClient(self.metadata))
            self._ends = ends.pop_all()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def shape(self, kind: str) -> Shape:
        java = [bookie.bookie_id for bookie in self.java]
        if kind == "java":
            return Shape(self, java, self.ours)
        return Shape(self, [java[0], self.ours[0], java[2]], [java[1], self.ours[1]])

    def await_writable(self) -> None:
        """Until all bookies are registered: one that hung for longer than its session with ZooKeeper was not."""
        until(lambda: [bookie.state for bookie in self._looks.bookies()] == ["writable"] * 5, "a bookie is not up")

    def _forget(self, bookie: JavaBookie) -> None:
        """As if its session had ended: for that its next process would wait."""
        cluster = self._looks._cluster
        with contextlib.suppress(MissingError):
            cluster.store.delete(f"{cluster.root}/available/{bookie.bookie_id}")

    @contextlib.contextmanager
    def killed(self, *bookies: JavaBookie) -> Iterator[None]:
        """For so long these are gone; then they are started again. ZooKeeper takes them for alive meanwhile."""
        for bookie in bookies:
            bookie.kill()
        try:
            yield
        finally:
            for bookie in bookies:
                self._forget(bookie)
                bookie.launch()
            for bookie in bookies:
                bookie.await_ready()
            self.await_writable()
