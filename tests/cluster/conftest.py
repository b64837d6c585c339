"""Three bookies on sqlite, of the test's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from walkeeper_bookie.cluster import LocalCluster

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def bookies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "bookie"), os.environ.get("PYTHONPATH", "")]))
    with LocalCluster(tmp_path / "bookies", 3) as made:
        made.start()
        yield made
