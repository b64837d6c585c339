"""Bookies and writers that are killed, stand still, are taken over; and a metadata store that answers nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.history import History, rounds

from walkeeper_bookie.cluster import LocalCluster

FAULTS = 5


@pytest.fixture(scope="module")
def four_bookies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("faults") / "cluster", 4) as made:
        made.start()
        yield made


@pytest.mark.parametrize("number", rounds(1))
def test_every_acknowledged_append_is_there_once_whatever_fails(
    four_bookies: LocalCluster, tmp_path: Path, number: int
) -> None:
    History(four_bookies, tmp_path, number).run(FAULTS)
