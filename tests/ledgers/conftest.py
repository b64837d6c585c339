"""Clusters of three bookies: one for all tests that leave it as it is, and one for each test that does not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import walkeeper
from walkeeper_bookie.cluster import LocalCluster

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def _bookies_are_found() -> Iterator[None]:
    """The processes find the sources of the bookie as this one does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "bookie"), os.environ.get("PYTHONPATH", "")]))
        yield


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory, _bookies_are_found: None) -> Iterator[LocalCluster]:
    """Three bookies that all tests of this process share; nobody ends one."""
    with LocalCluster(tmp_path_factory.mktemp("shared") / "cluster", 3) as made:
        made.start()
        yield made


@pytest.fixture
def cluster(tmp_path: Path, _bookies_are_found: None) -> Iterator[LocalCluster]:
    """Three bookies of the test's own."""
    with LocalCluster(tmp_path / "cluster", 3) as made:
        made.start()
        yield made


@pytest.fixture
def client(shared_cluster: LocalCluster) -> Iterator[walkeeper.LedgerClient]:
    with walkeeper.LedgerClient(shared_cluster.metadata) as made:
        yield made


@pytest.fixture
def other(shared_cluster: LocalCluster) -> Iterator[walkeeper.LedgerClient]:
    """A second client of the same bookies."""
    with walkeeper.LedgerClient(shared_cluster.metadata) as made:
        yield made
