"""The conformance suite: what every log promises, whatever keeps it. It knows public names only.

`open` opens one and the same namespace again and again, the way a program would after a restart. A new kind of log
(one bookie, three bookies) adds its parameter here and runs everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import walkeeper

Open = Callable[..., walkeeper.Namespace]


def directory(tmp_path: Path, **options: Any) -> walkeeper.Namespace:
    return walkeeper.open(tmp_path / "wal", **options)


def directory_without_ring(tmp_path: Path, **options: Any) -> walkeeper.Namespace:
    return walkeeper.open(tmp_path / "wal", **{"backend": "psync", **options})


class Bookies:
    """Three bookies on sqlite; each test has a namespace of its own."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.metadata: str = request.getfixturevalue("three_bookies")

    def __call__(self, tmp_path: Path, **options: Any) -> walkeeper.Namespace:
        return walkeeper.open(self.metadata, namespace=str(tmp_path), **options)  # type: ignore[call-arg]


@pytest.fixture(scope="session")
def three_bookies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of their metadata."""
    from walkeeper_bookie.cluster import LocalCluster

    with LocalCluster(tmp_path_factory.mktemp("bookies") / "cluster", 3) as made:
        made.start()
        yield made.metadata


def cluster(request: pytest.FixtureRequest) -> Bookies:
    if request.node.get_closest_marker("directory") is not None:
        pytest.skip("it is about a directory")
    return Bookies(request)


@pytest.fixture(params=[directory, directory_without_ring, cluster], ids=lambda way: way.__name__)
def open(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the namespace; what a test leaves open is closed at its end."""
    opened: list[walkeeper.Namespace] = []
    way = cluster(request) if request.param is cluster else request.param

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
