"""Three bookies on sqlite: of the test's own, or shared by all tests that leave them as they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import walkeeper
from walkeeper_bookie.cluster import LocalCluster

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def bookies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "bookie"), os.environ.get("PYTHONPATH", "")]))
    with LocalCluster(tmp_path / "bookies", 3) as made:
        made.start()
        yield made


@pytest.fixture(scope="session")
def shared_bookies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Nobody ends one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "bookie"), os.environ.get("PYTHONPATH", "")]))
        with LocalCluster(tmp_path_factory.mktemp("shared") / "cluster", 3) as made:
            made.start()
            yield made


@pytest.fixture
def name(tmp_path: Path) -> str:
    """Of a namespace of the test's own."""
    return f"{tmp_path.parent.name}/{tmp_path.name}"


@pytest.fixture
def ns(shared_bookies: LocalCluster, name: str) -> Iterator[walkeeper.Namespace]:
    """That namespace, open."""
    with walkeeper.open(shared_bookies.metadata, namespace=name) as made:
        yield made
