"""The conformance suite: what every log promises, whatever keeps it. It knows public names only.

`open` opens one and the same namespace again and again, the way a program would after a restart. A new kind of log
(one bookie, three bookies) adds its parameter here and runs everything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from bookie_killer import Killer

import walkeeper
from walkeeper_bookie.cluster import LocalCluster

Open = Callable[..., walkeeper.Namespace]
ROOT = Path(__file__).resolve().parents[2]


def directory(tmp_path: Path, **options: Any) -> walkeeper.Namespace:
    return walkeeper.open(tmp_path / "wal", **options)


def directory_without_ring(tmp_path: Path, **options: Any) -> walkeeper.Namespace:
    return walkeeper.open(tmp_path / "wal", **{"backend": "psync", **options})


class Bookies:
    """Three bookies; each test has a namespace of its own."""

    def __init__(self, metadata: str) -> None:
        self.metadata = metadata

    def __call__(self, tmp_path: Path, **options: Any) -> walkeeper.Namespace:
        return walkeeper.open(self.metadata, namespace=str(tmp_path), **options)


STORES = ("sqlite", "zookeeper", "etcd")
KILLED = "killed_bookies"
EVERYWHERE = ("test_writers.py", "test_names.py", "test_reopen.py")
"""What runs on each store: tests of what the metadata decide. The others ask the same of all."""
BESIDE_KILLS = ("test_append_many.py", "test_reopen.py", "test_submit.py", "test_writers.py")
"""What runs on bookies that are killed. `WALKEEPER_CONFORMANCE_KILLS=1` (`make conformance-kills`) runs all there."""
ALL_KILLED = os.environ.get("WALKEEPER_CONFORMANCE_KILLS") == "1"


def uri_of(store: str) -> str | None:
    """Where the bookies of this run have their metadata; None: in a file of theirs."""
    if store == "zookeeper":
        from zookeeper_server import shared_server as zookeeper

        return f"zk+hierarchical://{zookeeper().hosts}/conformance-{os.getpid()}"
    if store == "etcd":
        from etcd_server import shared_server as etcd

        return f"etcd://{etcd().hosts}/conformance-{os.getpid()}"
    return None


@pytest.fixture(scope="session")
def _bookies_are_found() -> Iterator[None]:
    """Their processes find the sources of the bookie as this one does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "bookie"), os.environ.get("PYTHONPATH", "")]))
        yield


@pytest.fixture(scope="session")
def killed_bookies(
    tmp_path_factory: pytest.TempPathFactory, _bookies_are_found: None
) -> Iterator[tuple[LocalCluster, Killer]]:
    """Three, one of which is killed every few seconds."""
    with LocalCluster(tmp_path_factory.mktemp("killed") / "cluster", 3) as made:
        made.start()
        killer = Killer(made)
        try:
            yield made, killer
        finally:
            killer.stop()
            print(f"{killer.kills} kills of a bookie")


@pytest.fixture(scope="session")
def bookies_on(tmp_path_factory: pytest.TempPathFactory, _bookies_are_found: None) -> Iterator[Callable[[str], str]]:
    """Three bookies for each store that is asked for: the URI of their metadata."""
    started: dict[str, LocalCluster] = {}

    def on(store: str) -> str:
        if store not in started:
            made = LocalCluster(tmp_path_factory.mktemp(store) / "cluster", 3, uri_of(store))
            made.start()
            started[store] = made
        return started[store].metadata

    try:
        yield on
    finally:
        for made in started.values():
            made.stop()


WAYS: dict[str, Any] = {"directory": directory, "directory_without_ring": directory_without_ring}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test on all that it is for."""
    if "open" not in metafunc.fixturenames:
        return
    ways = [*WAYS]
    if metafunc.definition.get_closest_marker("directory") is None:
        ways += STORES if metafunc.definition.path.name in EVERYWHERE else STORES[:1]
        if ALL_KILLED or metafunc.definition.path.name in BESIDE_KILLS:
            ways.append(KILLED)
    metafunc.parametrize("open", ways, indirect=True)


@pytest.fixture
def open(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the namespace; what a test leaves open is closed at its end."""
    opened: list[walkeeper.Namespace] = []
    way = WAYS.get(request.param)
    with ExitStack() as use:
        if request.param == KILLED:
            cluster, killer = request.getfixturevalue("killed_bookies")
            use.enter_context(killer.used())
            way = Bookies(cluster.metadata)
        elif way is None:
            way = Bookies(request.getfixturevalue("bookies_on")(request.param))

        def open_again(**options: Any) -> walkeeper.Namespace:
            opened.append(way(tmp_path, **options))
            return opened[-1]

        yield open_again
        for namespace in reversed(opened):
            namespace.close()


@pytest.fixture
def ns(open: Open) -> walkeeper.Namespace:
    """The namespace, open, empty."""
    return open()


@pytest.fixture
def log(ns: walkeeper.Namespace) -> walkeeper.Log:
    """A log without records."""
    return ns.log("orders")


@pytest.fixture
def writer(log: walkeeper.Log) -> Iterator[walkeeper.Writer]:
    """The writer of `log`."""
    with log.writer() as writer:
        yield writer


def contents(log: walkeeper.Log, **where: Any) -> list[bytes]:
    """Every payload a reader yields."""
    with log.reader(**where) as reader:
        return [bytes(record.payload) for record in reader]


@pytest.fixture(name="contents")
def contents_fixture() -> Callable[..., list[bytes]]:
    return contents
