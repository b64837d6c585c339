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


@pytest.fixture(params=[directory, directory_without_ring], ids=lambda way: way.__name__)
def open(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the namespace; what a test leaves open is closed at its end."""
    opened: list[walkeeper.Namespace] = []

    def open_again(**options: Any) -> walkeeper.Namespace:
        opened.append(request.param(tmp_path, **options))
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
