"""What the questions about the bookie share: servers that live as long as a question, and the load generator's runs."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.bench import Bench
from harness.machine import Disk, disk_now

from bookies.java import JavaBookie, JavaClient, ZooKeeper
from bookies.process import rest
from bookies.servers import Bare, Child, Ours, Server

ROUNDS, ROUNDS_MOST = 3, 5
"""Of each question; more than the first where they were disturbed."""
ENTRY = 1024
"""Bytes of payload of an entry."""
HEAD = 36
"""What its writer puts before it: ids, LAC, length, CRC-32C."""
BATCH, BATCHES_UNDER_WAY = 500, 4
"""A reader that catches up: half a megabyte a request, and so many of them."""


FIRST_LEDGER = 10**6
"""Of the load generator. A Java client beside it is given ids from 0 on, and they are of another key."""


class BookieBench(Bench):
    """`quick`: cells of half a second, little data: to see that it works, not to quote."""

    def __init__(self, scratch: Path, build: Path, quick: bool, log: Callable[[str], None], rounds: int) -> None:
        super().__init__(scratch, build, quick, log)
        self.pairs = rounds
        self.most = rounds if quick or rounds < ROUNDS else max(rounds, ROUNDS_MOST)
        self._servers: contextlib.ExitStack = contextlib.ExitStack()
        self._zookeeper: ZooKeeper | None = None
        self._places = itertools.count(1)
        self._ledger = FIRST_LEDGER

    @contextlib.contextmanager
    def question(self) -> Iterator[None]:
        """What is started within is ended, and its data are gone."""
        try:
            with contextlib.ExitStack() as self._servers:
                yield
        finally:
            self._zookeeper = None

    # ---- servers: for the question, or for a cell where `with self.cell():` is around it -------------------

    @contextlib.contextmanager
    def cell(self) -> Iterator[None]:
        """What is started within is ended with it; ZooKeeper must have been started before."""
        outer = self._servers
        try:
            with contextlib.ExitStack() as self._servers:
                yield
        finally:
            self._servers = outer

    def place(self) -> Path:
        return self._servers.enter_context(self.directory())

    def kept(self, child: Child) -> None:
        """Until the question's or the cell's end. Nothing of a JVM's is needed after it: it is not waited for."""
        self._servers.callback(child.stop if isinstance(child, Ours) else child.kill)

    def bare(self, *options: str) -> Bare:
        made = Bare(self.place(), self.driver("bare_loop"), *options)
        self.kept(made)
        return made

    def ours(self, *options: str, metadata: str | None = None, place: Path | None = None) -> Ours:
        made = Ours(place or self.place(), *options, metadata=metadata)
        self.kept(made)
        return made

    def java(self, kind: str, place: Path | None = None) -> JavaBookie:
        made = JavaBookie(place or self.place(), kind, self.zookeeper())
        self.kept(made)
        return made

    def java_client(self, metadata: str) -> JavaClient:
        made = JavaClient(self.place(), metadata)
        self.kept(made)
        return made

    def zookeeper(self) -> ZooKeeper:
        if self._zookeeper is None:
            self._zookeeper = ZooKeeper(self.place())
            self.kept(self._zookeeper)
        return self._zookeeper

    def grown(self, server: Ours) -> Ours:
        """Its journal files start small and double: it is measured when they have their full size."""
        self.filled(server, 2**15 if self.quick else 2**18)
        return server

    def warmed(self, server: JavaBookie) -> JavaBookie:
        """A JVM compiles what it runs often: it is measured when that is over."""
        for window, seconds in ((64, 1), (1024, 1), (1, 1)) if self.quick else ((64, 8), (1024, 8), (1, 4)):
            self.adds(server, window=window, warmup_ms=0, ms=1000 * seconds)
        return server

    # ---- runs of the load generator ------------------------------------------------------------------------

    @property
    def ms(self) -> int:
        return int(self.seconds * 1000)

    def ledgers(self, count: int = 1) -> int:
        """The first of so many ids that nobody used yet."""
        first = self._ledger
        self._ledger += count
        return first

    def adds(self, server: Server, **arguments: object) -> dict[str, Any]:
        """Adds of 1 KiB to new ledgers, in a window of 64, for the time of a cell, unless told otherwise."""
        ledgers = int(str(arguments.get("ledgers", arguments.get("connections", 1))))
        given: dict[str, object] = {
            "version": 2,
            "first_ledger": self.ledgers(ledgers),
            "size": ENTRY,
            "warmup_ms": self.ms // 4,
            "ms": self.ms,
            "server_pid": server.pid,
            **arguments,
        }
        return self.native("bookie_load", self.scratch, port=server.port, **given)

    def cluster_adds(self, servers: Sequence[Server], client: str, window: int) -> dict[str, Any]:
        """Adds of 1 KiB to a new ledger on all of them, confirmed by two; `client`: "ours", or "bare"."""
        return self.native(
            "cluster_load",
            self.scratch,
            ports=",".join(str(server.port) for server in servers),
            client=client,
            ledger=self.ledgers(),
            ack=2,
            size=ENTRY,
            window=window,
            warmup_ms=self.ms // 4,
            ms=self.ms,
        )

    def reads(self, server: Server, **arguments: object) -> dict[str, Any]:
        """Reads of what `filled` wrote; `first_ledger` and `entries` say of what."""
        given: dict[str, object] = {
            "version": 2,
            "warmup_ms": self.ms // 4,
            "ms": self.ms,
            "server_pid": server.pid,
            **arguments,
        }
        return self.native("bookie_read", self.scratch, port=server.port, **given)

    def filled(self, server: Server, entries: int, ledgers: int = 1) -> int:
        """So many entries of 1 KiB in each of so many new ledgers, in turn; the first ledger's id."""
        first = self.ledgers(ledgers)
        self.adds(server, first_ledger=first, ledgers=ledgers, window=1024, entries=entries * ledgers)
        return first

    def settled(self, *servers: Server, at_most: float = 10.0) -> None:
        """Lets them finish what they do in the background."""
        if not rest(*(server.pid for server in servers), at_most=at_most):
            self.log(f"  a server did not come to rest within {at_most:.0f} s")

    def disk(self) -> Disk:
        return disk_now(self.scratch) or Disk(0, 0, 0, 0, 0)
