"""A bookie under attack, and a good client meanwhile; the fixtures are a plugin's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bookie_runs import Bookies, Running, bookies_in, until
from wire_client import (
    OK,
    WireClient,
)

MIB = 1024 * 1024
SLACK = 16 * MIB
"""What the allocator, and reading and adding themselves, take besides."""
PATIENCE = 60.0
LINES_MAX = 60
"""Of stderr, in one test: what is said at start and stop, and some of what happened; not a line for each attack."""


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as found:
        yield found


@pytest.fixture
def start(bookies: Bookies) -> Iterator[Callable[..., Running]]:
    """Starts a bookie with these options. At the end it is asked for what a good client wants, and how it ended."""
    started: list[Running] = []

    def one(*options: str, before: str = "") -> Running:
        started.append(bookies.start("--init", *options, before=before))
        started[-1].ready()
        return started[-1]

    yield one
    for bookie in started:
        serves(bookie)
        assert bookie.stop() == 0, bookie.said()
        assert len(bookie.said().splitlines()) < LINES_MAX, bookie.said()


def serves(bookie: Running) -> None:
    """A good client of either version, on a connection of its own, adds and reads."""
    for version in (2, 3):
        ledger_id = 10**6 + version + 10 * int(time.monotonic_ns())
        with WireClient(bookie.port, version) as client:
            for entry_id in range(3):
                assert client.add(ledger_id, entry_id, b"good %d" % entry_id) == OK
            assert client.read(ledger_id, 2).payload == b"good 2"


class Watched:
    """A good client with a connection of its own from before the attack, at work on a thread of its own."""

    def __init__(self, bookie: Running, reads: bool = True) -> None:
        self._bookie, self._reads = bookie, reads
        self._ends = threading.Event()
        self.answers: list[float] = []
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Watched:
        self._thread.start()
        until(lambda: self.answers or self.failure, "the good client has a first answer")
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def serve_more(self, count: int = 10) -> None:
        """Returns when it was answered so often from now on."""
        wanted = len(self.answers) + count
        until(lambda: len(self.answers) >= wanted or self.failure, "the good client is answered")

    def _work(self) -> None:
        try:
            with WireClient(self._bookie.port) as client:
                entry_id = 0
                while not self._ends.is_set():
                    began = time.monotonic()
                    assert client.add(77, entry_id, b"x" * 1000) == OK
                    if self._reads:
                        assert client.read(77, entry_id).code == OK
                    self.answers.append(time.monotonic() - began)
                    entry_id += 1
        except BaseException as failure:
            self.failure = failure
