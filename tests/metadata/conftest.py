"""Fixtures of the suite: what keeps the keys, a store, and another session beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from metadata.stores import STORES, Backing

from walkeeper.metadata import ZOOKEEPER_KEYS, Cluster, MetadataStore


@pytest.fixture(params=STORES)
def backing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backing]:
    made = STORES[request.param](tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(backing: Backing) -> Iterator[MetadataStore]:
    opened = backing.open()
    yield opened
    opened.close()


@pytest.fixture
def other(backing: Backing) -> Iterator[MetadataStore]:
    """Another session on the same keys."""
    opened = backing.open()
    yield opened
    opened.close()


@pytest.fixture
def root(backing: Backing) -> str:
    return backing.root


@pytest.fixture
def place(root: str) -> str:
    """Where a cluster may be; nothing is there yet, nor above it."""
    return f"{root}/deep/cluster"


@pytest.fixture
def cluster(store: MetadataStore, place: str) -> Cluster:
    """With the keys that BookKeeper uses on such a store."""
    made = Cluster(store, place)
    made.init()
    return made


@pytest.fixture
def tree(store: MetadataStore, place: str) -> Cluster:
    """With ZooKeeper's keys, whatever the store."""
    made = Cluster(store, place, ZOOKEEPER_KEYS)
    made.init()
    return made
