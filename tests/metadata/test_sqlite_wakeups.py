"""SqliteStore's threads: when there are any, how long they sleep, and how soon a change is seen."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from metadata.stores import WAIT_SECONDS, Calls, until

from walkeeper.metadata import SqliteStore

SEEN_SECONDS = 0.02
"""Cluster rule 19: within so long a change is looked for while somebody watches."""

WRITES = """
import sys
from walkeeper.metadata import SqliteStore
with SqliteStore(sys.argv[1]) as store:
    store.put("/a", b"x")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.sqlite"


def threads_of(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(name)]


def test_a_store_has_no_thread_before_it_needs_one(path: Path) -> None:
    others = set(threads_of("walkeeper-metadata"))  # of stores that other tests have not let go of yet

    def own(beginning: str = "walkeeper-metadata") -> set[threading.Thread]:
        return set(threads_of(beginning)) - others

    with SqliteStore(path) as store:
        store.create("/a")
        store.on_session(lambda event: None)
        assert own() == set()
        watch = store.watch("/a", lambda: None)
        assert len(own("walkeeper-metadata-sqlite")) == 1
        watch.close()
    until(lambda: not own())


class Sleeps:
    """Stands between a store's thread and its sleep: how long it was to sleep, each time. Once it is held it sleeps on,
    whatever comes, until it is given a turn."""

    def __init__(self, store: SqliteStore) -> None:
        self.seconds: list[float | None] = []
        self._keeper, self._changed = store._keeper, store._keeper._changed
        self._sleep = self._changed.wait_for
        self._held = self._is_held = False
        self._turns = 0
        self._changed.wait_for = self._wait_for  # type: ignore[method-assign]

    def _wait_for(self, condition: Callable[[], bool], seconds: float | None = None) -> bool:
        self.seconds.append(seconds)
        self._sleep(lambda: self._held or condition(), seconds)
        self._is_held = self._held
        self._sleep(lambda: not self._held or self._turns > 0 or self._keeper._closed)
        self._turns, self._is_held = 0, False
        return condition()

    def hold(self) -> None:
        """It sleeps when this returns."""
        with self._changed:
            self._held = True
            self._changed.notify()
        until(lambda: self._is_held)

    def turn(self) -> None:
        """It does once what it does between two sleeps, and sleeps again when this returns."""
        before = len(self.seconds)
        with self._changed:
            self._turns = 1
            self._changed.notify()
        until(lambda: len(self.seconds) > before and self._is_held)


@pytest.mark.parametrize("beats", [False, True], ids=["without_a_session", "with_a_session"])
def test_cluster_rule_19_while_somebody_watches_it_looks_every_20_ms_and_one_look_is_enough(
    path: Path, beats: bool
) -> None:
    with SqliteStore(path) as store:
        store.create("/a")
        if beats:
            store.create("/here", ephemeral=True)
        sleeps, hints = Sleeps(store), Calls()
        store.watch("/a", hints)
        first = len(sleeps.seconds)
        until(lambda: len(sleeps.seconds) > first + 3)
        sleeps.hold()
        subprocess.run([sys.executable, "-c", WRITES, str(path)], check=True, timeout=WAIT_SECONDS)
        assert hints.count == 0
        sleeps.turn()
        until(lambda: hints.count == 1)
        assert [seconds for seconds in sleeps.seconds[first:] if seconds is None or seconds > SEEN_SECONDS] == []


def test_the_thread_sleeps_while_nobody_watches(path: Path) -> None:
    with SqliteStore(path) as store:
        sleeps = Sleeps(store)
        watch = store.watch("/a", lambda: None)
        until(lambda: sleeps.seconds)
        watch.close()
        until(lambda: sleeps.seconds[-1] is None)
        count = len(sleeps.seconds)
        store.create("/a")
        with SqliteStore(path) as other:
            other.put("/a", b"x")
        with store._keeper._changed:
            assert not store._keeper._poked
            assert len(sleeps.seconds) == count
