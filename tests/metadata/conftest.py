"""Fixtures of the suite: what keeps the keys, a store, and another session beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from metadata.stores import STORES, Backing

from walkeeper.metadata import MetadataStore


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
