"""Where the gateways of tests have their logs: a directory, or three bookies that many tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import walkeeper
from walkeeper_bookie.cluster import LocalCluster


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "wal")


@pytest.fixture(scope="session")
def three_bookies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("bookies"), 3) as made:
        made.start()
        yield made


@pytest.fixture
def cluster(three_bookies: LocalCluster) -> Iterator[str]:
    """Its URI. It has no logs."""
    yield three_bookies.metadata
    with walkeeper.open(three_bookies.metadata) as namespace:
        for log in namespace.logs():
            namespace.delete_log(log)
        assert namespace.logs() == []


@pytest.fixture(params=["directory", "cluster"], ids=["directory", "three bookies"])
def root(request: pytest.FixtureRequest, place: str) -> str:
    """It has no logs."""
    return place if request.param == "directory" else str(request.getfixturevalue("cluster"))
