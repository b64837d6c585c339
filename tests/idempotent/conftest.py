"""A directory, and three bookies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import walkeeper
from walkeeper_bookie.cluster import LocalCluster


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), bookies=3) as made:
        made.start()
        yield made


@pytest.fixture(params=["directory", "bookies"])
def open_namespace(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., walkeeper.Namespace]]:
    """Opens one and the same namespace each time; all are closed at the end."""
    with ExitStack() as opened:

        def open_it(**options: Any) -> walkeeper.Namespace:
            if request.param == "directory":
                return opened.enter_context(walkeeper.open(tmp_path / "wal", **options))
            uri = request.getfixturevalue("cluster").metadata
            return opened.enter_context(walkeeper.open(uri, namespace=str(tmp_path), **options))

        yield open_it


@pytest.fixture
def namespace(open_namespace: Callable[..., walkeeper.Namespace]) -> walkeeper.Namespace:
    return open_namespace()
